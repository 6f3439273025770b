// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/ioam"
)

const (
	flowWays = len(abiFlowSet{}.Ways)
	flowSize = int(unsafe.Sizeof(abiFlow{}))
	// flowIDOffset is where an entry says whose it is.
	flowIDOffset = int64(unsafe.Offsetof(abiFlow{}.Id))
	// coarseUnit is the unit of a flow's times.
	coarseUnit = 1 << 20
	// flowSettling is how long a program that began in one interval may still
	// write into it.
	flowSettling = 5 * time.Millisecond
)

// flowTable reads the flows that programs add exports to. An interval's totals
// are read when the next one has begun. A flow that has to give way meanwhile
// comes through a ring, so both ways meet here: each total is given once.
type flowTable struct {
	flows, clock *ebpf.Map
	memory       *ebpf.Memory
	scratch      abiFlow // an entry that is being read
	fence        atomic.Uint64

	mu      sync.Mutex
	given   []givenFlow // by entry
	numbers map[abiFlowKey]numbered
}

// givenFlow is the last that was told about an entry.
type givenFlow struct {
	id    uint64
	epoch uint32
}

// numbered is the highest Sequence Number that was told of a flow, and when.
type numbered struct{ highest, epoch uint32 }

const (
	// mostLate is how far behind a Sequence Number may be that is only late;
	// those farther behind began anew.
	mostLate = int32(abiExportBoundMOST_LATE)
	// numbersKept is how many intervals a flow may be silent without its losses
	// in between being forgotten.
	numbersKept = 8
)

// missing is how many Sequence Numbers were expected since the last time and
// did not come. The node that gives the numbers misses none.
func (t *flowTable) missing(key *abiFlowKey, totals *abiFlowTotals) uint32 {
	if totals.Numbers == 0 || ioam.ExportRole(key.Role) == ioam.RoleEncapsulating {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	expected := totals.Highest - totals.Lowest + 1
	now := numbered{totals.Highest, totals.Epoch}
	if last, ok := t.numbers[*key]; ok {
		switch ahead := int32(totals.Highest - last.highest); {
		case ahead > 0:
			expected = uint32(ahead)
		case ahead >= -mostLate:
			expected, now.highest = 0, last.highest
		}
	}
	if t.numbers == nil {
		t.numbers = make(map[abiFlowKey]numbered)
	}
	t.numbers[*key] = now
	return uint32(max(int64(expected)-int64(totals.Numbers), 0))
}

// forget lets go of numbers of flows that have been silent for long.
func (t *flowTable) forget(epoch uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.numbers, func(_ abiFlowKey, n numbered) bool { return epoch-n.epoch > numbersKept })
}

func newFlowTable(flows, clock *ebpf.Map) (*flowTable, error) {
	memory, err := flows.Memory()
	if err != nil {
		return nil, fmt.Errorf("map the table of flows: %w", err)
	}
	return &flowTable{
		flows: flows, clock: clock, memory: memory,
		given: make([]givenFlow, int(flows.MaxEntries())*flowWays),
	}, nil
}

// beginFlows begins the first interval, where there was none.
func beginFlows(clock *ebpf.Map) error {
	var now abiFlowClock
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

// CollectFlows ends the interval of flows, begins the next, and gives what
// flows did in the one that ended. It does nothing while no namespace
// aggregates.
func (d *Datapath) CollectFlows(each func(Flow)) error {
	d.applying.Lock() // the table stays
	defer d.applying.Unlock()
	left := d.takeLeftFlows()
	for _, f := range left {
		each(f)
	}
	if t := d.flowTable(); t != nil {
		return t.collect(each)
	}
	return nil
}

func (d *Datapath) flowTable() *flowTable {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tables.flows
}

// useTables makes tables those in use. Flows of a table that goes are kept
// until they are collected.
func (d *Datapath) useTables(next *tables) {
	if old := d.tables.flows; old != nil && old != next.flows {
		time.Sleep(flowSettling)
		err := old.drain(func(f Flow) { d.leftFlows = append(d.leftFlows, f) })
		if err != nil {
			d.options.Log.Warn("read the last flows of a table", "error", err)
		}
	}
	if err := next.adopt(d.options.PinPath, d.tables); err != nil {
		d.options.Log.Warn("keep tables for the next agent", "error", err)
	}
	d.tables = next
}

func (d *Datapath) takeLeftFlows() []Flow {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.leftFlows
	d.leftFlows = nil
	return left
}

// newer reports whether an interval comes after another; they wrap.
func newer(epoch, than uint32) bool { return int32(epoch-than) > 0 }

// collect begins a new interval and gives the flows of the one that ended.
func (t *flowTable) collect(each func(Flow)) error {
	var clock abiFlowClock
	if err := t.clock.Lookup(uint32(0), &clock); err != nil {
		return fmt.Errorf("read the interval of flows: %w", err)
	}
	// An agent that was killed may have left an interval that ended: it is read
	// before programs need its place for the next one.
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
	time.Sleep(flowSettling)
	return t.giveUntil(&clock, ended, each)
}

// giveUntil gives the flows of the intervals up to one that ended, and says so.
func (t *flowTable) giveUntil(clock *abiFlowClock, ended uint32, each func(Flow)) error {
	wanted := func(epoch uint32) bool { return newer(epoch, clock.Collected) && !newer(epoch, ended) }
	if err := t.give(wanted, each); err != nil {
		return err
	}
	t.forget(ended)
	clock.Collected = ended
	if err := t.clock.Put(uint32(0), *clock); err != nil {
		return fmt.Errorf("end an interval of flows: %w", err)
	}
	return nil
}

// drain gives everything that has not been given, of a table that no program
// uses any more.
func (t *flowTable) drain(each func(Flow)) error {
	var clock abiFlowClock
	if err := t.clock.Lookup(uint32(0), &clock); err != nil {
		return fmt.Errorf("read the interval of flows: %w", err)
	}
	return t.give(func(epoch uint32) bool { return newer(epoch, clock.Collected) }, each)
}

// give gives the totals of intervals, summed over CPUs, of every entry that keeps
// its flow while it is read.
func (t *flowTable) give(wanted func(epoch uint32) bool, each func(Flow)) error {
	now := newFlowTime()
	sums := flowSums{by: make(map[abiFlowKey]*abiFlowTotals)}
	for i := range t.given {
		entry, ok, err := t.entry(int64(i) * int64(flowSize))
		if err != nil {
			return fmt.Errorf("read the table of flows: %w", err)
		}
		if ok { // else it gave way: the ring has it
			t.fresh(entry, wanted, sums.add)
		}
	}
	for _, key := range sums.order {
		each(t.decode(&key, sums.by[key], FlowInterval, now))
	}
	return nil
}

// entry reads what is at an offset, unless there is nothing, or another flow
// came to be there meanwhile. What it returns is good until the next call.
func (t *flowTable) entry(at int64) (*abiFlow, bool, error) {
	var id [2]uint64
	read := func(i int) error {
		_, err := t.memory.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&id[i])), 8), at+flowIDOffset)
		t.fence.Add(1) // reads stay on their side of it
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

// handedOver gives what is left of a flow that ended or gave way.
func (t *flowTable) handedOver(sample *abiFlowSample, each func(Flow)) {
	wanted := func(epoch uint32) bool { return newer(epoch, sample.Collected) }
	now, end := newFlowTime(), FlowEvicted
	if sample.Flow.Totals[0].Ended|sample.Flow.Totals[1].Ended != 0 {
		end = FlowInterval // what it did in one before
	}
	t.fresh(&sample.Flow, wanted, func(key *abiFlowKey, totals *abiFlowTotals) {
		each(t.decode(key, totals, end, now))
	})
}

// fresh hands on an entry's totals of the intervals that are wanted, oldest
// first, unless they have been given.
func (t *flowTable) fresh(entry *abiFlow, wanted func(uint32) bool, each func(*abiFlowKey, *abiFlowTotals)) {
	first, second := &entry.Totals[0], &entry.Totals[1]
	if newer(first.Epoch, second.Epoch) {
		first, second = second, first
	}
	for _, totals := range []*abiFlowTotals{first, second} {
		if totals.Packets > 0 && wanted(totals.Epoch) && t.take(int(entry.Index), givenFlow{entry.Id, totals.Epoch}) {
			each(&entry.Key, totals)
		}
	}
}

// take notes that a total is given; false says that it has been.
func (t *flowTable) take(index int, now givenFlow) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if index >= len(t.given) {
		return true // of a table that is gone
	}
	if given := t.given[index]; given.id == now.id && !newer(now.epoch, given.epoch) {
		return false
	}
	t.given[index] = now
	return true
}

// flowSums are totals by flow: packets of one may come over several CPUs.
type flowSums struct {
	by    map[abiFlowKey]*abiFlowTotals
	order []abiFlowKey
}

func (s *flowSums) add(key *abiFlowKey, t *abiFlowTotals) {
	sum := s.by[*key]
	if sum == nil {
		sum = new(abiFlowTotals)
		*sum = *t
		s.by[*key] = sum
		s.order = append(s.order, *key)
		return
	}
	sum.Packets += t.Packets
	sum.Bytes += t.Bytes
	sum.DelaySum += t.DelaySum
	sum.DelayCount += t.DelayCount
	sum.DelayMin, sum.DelayMax = min(sum.DelayMin, t.DelayMin), max(sum.DelayMax, t.DelayMax)
	sum.First, sum.Last = earlier(sum.First, t.First), later(sum.Last, t.Last)
	if sum.Numbers == 0 {
		sum.Lowest, sum.Highest = t.Lowest, t.Highest
	} else if t.Numbers > 0 {
		sum.Lowest, sum.Highest = earlier(sum.Lowest, t.Lowest), later(sum.Highest, t.Highest)
	}
	sum.Numbers += t.Numbers
	sum.Late += t.Late
	sum.Epoch = later(sum.Epoch, t.Epoch)
	sum.HopLimitMin, sum.HopLimitMax = min(sum.HopLimitMin, t.HopLimitMin), max(sum.HopLimitMax, t.HopLimitMax)
	sum.Ended |= t.Ended
}

// earlier and later order what wraps.
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

// flowTime turns the times of flows into UTC.
type flowTime struct {
	wall  time.Time
	ticks uint32
}

func newFlowTime() flowTime {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return flowTime{wall: time.Now()}
	}
	return flowTime{wall: time.Now(), ticks: uint32(ts.Nano() / coarseUnit)}
}

func (t flowTime) of(ticks uint32) time.Time {
	return t.wall.Add(-time.Duration(int32(t.ticks-ticks)) * coarseUnit).UTC()
}

func (t *flowTable) decode(key *abiFlowKey, totals *abiFlowTotals, end FlowEnd, now flowTime) Flow {
	if totals.Ended != 0 {
		end = FlowEnded
	}
	return Flow{
		End:            end,
		Role:           ioam.ExportRole(key.Role),
		Ingress:        ioam.IfIndex(key.Ingress),
		Egress:         ioam.IfIndex(key.Egress),
		Namespace:      ioam.NamespaceID(key.NamespaceId),
		Type:           ioam.TraceType(key.Type >> 8),
		ExtensionFlags: uint8(key.Type),
		FlowID:         key.FlowId,
		Flow:           decodeFlowKey(key),
		Packets:        totals.Packets,
		Bytes:          totals.Bytes,
		First:          now.of(totals.First),
		Last:           now.of(totals.Last),
		DelayCount:     totals.DelayCount,
		DelaySum:       time.Duration(totals.DelaySum),
		DelayMin:       time.Duration(totals.DelayMin),
		DelayMax:       time.Duration(totals.DelayMax),
		Skipped:        t.missing(key, totals),
		Late:           totals.Late,
		HopLimitMin:    totals.HopLimitMin,
		HopLimitMax:    totals.HopLimitMax,
	}
}

func decodeFlowKey(key *abiFlowKey) ioam.Flow {
	return ioam.Flow{
		Source:          addressOf(key.Source),
		Destination:     addressOf(key.Destination),
		FlowLabel:       be32(key.FlowLabel),
		NextHeader:      ioam.NextHeader(key.NextHeader),
		SourcePort:      be16(key.SourcePort),
		DestinationPort: be16(key.DestinationPort),
	}
}
