// SPDX-License-Identifier: Apache-2.0

// Package responder answers what other nodes ask about measured flows, by loss queries of
// TWAMP Light or by messages of RFC 6374 over UDP. A response goes to where its query came
// from. It is at most as long as the query, unless shorter loss queries are to be answered.
// Only in-band responses have a routing header besides, with the SIDs that are configured here.
package responder

import (
	"context"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/stamp/admit"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

const (
	batch   = 64   // datagrams of one system call
	longest = 1500 // octets of a datagram
)

// Block is what this node counted of a flow in a closed block.
type Block struct {
	Number                        uint64
	Packets, Octets               uint64
	RunningPackets, RunningOctets uint64 // of all blocks since the counting began, to this one
	Doubtful                      bool   // the counters are not proven exact
	Reset                         bool   // the running ones began in this block
	OctetsDoubtful                bool
}

// Flow is a flow of a session.
type Flow struct {
	Length time.Duration // of a block
	Blocks []Block       // that are known, the latest first
	Return []netip.Addr  // SIDs of the way of in-band responses; none: they cannot be sent
}

// Config configures a responder.
type Config struct {
	Protocol Protocol
	Local    netip.AddrPort
	Allowed  []netip.Prefix // of sources; none: all
	Rate     int            // the most queries a second; 0: no limit
	// Short answers loss queries, too, that are shorter than their responses.
	Short bool
	// Flow finds the flow of a session, by which messages name it. Queries of TWAMP Light
	// have no other session than their source port.
	Flow func(session uint16) (Flow, bool)
}

// Protocol is what a responder speaks.
type Protocol int

// Protocols.
const (
	LossQueries   Protocol = iota // of TWAMP Light, draft-gandhi-spring-twamp-srpm
	LossMessages                  // Loss Measurement, RFC 6374 §3.1
	DelayMessages                 // Delay Measurement, RFC 6374 §3.2
)

// Responder answers. Its counters may be read at any time.
type Responder struct {
	config   Config
	clock    *clock.Clock
	limit    admit.Bucket
	server   udp.Server
	counters counters
	numbers  map[uint16]uint32 // of the next response of a session
	last     map[uint16]uint64 // number or time of its latest query
	out      []udp.Datagram
	outcomes []Outcome // of what is in out, once it is sent
}

// New makes a responder.
func New(c Config) *Responder {
	return &Responder{
		config:  c,
		clock:   clock.New(stamp.PTP),
		limit:   admit.Bucket{Rate: c.Rate},
		numbers: make(map[uint16]uint32),
		last:    make(map[uint16]uint64),
	}
}

// Open opens the socket.
func (r *Responder) Open() error {
	return r.server.Open(udp.Config{Local: r.config.Local, Batch: batch, Size: longest})
}

// Local is the address and port at which the responder receives.
func (r *Responder) Local() netip.AddrPort { return r.server.Local() }

// Counts are the counters.
func (r *Responder) Counts() Counts {
	c := r.counters.counts()
	c.SocketDropped = r.server.Dropped()
	return c
}

// Run answers until the context ends, and closes the socket.
func (r *Responder) Run(ctx context.Context) error {
	return r.server.Serve(ctx, r.serve)
}

// serve answers a batch.
func (r *Responder) serve(list []udp.Datagram) error {
	now := r.clock.Now()
	r.clock.Look(now)
	r.out, r.outcomes = r.out[:0], r.outcomes[:0]
	for i := range list {
		d := list[i]
		reply, outcome := r.answer(&d, now)
		if reply == nil {
			r.counters.outcomes[outcome].Add(1)
			continue
		}
		d.Data, d.Interface, d.TrafficClass = reply, 0, d.TrafficClass&^3
		if d.Peer.Addr().IsLinkLocalUnicast() {
			d.Interface = d.Scope
		}
		r.out, r.outcomes = append(r.out, d), append(r.outcomes, outcome)
	}
	if len(r.out) == 0 {
		return nil
	}
	if err := r.server.Socket().Send(r.out); err != nil {
		return err
	}
	for i := range r.out {
		if r.out[i].Err != nil {
			r.outcomes[i] = SendFailed
		}
		r.counters.outcomes[r.outcomes[i]].Add(1)
	}
	return nil
}

// answer is the response to a datagram, nil for none. It may change where the response goes.
func (r *Responder) answer(d *udp.Datagram, now clock.Instant) ([]byte, Outcome) {
	switch admit.Check(d, r.config.Allowed) {
	case admit.NotAllowed:
		return nil, NotAllowed
	case admit.Unanswerable:
		return nil, Unanswerable
	case admit.Oversized:
		return nil, Oversized
	}
	switch r.config.Protocol {
	case LossMessages:
		return r.lossMessage(d, now)
	case DelayMessages:
		return r.delayMessage(d, now)
	}
	return r.lossQuery(d, now)
}

// find finds the flow of a session, and counts queries that it had before: their numbers, or
// times, grow.
func (r *Responder) find(session uint16, number uint64) (Flow, bool) {
	flow, ok := r.config.Flow(session)
	if !ok {
		return flow, false
	}
	if last, any := r.last[session]; any && number == last {
		r.counters.repeated.Add(1)
	}
	r.last[session] = number
	return flow, true
}

// setReturnPath sends a response in-band; false if its way is not known.
func setReturnPath(d *udp.Datagram, flow *Flow) bool {
	for _, sid := range flow.Return {
		d.Segments = append(d.Segments, sid.AsSlice()...)
	}
	return len(flow.Return) > 0
}
