// SPDX-License-Identifier: Apache-2.0

// Package sender is a STAMP Session-Sender (RFC 8762 §4.2, RFC 8972, RFC 9503, RFC
// 9534): it sends test packets to a reflector and measures with the replies.
package sender

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/stamp/measure"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/stamp"
)

const (
	batch   = 64   // packets of one system call
	longest = 9000 // octets of a packet: a jumbo frame
)

// Config configures a session.
type Config struct {
	Remote     netip.AddrPort // of the reflector; a link-local address has its interface's number in Scope
	Scope      uint32
	Local      netip.Addr   // zero: the kernel chooses
	Segments   []netip.Addr // SIDs that packets are sent through, the first to visit first; none: as routed
	Mode       srv6.Mode    // how they have the segments
	Format     stamp.TimestampFormat
	Key        []byte // of the HMACs; none: unauthenticated
	KeyForTLVs bool   // the mode is unauthenticated, the key is for an HMAC TLV
	SSID       stamp.SSID
	First      uint32 // number of the first packet; a random one keeps forged replies out
	NeedSSID   bool   // end when a reply has no SSID (RFC 8972 §3)
	Interval   time.Duration
	Count      uint64        // packets; 0: no end
	Timeout    time.Duration // after which a packet is lost
	DSCP       uint8
	Knowledge  measure.Knowledge
	TLVs       TLVs
}

// TLVs says what to ask the reflector for, one TLV each.
type TLVs struct {
	Size          int  // of the packet, by Extra Padding; 0: no padding
	RandomPadding bool // its content; otherwise zeros

	Location             bool
	TimestampInformation bool
	DirectMeasurement    bool
	FollowUpTelemetry    bool
	ClassOfService       *uint8 // the DSCP of replies
	AccessReport         *stamp.AccessReport
	DestinationNode      netip.Addr
	ReturnSameLink       bool
	ReturnSegments       []netip.Addr
	MicroSession         *stamp.MicroSession
}

// Validate reports what is wrong with the configuration.
func (c *Config) Validate() error {
	_, err := c.template()
	return err
}

func (c *Config) mode() stamp.Mode {
	if len(c.Key) > 0 && !c.KeyForTLVs {
		return stamp.Authenticated
	}
	return stamp.Unauthenticated
}

// template is a packet with all TLVs. Base packet, counters and HMACs are 0.
func (c *Config) template() ([]byte, error) {
	b := make([]byte, c.mode().BaseLen())
	add := func(t stamp.Type, value []byte) (err error) {
		b, err = stamp.AppendTLV(b, stamp.FlagUnrecognized, t, value)
		return err
	}
	values, err := c.TLVs.values()
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		if err := add(v.kind, v.value); err != nil {
			return nil, err
		}
	}
	// An HMAC is needed for all but a single Extra Padding (RFC 8972 §4.8).
	if len(c.Key) > 0 && (len(values) > 0 || c.KeyForTLVs) {
		if err := add(stamp.TypeHMAC, make([]byte, stamp.HMACLen)); err != nil {
			return nil, err
		}
	}
	if size := c.TLVs.Size; size != 0 && size != len(b) {
		if smallest := len(b) + stamp.TLVHeaderLen; size < smallest || size > longest {
			return nil, fmt.Errorf("a size of %d octets: these packets can have %d, or %d to %d", size, len(b), smallest, longest)
		}
		padding := make([]byte, size-len(b)-stamp.TLVHeaderLen)
		if c.TLVs.RandomPadding {
			rand.Read(padding)
		}
		if err := add(stamp.TypeExtraPadding, padding); err != nil {
			return nil, err
		}
	}
	if len(b) > longest {
		return nil, problem.New(fmt.Sprintf("packets of %d octets", len(b)), fmt.Sprintf("the most are %d: ask for less", longest))
	}
	return b, nil
}

// typedValue is the value of a TLV.
type typedValue struct {
	kind  stamp.Type
	value []byte
}

// values are the values of all TLVs besides HMAC and padding.
func (t *TLVs) values() ([]typedValue, error) {
	var list []typedValue
	add := func(kind stamp.Type, value []byte) { list = append(list, typedValue{kind, value}) }
	if t.DestinationNode.IsValid() {
		add(stamp.TypeDestinationNodeAddress, t.DestinationNode.AsSlice())
	}
	switch {
	case t.ReturnSameLink:
		add(stamp.TypeReturnPath, stamp.AppendControlCode(nil, stamp.ReplySameLink))
	case len(t.ReturnSegments) > 0:
		value, err := stamp.AppendSegmentList(nil, t.ReturnSegments)
		if err != nil {
			return nil, err
		}
		add(stamp.TypeReturnPath, value)
	}
	if t.MicroSession != nil {
		add(stamp.TypeMicroSession, t.MicroSession.Append(nil))
	}
	if t.ClassOfService != nil {
		add(stamp.TypeClassOfService, stamp.ClassOfService{Wanted: *t.ClassOfService}.Append(nil))
	}
	if t.AccessReport != nil {
		add(stamp.TypeAccessReport, t.AccessReport.Append(nil))
	}
	if t.Location {
		add(stamp.TypeLocation, stamp.AppendLocationRequest(nil))
	}
	if t.TimestampInformation {
		add(stamp.TypeTimestampInformation, stamp.TimestampInformation{}.Append(nil))
	}
	if t.DirectMeasurement {
		add(stamp.TypeDirectMeasurement, stamp.DirectMeasurement{}.Append(nil))
	}
	if t.FollowUpTelemetry {
		add(stamp.TypeFollowUpTelemetry, stamp.FollowUpTelemetry{}.Append(nil))
	}
	return list, nil
}
