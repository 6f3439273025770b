// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"container/list"
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

const (
	// blocksRoom bounds the octets that flows and the counters of their blocks take.
	blocksRoom = 128 << 20
	// maxBlockWait bounds how long a block waits for the counters of all points.
	maxBlockWait = time.Minute
	// idleBlocks is after how many blocks without any counters a flow has ended.
	idleBlocks = 10

	// About what is kept, in octets.
	sizeOfFlow, sizeOfSlot, sizeOfReport = 512, 48, 144
	sizeOfWatch, sizeOfSegment           = 1024, 576
)

// flowKey identifies a flow. Records that disagree about its blocks or its points are
// not about the same.
type flowKey struct {
	name   string
	number loss.FlowID // of a flow without a name
	length uint64
	last   loss.PointID
}

// comparedFlow is a flow whose points are compared.
type comparedFlow struct {
	key       flowKey
	id        loss.FlowID // of the assembler
	number    loss.FlowID
	source    netip.Addr
	sids      []netip.Addr
	guard     uint64
	watch     *loss.Watch // nil without thresholds
	latest    int64       // block of which it is known how the points differ in what they select
	unlike    []uint64    // by point, a hash of how it selects other packets than the first one; nil: none does
	size      int
	lastHeard time.Time
	place     *list.Element
}

// comparison counts what happened before the assembler counts.
type comparison struct{ past, future, evicted, ended uint64 }

// blocks computes the loss and delay of flows from what each of their points counted. The
// flow that was not heard of for the longest time makes room for a new one.
type blocks struct {
	wait      time.Duration
	assembler *loss.Assembler
	flows     map[flowKey]*comparedFlow
	byID      map[loss.FlowID]*comparedFlow
	order     *list.List // of *comparedFlow, the last one was heard of last
	next      loss.FlowID
	size      int
	room      int
	counters  comparison

	accepted loss.Thresholds
	assume   bool                 // that points which do not say what they select select the same
	beyond   [len(thresholds)]int // flows, by threshold
	emit     func(record.Record)
}

func newBlocks(wait time.Duration, accepted loss.Thresholds, assume bool, emit func(record.Record)) (*blocks, error) {
	b := &blocks{
		accepted: accepted,
		assume:   assume,
		emit:     emit,
		wait:     min(cmp.Or(wait, join.DefaultWait), maxBlockWait),
		flows:    map[flowKey]*comparedFlow{},
		byID:     map[loss.FlowID]*comparedFlow{},
		order:    list.New(),
		room:     blocksRoom,
	}
	limits := loss.Limits{Flows: blocksRoom / sizeOfFlow, Blocks: int(maxBlockWait/loss.MinBlock) + 3, Wait: b.wait}
	var err error
	b.assembler, err = loss.NewAssembler(limits, func(r *loss.Result) {
		f, own := b.byID[r.Flow], *r
		own.Flow = f.number
		b.result(f, &own)
	})
	return b, err
}

// slots is how many blocks of a length wait for readings.
func (b *blocks) slots(length time.Duration) int { return int(b.wait/length) + 3 }

// add takes what a point counted.
func (b *blocks) add(r *record.Block, now time.Time) {
	key := flowKey{name: r.Flow, length: r.Length, last: r.LastPoint}
	if r.Flow == "" {
		key.number = r.FlowID
	}
	f := b.flows[key]
	if f != nil && r.Point == 0 && f.guard != r.Guard { // the ingress decides
		b.remove(f, otherGuard)
		f = nil
	}
	if f == nil {
		if f = b.begin(key, r, now); f == nil {
			return
		}
	}
	f.lastHeard = now
	b.order.MoveToBack(f.place)
	reading := r.Reading()
	reading.Flow = f.id
	b.assembler.Add(reading, now.UnixNano())
	b.assembler.Select(f.id, r.Point, int64(r.Number), r.Selection, now.UnixNano())
}

// begin adds a flow with the block of a record; nil if that is not the present.
func (b *blocks) begin(key flowKey, r *record.Block, now time.Time) *comparedFlow {
	plan := r.Timing()
	switch block := int64(r.Number); {
	case block > plan.Block(now.UnixNano()):
		b.counters.future++
		return nil
	case block < plan.Block(now.Add(-b.wait).UnixNano())-1:
		b.counters.past++
		return nil
	}
	slots := b.slots(plan.Length)
	for b.byID[b.next] != nil { // the numbers have wrapped
		b.next++
	}
	f := &comparedFlow{key: key, id: b.next, number: r.FlowID, source: r.Source, sids: r.SIDs, guard: r.Guard}
	if b.accepted != (loss.Thresholds{}) {
		f.watch = loss.NewWatch(b.accepted)
		f.size = sizeOfWatch + 4*sizeOfSegment*int(key.last) // a watch keeps four results
	}
	f.size += sizeOfFlow + len(key.name) + 16*len(f.sids) + 8*(int(key.last)+1) + slots*(sizeOfSlot+sizeOfReport*(int(key.last)+1))
	for b.size+f.size > b.room && b.order.Len() > 0 {
		b.remove(b.order.Front().Value.(*comparedFlow), evicted)
		b.counters.evicted++
	}
	of := loss.Flow{ID: f.id, Timing: plan, Assumed: b.assume}
	for point := range key.last + 1 {
		of.Points = append(of.Points, point)
	}
	b.next++
	if err := b.assembler.AddFlow(of, plan.Start(int64(r.Number))); err != nil {
		b.counters.evicted++ // checked before, so only a limit remains
		return nil
	}
	b.flows[key], b.byID[f.id] = f, f
	b.size += f.size
	f.place = b.order.PushBack(f)
	return f
}

// remove forgets a flow, after the results of its blocks so far.
func (b *blocks) remove(f *comparedFlow, why farewell) {
	b.assembler.RemoveFlow(f.id)
	delete(b.flows, f.key)
	delete(b.byID, f.id)
	b.order.Remove(f.place)
	b.size -= f.size
	b.end(f, why)
}

// expire ends flows of which nothing was heard for long.
func (b *blocks) expire(now time.Time) {
	for e := b.order.Front(); e != nil; {
		f := e.Value.(*comparedFlow)
		e = e.Next()
		if now.Sub(f.lastHeard) > b.wait+idleBlocks*time.Duration(f.key.length) {
			b.remove(f, silent)
			b.counters.ended++
		}
	}
}

// block compares what a point counted, or writes it as it came.
func (c *joining) block(from join.Exporter, b *record.Block, now time.Time) {
	if c.config.Raw {
		c.emit(b)
		return
	}
	c.clocks.add(from, b, now)
	c.blocks.add(b, now)
}
