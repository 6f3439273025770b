// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/netip"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/delay"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/clock"
	"github.com/waymark-net/waymark/internal/stamp/inband"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/stamp"
)

// Probe is a test packet of a flow.
type Probe struct {
	Flow    int // the caller's number of the flow
	Peer    netip.AddrPort
	Session uint16
	Path    *inband.Path // nil: as routed
	Return  []netip.Addr // SIDs of the reply's way; none: as routed
	Class   uint8        // traffic class of the probe, and of the reply

	sent stamp.SenderPacket // by STAMP
}

// Sample is the delay of a probe and its reply; if it ends the measurement, it has none.
type Sample struct {
	Flow, Number             int            // of the probe: it numbers those of a flow
	Peer                     netip.AddrPort // the probe's, as when it was sent
	Session                  uint16
	RoundTrip                time.Duration
	TwoWay                   time.Duration // without the time at the other node (RFC 8762 §4, RFC 6374 §2.4)
	OneWay                   time.Duration // the difference of two clocks
	TwoWayKnown, OneWayKnown bool
	Impossible               bool                // the other node's times cannot be: they measure nothing
	ClockError, RemoteClock  int64               // ns; negative: not known
	Diverted                 bool                // the reply did not take the way back that was asked for, and says so
	Refusal                  rfc6374.ControlCode // not 0: the error that ends the flow's measurement (RFC 6374 §4.3.4)
	Invalid                  string              // not "": why the response is none, which ends it, too
}

// Ends reports whether the response ends the flow's measurement.
func (s *Sample) Ends() bool { return s.Refusal != 0 || s.Invalid != "" }

// sent is a probe that has left.
type sent struct {
	Probe
	number int
	at     clock.Instant
}

// replyTime is how long a reply may take.
const replyTime = 5 * time.Second

// mostOpen bounds the probes that wait for a reply.
const mostOpen = 1 << 16

// Probing is a protocol of test packets: Stamp, or DelayMessages. Its methods are called one
// at a time.
type Probing interface {
	// clock is that of the times in packets.
	clock() *clock.Clock
	// query is a packet, a number that tells it apart from others, and when it leaves. An
	// error is that of a SourceTo.
	query(p *Probe) (packet []byte, id uint64, at clock.Instant, err error)
	// number is the number of the packet that a datagram answers.
	number(d *udp.Datagram) (id uint64, ok bool)
	// read reads a reply to a probe.
	read(d *udp.Datagram, p *Probe) (turn, Outcome)
}

// turn is what the other node says about a probe that it answered, by its clock.
type turn struct {
	arrived, left       int64 // ns of UTC since 1970
	hasArrived, hasLeft bool
	clockError          int64 // ns; negative: not known
	diverted            bool  // the reply says that it did not take the way that was asked for
	refusal             rfc6374.ControlCode
	invalid             string
}

// Prober measures delays with test packets. One goroutine may use it.
type Prober struct {
	link
	protocol Probing
	onSample func(Sample)
	done     chan struct{}

	mu      sync.Mutex
	waiting map[uint64]*sent
	numbers map[int]int // by flow
}

// OpenProber opens a socket in the network namespace of the calling thread. heard is called
// for each reply that is accepted or ends the flow's measurement, by another goroutine; all
// are counted, and probes that were not sent.
func OpenProber(by Probing, counters *Counters, heard func(Sample)) (*Prober, error) {
	l, err := open(0, counters)
	if err != nil {
		return nil, err
	}
	if m, ok := by.(*DelayMessages); ok {
		m.setPort(l.socket.Local().Port())
	}
	p := &Prober{
		link:     l,
		protocol: by,
		onSample: heard,
		done:     make(chan struct{}),
		waiting:  make(map[uint64]*sent),
		numbers:  make(map[int]int),
	}
	go func() {
		defer close(p.done)
		p.receive(p.reply, make(chan struct{}, 1))
	}()
	return p, nil
}

// Close ends the prober.
func (p *Prober) Close() { p.close(p.done) }

// Send sends probes, and forgets those whose replies would come too late. It returns how many
// it sent; the others are counted while the socket is open.
func (p *Prober) Send(list []Probe) (n int) {
	p.mu.Lock()
	clock := p.protocol.clock()
	now := clock.Now()
	clock.Look(now)
	oldest := now.Steady - int64(replyTime)
	for id, s := range p.waiting {
		if s.at.Steady < oldest || len(p.waiting) > mostOpen {
			delete(p.waiting, id)
		}
	}
	p.mu.Unlock()
	// One by one: packets that leave together wait for each other, and would measure that.
	for _, one := range list {
		packet, err := p.begin(&one)
		switch {
		case err != nil:
			p.counters.NotSent(NoSource)
		case one.Path != nil:
			n += p.sendThrough(one.Path, packet, one.Peer, one.Class)
		default:
			n += p.routed(udp.Datagram{Data: packet, Peer: one.Peer, TrafficClass: one.Class})
		}
	}
	return n
}

// begin makes the packet of a probe, which then waits for its reply.
func (p *Prober) begin(one *Probe) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	packet, id, at, err := p.protocol.query(one)
	if err != nil {
		return nil, err
	}
	p.numbers[one.Flow]++
	p.waiting[id] = &sent{*one, p.numbers[one.Flow], at}
	return packet, nil
}

func (p *Prober) reply(d *udp.Datagram) {
	p.mu.Lock()
	sample, outcome := p.sample(d)
	p.mu.Unlock()
	p.counters.add(outcome)
	if outcome == Accepted || sample.Ends() {
		p.onSample(sample)
	}
}

// sample measures with a reply. The caller holds p.mu.
func (p *Prober) sample(d *udp.Datagram) (s Sample, outcome Outcome) {
	id, ok := p.protocol.number(d)
	from := p.waiting[id]
	switch {
	case !ok || d.Cut:
		return s, Malformed
	case from == nil:
		return s, Unexpected
	case d.Peer != from.Peer:
		return s, Foreign
	}
	t, outcome := p.protocol.read(d, &from.Probe)
	s = Sample{Flow: from.Flow, Number: from.number, Peer: from.Peer, Session: from.Session, Refusal: t.refusal, Invalid: t.invalid}
	if outcome == Accepted || s.Ends() {
		delete(p.waiting, id)
	}
	if outcome != Accepted {
		return s, outcome
	}
	clock := p.protocol.clock()
	now := clock.Now()
	steady := now.Steady
	if d.Received != 0 { // the kernel noted it before this goroutine ran
		steady -= max(now.Wall-d.Received, 0)
	}
	steady = max(steady, from.at.Steady)
	s.RoundTrip, s.Diverted = time.Duration(steady-from.at.Steady), t.diverted
	held, possible := delay.Held(t.arrived, t.left, s.RoundTrip)
	if s.OneWayKnown = t.hasArrived && (!t.hasLeft || possible); s.OneWayKnown {
		s.OneWay = time.Duration(t.arrived - from.at.Wall)
	}
	if s.TwoWayKnown = s.OneWayKnown && t.hasLeft; s.TwoWayKnown {
		s.TwoWay = s.RoundTrip - held
	}
	s.Impossible = t.hasArrived && t.hasLeft && !possible
	s.ClockError, s.RemoteClock = errorOf(clock.Estimate()), t.clockError
	return s, Accepted
}

// errorOf is the bound that an estimate gives; -1 if the clock is not synchronized.
func errorOf(e stamp.ErrorEstimate) int64 {
	if d, ok := e.Duration(); ok && e.Synchronized() {
		return int64(d)
	}
	return -1
}
