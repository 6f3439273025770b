// SPDX-License-Identifier: Apache-2.0

package query

import (
	"encoding/binary"
	"net/netip"

	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/inband"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// LossQueries asks by loss queries of TWAMP Light: a question is a query, whose sequence
// number is set, and its answer the whole response. Queries name no flow, so each flow has
// a client of its own, with its port. Numbers begin at random, because nothing else of a
// response is hard to guess.
type LossQueries struct{ next uint32 }

// NewLossQueries makes the protocol.
func NewLossQueries() *LossQueries { return &LossQueries{next: unforeseen()} }

// Packet is a packet of a question.
func (l *LossQueries) Packet(q *Question) ([]byte, uint64, error) {
	l.next++
	b := append([]byte{}, q.Value...)
	binary.BigEndian.PutUint32(b, l.next)
	return b, uint64(l.next), nil
}

// ID is the sequence number of the query that a response is about.
func (*LossQueries) ID(d *udp.Datagram) (uint64, bool) {
	r, err := lossquery.DecodeResponse(d.Data)
	return uint64(r.Sender.Sequence), err == nil
}

// Answer is the response, if it is about the same block.
func (*LossQueries) Answer(d *udp.Datagram, q *Question) ([]byte, Outcome) {
	r, err := lossquery.DecodeResponse(d.Data)
	asked, _ := lossquery.DecodeQuery(q.Value) // the caller's own
	switch {
	case err != nil:
		return nil, Malformed
	case r.Sender.Transmitted != asked.Transmitted:
		return nil, WrongSession
	}
	return d.Data, Accepted
}

// LossMessages asks by Loss Measurement messages (RFC 6374 §3.1): a question is a message,
// whose Origin Timestamp is set, and to which the return address is added (RFC 7876 §4.1).
// Its answer is the whole response.
type LossMessages struct {
	clock *clock.Clock
	port  uint16 // at which responses arrive
	from  SourceTo
	last  stamp.Timestamp
}

// NewLossMessages makes the protocol.
func NewLossMessages(from SourceTo) *LossMessages {
	return &LossMessages{clock: clock.New(stamp.NTP), from: from}
}

// Packet is a packet of a question.
func (l *LossMessages) Packet(q *Question) ([]byte, uint64, error) {
	m, _ := rfc6374.DecodeLoss(q.Value) // the caller's own
	if m.Control == rfc6374.OutOfBandRequested {
		from, err := sourceOf(q.Path, q.Peer, l.from)
		if err != nil {
			return nil, 0, err
		}
		m.TLVs = rfc6374.AppendUDPReturn(append([]byte{}, m.TLVs...), netip.AddrPortFrom(from, l.port))
	}
	now := l.clock.Now()
	l.clock.Look(now)
	m.Format, m.Origin = rfc6374.FormatNTP, max(l.clock.Timestamp(now.Wall), l.last+1)
	l.last = m.Origin
	return m.Append(nil), uint64(m.Origin), nil
}

// sourceOf is the source of packets through a path, or as routed.
func sourceOf(path *inband.Path, to netip.AddrPort, from SourceTo) (netip.Addr, error) {
	if path != nil {
		return path.Source, nil
	}
	return from(to.Addr())
}

// ID is the Origin Timestamp of the query that a response is about.
func (*LossMessages) ID(d *udp.Datagram) (uint64, bool) {
	m, err := rfc6374.DecodeLoss(d.Data)
	return uint64(m.Origin), err == nil && m.Response
}

// Answer is the response, if it is of the same session.
func (*LossMessages) Answer(d *udp.Datagram, q *Question) ([]byte, Outcome) {
	m, err := rfc6374.DecodeLoss(d.Data)
	switch {
	case err != nil:
		return nil, Malformed
	case m.Session != rfc6374.SessionID(q.Session):
		return nil, WrongSession
	}
	return d.Data, Accepted
}
