// SPDX-License-Identifier: Apache-2.0

package query

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// DelayMessages measures with Delay Measurement messages (RFC 6374 §3.2) over UDP (RFC 7876).
// A response that travels as it is routed says when its query arrived, and so gives the
// one-way delay. An in-band response also says when it left the other node.
type DelayMessages struct {
	times  *clock.Clock
	port   uint16 // at which responses arrive
	from   SourceTo
	remote int64 // error of other nodes' clocks, ns; negative: not known
	last   stamp.Timestamp
}

// NewDelayMessages makes the protocol. Messages do not say how good a clock is: remote is the
// error of the other nodes' clocks in ns, negative if it is not known.
func NewDelayMessages(from SourceTo, remote int64) *DelayMessages {
	return &DelayMessages{times: clock.New(stamp.NTP), from: from, remote: remote}
}

func (m *DelayMessages) clock() *clock.Clock { return m.times }

func (m *DelayMessages) setPort(port uint16) { m.port = port }

// query is a query (RFC 6374 §4.3.1). Its Timestamp 1 tells it apart from others.
func (m *DelayMessages) query(p *Probe) (packet []byte, id uint64, at clock.Instant, err error) {
	q := rfc6374.Delay{
		Header:  rfc6374.Header{Class: true, Control: rfc6374.InBandRequested, Session: rfc6374.SessionID(p.Session), DS: p.Class >> 2},
		Querier: rfc6374.FormatNTP,
	}
	if len(p.Return) == 0 {
		from, err := sourceOf(p.Path, p.Peer, m.from) // before the time is read: this takes some
		if err != nil {
			return nil, 0, at, err
		}
		q.Control, q.TLVs = rfc6374.OutOfBandRequested, rfc6374.AppendUDPReturn(nil, netip.AddrPortFrom(from, m.port))
	}
	at = m.times.Now()
	q.Timestamps[0] = max(m.times.Timestamp(at.Wall), m.last+1)
	m.last = q.Timestamps[0]
	return q.Append(nil), uint64(q.Timestamps[0]), at, nil
}

// number is the Timestamp 1 of the query that a response is about; the response has it as
// Timestamp 3 (RFC 6374 §4.3.3). A node that sends the query back with an error, because it
// does not understand it, may leave it where it was.
func (*DelayMessages) number(d *udp.Datagram) (uint64, bool) {
	r, err := rfc6374.DecodeDelay(d.Data)
	number := r.Timestamps[2]
	if number == 0 && r.Control != rfc6374.Success {
		number = r.Timestamps[0]
	}
	return uint64(number), !errors.Is(err, rfc6374.ErrTruncated) && r.Response
}

// read reads a response. An error, and what is no valid response to the probe, end the flow's
// measurement (RFC 6374 §4.3.4). The messages have no authentication, so this is for those
// alone that the caller has matched with a probe: with its Timestamp 1, in nanoseconds, at its
// port, from its peer, while it waits. Who is not on the way would have to guess some 2^30
// possibilities; who is could as well drop the packets. All else is counted only, or one forged
// packet would stop the measurement.
func (m *DelayMessages) read(d *udp.Datagram, p *Probe) (t turn, outcome Outcome) {
	r, err := rfc6374.DecodeDelay(d.Data)
	switch {
	case r.Control.IsError():
		return turn{refusal: r.Control}, Refused
	case r.Session != rfc6374.SessionID(p.Session):
		return turn{invalid: fmt.Sprintf("the Session Identifier is %d instead of %d", r.Session, p.Session)}, WrongSession
	}
	if why := invalid(&r, err); why != "" {
		return turn{invalid: why}, Malformed
	}
	if r.Control != rfc6374.Success { // its timestamps mean nothing
		return t, Refused
	}
	t.clockError = m.remote
	format, ok := r.Responder.Stamp()
	if !ok {
		return t, Accepted // the response itself is there, and so the time until then
	}
	offset := m.times.TAIOffset()
	t.arrived, t.hasArrived = format.Nanoseconds(r.Timestamps[3], offset)
	t.left, t.hasLeft = format.Nanoseconds(r.Timestamps[0], offset)
	return t, Accepted // whether it came in-band, nothing in it says
}

// invalid is why a message is no response to a query of ours (RFC 6374 §4.3.3); "" if it is one.
func invalid(r *rfc6374.Delay, decoding error) string {
	switch {
	case decoding != nil:
		return decoding.Error()
	case r.Version != 0:
		return fmt.Sprintf("the version is %d instead of 0", r.Version)
	}
	for _, err := range rfc6374.All(r.TLVs) {
		if err != nil {
			return err.Error()
		}
	}
	switch {
	case r.Control != rfc6374.Success: // formats may differ then (§4.3.5)
	case r.Querier != rfc6374.FormatNTP:
		return fmt.Sprintf("the Querier Timestamp Format is %d instead of %d", r.Querier, rfc6374.FormatNTP)
	case r.Responder != r.Querier && r.Responder != r.Preferred:
		return fmt.Sprintf("the Responder Timestamp Format %d is neither that of the query nor the preferred one", r.Responder)
	}
	return ""
}
