// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/delivery"
)

// lostBelow is how many of the lost numbers are not above highest.
func lostBelow(lost []uint32, highest uint32) (n uint64) {
	for _, number := range lost {
		if int32(highest-number) >= 0 {
			n++
		}
	}
	return n
}

// simulated is what the programs would record of one flow, on several CPUs.
type simulated struct {
	key   bpf.ABIFlowKey
	epoch uint32
	now   flowTicks
	parts map[int]*simulatedPart // by CPU
}

// simulatedPart is an entry; its numbers are those of the intervals.
type simulatedPart struct {
	state  delivery.Sequence
	totals map[uint32]*bpf.ABIFlowTotals
}

func (s *simulated) add(d delivery.Packet) {
	p := s.parts[d.CPU]
	if p == nil {
		p = &simulatedPart{totals: map[uint32]*bpf.ABIFlowTotals{}}
		s.parts[d.CPU] = p
	}
	t := p.totals[s.epoch]
	if t == nil {
		t = &bpf.ABIFlowTotals{Epoch: s.epoch, First: uint32(s.now)}
		p.totals[s.epoch] = t
		p.state.Numbers = nil
	}
	p.state.Add(d.Number)
	t.Packets++
	t.Last, t.Numbers = uint32(s.now), uint32(len(p.state.Numbers))
	t.Lowest, t.Highest = delivery.Span(p.state.Numbers)
}

// handOver ends or evicts a CPU's part of the flow.
func (s *simulated) handOver(q *Sequences, cpu int) (reported uint64) {
	p := s.parts[cpu]
	if p == nil {
		return 0
	}
	delete(s.parts, cpu)
	for epoch := s.epoch - 1; epoch != s.epoch+1; epoch++ {
		if t := p.totals[epoch]; t != nil {
			if q.hand(&s.key, newFlowSum(t, 0, Eviction)) != partHeld {
				reported += t.Packets
			}
		}
	}
	return reported
}

// flowSums adds up what the CPUs have for an interval.
func (s *simulated) sums(epoch uint32) *flowSums {
	sums := newFlowSums()
	for cpu := range len(s.parts) + 8 {
		if p := s.parts[cpu]; p != nil && p.totals[epoch] != nil {
			sums.merge(&s.key, newFlowSum(p.totals[epoch], 0, EndOfInterval))
		}
	}
	return sums
}

// TestSequencesOfRandomFlows sends the packets of a flow through several CPUs, out of
// order, with parts that end or are evicted and intervals that end anywhere: the
// reported loss never exceeds the real loss, and in the end they are equal.
func TestSequencesOfRandomFlows(t *testing.T) {
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(7, seed))
		cpus, depth, loss := 1+r.IntN(6), r.IntN(60), []float64{0, 0, 0.01, 0.2}[r.IntN(4)]
		list, lost := delivery.Packets(r, []uint32{0, 1<<32 - 500, 70_000}[r.IntN(3)], 200+r.IntN(3000), cpus, depth, loss)
		q := NewSequences()
		s := &simulated{epoch: 1, now: newFlowTime().ticks, parts: map[int]*simulatedPart{}}
		s.key.Role, s.key.Type, s.key.FlowId = uint8(model.RoleTransit), uint32(ioam.ExtensionFlowID|ioam.ExtensionSequence), 5
		packets, missing, at := uint64(0), uint64(0), 0
		evicting, interval := r.IntN(2)*r.IntN(100), 1+r.IntN(len(list))
		step := func(until int) {
			for ; at < min(until, len(list)); at++ {
				s.add(list[at])
				if list[at].Ends || evicting > 0 && r.IntN(evicting) == 0 {
					packets += s.handOver(q, list[at].CPU)
				}
			}
		}
		for at < len(list) || len(s.sums(s.epoch).order) > 0 || len(q.held) > 0 {
			step(at + 1 + r.IntN(interval))
			ended := s.epoch
			s.epoch++
			sums := s.sums(ended)
			for _, p := range s.parts {
				delete(p.totals, ended)
			}
			q.takeHeld(ended, sums)
			var next *flowSums
			if q.mayArriveLate(sums) {
				step(at + 2*depth + 2) // packets still on their way
				next = s.sums(s.epoch)
				q.addHeld(next)
			}
			for key, sum := range sums.byKey {
				n, known := q.missingNumbers(&key, sum, next.of(&key), func(_, _ flowTicks) bool { return false })
				packets, missing = packets+sum.totals.Packets, missing+uint64(n)
				if most := lostBelow(lost, sum.totals.Highest); !known || missing > most {
					t.Fatalf("seed %d, interval %d: %d missing, known %v; %d were lost", seed, ended, missing, known, most)
				}
			}
			q.forget(ended)
		}
		if packets != uint64(len(list)) || missing != uint64(len(lost)) {
			t.Fatalf("seed %d: %d packets reported of %d, %d missing, %d were lost", seed, packets, len(list), missing, len(lost))
		}
	}
}

// part is a flow's part in an interval, with its first and last number.
func part(epoch, lowest, highest, numbers uint32, change ...func(*bpf.ABIFlowTotals)) *flowSum {
	now := uint32(newFlowTime().ticks)
	t := &bpf.ABIFlowTotals{Packets: uint64(numbers), Numbers: numbers, Lowest: lowest, Highest: highest, Epoch: epoch, First: now, Last: now}
	for _, c := range change {
		c(t)
	}
	return newFlowSum(t, 0, EndOfInterval)
}

// TestSequencesThatCannotBeKnown covers the reasons why missing numbers can be
// unknown: this is reported for a flow that lacks numbers, and not for one that
// does not.
func TestSequencesThatCannotBeKnown(t *testing.T) {
	never := func(_, _ flowTicks) bool { return false }
	anew := func(t *bpf.ABIFlowTotals) { t.Restarted = 1 }
	type missingAnswer struct {
		missing uint32
		known   bool
	}
	for _, test := range []struct {
		name  string
		do    func(q *Sequences, key bpf.ABIFlowKey, sums *flowSums)
		other func(since, now flowTicks) bool
		want  missingAnswer
	}{
		{"lost", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) { sums.merge(&key, part(1, 0, 9, 7)) }, never, missingAnswer{3, true}},
		{"uncounted before", func(q *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			q.Distrust()
			sums.merge(&key, part(1, 0, 9, 7))
		}, never, missingAnswer{0, false}},
		{"uncounted before, nothing missing", func(q *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			q.Distrust()
			sums.merge(&key, part(1, 0, 9, 10))
		}, never, missingAnswer{0, true}},
		{"no place in the table", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) { sums.merge(&key, part(1, 0, 9, 7)) },
			func(_, _ flowTicks) bool { return true }, missingAnswer{0, false}},
		{"another flow has the Flow-ID", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			sums.merge(&key, part(1, 0, 9, 7))
			key.SourcePort++
			sums.merge(&key, part(1, 2, 5, 3))
		}, never, missingAnswer{0, false}},
		{"another flow has another Flow-ID", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			sums.merge(&key, part(1, 0, 9, 7))
			key.FlowId++
			sums.merge(&key, part(1, 2, 5, 3))
		}, never, missingAnswer{3, true}},
		{"another flow had the Flow-ID long ago", func(q *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			other := key
			other.SourcePort++
			long := func(t *bpf.ABIFlowTotals) { t.Last -= uint32(time.Minute / coarseUnit) }
			q.noteFlow(&other, &part(1, 2, 5, 3, long).totals)
			sums.merge(&key, part(1, 0, 9, 7))
		}, never, missingAnswer{3, true}},
		{"anew on one CPU of two", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			sums.merge(&key, part(1, 50_000, 50_009, 5))
			sums.merge(&key, part(1, 3, 9, 7, anew))
		}, never, missingAnswer{0, false}},
		{"anew on one CPU", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) { sums.merge(&key, part(1, 3, 9, 5, anew)) }, never, missingAnswer{2, true}},
		{"far apart on two CPUs", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			sums.merge(&key, part(1, 50_000, 50_009, 10))
			sums.merge(&key, part(1, 0, 9, 10))
		}, never, missingAnswer{0, false}},
		{"strays", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			sums.merge(&key, part(1, 0, 9, 7, func(t *bpf.ABIFlowTotals) { t.Strays = 2 }))
		}, never, missingAnswer{1, true}},
		{"the node that numbers", func(_ *Sequences, key bpf.ABIFlowKey, sums *flowSums) {
			key.Role = uint8(model.RoleEncapsulating)
			sums.merge(&key, part(1, 0, 9, 7))
		}, never, missingAnswer{0, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q, sums := NewSequences(), newFlowSums()
			key := bpf.ABIFlowKey{
				Role:        uint8(model.RoleTransit),
				NamespaceId: 123,
				FlowId:      5,
				Type:        uint32(ioam.ExtensionFlowID | ioam.ExtensionSequence),
			}
			test.do(q, key, sums)
			q.takeHeld(1, sums)
			first := sums.order[0]
			missing, known := q.missingNumbers(&first, sums.byKey[first], nil, test.other)
			if got := (missingAnswer{missing, known}); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// TestSequencesAreBounded has more flows than are kept and held: memory does not grow,
// and no loss is invented for a flow that was not kept.
func TestSequencesAreBounded(t *testing.T) {
	q := NewSequences()
	key := func(i uint32) bpf.ABIFlowKey {
		return bpf.ABIFlowKey{Role: uint8(model.RoleTransit), FlowId: i, Type: uint32(ioam.ExtensionFlowID | ioam.ExtensionSequence)}
	}
	unsure := 0
	for i := range uint32(3 * leastKept) {
		k := key(i)
		if q.hand(&k, part(1, 0, 2, 2)) == partUnsure {
			unsure++
		}
	}
	if len(q.held) != leastKept || unsure != 2*leastKept || len(q.streams) > leastKept {
		t.Errorf("%d held, %d not, %d streams", len(q.held), unsure, len(q.streams))
	}
	for epoch := uint32(1); epoch < 4; epoch++ {
		sums := newFlowSums()
		for i := range uint32(3 * leastKept) {
			k := key(i)
			sums.merge(&k, part(epoch, epoch*10, epoch*10+9, 10))
		}
		q.takeHeld(epoch, sums)
		for _, k := range sums.order {
			if n, _ := q.missingNumbers(&k, sums.byKey[k], nil, func(_, _ flowTicks) bool { return false }); n > 0 && epoch > 1 {
				t.Fatalf("interval %d, flow %d: %d missing", epoch, k.FlowId, n)
			}
		}
		q.forget(epoch)
	}
	if len(q.held) > 0 || len(q.numbers) > leastKept || len(q.streams) > leastKept {
		t.Errorf("%d held, %d flows, %d streams", len(q.held), len(q.numbers), len(q.streams))
	}
	q.forget(4 + numbersKept)
	if len(q.numbers)+len(q.streams) > 0 {
		t.Errorf("%d flows and %d streams are kept for ever", len(q.numbers), len(q.streams))
	}
}
