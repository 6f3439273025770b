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
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/loss"
)

// BlockCounts is what this node counted of a flow in one block.
type BlockCounts struct {
	Flow    string
	Block   uint64 // its number
	Packets uint64
	Octets  uint64 // of IPv6 packets
	// TimeSum is the sum of the packets' times since the block's start in ns, modulo
	// 2^64: the difference of two nodes' sums is the sum of delays. Without MeanDelay,
	// times may be a tick of the kernel old.
	TimeSum      uint64
	DelayPackets uint64 // with a delay mark
	DelayTimeSum uint64 // of them
	Late, Early  uint64 // packets farther from their block than the guard
	Unmarked     uint64 // packets without a colour, not in Packets
	Unsized      uint64 // offloaded packets whose headers are unknown, so Octets is too small
	Complete     bool   // the flow was counted from the block's start, and every packet
	LastReported uint64 // the last block, as of this agent or an earlier one; 0: none
	Reported     bool   // an agent has reported the block's loss, see [Datapath.BlockReported]
	// Selection is what was counted in the flow; in the whole of the block if it is Complete.
	Selection loss.Selection
	// Uncovered is why packets of the block may have passed an interface uncounted. Such a
	// block is not Complete.
	Uncovered loss.Reasons
}

// measuredMaps are the maps of measured flows, which are replaced together.
var measuredMaps = []string{mapMeasuredGroups, mapMeasuredKeys, mapMeasuredCounts, mapMeasuredNotes, mapMeasuredFlows}

// sharedArray is the entries of a map, in memory that programs and agent share.
type sharedArray[T any] struct {
	entries []T
	memory  []byte
}

func openArray[T any](m *ebpf.Map) (a sharedArray[T], err error) {
	entries := int(m.MaxEntries())
	a.memory, err = unix.Mmap(m.FD(), 0, entries*int(unsafe.Sizeof(*new(T))), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return a, fmt.Errorf("map the memory of measured flows: %w", err)
	}
	a.entries = unsafe.Slice((*T)(unsafe.Pointer(&a.memory[0])), entries)
	return a, nil
}

func (a *sharedArray[T]) close() {
	if a.memory != nil {
		_ = unix.Munmap(a.memory)
		a.memory, a.entries = nil, nil
	}
}

// measuredTable is the keys and counters of measured flows.
type measuredTable struct {
	groups sharedArray[uint64]
	keys   sharedArray[abiMeasuredKey]
	table  keyTable                    // of them
	counts sharedArray[abiBlockCounts] // by CPU and slot, then by place of the key
	notes  sharedArray[abiBlockNotes]  // by CPU and slot, then by number of the flow
	flows  sharedArray[abiFlowState]   // by number

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
		t.keys, err = openArray[abiMeasuredKey](all[mapMeasuredKeys])
	}
	if err == nil {
		t.counts, err = openArray[abiBlockCounts](all[mapMeasuredCounts])
	}
	if err == nil {
		t.notes, err = openArray[abiBlockNotes](all[mapMeasuredNotes])
	}
	if err == nil {
		t.flows, err = openArray[abiFlowState](all[mapMeasuredFlows])
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

// measuredSizes are the entries of the maps of measured flows; keep: those that the
// tables have will do.
func (g *generation) measuredSizes(t *tables, shared mapSet, cpus int) (sizes map[string]uint32, keep bool, err error) {
	m := &g.measuring
	if len(m.flows) == 0 {
		return nil, false, nil
	}
	seeds, err := measuredSeeds(shared)
	if err != nil {
		return nil, false, err
	}
	m.hash(seeds)
	places, room := uint32(0), m.room()
	if t.measured.takes(m) {
		places, room, keep = t.measured.places(), t.measured.room(), true
	} else if places, err = m.places(); err != nil {
		return nil, false, err
	}
	slots := uint32(abiMarkingBoundMARKING_SLOTS) * uint32(cpus)
	return map[string]uint32{
		mapMeasuredGroups: places / keyGroup, mapMeasuredKeys: places, mapMeasuredCounts: places * slots, mapMeasuredNotes: room * slots, mapMeasuredFlows: room,
	}, keep, nil
}

// measuredSeeds are the seeds of the keys' hashes, which are chosen once.
func measuredSeeds(shared mapSet) ([2]uint64, error) {
	var m abiMarking
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

// openMeasured opens the counters, if there are any.
func (t *tables) openMeasured() (err error) {
	if t.maps[mapMeasuredKeys] != nil {
		t.measured, err = newMeasuredTable(t.maps)
	}
	return err
}

// dropPartlyMeasured closes the maps of measured flows if one is missing: another
// version's.
func (t *tables) dropPartlyMeasured() {
	missing := func(name string) bool { return t.maps[name] == nil }
	if !slices.ContainsFunc(measuredMaps, missing) {
		return
	}
	maps.DeleteFunc(t.maps, func(name string, m *ebpf.Map) bool {
		if !slices.Contains(measuredMaps, name) {
			return false
		}
		m.Close()
		return true
	})
}

// nextMeasured opens the counters of the next tables, which may be the same.
func (t *tables) nextMeasured(before *tables) error {
	if t.maps[mapMeasuredKeys] == before.maps[mapMeasuredKeys] {
		t.measured = before.measured
		return nil
	}
	return t.openMeasured()
}

// slots is how many slots all CPUs have together.
func (t *measuredTable) slots() int { return len(t.counts.entries) / len(t.keys.entries) }

// clearPlace forgets what was counted by a key.
func (t *measuredTable) clearPlace(place uint32) {
	for i := range t.slots() {
		t.counts.entries[uint32(i)*t.places()+place] = abiBlockCounts{}
	}
}

// clearNumber forgets what was noted of a flow.
func (t *measuredTable) clearNumber(number uint32) {
	t.flows.entries[number].Reported = 0
	for i := range t.slots() {
		t.notes.entries[uint32(i)*t.room()+number] = abiBlockNotes{}
	}
}

// Blocks gives what was counted in a block, for every measured flow. It is final half a
// block after the block's end, and is kept for two blocks and a half after it. If packets of a
// later block have overwritten it before, it is not Complete.
func (d *Datapath) Blocks(block uint64, visit func(BlockCounts)) {
	d.measured.Load().read(block, d.coverage, visit)
}

// Coverage knows when interfaces at which measured packets may pass were not counted. Who
// notices such a time tells it; blocks that it overlaps are not Complete.
func (d *Datapath) Coverage() *coverage.Log { return d.coverage }

// countedSince notes for a later agent since when packets are counted at all interfaces;
// [coverage.Open]: at some, they are not.
func (d *Datapath) countedSince(at int64) { d.measured.Load().distrust(uint64(at)) }

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

func (t *measuredTable) read(block uint64, covered *coverage.Log, visit func(BlockCounts)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	const kept = uint32(abiMarkingBoundMARKING_SLOTS)
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

// BlockReported notes for a later agent that the loss of a flow's block was reported.
// Flows that are not measured are ignored.
func (d *Datapath) BlockReported(flow string, block uint64) { d.measured.Load().report(flow, block) }

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

// memory is how many blocks later another one is still compared: two turns of the slots.
// Greater differences are those of clocks that were set, or of another length of blocks.
const memory = 2 * uint32(abiMarkingBoundMARKING_SLOTS)

// isLater reports whether what a CPU counted is of a later block that took the place of
// this one.
func (b *BlockCounts) isLater(block uint32) bool { return block-uint32(b.Block)-1 < memory }

// add adds one CPU's counters, if they are of the block.
func (b *BlockCounts) add(c *abiBlockCounts) {
	if c.Block != b.Block {
		b.Complete = b.Complete && !b.isLater(uint32(c.Block))
		return
	}
	b.Packets += c.Packets
	b.Octets += c.Octets
	b.TimeSum += c.Time
}

// uncounted is UNCOUNTED of the programs.
const uncounted = 1 << 31

// addNotes adds what one CPU noted, if it is of the block.
func (b *BlockCounts) addNotes(n *abiBlockNotes) {
	if n.Block != uint32(b.Block) {
		b.Complete = b.Complete && !b.isLater(n.Block)
		return
	}
	b.DelayPackets += uint64(n.DelayPackets)
	b.DelayTimeSum += n.DelayTime
	b.Late += uint64(n.Late)
	b.Early += uint64(n.Early)
	b.Unmarked += uint64(n.Unmarked)
	b.Unsized += uint64(n.Unsized &^ uncounted)
	b.Complete = b.Complete && n.Unsized&uncounted == 0
}
