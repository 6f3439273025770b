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

// Crossings are the thresholds that something is beyond.
type Crossings struct{ Loss, Delay, NoData bool }

// CalmBlocks is how many blocks in a row have to be within a threshold before a flow is:
// one that loses a packet now and then stays beyond it.
const CalmBlocks = 3

// Watch compares the blocks of a flow with thresholds. Only exact counters say anything
// about loss and delay. A block without a packet does not: the flow may be silent because
// everything was lost.
type Watch struct {
	thresholds  Thresholds
	loss, delay crossing
	unknown     uint   // blocks in a row whose loss is not known
	last        Result // of these blocks
}

// crossing is whether a flow is beyond a threshold.
type crossing struct {
	beyond bool
	calm   int    // blocks in a row within it
	last   Result // that was not
}

// NewWatch compares with thresholds; nothing is beyond them yet.
func NewWatch(t Thresholds) *Watch { return &Watch{thresholds: t} }

// Take takes the result of the next block, and returns which thresholds this block is
// beyond.
func (w *Watch) Take(r *Result) (block Crossings) {
	s := &r.Whole
	if s.From.Reasons&Restarted != 0 { // the ingress began to count; the next blocks say more
		return block
	}
	if !s.Verdict.Exact() {
		w.unknown, w.last = w.unknown+1, *r
		block.NoData = w.Beyond().NoData
		return block
	}
	w.unknown = 0
	if s.Verdict == Idle {
		return block
	}
	block.Loss = w.thresholds.MaxLoss != nil && s.Packets.LostMoreThan(*w.thresholds.MaxLoss)
	w.loss.note(block.Loss, r)
	if d := s.Delay(); w.thresholds.MaxDelay != nil && d.Packets > 0 {
		block.Delay = d.Delay > *w.thresholds.MaxDelay
		w.delay.note(block.Delay, r)
	}
	return block
}

func (c *crossing) note(crossed bool, r *Result) {
	switch {
	case crossed:
		c.beyond, c.calm, c.last = true, 0, *r
	case c.beyond:
		c.calm++
		c.beyond = c.calm < CalmBlocks
	}
}

// Beyond is which thresholds the flow is beyond.
func (w *Watch) Beyond() Crossings {
	return Crossings{
		Loss: w.loss.beyond, Delay: w.delay.beyond,
		NoData: w.thresholds.NoDataAfter > 0 && w.unknown >= w.thresholds.NoDataAfter,
	}
}

// Worst are the last results beyond each threshold, and how many blocks in a row had no
// data.
func (w *Watch) Worst() (loss, delay, noData *Result, unknown uint) {
	return &w.loss.last, &w.delay.last, &w.last, w.unknown
}

// LostMoreThan reports whether more than a share of the packets were lost. It is exact.
func (t *Tally) LostMoreThan(s Share) bool {
	if !t.Lost.Known {
		return false
	}
	lostHigh, lostLow := bits.Mul64(t.Lost.Value, uint64(All))
	sentHigh, sentLow := bits.Mul64(t.Sent.Value, uint64(s))
	return lostHigh > sentHigh || lostHigh == sentHigh && lostLow > sentLow
}

// WorstSegment is the segment on which most packets were lost, which without transit
// points is the whole way, or nil if none is known to have lost any.
func (r *Result) WorstSegment() (worst *Segment) {
	segments := r.Segments
	if len(segments) == 0 {
		segments = []Segment{r.Whole}
	}
	for i := range segments {
		if p := &segments[i].Packets; p.Lost.Known && p.Lost.Value > 0 && (worst == nil || p.Lost.Value > worst.Packets.Lost.Value) {
			worst = &segments[i]
		}
	}
	return worst
}

// Delay is the mean delay of all packets; without it, that of the packets with a second
// mark.
func (s *Segment) Delay() Sample {
	if s.Mean.Packets > 0 {
		return s.Mean
	}
	return s.DoubleMarked
}
