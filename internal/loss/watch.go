// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"math/bits"
	"strconv"
	"time"
)

// Share is a part of a whole, in millionths.
type Share uint32

// String is the share as a percentage, exactly.
func (s Share) String() string { return strconv.FormatFloat(float64(s)/1e4, 'f', -1, 64) + "%" }

// All is the share of everything.
const All Share = 1_000_000

// Thresholds are what an operator accepts of a flow, from its ingress to its egress. What
// is nil or 0 has no threshold.
type Thresholds struct {
	MaxLoss     *Share         // of a block's packets
	MaxDelay    *time.Duration // of a block's mean
	NoDataAfter uint           // blocks in a row whose loss is not known
}

// Crossings are the thresholds that something is beyond. Duplicated: with a threshold for
// loss, more packets came than were sent, which leaves the loss unknown.
type Crossings struct{ Loss, Delay, NoData, Duplicated bool }

// CalmBlocks is how many blocks in a row have to be within a threshold, or without packets, before
// the flow counts as within it. So a flow that loses a packet now and then stays beyond the threshold.
const CalmBlocks = 3

// Watch compares the blocks of a flow with thresholds. Only counters that are exact say
// anything about loss and delay.
type Watch struct {
	thresholds              Thresholds
	loss, delay, duplicated crossing
	noData                  Stretch // of blocks whose loss is not known
	began                   bool    // the ingress began to count in the last block
}

// Stretch are the blocks since a flow has been beyond a threshold.
type Stretch struct {
	First  int64   // start of the first block beyond it, in nanoseconds of UTC since 1970
	Last   *Result // the last block beyond it; nil: none is
	Blocks uint    // beyond it, in between and both included
}

func (s *Stretch) add(r *Result) {
	if s.Blocks == 0 {
		s.First = r.Start
	}
	s.Blocks++
	last := *r
	s.Last = &last
}

// crossing is whether a flow is beyond a threshold.
type crossing struct {
	Stretch
	calm int // blocks in a row since the last one that was
}

func (c *crossing) addBlock(crossed bool, r *Result) {
	switch {
	case crossed:
		c.calm = 0
		c.add(r)
	case c.Blocks > 0:
		if c.calm++; c.calm == CalmBlocks {
			*c = crossing{}
		}
	}
}

// NewWatch compares with thresholds; nothing is beyond them yet.
func NewWatch(t Thresholds) *Watch { return &Watch{thresholds: t} }

// AddResult takes the result of the next block, and returns which thresholds this block is
// beyond. A silent flow is not beyond a threshold any more, as one that recovers: its
// ingress has sent nothing that can be late or lost.
func (w *Watch) AddResult(r *Result) (block Crossings) {
	s := &r.Whole
	before := w.began
	if w.began = s.From.Reasons&Restarted != 0; w.began && !before { // the next blocks say more, unless it begins in each
		return block
	}
	if s.Verdict == Idle {
		w.noData = Stretch{}
		w.loss.addBlock(false, r)
		w.delay.addBlock(false, r)
		w.duplicated.addBlock(false, r)
		return block
	}
	if limit := w.thresholds.MaxDelay; limit != nil {
		slow, known := r.SlowerThan(*limit)
		if block.Delay = slow; known {
			w.delay.addBlock(slow, r)
		}
	}
	if !s.Verdict.Exact() && s.Verdict != Duplicated {
		w.noData.add(r)
		block.NoData = w.Beyond().NoData
		return block
	}
	w.noData = Stretch{}
	limit := w.thresholds.MaxLoss
	if limit == nil {
		return block
	}
	block.Loss, block.Duplicated = s.Packets.LostMoreThan(*limit), s.Verdict == Duplicated
	if block.Loss || s.Verdict.Exact() {
		w.loss.addBlock(block.Loss, r)
	}
	w.duplicated.addBlock(block.Duplicated, r)
	return block
}

// Beyond is which thresholds the flow is beyond.
func (w *Watch) Beyond() Crossings {
	return Crossings{
		Loss: w.loss.Blocks > 0, Delay: w.delay.Blocks > 0, Duplicated: w.duplicated.Blocks > 0,
		NoData: w.thresholds.NoDataAfter > 0 && w.noData.Blocks >= w.thresholds.NoDataAfter,
	}
}

// Loss is the blocks since the flow has been beyond its threshold for loss.
func (w *Watch) Loss() *Stretch { return &w.loss.Stretch }

// Delay is the same for delay.
func (w *Watch) Delay() *Stretch { return &w.delay.Stretch }

// Duplicated is the blocks since more packets have come than were sent.
func (w *Watch) Duplicated() *Stretch { return &w.duplicated.Stretch }

// NoData is the last blocks in a row whose loss is not known.
func (w *Watch) NoData() *Stretch { return &w.noData }

// LostMoreThan reports whether it is known that more than a share of the packets were
// lost. It is exact.
func (t *Tally) LostMoreThan(s Share) bool {
	lost := t.LeastLost()
	if !lost.Known {
		return false
	}
	lostHigh, lostLow := bits.Mul64(lost.Value, uint64(All))
	sentHigh, sentLow := bits.Mul64(t.Sent.Value, uint64(s))
	return lostHigh > sentHigh || lostHigh == sentHigh && lostLow > sentLow
}

// LeastLost is how many packets were lost, or, with duplicates, at least.
func (t *Tally) LeastLost() Number {
	if t.Lost.Known {
		return t.Lost
	}
	return t.LostMin
}

// WorstSegment is the segment on which most packets are missing, which without transit
// points is the whole way, with their number; nil if none is known to have lost any.
func (r *Result) WorstSegment() (worst *Segment, missing uint64) {
	segments := r.Segments
	if len(segments) == 0 {
		segments = []Segment{r.Whole}
	}
	for i := range segments {
		if n := segments[i].missing(r.Whole.Verdict == Duplicated); n > missing {
			worst, missing = &segments[i], n
		}
	}
	return worst, missing
}

// MostDuplicates is the segment at whose end most packets were too many, with their number;
// nil if the points between the ends do not say.
func (r *Result) MostDuplicates() (worst *Segment, more uint64) {
	segments := r.Segments
	if len(segments) == 0 {
		segments = []Segment{r.Whole}
	}
	for i := range segments {
		p := &segments[i].Packets
		if known := p.Sent.Known && p.Received.Known && segments[i].Reasons()&^PathUnknown == 0; known && p.Received.Value > p.Sent.Value+more {
			worst, more = &segments[i], p.Received.Value-p.Sent.Value
		}
	}
	return worst, more
}

// missing is how many packets are known to be missing at the end of a segment. With
// duplicates, those of a segment whose path is not known are among them.
func (s *Segment) missing(duplicates bool) uint64 {
	p := &s.Packets
	if duplicates && s.Reasons() == PathUnknown && p.Sent.Value > p.Received.Value {
		return p.Sent.Value - p.Received.Value
	}
	return p.LeastLost().Value
}
