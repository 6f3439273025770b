// SPDX-License-Identifier: Apache-2.0

// Package flows reads the flows to which programs add exports (RFC 9326 §3.1.2), knows which
// of their Sequence Numbers are missing, and reads the flows that are measured from edge to edge
// (RFC 9197 §4.6).
package flows

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/kernelclock"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	Ways     = len(bpf.ABIFlowSet{}.Ways)
	flowSize = int(unsafe.Sizeof(bpf.ABIFlow{}))
	// flowIDOffset is the offset of an entry's id, which identifies its flow.
	flowIDOffset = int64(unsafe.Offsetof(bpf.ABIFlow{}.Id))
	// refusedOffset is where a set's first entry records when a packet last found
	// no place.
	refusedOffset = int64(unsafe.Offsetof(bpf.ABIFlow{}.Refused))
	// coarseUnit is the unit of a flow's times.
	coarseUnit = 1 << 20
	// Settling is how long a program that started in one interval may still
	// write into it.
	Settling = 5 * time.Millisecond
)

// Table reads the flows that programs add exports to. An interval's totals
// are read after the next interval has begun. Flows that are evicted meanwhile
// come through a ring; Table joins both, so that each total is reported once.
type Table struct {
	flows, clock *ebpf.Map
	memory       *ebpf.Memory
	scratch      bpf.ABIFlow // the entry being read
	fence        atomic.Uint64

	sequences *Sequences
	cpus      int

	mu       sync.Mutex
	reported []reportedFlow // by entry
}

// reportedFlow is what was last reported of an entry.
type reportedFlow struct {
	id    uint64
	epoch uint32
}

// NewTable reads the flows of a map, in the intervals that a clock counts.
func NewTable(flows, clock *ebpf.Map, sequences *Sequences) (*Table, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	memory, err := flows.Memory()
	if err != nil {
		return nil, fmt.Errorf("map the table of flows: %w", err)
	}
	entries := int(flows.MaxEntries()) * Ways
	sequences.size(entries)
	return &Table{flows: flows, clock: clock, memory: memory, sequences: sequences, cpus: cpus, reported: make([]reportedFlow, entries)}, nil
}

// Begin starts the first interval, if there is none yet.
func Begin(clock *ebpf.Map) error {
	var now bpf.ABIFlowClock
	err := clock.Lookup(uint32(0), &now)
	if err == nil && now.Epoch == now.Collected {
		now.Epoch++
		err = clock.Put(uint32(0), now)
	}
	if err != nil {
		return fmt.Errorf("begin an interval of flows: %w", err)
	}
	return nil
}

// newer reports whether an interval comes after another; the numbers wrap.
func newer(epoch, than uint32) bool { return int32(epoch-than) > 0 }

// WithoutMap is the table while no program writes flows: it gives what is held.
func WithoutMap(clock *ebpf.Map, sequences *Sequences) *Table {
	return &Table{clock: clock, sequences: sequences}
}

// Collect ends the interval of flows, starts the next, and passes on the flows of
// the one that ended. Without a map of flows it passes on what is held.
func (t *Table) Collect(each func(Flow)) error {
	if t.flows != nil {
		return t.endInterval(each)
	}
	if !t.sequences.hasHeld() {
		return nil
	}
	var clock bpf.ABIFlowClock
	if err := t.clock.Lookup(uint32(0), &clock); err != nil {
		return fmt.Errorf("read the interval of flows: %w", err)
	}
	t.sequences.Distrust()
	return t.reportSums(newFlowSums(), clock.Epoch, each)
}

// endInterval starts a new interval and reports the flows of the one that ended.
func (t *Table) endInterval(each func(Flow)) error {
	var clock bpf.ABIFlowClock
	if err := t.clock.Lookup(uint32(0), &clock); err != nil {
		return fmt.Errorf("read the interval of flows: %w", err)
	}
	// A killed agent may have left an ended interval: it is read before programs
	// need its place for the next one.
	if before := clock.Epoch - 1; newer(before, clock.Collected) {
		if err := t.giveUntil(&clock, before, each); err != nil {
			return err
		}
	}
	ended := clock.Epoch
	clock.Epoch++
	if err := t.clock.Put(uint32(0), clock); err != nil {
		return fmt.Errorf("begin an interval of flows: %w", err)
	}
	time.Sleep(Settling)
	return t.giveUntil(&clock, ended, each)
}

// giveUntil reports the flows of the intervals up to one that ended, and records
// that.
func (t *Table) giveUntil(clock *bpf.ABIFlowClock, ended uint32, each func(Flow)) error {
	wanted := func(epoch uint32) bool { return newer(epoch, clock.Collected) && !newer(epoch, ended) }
	sums := newFlowSums()
	if err := t.sum(wanted, sums.merge); err != nil {
		return err
	}
	if err := t.reportSums(sums, ended, each); err != nil {
		return err
	}
	t.sequences.forget(ended)
	clock.Collected = ended
	if err := t.clock.Put(uint32(0), *clock); err != nil {
		return fmt.Errorf("end an interval of flows: %w", err)
	}
	return nil
}

// Drain moves everything that was not reported into t.sequences, from a table that no
// program uses any more.
func (t *Table) Drain() error {
	var clock bpf.ABIFlowClock
	if err := t.clock.Lookup(uint32(0), &clock); err != nil {
		return fmt.Errorf("read the interval of flows: %w", err)
	}
	return t.sum(func(epoch uint32) bool { return newer(epoch, clock.Collected) }, t.sequences.keep)
}

// sum passes on the totals of wanted intervals, for every entry that keeps its
// flow while it is read: evicted flows come through a ring.
func (t *Table) sum(wanted func(epoch uint32) bool, each func(*bpf.ABIFlowKey, *flowSum)) error {
	return t.scan(func(entry *bpf.ABIFlow) {
		t.fresh(entry, wanted, func(totals *bpf.ABIFlowTotals) {
			each(&entry.Key, newFlowSum(totals, entry.Index, EndOfInterval))
		})
	})
}

// reportSums reports sums, and what was held for the intervals up to the one that
// ended.
func (t *Table) reportSums(sums *flowSums, ended uint32, each func(Flow)) error {
	if !t.sequences.Read() {
		t.sequences.Distrust()
	}
	t.sequences.takeHeld(ended, sums)
	var next *flowSums
	if t.sequences.mayArriveLate(sums) {
		t.sequences.Wait(lateness)
		if !t.sequences.Read() {
			t.sequences.Distrust()
		}
		var err error
		if next, err = t.peek(ended); err != nil {
			return err
		}
	}
	now := newFlowTime()
	for _, key := range sums.order {
		s := sums.byKey[key]
		f := decodeFlow(&key, &s.totals, s.end, now)
		f.Paid = s.handedOverEarly
		refused := func(since, now flowTicks) bool { return t.hasRefused(s, since, now) }
		missing, known := t.sequences.missingNumbers(&key, s, next.of(&key), refused)
		f.Skipped, f.SkippedUnknown = missing, !known
		each(f)
	}
	return nil
}

// peek is what flows have done since an interval; it is still to be reported.
func (t *Table) peek(ended uint32) (*flowSums, error) {
	sums := newFlowSums()
	err := t.scan(func(entry *bpf.ABIFlow) {
		for i := range entry.Totals {
			if totals := &entry.Totals[i]; totals.Packets > 0 && newer(totals.Epoch, ended) {
				sums.merge(&entry.Key, newFlowSum(totals, entry.Index, EndOfInterval))
			}
		}
	})
	t.sequences.addHeld(sums)
	return sums, err
}

// hasRefused says whether a packet of a flow may have found no place on some CPU
// since a time.
func (t *Table) hasRefused(s *flowSum, since, now flowTicks) bool {
	if t.memory == nil {
		return true
	}
	perCPU := len(t.reported) / t.cpus
	for _, index := range s.indexes {
		for cpu := range t.cpus {
			first := cpu*perCPU + int(index)%perCPU/Ways*Ways
			if at, err := t.refusal(first); err != nil || at != 0 && at.isSince(since, now) {
				return true
			}
		}
	}
	return false
}

// refusal is when a set last had no place for a packet; 0 = never.
func (t *Table) refusal(first int) (at flowTicks, err error) {
	_, err = t.memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&at)), 4), int64(first)*int64(flowSize)+refusedOffset)
	return at, err
}

// DistrustRefusals is for a change of keys, which moves flows to other sets: the
// new sets do not show refusals in the old ones.
func (t *Table) DistrustRefusals() error {
	for first := 0; first < len(t.reported); first += Ways {
		at, err := t.refusal(first)
		if err != nil {
			return fmt.Errorf("read the table of flows: %w", err)
		}
		if at != 0 {
			t.sequences.Distrust()
			return nil
		}
	}
	return nil
}

// scan reads every entry that keeps its flow while it is read.
func (t *Table) scan(each func(*bpf.ABIFlow)) error {
	for i := range t.reported {
		entry, ok, err := t.entry(int64(i) * int64(flowSize))
		if err != nil {
			return fmt.Errorf("read the table of flows: %w", err)
		}
		if ok {
			each(entry)
		}
	}
	return nil
}

// entry reads the entry at an offset, unless it is empty or another flow takes it
// meanwhile. The result is valid until the next call.
func (t *Table) entry(at int64) (*bpf.ABIFlow, bool, error) {
	var id [2]uint64
	read := func(i int) error {
		_, err := t.memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&id[i])), 8), at+flowIDOffset)
		t.fence.Add(1) // keeps reads in order
		return err
	}
	if err := read(0); err != nil || id[0] == 0 {
		return nil, false, err
	}
	_, err := t.memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&t.scratch)), flowSize), at)
	if err != nil {
		return nil, false, err
	}
	t.fence.Add(1)
	if err := read(1); err != nil {
		return nil, false, err
	}
	return &t.scratch, id[0] == id[1], nil
}

// HandedOver handles what is left of a flow that ended or was evicted, and
// reports it unless the flow's packets on other CPUs must be known first.
func (t *Table) HandedOver(sample *bpf.ABIFlowSample, each func(Flow)) {
	wanted := func(epoch uint32) bool { return newer(epoch, sample.Collected) }
	now, end := newFlowTime(), Eviction
	if sample.Flow.Totals[0].Ended|sample.Flow.Totals[1].Ended != 0 {
		end = EndOfInterval // totals of an earlier interval
	}
	key := &sample.Flow.Key
	t.fresh(&sample.Flow, wanted, func(totals *bpf.ABIFlowTotals) {
		part := newFlowSum(totals, sample.Flow.Index, end)
		part.handedOverEarly = true
		done := t.sequences.hand(key, part)
		if done == partHeld {
			return
		}
		f := decodeFlow(key, totals, end, now)
		f.Paid, f.SkippedUnknown = true, done == partUnsure
		each(f)
	})
}

// fresh passes on an entry's totals of wanted intervals, oldest first, unless
// they have been reported.
func (t *Table) fresh(entry *bpf.ABIFlow, wanted func(uint32) bool, each func(*bpf.ABIFlowTotals)) {
	first, second := &entry.Totals[0], &entry.Totals[1]
	if newer(first.Epoch, second.Epoch) {
		first, second = second, first
	}
	for _, totals := range []*bpf.ABIFlowTotals{first, second} {
		if totals.Packets > 0 && wanted(totals.Epoch) && t.markReported(int(entry.Index), reportedFlow{entry.Id, totals.Epoch}) {
			each(totals)
		}
	}
}

// markReported records that a total is reported; false means that it already was.
func (t *Table) markReported(index int, now reportedFlow) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index >= len(t.reported) {
		return true // from a table that is gone
	}
	switch given := t.reported[index]; {
	case given.id != 0 && int64(given.id-now.id) > 0:
		return true // the ring is late: the entry has a newer flow, which was reported
	case given.id == now.id && !newer(now.epoch, given.epoch):
		return false
	}
	t.reported[index] = now
	return true
}

// flowTime converts the times of flows to UTC.
type flowTime struct {
	wall  time.Time
	ticks flowTicks
}

// flowTicks is a time in units of 2^20 ns of the programs' clock; it wraps in 52 days.
type flowTicks uint32

// isSince reports whether a past time is not before another one.
func (t flowTicks) isSince(since, now flowTicks) bool { return now-t <= now-since }

// newFlowTime is now. The programs' clock can be read where programs can be loaded.
func newFlowTime() flowTime {
	now, _ := kernelclock.Monotonic()
	return flowTime{wall: time.Now(), ticks: flowTicks(now / coarseUnit)}
}

func (t flowTime) of(ticks uint32) time.Time {
	return t.wall.Add(-time.Duration(int32(uint32(t.ticks)-ticks)) * coarseUnit).UTC()
}

func decodeFlow(key *bpf.ABIFlowKey, totals *bpf.ABIFlowTotals, end End, now flowTime) Flow {
	if totals.Ended != 0 {
		end = EndOfConnection
	}
	return Flow{
		End:            end,
		Role:           model.NodeRole(key.Role),
		Ingress:        model.IfIndex(key.Ingress),
		Egress:         model.IfIndex(key.Egress),
		Namespace:      ioam.NamespaceID(key.NamespaceId),
		Type:           ioam.TraceType(key.Type >> 8),
		ExtensionFlags: uint8(key.Type),
		FlowID:         key.FlowId,
		Flow:           DecodeKey(key),
		Packets:        totals.Packets,
		Bytes:          totals.Bytes,
		First:          now.of(totals.First),
		Last:           now.of(totals.Last),
		DelayCount:     totals.DelayCount,
		DelaySum:       time.Duration(totals.DelaySum),
		DelayMin:       time.Duration(totals.DelayMin),
		DelayMax:       time.Duration(totals.DelayMax),
		Late:           totals.Late,
		HopLimitMin:    totals.HopLimitMin,
		HopLimitMax:    totals.HopLimitMax,
	}
}

// DecodeKey is the packet fields of a flow's key.
func DecodeKey(key *bpf.ABIFlowKey) model.Flow {
	return model.Flow{
		Source:          bpf.AddressOf(key.Source),
		Destination:     bpf.AddressOf(key.Destination),
		FlowLabel:       bpf.BigEndian32(key.FlowLabel),
		NextHeader:      ioam.NextHeader(key.NextHeader),
		SourcePort:      bpf.BigEndian16(key.SourcePort),
		DestinationPort: bpf.BigEndian16(key.DestinationPort),
	}
}
