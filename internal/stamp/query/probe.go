// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/netip"
	"sync"
	"time"

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
}

// Sample is the delay of a probe and its reply.
type Sample struct {
	Flow, Number              int // of the probe: it numbers those of a flow
	RoundTrip                 time.Duration
	TwoWay                    time.Duration // without the time at the reflector (RFC 8762 §4)
	OneWay                    time.Duration // the difference of two clocks
	Timed                     bool          // TwoWay and OneWay are known
	ClockError, RemoteClock   int64         // ns; negative: not known
	Returned, ReturnPathTaken bool          // a Return Path was asked for; the reflector used it
}

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

// Prober measures delays with test packets. One goroutine may use it.
type Prober struct {
	link
	stamp    *Stamp
	counters *Counters
	heard    func(Sample)
	done     chan struct{}

	mu      sync.Mutex
	clock   *clock.Clock // of both goroutines
	waiting map[uint64]*sent
	numbers map[int]int // by flow
}

// OpenProber opens a socket in the network namespace of the calling thread. heard is called
// for each reply that is accepted, by another goroutine; all are counted.
func OpenProber(ssid stamp.SSID, key []byte, counters *Counters, heard func(Sample)) (*Prober, error) {
	l, err := open(0)
	if err != nil {
		return nil, err
	}
	s := NewStamp(ssid, key)
	p := &Prober{link: l, stamp: s, counters: counters, heard: heard, clock: s.clock, done: make(chan struct{}), waiting: make(map[uint64]*sent), numbers: make(map[int]int)}
	go func() {
		defer close(p.done)
		p.receive(p.reply, make(chan struct{}, 1))
	}()
	return p, nil
}

// Close ends the prober.
func (p *Prober) Close() { p.close(p.done) }

// Send sends probes, and forgets those whose replies would come too late.
func (p *Prober) Send(list []Probe) {
	p.mu.Lock()
	p.clock.Look(p.clock.Now())
	oldest := p.clock.Now().Steady - int64(replyTime)
	for id, s := range p.waiting {
		if s.at.Steady < oldest || len(p.waiting) > mostOpen {
			delete(p.waiting, id)
		}
	}
	p.mu.Unlock()
	// Each by itself: packets that leave together would measure that they wait.
	for _, one := range list {
		tlvs := AppendReturn(nil, one.Return)
		p.mu.Lock()
		p.numbers[one.Flow]++
		at := p.clock.Now()
		packet := p.stamp.packet(at.Wall, p.stamp.ssidOf(one.Session), tlvs)
		p.waiting[uint64(p.stamp.next)] = &sent{one, p.numbers[one.Flow], at}
		p.mu.Unlock()
		p.flush(p.add(nil, packet, one.Peer, one.Path, one.Class))
	}
}

func (p *Prober) reply(d *udp.Datagram) {
	p.mu.Lock()
	sample, outcome := p.sample(d)
	p.mu.Unlock()
	p.counters.add(outcome)
	if outcome == Accepted {
		p.heard(sample)
	}
}

// sample measures with a reply. The caller holds p.mu.
func (p *Prober) sample(d *udp.Datagram) (s Sample, outcome Outcome) {
	id, ok := p.stamp.ID(d)
	from := p.waiting[id]
	switch {
	case !ok || d.Cut:
		return s, Malformed
	case from == nil:
		return s, Unexpected
	case d.Peer != from.Peer:
		return s, Foreign
	}
	r, tlvs, outcome := p.stamp.open(d, p.stamp.ssidOf(from.Session))
	if outcome != Accepted {
		return s, outcome
	}
	delete(p.waiting, id)
	now := p.clock.Now()
	steady := now.Steady
	if d.Received != 0 { // the kernel noted it before this goroutine ran
		steady -= max(now.Wall-d.Received, 0)
	}
	steady = max(steady, from.at.Steady)
	s = Sample{Flow: from.Flow, Number: from.number, RoundTrip: time.Duration(steady - from.at.Steady), Returned: len(from.Return) > 0}
	arrived, known := p.clock.Nanoseconds(r.Received, r.Error)
	left, known2 := p.clock.Nanoseconds(r.Timestamp, r.Error)
	if s.Timed = known && known2 && left >= arrived; s.Timed {
		s.OneWay, s.TwoWay = time.Duration(arrived-from.at.Wall), s.RoundTrip-time.Duration(left-arrived)
	}
	s.ClockError, s.RemoteClock = errorOf(p.clock.Estimate()), errorOf(r.Error)
	for t, err := range stamp.TLVs(tlvs) {
		if err == nil && t.Type() == stamp.TypeReturnPath {
			s.ReturnPathTaken = t.Flags() == 0
		}
	}
	return s, Accepted
}

// errorOf is the bound that an estimate gives; -1 if the clock is not synchronized.
func errorOf(e stamp.ErrorEstimate) int64 {
	if d, ok := e.Duration(); ok && e.Synchronized() {
		return int64(d)
	}
	return -1
}
