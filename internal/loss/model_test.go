// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// The model sends packets one by one, knows what became of each, and counts at each
// point as a data plane would.

// faults are what goes wrong in a history.
type faults struct {
	loss, duplicates, bypass, bleach, late   float64 // share of packets
	missing, repeats, contradictions         float64 // share of readings
	slow, fast                               bool    // a point's clock is behind or ahead, beyond the guard
	honest                                   bool    // and says so
	astray                                   bool    // a point's clock is some even number of blocks off, which marks cannot tell, and says so
	restart, unsureOctets, strange, idleOnly bool
	narrow                                   bool // from some block on, a point counts only a part of the packets
	bypassAndMore                            bool // packets that bypass a point may also be lost or duplicated
}

// packet is a copy of a packet on its way.
type packet struct {
	id       int
	block    int64 // by the ingress's clock
	octets   uint64
	colour   Colour
	marked   bool
	doubled  bool
	sentAt   int64 // by the ingress's clock
	at       int64 // true time
	bypasses int   // a point, or -1
}

// seen is what is true of the packets of a block at a point: their times by its clock,
// by the number of the packet.
type seen struct {
	packets, octets uint64
	times           map[int][]int64
	doubled         map[int][]int64
}

// history is what happened.
type history struct {
	*rand.Rand
	faults
	flow     Flow
	first    int64 // block
	blocks   int64
	offsets  []int64              // of the points' clocks
	truth    []map[int64]*seen    // by point and block
	readings []map[int64]*Reading // the same
	restarts []int64              // by point: the time by its clock; 0: none
	narrowed int                  // the point that is narrow
	since    int64                // from this block on
}

func newHistory(r *rand.Rand, f faults) *history {
	h := &history{Rand: r, faults: f, first: 1_700_000_000 + r.Int64N(2), blocks: 6}
	h.flow = Flow{ID: FlowID(r.Uint32N(1 << 20)), Timing: randomTiming(r)}
	points := 2 + r.IntN(3)
	if f.bypass > 0 {
		points = 3 + r.IntN(2)
	}
	for i := range points {
		h.flow.Points = append(h.flow.Points, PointID(10*i+r.IntN(10)))
		h.offsets = append(h.offsets, h.within(int64(h.flow.Timing.ClockDifference)/2))
		h.truth = append(h.truth, map[int64]*seen{})
		h.readings = append(h.readings, map[int64]*Reading{})
		h.restarts = append(h.restarts, 0)
		for b := h.first - 3; b <= h.first+h.blocks+3; b++ {
			h.truth[i][b] = &seen{times: map[int][]int64{}, doubled: map[int][]int64{}}
			h.readings[i][b] = &Reading{Flow: h.flow.ID, Point: h.flow.Points[i], Block: b, Timed: true}
		}
	}
	h.spoilClocks()
	if h.narrow {
		h.narrowed, h.since = h.IntN(points), h.first+h.Int64N(h.blocks)
	}
	return h
}

// within is a number from -n to n.
func (h *history) within(n int64) int64 { return h.Int64N(2*n+1) - n }

func randomTiming(r *rand.Rand) Timing {
	for {
		t := Timing{Length: MinBlock + time.Duration(r.Int64N(int64(time.Second)))}
		t.ClockDifference = time.Duration(r.Int64N(int64(t.Length) / 4))
		t.MinDelay = time.Duration(r.Int64N(int64(t.Length) / 2))
		t.MaxDelay = t.MinDelay + time.Duration(r.Int64N(int64(t.Length)/4))
		if t.Validate() == nil {
			return t
		}
	}
}

// spoilClocks sets a point's clock wrong, by as much as marks can still tell: half a
// block, with the delays.
func (h *history) spoilClocks() {
	t := h.flow.Timing
	most := int64(t.Length)/2 - int64(t.ClockDifference) - int64(t.MaxDelay-t.MinDelay) - 1
	if point := h.IntN(len(h.offsets)); most > 0 {
		switch {
		case h.slow:
			h.offsets[point] -= h.Int64N(most)
		case h.fast:
			h.offsets[point] += h.Int64N(most)
		}
	}
	for i := range h.flow.Points {
		for _, r := range h.readings[i] {
			r.ClockError = int64(t.ClockDifference) / 2
			if h.honest {
				r.ClockError = max(h.offsets[i], -h.offsets[i])
			}
		}
	}
	if h.astray {
		point := 1 + h.IntN(len(h.offsets)-1)
		off := int64(2*(h.IntN(2)*2-1)) * int64(t.Length)
		h.offsets[point] += off
		for _, r := range h.readings[point] {
			r.ClockError = [...]int64{UnknownClock, max(off, -off)}[h.IntN(2)]
		}
	}
	if h.restart {
		h.restarts[h.IntN(len(h.restarts))] = t.Start(h.first) + h.Int64N(h.blocks*int64(t.Length))
	}
}

// run sends packets and counts them.
func (h *history) run() {
	t := h.flow.Timing
	n := h.IntN(300)
	if h.idleOnly {
		n = 0
	}
	from, to := t.Start(h.first)-h.offsets[0], t.Start(h.first+h.blocks)-h.offsets[0]
	nextDouble := int64(0)
	for id := range n {
		at := from + h.Int64N(to-from)
		if id%3 == 0 { // many are near a change of colour
			at = max(from, min(to-1, t.Start(h.first+h.Int64N(h.blocks))-h.offsets[0]+h.within(1000)))
		}
		p := packet{id: id, octets: 40 + h.Uint64N(1460), marked: true, sentAt: at + h.offsets[0], at: at, bypasses: -1}
		p.block = t.Block(p.sentAt)
		p.colour = ColourOf(p.block)
		if p.block >= nextDouble && id > n/2 {
			p.doubled, nextDouble = true, p.block+1+h.Int64N(2)
		}
		if h.Float64() < h.bypass {
			p.bypasses = 1 + h.IntN(len(h.flow.Points)-2)
		}
		h.travel(p, 0)
	}
	for i := range h.flow.Points {
		for b, r := range h.readings[i] {
			h.interrupt(i, b, r)
			if h.strange && h.IntN(10) == 0 {
				r.Flags |= OutsideWindow
			}
		}
	}
}

// travel takes a packet from a point on.
func (h *history) travel(p packet, point int) {
	t := h.flow.Timing
	if point != p.bypasses {
		h.count(p, point)
	}
	if point == len(h.flow.Points)-1 {
		return
	}
	// What is lost after a bypassed point hides that it was bypassed.
	if h.Float64() < h.loss && (h.bypass == 0 || h.bypassAndMore) {
		return
	}
	copies := 1
	if h.Float64() < h.duplicates && (h.bypass == 0 || h.bypassAndMore) {
		copies += 1 + h.IntN(2)
	}
	for range copies {
		c := p
		// Each point is at least MinDelay and at most MaxDelay from the ingress.
		left := int64(t.MaxDelay) - (p.at + h.offsets[0] - p.sentAt)
		least := int64(0)
		if point == 0 {
			least = int64(t.MinDelay)
		}
		c.at += least + h.Int64N(max(0, left-least)+1)
		if h.Float64() < h.late && point == len(h.flow.Points)-2 {
			c.at += h.Int64N(int64(t.Length - 2*t.Guard())) // as much as marks can tell
		}
		if h.Float64() < h.bleach {
			c.marked = false
		}
		h.travel(c, point+1)
	}
}

// count counts a packet at a point.
func (h *history) count(p packet, point int) {
	t := h.flow.Timing
	at := p.at + h.offsets[point]
	true := h.truth[point][p.block]
	true.packets++
	true.octets += p.octets
	true.times[p.id] = append(true.times[p.id], at)
	if p.doubled {
		true.doubled[p.id] = append(true.doubled[p.id], at)
	}
	readings := h.readings[point]
	if !p.marked {
		first, last := t.Around(at)
		for b := first; b <= last; b++ {
			readings[b].Unmarked++
		}
		return
	}
	block, turn := p.block, InTurn
	if point > 0 {
		block, turn = t.Assign(at, p.colour)
	}
	r := readings[block]
	if _, end := t.Window(block, point == 0); at >= end {
		return // after the reading
	}
	switch turn {
	case Late:
		r.Late++
		return
	case OutOfTurn:
		r.OutOfTurn++
		readings[block-2].OutOfTurn++
		return
	}
	if at < h.restarts[point] {
		return // the counter was lost
	}
	if h.isNarrow(point, block) && p.id%2 == 1 {
		return // another flow has it
	}
	r.Packets++
	r.Octets += p.octets
	r.TimeSum = Sum(r.TimeSum, at-t.Start(block))
	if p.doubled {
		r.DoubleMarked.Packets++
		r.DoubleMarked.TimeSum = Sum(r.DoubleMarked.TimeSum, at-t.Start(block))
	}
	if h.unsureOctets && h.IntN(100) == 0 {
		r.UnsureOctets++
		r.Octets += h.Uint64N(100)
	}
}

func (h *history) isNarrow(point int, block int64) bool {
	return h.narrow && point == h.narrowed && block >= h.since
}

// interrupt flags the readings that a restart concerns.
func (h *history) interrupt(point int, block int64, r *Reading) {
	t := h.flow.Timing
	from := t.Start(block) - int64(t.Guard())
	_, to := t.Window(block, point == 0)
	if h.restarts[point] > from {
		r.Flags |= Began
		if h.restarts[point] < to && h.IntN(2) == 0 {
			r.Flags = Interrupted
		}
	}
}

// results passes the readings through an assembler, in any order.
func (h *history) results(t *testing.T) []*Result {
	t.Helper()
	var out []*Result
	a, err := NewAssembler(
		Limits{Flows: 1, Blocks: 100, Wait: time.Duration(h.blocks+4) * h.flow.Timing.Length},
		func(r *Result) { out = append(out, r) },
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.AddFlow(h.flow, h.flow.Timing.Start(h.first-2)); err != nil {
		t.Fatal(err)
	}
	var all []Reading
	for i := range h.flow.Points {
		for b := h.first - 2; b < h.first+h.blocks+2; b++ {
			if r := *h.readings[i][b]; h.Float64() >= h.missing {
				all = append(all, r)
				if h.Float64() < h.repeats {
					all = append(all, r)
				}
				if h.Float64() < h.contradictions {
					r.Packets += h.Uint64N(3) + 1
					all = append(all, r)
				}
			}
		}
	}
	now := h.flow.Timing.Start(h.first + h.blocks + 3)
	h.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, r := range all {
		selected := usual
		if h.isNarrow(slices.Index(h.flow.Points, r.Point), r.Block) {
			selected.Takers = 7
		}
		a.Select(r.Flow, r.Point, r.Block, selected, now)
		if fate := a.Add(r, now); fate != Taken && fate != Repeated && fate != Contradicted {
			t.Fatalf("%+v: %v", r, fate)
		}
	}
	a.Advance(now)
	a.Advance(now + int64(h.blocks+20)*int64(h.flow.Timing.Length))
	a.Flush()
	if a.Waiting() > 0 {
		t.Errorf("%d blocks wait", a.Waiting())
	}
	return out
}

// delays is what is true of the mean delay between two points: false if not the same
// packets passed both, each once.
func meanOf(from, to map[int][]int64) (mean, n int64, ok bool) {
	if len(from) != len(to) || len(from) == 0 {
		return 0, 0, false
	}
	for id, at := range to {
		if len(at) != 1 || len(from[id]) != 1 {
			return 0, 0, false
		}
		mean += at[0] - from[id][0]
		n++
	}
	return mean / n, n, true
}
