// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"sync"
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

	mu    sync.Mutex
	given []givenFlow // by entry
}

// givenFlow is the last that was told about an entry.
type givenFlow struct {
	id    uint64
	epoch uint32
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
	ended := clock.Epoch
	clock.Epoch++
	if err := t.clock.Put(uint32(0), clock); err != nil {
		return fmt.Errorf("begin an interval of flows: %w", err)
	}
	time.Sleep(flowSettling)
	// an agent that was killed may have left more than one
	wanted := func(epoch uint32) bool { return newer(epoch, clock.Collected) && !newer(epoch, ended) }
	if err := t.give(wanted, each); err != nil {
		return err
	}
	clock.Collected = ended
	if err := t.clock.Put(uint32(0), clock); err != nil {
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

// give gives the totals of intervals, of every entry that keeps its flow while
// it is read.
func (t *flowTable) give(wanted func(epoch uint32) bool, each func(Flow)) error {
	now := newFlowTime()
	var entry abiFlow
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&entry)), flowSize)
	id := make([]byte, 8)
	for i := range t.given {
		at := int64(i) * int64(flowSize)
		if _, err := t.memory.ReadAt(raw, at); err != nil {
			return fmt.Errorf("read the table of flows: %w", err)
		}
		if entry.Id == 0 {
			continue
		}
		if _, err := t.memory.ReadAt(id, at+flowIDOffset); err != nil {
			return fmt.Errorf("read the table of flows: %w", err)
		}
		if *(*uint64)(unsafe.Pointer(&id[0])) != entry.Id {
			continue // it gave way: the ring has it
		}
		t.tell(i, &entry, wanted, FlowInterval, now, each)
	}
	return nil
}

// evicted gives what is left of a flow that gave way.
func (t *flowTable) evicted(sample *abiFlowSample, each func(Flow)) {
	wanted := func(epoch uint32) bool { return newer(epoch, sample.Collected) }
	t.tell(int(sample.Index), &sample.Flow, wanted, FlowEvicted, newFlowTime(), each)
}

// tell gives an entry's totals of the intervals that are wanted, oldest first,
// unless they have been given.
func (t *flowTable) tell(index int, entry *abiFlow, wanted func(uint32) bool, reason FlowEnd, now flowTime, each func(Flow)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, second := &entry.Totals[0], &entry.Totals[1]
	if newer(first.Epoch, second.Epoch) {
		first, second = second, first
	}
	var elsewhere givenFlow // of a table that is gone
	for _, totals := range []*abiFlowTotals{first, second} {
		given := &elsewhere
		if index < len(t.given) {
			given = &t.given[index]
		}
		if totals.Packets == 0 || !wanted(totals.Epoch) || given.id == entry.Id && !newer(totals.Epoch, given.epoch) {
			continue
		}
		*given = givenFlow{entry.Id, totals.Epoch}
		f := decodeFlow(&entry.Key, totals, now)
		if f.End = reason; totals.Ended != 0 {
			f.End = FlowEnded
		}
		each(f)
	}
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

func decodeFlow(key *abiFlowKey, totals *abiFlowTotals, now flowTime) Flow {
	return Flow{
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
		Skipped:        totals.Skipped,
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
