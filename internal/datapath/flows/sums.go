// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"slices"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// flowSum adds up the parts of one flow, whose packets arrive on several CPUs.
type flowSum struct {
	totals          bpf.ABIFlowTotals
	ranges          []numberRange // one for each part with Sequence Numbers
	split           bool          // the ranges are far apart
	indexes         []uint32      // of the parts' entries
	end             End           // reason, unless a part says that the connection ended
	handedOverEarly bool          // all parts were handed over before their interval ended, within the export limits
}

// numberRange is a part's Sequence Numbers.
type numberRange struct {
	lowest, numbers, strays uint32
	restarted               bool
}

func newFlowSum(t *bpf.ABIFlowTotals, index uint32, end End) *flowSum {
	s := &flowSum{totals: *t, indexes: []uint32{index}, end: end}
	if t.Numbers > 0 || t.Strays > 0 {
		s.ranges = []numberRange{{t.Lowest, t.Numbers, t.Strays, t.Restarted != 0}}
	}
	return s
}

func (s *flowSum) clone() *flowSum {
	c := *s
	c.ranges, c.indexes = slices.Clone(s.ranges), slices.Clone(s.indexes)
	return &c
}

// merge adds another part.
func (s *flowSum) merge(part *flowSum) {
	sum, t := &s.totals, &part.totals
	sum.Packets += t.Packets
	sum.Bytes += t.Bytes
	sum.DelaySum += t.DelaySum
	sum.DelayCount += t.DelayCount
	sum.DelayMin, sum.DelayMax = min(sum.DelayMin, t.DelayMin), max(sum.DelayMax, t.DelayMax)
	sum.First, sum.Last = earlier(sum.First, t.First), later(sum.Last, t.Last)
	s.split = s.split || part.split
	if sum.Numbers == 0 {
		sum.Lowest, sum.Highest = t.Lowest, t.Highest
	} else if t.Numbers > 0 {
		apart := int32(t.Lowest-sum.Highest) > mostLate || int32(sum.Lowest-t.Highest) > mostLate
		s.split = s.split || apart
		sum.Lowest, sum.Highest = earlier(sum.Lowest, t.Lowest), later(sum.Highest, t.Highest)
	}
	sum.Numbers += t.Numbers
	sum.Strays += t.Strays
	sum.Late += t.Late
	sum.Restarted |= t.Restarted
	sum.Epoch = later(sum.Epoch, t.Epoch)
	sum.HopLimitMin, sum.HopLimitMax = min(sum.HopLimitMin, t.HopLimitMin), max(sum.HopLimitMax, t.HopLimitMax)
	sum.Ended |= t.Ended
	for _, r := range part.ranges {
		s.addRange(r)
	}
	for _, index := range part.indexes {
		if !slices.Contains(s.indexes, index) {
			s.indexes = append(s.indexes, index)
		}
	}
	s.handedOverEarly = s.handedOverEarly && part.handedOverEarly
	s.end = min(s.end, part.end)
}

// mostRanges bounds memory, because a flow may be evicted repeatedly.
const mostRanges = 64

func (s *flowSum) addRange(r numberRange) {
	if len(s.ranges) < mostRanges {
		s.ranges = append(s.ranges, r)
		return
	}
	last := &s.ranges[len(s.ranges)-1]
	if last.numbers == 0 {
		last.lowest = r.lowest
	} else if r.numbers > 0 {
		last.lowest = earlier(last.lowest, r.lowest)
	}
	last.numbers += r.numbers
	last.strays += r.strays
	last.restarted = last.restarted || r.restarted
}

// upTo is how many of these numbers, at most, are not above highest.
func (s *flowSum) upTo(highest uint32) (n int64) {
	if s == nil {
		return 0
	}
	for _, r := range s.ranges {
		n += int64(r.strays)
		switch below := int32(highest - r.lowest); {
		case r.restarted:
			n += mostAhead
		case r.numbers > 0 && below >= 0:
			n += min(int64(r.numbers), int64(below)+1)
		}
	}
	return n
}

// flowSums are totals by flow.
type flowSums struct {
	byKey map[bpf.ABIFlowKey]*flowSum
	order []bpf.ABIFlowKey
}

// of is a flow's sum, or nil.
func (s *flowSums) of(key *bpf.ABIFlowKey) *flowSum {
	if s == nil {
		return nil
	}
	return s.byKey[*key]
}

func newFlowSums() *flowSums { return &flowSums{byKey: make(map[bpf.ABIFlowKey]*flowSum)} }

// merge adds a part, whose memory the sum takes over.
func (s *flowSums) merge(key *bpf.ABIFlowKey, part *flowSum) {
	if sum := s.byKey[*key]; sum != nil {
		sum.merge(part)
		return
	}
	s.byKey[*key] = part
	s.order = append(s.order, *key)
}

// earlier and later order numbers that wrap.
func earlier(a, b uint32) uint32 {
	if newer(a, b) {
		return b
	}
	return a
}

func later(a, b uint32) uint32 {
	if newer(a, b) {
		return a
	}
	return b
}
