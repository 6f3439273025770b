// SPDX-License-Identifier: Apache-2.0

package flows

import (
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	// mostLate is how far below the highest a Sequence Number may be and still count as
	// late; one farther behind means that numbers started again.
	mostLate = int32(bpf.ABIPostcardBoundMOST_LATE)
	// mostAhead is how far ahead a number may be; one farther ahead means that
	// numbers started again.
	mostAhead = 1 << 30
	// numbersKept is for how many silent intervals a flow's numbers are kept, so
	// that losses in between are known.
	numbersKept = 8
	// lateness is how long a packet of an ended interval may still be on its way
	// on another CPU before it counts as missing.
	lateness = 200 * time.Millisecond
	// leastKept is how many flows are kept at least, however small the table is.
	leastKept = 4096
)

// Sequences computes which Sequence Numbers are missing (docs/data-plane/direct-export.md#missing-numbers).
// It outlives tables of flows. It holds the totals of ended and
// evicted flows until their interval is collected, because their packets on other
// CPUs belong to it.
type Sequences struct {
	Wait func(time.Duration) // for late packets
	Read func() bool         // reads what is in the rings; false when it cannot

	mu            sync.Mutex
	limit         int // limit of held, of numbers and of streams
	held          map[heldFlow]*flowSum
	numbers       map[bpf.ABIFlowKey]numbered
	streams       map[flowStream]sharing
	seed          maphash.Seed
	mayHaveMissed bool
	missedUntil   flowTicks // when packets may last have arrived uncounted
}

// heldFlow is a flow in one interval.
type heldFlow struct {
	key   bpf.ABIFlowKey
	epoch uint32
}

// numbered is what is known about a flow's Sequence Numbers.
type numbered struct {
	highest uint32
	epoch   uint32    // last interval that was reported
	last    flowTicks // time of the last packet
	// balance is how many numbers up to highest did not arrive and were not
	// reported as missing; below 0, how many arrived after they were reported as
	// missing.
	balance  int64
	reported int64
}

// NewSequences knows nothing about any flow.
func NewSequences() *Sequences {
	return &Sequences{
		Wait: time.Sleep, Read: func() bool { return true },
		limit: leastKept, seed: maphash.MakeSeed(),
		held:    make(map[heldFlow]*flowSum),
		numbers: make(map[bpf.ABIFlowKey]numbered),
		streams: make(map[flowStream]sharing),
	}
}

// Clear forgets all flows, as if none had been seen.
func (q *Sequences) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.held)
	clear(q.numbers)
	clear(q.streams)
	q.mayHaveMissed = false
}

// flowStream identifies the flows that share Sequence Numbers (RFC 9326 §3.2).
// Without a Flow-ID, each flow is assumed to have its own.
type flowStream struct {
	namespace uint16
	flowID    uint32
}

// sharing is the two flows of a stream that were seen last, the latest first.
type sharing struct {
	flows [2]struct {
		flow uint64 // a hash; 0 = none
		last flowTicks
	}
	epoch uint32
}

func (s sharing) withFlow(flow uint64, t *bpf.ABIFlowTotals) sharing {
	at, last := &s.flows, flowTicks(t.Last)
	if at[0].flow != flow {
		if at[1].flow == flow {
			last = flowTicks(later(uint32(last), uint32(at[1].last)))
		}
		at[1] = at[0]
		at[0].flow, at[0].last = flow, last
	}
	at[0].last = flowTicks(later(uint32(at[0].last), uint32(last)))
	s.epoch = later(s.epoch, t.Epoch)
	return s
}

// byOthers says whether another flow used numbers since a time.
func (s sharing) byOthers(flow uint64, since, now flowTicks) bool {
	for _, other := range s.flows {
		if other.flow != 0 && other.flow != flow && other.last.isSince(since, now) {
			return true
		}
	}
	return false
}

// misses says whether a flow can have missing numbers: it has numbers, and this
// node did not assign them.
func misses(key *bpf.ABIFlowKey) bool {
	return uint8(key.Type)&ioam.ExtensionSequence != 0 && model.NodeRole(key.Role) != model.RoleEncapsulating
}

func (q *Sequences) flow(key *bpf.ABIFlowKey) uint64 { return maphash.Comparable(q.seed, *key) | 1 }

// noteFlow records that a flow was seen.
func (q *Sequences) noteFlow(key *bpf.ABIFlowKey, t *bpf.ABIFlowTotals) {
	if !misses(key) || uint8(key.Type)&ioam.ExtensionFlowID == 0 {
		return
	}
	stream := flowStream{key.NamespaceId, key.FlowId}
	s, ok := q.streams[stream]
	if !ok && len(q.streams) >= q.limit {
		return
	}
	if !ok {
		s.epoch = t.Epoch
	}
	q.streams[stream] = s.withFlow(q.flow(key), t)
}

// isShared says whether other flows used numbers of the flow's stream since a
// time: then it is unknown whose numbers are missing.
func (q *Sequences) isShared(key *bpf.ABIFlowKey, since, now flowTicks) bool {
	if uint8(key.Type)&ioam.ExtensionFlowID == 0 {
		return false
	}
	s, ok := q.streams[flowStream{key.NamespaceId, key.FlowId}]
	return !ok || s.byOthers(q.flow(key), since, now)
}

// size bounds memory by the number of entries in the table of flows.
func (q *Sequences) size(entries int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.limit = max(entries, leastKept)
}

// Distrust records that packets may have arrived uncounted until now.
func (q *Sequences) Distrust() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mayHaveMissed, q.missedUntil = true, newFlowTime().ticks
}

// isDoubtful says whether packets may have arrived uncounted since a time.
func (q *Sequences) isDoubtful(since, now flowTicks) bool {
	return q.mayHaveMissed && q.missedUntil.isSince(since, now)
}

// continueNumbers returns what is known about a flow's numbers after one more interval,
// and since when the expected numbers may have arrived. sure is false when
// numbers of several CPUs cannot be combined.
func (q *Sequences) continueNumbers(key *bpf.ABIFlowKey, s *flowSum) (now numbered, since flowTicks, sure bool) {
	t := &s.totals
	last, ok := q.numbers[*key]
	now, since, sure = numbered{
		highest: t.Highest,
		epoch:   t.Epoch,
		last:    flowTicks(t.Last),
	}, flowTicks(t.First), len(s.ranges) == 1 ||
		t.Restarted == 0
	if ok {
		since = last.last
		now.last = flowTicks(later(t.Last, uint32(last.last)))
	}
	since -= flowTicks(lateness / coarseUnit)
	came := int64(t.Numbers) + int64(t.Strays) // a stray is a number that was missing, or was reported as missing
	if t.Numbers == 0 {
		now.highest = last.highest
		now.balance, now.reported = last.balance-came, last.reported
		return now, since, sure && ok
	}
	expected := int64(t.Highest-t.Lowest) + 1
	switch ahead := int32(t.Highest - last.highest); {
	case !ok:
		sure = sure && !s.split
	case t.Restarted != 0, ahead < -mostLate, ahead > mostAhead:
	default:
		expected, now.balance, now.reported = int64(max(ahead, 0)), last.balance, last.reported
		now.highest = later(t.Highest, last.highest)
	}
	now.balance += expected - came
	return now, since, sure
}

// mayArriveLate says whether some flow lacks numbers that may still arrive.
func (q *Sequences) mayArriveLate(sums *flowSums) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	ticks := newFlowTime().ticks
	for key, s := range sums.byKey {
		if !misses(&key) {
			continue
		}
		now, since, sure := q.continueNumbers(&key, s)
		if sure && now.balance > 0 && !q.isDoubtful(since, ticks) && !q.isShared(&key, since, ticks) {
			return true
		}
	}
	return false
}

// missingNumbers is how many of a flow's numbers are missing and not yet reported. next
// is the flow's sum in the running interval, or nil; refused says whether the
// flow's packets may have found no place since a time.
func (q *Sequences) missingNumbers(
	key *bpf.ABIFlowKey,
	s, next *flowSum,
	refused func(since, now flowTicks) bool,
) (missing uint32, known bool) {
	if !misses(key) {
		return 0, true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now, since, sure := q.continueNumbers(key, s)
	if !sure {
		delete(q.numbers, *key)
		return 0, s.totals.Numbers == 0
	}
	ticks := newFlowTime().ticks
	known = now.balance <= 0 || !q.isDoubtful(since, ticks) && !q.isShared(key, since, ticks) && !refused(since, ticks)
	if known {
		missing = uint32(min(max(now.balance-next.upTo(now.highest), 0), 1<<32-1))
	} else {
		now.balance = 0
	}
	now.balance -= int64(missing)
	now.reported += int64(missing)
	now.balance = max(now.balance, -now.reported)
	if _, ok := q.numbers[*key]; ok || len(q.numbers) < q.limit {
		q.numbers[*key] = now
	} else {
		q.mayHaveMissed, q.missedUntil = true, ticks
	}
	return missing, known
}

// handover is what happens to a part of a flow that ended or was evicted.
type handover uint8

const (
	// partHeld waits for the end of its interval.
	partHeld handover = iota
	// partWhole can be reported: nothing is missing since the flow was last
	// reported.
	partWhole
	// partUnsure is reported because there is no room to hold it.
	partUnsure
)

// hand takes over a CPU's part of a flow that ended or was evicted.
func (q *Sequences) hand(key *bpf.ABIFlowKey, part *flowSum) handover {
	if !misses(key) {
		return partWhole
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t := &part.totals
	q.noteFlow(key, t)
	at := heldFlow{*key, t.Epoch}
	if s := q.held[at]; s != nil {
		s.merge(part)
		return partHeld
	}
	last, ok := q.numbers[*key]
	whole := t.Numbers > 0 && t.Restarted == 0 && t.Strays == 0 && t.Highest-t.Lowest+1 == t.Numbers
	if whole && (ok && t.Lowest == last.highest+1 || !ok && t.Lowest == 0 && len(q.numbers) < q.limit) {
		last.highest, last.epoch, last.last = t.Highest, t.Epoch, flowTicks(later(t.Last, uint32(last.last)))
		q.numbers[*key] = last
		return partWhole
	}
	if len(q.held) >= q.limit {
		q.mayHaveMissed, q.missedUntil = true, newFlowTime().ticks
		return partUnsure
	}
	q.held[at] = part
	return partHeld
}

// keep holds a part of a removed table in any case.
func (q *Sequences) keep(key *bpf.ABIFlowKey, part *flowSum) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := heldFlow{*key, part.totals.Epoch}
	if s := q.held[at]; s != nil {
		s.merge(part)
	} else {
		q.held[at] = part
	}
}

// takeHeld moves what is held for intervals up to epoch into sums.
func (q *Sequences) takeHeld(epoch uint32, sums *flowSums) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, s := range q.held {
		if !newer(at.epoch, epoch) {
			sums.merge(&at.key, s)
			delete(q.held, at)
		}
	}
	for key, s := range sums.byKey {
		q.noteFlow(&key, &s.totals)
	}
}

// addHeld adds what is held to sums, and keeps it.
func (q *Sequences) addHeld(sums *flowSums) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for at, s := range q.held {
		sums.merge(&at.key, s.clone())
	}
	for key, s := range sums.byKey {
		q.noteFlow(&key, &s.totals)
	}
}

// hasHeld says whether anything waits for the end of its interval.
func (q *Sequences) hasHeld() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.held) > 0
}

// forget drops flows that have been silent for long.
func (q *Sequences) forget(epoch uint32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	silent := func(since uint32) bool { return int32(epoch-since) > numbersKept }
	maps.DeleteFunc(q.numbers, func(_ bpf.ABIFlowKey, n numbered) bool { return silent(n.epoch) })
	maps.DeleteFunc(q.streams, func(_ flowStream, s sharing) bool { return silent(s.epoch) })
}
