// SPDX-License-Identifier: Apache-2.0

// Package srv6 reads and writes Segment Routing Headers (RFC 8754), and says which
// forms a segment list has in packets on their way (RFC 8986, RFC 9800).
package srv6

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

const (
	// RoutingType is the Routing Type of a Segment Routing Header (RFC 8754 §8.1).
	RoutingType = 4
	// NextHeaderRouting is the Next Header value in front of a routing header (RFC
	// 8200 §4.4).
	NextHeaderRouting = 43
	// MaxEntries is the most segments that a header has room for: its length is at
	// most 2048 octets (RFC 8200 §4.4).
	MaxEntries = 127

	fixedLen   = 8
	segmentLen = 16
)

// Causes for which a header is malformed.
var (
	ErrTruncated    = errors.New("the Segment Routing Header is cut short")
	ErrRoutingType  = errors.New("the routing header's type is not 4, Segment Routing")
	ErrLastEntry    = errors.New("the Last Entry is beyond the Segment Routing Header")
	ErrSegmentsLeft = errors.New("the number of Segments Left is beyond the segment list")
	ErrTLV          = errors.New("a TLV is beyond the Segment Routing Header")
	ErrSegments     = errors.New("a Segment Routing Header has 1 to 127 segments, each an IPv6 address")
)

// SRH is a Segment Routing Header (RFC 8754 §2).
type SRH struct {
	NextHeader   uint8
	SegmentsLeft uint8 // one more than Last Entry where the first segment is in the destination only (RFC 8754 §4.1.1)
	Flags        uint8
	Tag          uint16
	Segments     []netip.Addr // as on the wire: the last segment comes first
	TLVs         []byte       // what follows the segments
}

// Decode reads the header at the begin of b, and returns its length in octets. TLVs
// share b's memory.
func Decode(b []byte) (h SRH, length int, err error) {
	if len(b) < fixedLen {
		return SRH{}, 0, ErrTruncated
	}
	if b[2] != RoutingType {
		return SRH{}, 0, fmt.Errorf("%w: it is %d", ErrRoutingType, b[2])
	}
	length = fixedLen + 8*int(b[1])
	list := fixedLen + segmentLen*(int(b[4])+1)
	switch {
	case list > length:
		return SRH{}, 0, fmt.Errorf("%w: it is %d, the header has %d octets", ErrLastEntry, b[4], length)
	case int(b[3]) > int(b[4])+1:
		return SRH{}, 0, fmt.Errorf("%w: it is %d, Last Entry is %d", ErrSegmentsLeft, b[3], b[4])
	case len(b) < length:
		return SRH{}, 0, ErrTruncated
	}
	h = SRH{NextHeader: b[0], SegmentsLeft: b[3], Flags: b[5], Tag: binary.BigEndian.Uint16(b[6:]), TLVs: b[list:length]}
	for at := fixedLen; at < list; at += segmentLen {
		h.Segments = append(h.Segments, netip.AddrFrom16([16]byte(b[at:])))
	}
	return h, length, checkTLVs(h.TLVs)
}

// checkTLVs checks that each TLV ends within the header (RFC 8754 §2.1). Pad1 has one
// octet.
func checkTLVs(b []byte) error {
	for len(b) > 0 {
		if b[0] == 0 {
			b = b[1:]
			continue
		}
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return ErrTLV
		}
		b = b[2+int(b[1]):]
	}
	return nil
}

// Append appends the header's octets. TLVs must fill it to a multiple of 8 octets.
func (h SRH) Append(b []byte) ([]byte, error) {
	n := len(h.Segments)
	if n == 0 || n > MaxEntries {
		return b, ErrSegments
	}
	if int(h.SegmentsLeft) > n {
		return b, fmt.Errorf("%w: it is %d of %d segments", ErrSegmentsLeft, h.SegmentsLeft, n)
	}
	units := 2*n + len(h.TLVs)/8
	if len(h.TLVs)%8 != 0 || units > 255 {
		return b, fmt.Errorf("%w: %d octets of TLVs after %d segments; fill them to a multiple of 8 octets", ErrTLV, len(h.TLVs), n)
	}
	if err := checkTLVs(h.TLVs); err != nil {
		return b, err
	}
	b = append(b, h.NextHeader, uint8(units), RoutingType, h.SegmentsLeft, uint8(n-1), h.Flags)
	b = binary.BigEndian.AppendUint16(b, h.Tag)
	for _, s := range h.Segments {
		if !s.Is6() {
			return b, ErrSegments
		}
		octets := s.As16()
		b = append(b, octets[:]...)
	}
	return append(b, h.TLVs...), nil
}
