// SPDX-License-Identifier: Apache-2.0

package datapath

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
	"github.com/waymark-net/waymark/internal/loss"
)

// measuredMaps are the maps of measured flows, which are replaced together.
var measuredMaps = []string{mapMeasuredGroups, mapMeasuredKeys, mapMeasuredCounts, mapMeasuredNotes, mapMeasuredFlows}

// measuredTable is the keys and counters of measured flows.
type measuredTable struct {
	groups sharedArray[uint64]
	keys   sharedArray[ABIMeasuredKey]
	table  keyTable                    // of them
	counts sharedArray[ABIBlockCounts] // by CPU and slot, then by place of the key
	notes  sharedArray[ABIBlockNotes]  // by CPU and slot, then by number of the flow
	flows  sharedArray[ABIFlowState]   // by number

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

// newMeasuredTable maps the memory of all maps.
func newMeasuredTable(all mapSet) (t *measuredTable, err error) {
	t = &measuredTable{numbers: make(map[string]counted)}
	if t.groups, err = openArray[uint64](all[mapMeasuredGroups]); err == nil {
		t.keys, err = openArray[ABIMeasuredKey](all[mapMeasuredKeys])
	}
	if err == nil {
		t.counts, err = openArray[ABIBlockCounts](all[mapMeasuredCounts])
	}
	if err == nil {
		t.notes, err = openArray[ABIBlockNotes](all[mapMeasuredNotes])
	}
	if err == nil {
		t.flows, err = openArray[ABIFlowState](all[mapMeasuredFlows])
	}
	if err != nil {
		t.close()
		return nil, err
	}
	t.table = newKeyTable(t.groups.entries, t.keys.entries)
	return t, nil
}

func (t *measuredTable) close() {
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

func (t *measuredTable) places() uint32 { return uint32(len(t.keys.entries)) }
func (t *measuredTable) room() uint32   { return uint32(len(t.flows.entries)) }

// measuredSeeds are the seeds of the keys' hashes, which are chosen once.
func measuredSeeds(shared mapSet) ([2]uint64, error) {
	var m ABIMarking
	if err := shared[mapMarkings].Lookup(uint32(0), &m); err != nil {
		return m.Seeds, fmt.Errorf("read map %s: %w", mapMarkings, err)
	}
	if m.Seeds != ([2]uint64{}) {
		return m.Seeds, nil
	}
	m.Seeds = [2]uint64{rand.Uint64(), rand.Uint64() | 1}
	if err := shared[mapMarkings].Put(uint32(0), m); err != nil {
		return m.Seeds, fmt.Errorf("fill map %s: %w", mapMarkings, err)
	}
	return m.Seeds, nil
}

// takes reports whether there is room for the flows of a generation beside those that
// are counted now, which may be others.
func (t *measuredTable) takes(m *measuring) bool {
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
func (t *measuredTable) known() map[segmentKey]uint32 { return maps.Collect(t.table.all()) }

// slots is how many slots all CPUs have together.
func (t *measuredTable) slots() int { return len(t.counts.entries) / len(t.keys.entries) }

// clearPlace forgets what was counted by a key.
func (t *measuredTable) clearPlace(place uint32) {
	for i := range t.slots() {
		t.counts.entries[uint32(i)*t.places()+place] = ABIBlockCounts{}
	}
}

// clearNumber forgets what was noted of a flow.
func (t *measuredTable) clearNumber(number uint32) {
	t.flows.entries[number].Reported = 0
	for i := range t.slots() {
		t.notes.entries[uint32(i)*t.room()+number] = ABIBlockNotes{}
	}
}

// forget forgets what was counted and noted of a flow.
func (t *measuredTable) forget(flow string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, place := range t.numbers[flow].places {
		t.clearPlace(place)
	}
	t.clearNumber(t.numbers[flow].number)
}

// distrust notes for a later agent since when packets are counted at all interfaces;
// [coverage.Open]: at some, they are not.
func (t *measuredTable) distrust(since uint64) {
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

// read gives what was counted in a block, for every flow. Blocks that times in covered overlap
// are not Complete.
func (t *measuredTable) read(block uint64, covered *coverage.Log, visit func(BlockCounts)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	const kept = uint32(ABIMarkingBoundMARKING_SLOTS)
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
func (t *measuredTable) isWhole(at counted, block uint64) bool {
	start := block * t.length
	if at.in {
		start -= min(t.guard, start)
	}
	return at.since <= start
}

// report notes for a later agent that the loss of a flow's block was reported.
func (t *measuredTable) report(flow string, block uint64) {
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
func (t *measuredTable) isReported(number uint32, block uint64) bool {
	return t.flows.entries[number].Reported-uint32(block) <= memory
}

// sizes are the entries of the maps of measured flows; keep: those that a table
// has will do.
func (m *measuring) sizes(t *measuredTable, shared mapSet, cpus int) (sizes map[string]uint32, keep bool, err error) {
	if len(m.flows) == 0 {
		return nil, false, nil
	}
	seeds, err := measuredSeeds(shared)
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
	slots := uint32(ABIMarkingBoundMARKING_SLOTS) * uint32(cpus)
	return map[string]uint32{
		mapMeasuredGroups: places / keyGroup, mapMeasuredKeys: places, mapMeasuredCounts: places * slots, mapMeasuredNotes: room * slots, mapMeasuredFlows: room,
	}, keep, nil
}

// dropPartly closes the maps of measured flows among all if one is missing: another
// version's.
func dropPartly(all mapSet) {
	missing := func(name string) bool { return all[name] == nil }
	if !slices.ContainsFunc(measuredMaps, missing) {
		return
	}
	maps.DeleteFunc(all, func(name string, m *ebpf.Map) bool {
		if !slices.Contains(measuredMaps, name) {
			return false
		}
		m.Close()
		return true
	})
}
