// SPDX-License-Identifier: Apache-2.0

// Package measure serves the measurement of flows' loss and delay by alternate marking (RFC 9341,
// RFC 9343): which flows programs find and how they mark them, what they have counted in each
// block, and whether packets passed elsewhere.
package measure

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/loss"
)

// Maps are the maps of measured flows, which are replaced together.
var Maps = []string{bpf.MapMeasuredGroups, bpf.MapMeasuredKeys, bpf.MapMeasuredCounts, bpf.MapMeasuredNotes, bpf.MapMeasuredFlows}

// Table is the keys and counters of measured flows.
type Table struct {
	groups sharedArray[uint64]
	keys   sharedArray[bpf.ABIMeasuredKey]
	table  keyTable                        // of them
	counts sharedArray[bpf.ABIBlockCounts] // by CPU and slot, then by place of the key
	notes  sharedArray[bpf.ABIBlockNotes]  // by CPU and slot, then by number of the flow
	flows  sharedArray[bpf.ABIFlowState]   // by number

	mu      sync.Mutex
	length  uint64             // of a block, ns
	guard   uint64             // within which packets of a block may come before or after it
	numbers map[string]counted // by flow
}

// notYet is the beginning of counting until the programs are in force.
const notYet = math.MaxUint64

// counted is where a flow is counted.
type counted struct {
	number uint32
	places []uint32 // of its keys
	since  uint64   // ns of UTC
	in     bool     // where packets arrive
	// selection is what is counted, since then at least.
	selection loss.Selection
	way       coverage.Ways
}

// NewTable maps the memory of all maps.
func NewTable(all bpf.Maps) (t *Table, err error) {
	t = &Table{numbers: make(map[string]counted)}
	if t.groups, err = openArray[uint64](all[bpf.MapMeasuredGroups]); err == nil {
		t.keys, err = openArray[bpf.ABIMeasuredKey](all[bpf.MapMeasuredKeys])
	}
	if err == nil {
		t.counts, err = openArray[bpf.ABIBlockCounts](all[bpf.MapMeasuredCounts])
	}
	if err == nil {
		t.notes, err = openArray[bpf.ABIBlockNotes](all[bpf.MapMeasuredNotes])
	}
	if err == nil {
		t.flows, err = openArray[bpf.ABIFlowState](all[bpf.MapMeasuredFlows])
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	t.table = newKeyTable(t.groups.entries, t.keys.entries)
	return t, nil
}

// Close gives the memory back.
func (t *Table) Close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.groups.close()
	t.keys.close()
	t.counts.close()
	t.notes.close()
	t.flows.close()
	t.table, t.numbers = keyTable{}, nil
}

func (t *Table) places() uint32 { return uint32(len(t.keys.entries)) }
func (t *Table) room() uint32   { return uint32(len(t.flows.entries)) }

// seedsOf are the seeds of the keys' hashes, which are chosen once.
func seedsOf(shared bpf.Maps) ([2]uint64, error) {
	var m bpf.ABIMarking
	if err := shared[bpf.MapMarkings].Lookup(uint32(0), &m); err != nil {
		return m.Seeds, fmt.Errorf("read map %s: %w", bpf.MapMarkings, err)
	}
	if m.Seeds != ([2]uint64{}) {
		return m.Seeds, nil
	}
	m.Seeds = [2]uint64{rand.Uint64(), rand.Uint64() | 1}
	if err := shared[bpf.MapMarkings].Put(uint32(0), m); err != nil {
		return m.Seeds, fmt.Errorf("fill map %s: %w", bpf.MapMarkings, err)
	}
	return m.Seeds, nil
}

// takes reports whether there is room for the flows of a generation besides those that
// are counted now, which may be others.
func (t *Table) takes(m *Flows) bool {
	if t == nil || m.keys() > t.places()/2 || uint32(len(m.flows)) > t.room() {
		return false
	}
	known, numbers, given, fresh := t.known(), make(map[uint32]bool), make(map[uint32]bool), 0
	for _, place := range known {
		numbers[t.keys.entries[place].Number] = true
	}
	for i := range m.flows {
		place, ok := known[m.flows[i].keys[0]]
		if number := t.keys.entries[place].Number; ok && !given[number] {
			given[number] = true
		} else {
			fresh++
		}
	}
	return len(numbers)+fresh <= int(t.room()) && m.fits(t.table.clone())
}

// known are the keys that programs have, and their places.
func (t *Table) known() map[segmentKey]uint32 { return maps.Collect(t.table.all()) }

// slots is how many slots all CPUs have together.
func (t *Table) slots() int { return len(t.counts.entries) / len(t.keys.entries) }

// clearPlace forgets what was counted by a key.
func (t *Table) clearPlace(place uint32) {
	for i := range t.slots() {
		t.counts.entries[uint32(i)*t.places()+place] = bpf.ABIBlockCounts{}
	}
}

// clearNumber forgets what was noted of a flow.
func (t *Table) clearNumber(number uint32) {
	t.flows.entries[number].Reported = 0
	for i := range t.slots() {
		t.notes.entries[uint32(i)*t.room()+number] = bpf.ABIBlockNotes{}
	}
}

// Forget forgets what was counted and noted of a flow.
func (t *Table) Forget(flow string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, place := range t.numbers[flow].places {
		t.clearPlace(place)
	}
	t.clearNumber(t.numbers[flow].number)
}

// Distrust notes for a later agent since when packets are counted at all interfaces;
// [coverage.Open]: at some, they are not.
func (t *Table) Distrust(since uint64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if since == coverage.Open {
		since = notYet
	}
	for _, at := range t.numbers {
		atomic.StoreUint64(&t.flows.entries[at.number].Since, max(since, at.since))
	}
}

// Read gives what was counted in a block, for every flow. Blocks that times in covered overlap
// are not Complete.
func (t *Table) Read(block uint64, covered *coverage.Log, visit func(BlockCounts)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	const kept = uint32(bpf.ABIMarkingBoundMARKING_SLOTS)
	slot := int(block % uint64(kept))
	for name, at := range t.numbers {
		sum := BlockCounts{Flow: name, Block: block, Complete: t.isWhole(at, block), Selection: at.selection}
		sum.Reported = t.isReported(at.number, block)
		if last := t.flows.entries[at.number].Reported; last != 0 {
			sum.LastReported = block + uint64(int32(last-uint32(block)))
		}
		sum.Uncovered = covered.Within(name, at.way, int64(block*t.length-t.guard), int64((block+1)*t.length+t.guard))
		sum.Complete = sum.Complete && sum.Uncovered == 0
		for i := slot; i < t.slots(); i += int(kept) {
			for _, place := range at.places {
				sum.add(&t.counts.entries[uint32(i)*t.places()+place])
			}
			sum.addNotes(&t.notes.entries[uint32(i)*t.room()+at.number])
		}
		visit(sum)
	}
}

// isWhole reports whether a flow was counted since the first packets of a block could come: those
// that arrive may be early by the guard.
func (t *Table) isWhole(at counted, block uint64) bool {
	start := block * t.length
	if at.in {
		start -= min(t.guard, start)
	}
	return at.since <= start
}

// Report notes for a later agent that the loss of a flow's block was reported.
func (t *Table) Report(flow string, block uint64) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.numbers[flow]; ok && !t.isReported(at.number, block) {
		t.flows.entries[at.number].Reported = uint32(block)
	}
}

// isReported reports whether this block, or a later one, was reported.
func (t *Table) isReported(number uint32, block uint64) bool {
	return t.flows.entries[number].Reported-uint32(block) <= memory
}

// Sizes are the entries of the maps of measured flows; keep: those that a table
// has will do.
func (m *Flows) Sizes(t *Table, shared bpf.Maps, cpus int) (sizes map[string]uint32, keep bool, err error) {
	if len(m.flows) == 0 {
		return nil, false, nil
	}
	seeds, err := seedsOf(shared)
	if err != nil {
		return nil, false, err
	}
	m.hash(seeds)
	places, room := uint32(0), m.room()
	if t.takes(m) {
		places, room, keep = t.places(), t.room(), true
	} else if places, err = m.places(); err != nil {
		return nil, false, err
	}
	slots := uint32(bpf.ABIMarkingBoundMARKING_SLOTS) * uint32(cpus)
	return map[string]uint32{
		bpf.MapMeasuredGroups: places / keyGroup, bpf.MapMeasuredKeys: places, bpf.MapMeasuredCounts: places * slots,
		bpf.MapMeasuredNotes: room * slots, bpf.MapMeasuredFlows: room,
	}, keep, nil
}

// DropPartly closes the maps of measured flows among all if one is missing: another
// version's.
func DropPartly(all bpf.Maps) {
	missing := func(name string) bool { return all[name] == nil }
	if !slices.ContainsFunc(Maps, missing) {
		return
	}
	maps.DeleteFunc(all, func(name string, m *ebpf.Map) bool {
		if !slices.Contains(Maps, name) {
			return false
		}
		m.Close()
		return true
	})
}
