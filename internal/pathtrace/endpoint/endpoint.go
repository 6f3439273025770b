// SPDX-License-Identifier: Apache-2.0

// Package endpoint ends the probes of "waymark trace" at their destination: it takes them
// from the network, as RFC 9322 §5 wants it of packets with the Active flag, and answers
// each sender with the trace that its probe arrived with. An answer is never longer than its probe.
package endpoint

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/stamp/admit"
	"github.com/waymark-net/waymark/internal/stamp/udp"
)

const (
	batch   = 32  // datagrams of one system call
	longest = 512 // octets of a datagram
)

// Outcome is what became of a datagram; each has exactly one.
type Outcome int

// Outcomes, in the order in which they are decided.
const (
	Answered     Outcome = iota
	WithoutTrace                // answered, but the probe came without a trace
	NotAllowed                  // the source is outside the allowed prefixes
	Unanswerable                // the source has no port, or an address is no unicast address
	Malformed                   // no probe
	Looped                      // an answer
	Forged                      // the MAC is wrong
	RateLimited                 // beyond the rate
	SendFailed                  // the kernel did not send the answer
	NumOutcomes  int     = iota // the number of outcomes
)

var outcomes = [NumOutcomes]string{
	"answered", "answered_without_trace", "not_allowed", "unanswerable", "malformed", "looped", "mac_wrong", "rate_limited", "send_failed",
}

// String is the outcome's name in metrics.
func (o Outcome) String() string { return outcomes[o] }

// Config configures an endpoint.
type Config struct {
	Local   netip.AddrPort
	Allowed []netip.Prefix // of sources
	Rate    int            // the most answers a second
	Key     []byte         // of MACs; none: messages are not authenticated
}

// Endpoint answers probes. Its counters may be read at any time.
type Endpoint struct {
	config   Config
	limit    admit.Bucket
	server   udp.Server
	counters [NumOutcomes]atomic.Uint64
	began    time.Time
	out      []udp.Datagram
	outcomes []Outcome // of what is in out, once it is sent
}

// New makes an endpoint.
func New(c Config) *Endpoint {
	return &Endpoint{config: c, limit: admit.Bucket{Rate: c.Rate}, began: time.Now()}
}

// Open opens the socket.
func (a *Endpoint) Open() error {
	return a.server.Open(udp.Config{Local: a.config.Local, Batch: batch, Size: longest, Headers: true})
}

// Local is the address and port at which probes arrive.
func (a *Endpoint) Local() netip.AddrPort { return a.server.Local() }

// Dropped is how many datagrams found no room in the socket.
func (a *Endpoint) Dropped() uint64 { return a.server.Dropped() }

// Counts are the datagrams by outcome. They never go back.
func (a *Endpoint) Counts() (n [NumOutcomes]uint64) {
	for i := range a.counters {
		n[i] = a.counters[i].Load()
	}
	return n
}

// Run answers until the context ends, and closes the socket.
func (a *Endpoint) Run(ctx context.Context) error {
	return a.server.Serve(ctx, a.serve)
}

// serve answers a batch.
func (a *Endpoint) serve(list []udp.Datagram) error {
	a.out, a.outcomes = a.out[:0], a.outcomes[:0]
	for i := range list {
		d := list[i]
		answer, outcome := a.answer(&d, int64(time.Since(a.began))+1)
		if answer == nil {
			a.counters[outcome].Add(1)
			continue
		}
		d.Data, d.Interface, d.TrafficClass = answer, 0, d.TrafficClass&^3
		if d.Peer.Addr().IsLinkLocalUnicast() {
			d.Interface = d.Scope
		}
		a.out, a.outcomes = append(a.out, d), append(a.outcomes, outcome)
	}
	if len(a.out) == 0 {
		return nil
	}
	if err := a.server.Socket().Send(a.out); err != nil {
		return err
	}
	for i := range a.out {
		if a.out[i].Err != nil {
			a.outcomes[i] = SendFailed
		}
		a.counters[a.outcomes[i]].Add(1)
	}
	return nil
}

// answer is the answer to a datagram, nil for none, at a time of a steady clock.
func (a *Endpoint) answer(d *udp.Datagram, now int64) ([]byte, Outcome) {
	switch admit.Check(d, a.config.Allowed) {
	case admit.NotAllowed:
		return nil, NotAllowed
	case admit.Unanswerable:
		return nil, Unanswerable
	case admit.Oversized:
		return nil, Malformed
	}
	id, err := message.DecodeProbe(d.Data, a.config.Key)
	switch {
	case errors.Is(err, message.ErrKind):
		return nil, Looped
	case errors.Is(err, message.ErrMAC):
		return nil, Forged
	case err != nil:
		return nil, Malformed
	case !a.limit.Allow(now): // after the MAC: datagrams without the key use up no rate
		return nil, RateLimited
	}
	received := time.Now()
	if d.Received != 0 {
		received = time.Unix(0, d.Received)
	}
	out := message.AppendAnswer(
		nil,
		message.Answer{ID: id, HopLimit: d.HopLimit, Received: received, Trace: message.TraceOf(d.HopByHop)},
		a.config.Key,
	)
	if len(out) == message.AnswerLen {
		return out, WithoutTrace
	}
	return out, Answered
}
