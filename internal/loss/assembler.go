// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/problem"
)

// Limits bound an Assembler.
type Limits struct {
	Flows  int           // at a time
	Blocks int           // of one flow that wait for readings
	Wait   time.Duration // for readings, after the last time at which a point may read its counters
}

// Fate is what became of a reading.
type Fate uint8

const (
	// Taken: it is part of its block's result.
	Taken Fate = iota
	// Repeated: it is the same as the earlier reading of this point and block.
	Repeated
	// Contradicted: it differs from the earlier reading of this point and block. The block is uncertain,
	// if its result has not been emitted yet.
	Contradicted
	// UnknownFlow: the flow was not added.
	UnknownFlow
	// UnknownPoint: the flow has no such point.
	UnknownPoint
	// Past: the block's deadline has passed, or it began before the flow was added.
	Past
	// Future: the block has not ended.
	Future

	// NumFates is the number of fates.
	NumFates
)

// String is the fate's name for metrics.
func (f Fate) String() string {
	if f >= NumFates {
		return "unknown"
	}
	return [NumFates]string{"taken", "repeated", "contradicted", "unknown_flow", "unknown_point", "past", "future"}[f]
}

// Counters count what an Assembler did.
type Counters struct {
	Readings [NumFates]uint64
	Results  [NumVerdicts]uint64 // emitted, by the verdict for the whole way
	Skipped  uint64              // blocks without a reading for which no result was emitted, because time leapt
	Restarts uint64              // of a flow, because time went back
}

// Plus is the sum of counters.
func (c Counters) Plus(d Counters) Counters {
	for i := range c.Readings {
		c.Readings[i] += d.Readings[i]
	}
	for i := range c.Results {
		c.Results[i] += d.Results[i]
	}
	c.Skipped += d.Skipped
	c.Restarts += d.Restarts
	return c
}

// Assembler brings the readings of blocks together. Readings may arrive in any order.
// Each block from the one in which its flow was added has one result: when all points
// have reported it, or at its deadline. It is not safe for concurrent use.
//
// "now" is nanoseconds of UTC since 1970. It should not be more than a block before the
// clocks of the points.
type Assembler struct {
	limits   Limits
	emit     func(*Result)
	flows    map[FlowID]*assembly
	order    []*assembly // as they were added
	counters Counters
}

// assembly is a flow with its blocks from base to base + len(ring) − 1; block b is in
// ring[b % len(ring)].
type assembly struct {
	Flow
	base int64 // the earliest block whose deadline has not passed
	ring []slot
}

// slot is a block.
type slot struct {
	reports []Report // by point; nil before the first reading
	present int
	emitted bool
}

// NewAssembler makes an assembler that passes each result to emit, in the calls of its
// methods. emit must not call the assembler. It may keep the result.
func NewAssembler(limits Limits, emit func(*Result)) (*Assembler, error) {
	if limits.Flows < 1 || limits.Blocks < 1 || limits.Wait < 0 {
		return nil, fmt.Errorf(
			"%d flows, %d blocks, wait %v: choose at least one flow and one block, and no negative wait",
			limits.Flows,
			limits.Blocks,
			limits.Wait,
		)
	}
	return &Assembler{limits: limits, emit: emit, flows: make(map[FlowID]*assembly)}, nil
}

// AddFlow begins with the block that contains now.
func (a *Assembler) AddFlow(f Flow, now int64) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if a.flows[f.ID] != nil {
		return problem.New(fmt.Sprintf("flow %d is there already", f.ID), "remove it before you add another one of this number")
	}
	if len(a.flows) >= a.limits.Flows {
		return fmt.Errorf("there are %d flows; no more may be added", len(a.flows))
	}
	// From the earliest block whose deadline has not passed to the current one: as many as
	// begin during the wait, at most one more than fit, and the two of before its deadline.
	blocks := int64(a.limits.Wait/f.Timing.Length) + 3
	if blocks > int64(a.limits.Blocks) {
		return problem.New(
			fmt.Sprintf("flow %d: %d blocks of %v would wait for readings, more than %d", f.ID, blocks, f.Timing.Length, a.limits.Blocks),
			fmt.Sprintf("lengthen the blocks, or wait less than %v", a.limits.Wait),
		)
	}
	f.Points = slices.Clone(f.Points)
	of := &assembly{Flow: f, base: f.Timing.Block(max(now, 0)), ring: make([]slot, blocks)}
	a.flows[f.ID] = of
	a.order = append(a.order, of)
	return nil
}

// RemoveFlow emits the results of a flow's blocks that have readings, and forgets the
// flow.
func (a *Assembler) RemoveFlow(id FlowID) {
	of := a.flows[id]
	if of == nil {
		return
	}
	a.flush(of)
	delete(a.flows, id)
	a.order = slices.DeleteFunc(a.order, func(o *assembly) bool { return o == of })
}

// Add takes a reading.
func (a *Assembler) Add(r Reading, now int64) Fate {
	fate := a.add(r, max(now, 0))
	a.counters.Readings[fate]++
	return fate
}

func (a *Assembler) add(r Reading, now int64) Fate {
	of, point, fate := a.find(r.Flow, r.Point, r.Block, now)
	if fate != Taken {
		return fate
	}
	return of.at(r.Block).addReading(r, point, len(of.Points))
}

// find finds the flow and the index of a point of which something is said about a block.
func (a *Assembler) find(flow FlowID, id PointID, block, now int64) (of *assembly, point int, fate Fate) {
	if of = a.flows[flow]; of == nil {
		return nil, 0, UnknownFlow
	}
	point = slices.Index(of.Points, id)
	switch {
	case point < 0:
		return nil, 0, UnknownPoint
	case block > of.Timing.Block(now):
		return nil, 0, Future
	}
	if block >= of.base+int64(len(of.ring)) {
		a.advance(of, now) // makes room
	}
	if block < of.base {
		return nil, 0, Past
	}
	return of, point, Taken
}

// Select takes what a point says of the packets that it selects for a flow in the whole of a
// block. What comes too late, and about no flow, is ignored; two that differ contradict each
// other.
func (a *Assembler) Select(flow FlowID, id PointID, block int64, s Selection, now int64) {
	of, point, fate := a.find(flow, id, block, max(now, 0))
	if fate != Taken || !s.Known() {
		return
	}
	at := of.at(block).report(point, len(of.Points))
	at.Contradicting = at.Contradicting || at.Selection.Known() && at.Selection != s
	at.Selection = s
}

func (f *assembly) at(block int64) *slot { return &f.ring[block%int64(len(f.ring))] }

// addReading adds the reading of one of the points.
func (s *slot) addReading(r Reading, point, points int) Fate {
	at := s.report(point, points)
	switch {
	case !at.Present:
		at.Reading, at.Present = r, true
		s.present++
		return Taken
	case at.Reading == r:
		return Repeated
	}
	at.Contradicting = true
	return Contradicted
}

// report is what is known of one of the points.
func (s *slot) report(point, points int) *Report {
	if s.reports == nil {
		s.reports = make([]Report, points)
	}
	return &s.reports[point]
}

// Advance emits the results of the blocks that all points have reported, and of those
// whose deadline has passed. Call it about once a block.
func (a *Assembler) Advance(now int64) {
	for _, of := range a.order {
		a.advance(of, max(now, 0))
	}
}

// advance emits results of a flow: at most two for each block of its ring.
func (a *Assembler) advance(of *assembly, now int64) {
	if current := of.Timing.Block(now); of.base > current+1 {
		// The clock was wrong before, or is now. Otherwise, the readings of a long time would
		// be past.
		a.flush(of)
		for i := range of.ring { // selections of blocks without a reading are not of those to come
			clear(of.ring[i].reports)
		}
		of.base = current
		a.counters.Restarts++
	}
	// The points may read a block's counters until the next block ends, and the wait
	// begins then.
	due := of.Timing.Block(max(now-int64(a.limits.Wait), 0)) - 1
	size := int64(len(of.ring))
	a.end(of, min(due, of.base+size))
	if skipped := due - size - of.base; skipped > 0 { // without readings: those in the ring are emitted
		a.counters.Skipped += uint64(skipped)
		of.base += skipped
	}
	a.end(of, due)
	for block := of.base; block < of.base+size; block++ {
		if s := of.at(block); s.present == len(of.Points) && !s.emitted {
			a.result(of, block, s)
		}
	}
}

// end emits what was not emitted of the blocks before one, and frees their places.
func (a *Assembler) end(of *assembly, before int64) {
	for ; of.base < before; of.base++ {
		s := of.at(of.base)
		if !s.emitted {
			a.result(of, of.base, s)
		}
		clear(s.reports)
		s.present, s.emitted = 0, false
	}
}

// result emits the result of a block.
func (a *Assembler) result(of *assembly, block int64, s *slot) {
	s.emitted = true
	r := Compute(&of.Flow, block, s.reports)
	a.counters.Results[r.Whole.Verdict]++
	a.emit(&r)
}

// Flush emits the results of all blocks up to the last one that has a reading.
func (a *Assembler) Flush() {
	for _, of := range a.order {
		a.flush(of)
	}
}

func (a *Assembler) flush(of *assembly) {
	last := int64(math.MinInt64)
	for block := of.base; block < of.base+int64(len(of.ring)); block++ {
		if of.at(block).present > 0 {
			last = block
		}
	}
	if last >= of.base {
		a.end(of, last+1)
	}
}

// Counters are the counters until now.
func (a *Assembler) Counters() Counters { return a.counters }

// Waiting is the number of blocks that have a reading and no result yet.
func (a *Assembler) Waiting() (n int) {
	for _, of := range a.order {
		for i := range of.ring {
			if of.ring[i].present > 0 && !of.ring[i].emitted {
				n++
			}
		}
	}
	return n
}
