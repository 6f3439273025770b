// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
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
}

// measuredTable is the counters of measured flows, in memory that programs and agent
// share.
type measuredTable struct {
	flows  *ebpf.Map
	memory []byte
	blocks []abiFlowBlocks // by CPU, then by number
	room   uint32          // flows of a CPU

	mu      sync.Mutex
	length  uint64             // of a block, ns
	numbers map[string]counted // by flow
}

// notYet is the beginning of counting until the programs are in force.
const notYet = math.MaxUint64

// counted is where a flow is counted.
type counted struct {
	number uint32
	since  uint64 // ns of UTC
}

const flowBlocksSize = int(unsafe.Sizeof(abiFlowBlocks{}))

func newMeasuredTable(flows, blocks *ebpf.Map) (*measuredTable, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	entries := int(blocks.MaxEntries())
	memory, err := unix.Mmap(blocks.FD(), 0, entries*flowBlocksSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the counters of measured flows: %w", err)
	}
	return &measuredTable{
		flows: flows, memory: memory, room: uint32(entries / cpus), numbers: make(map[string]counted),
		blocks: unsafe.Slice((*abiFlowBlocks)(unsafe.Pointer(&memory[0])), entries),
	}, nil
}

func (t *measuredTable) close() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.memory != nil {
		_ = unix.Munmap(t.memory)
		t.memory, t.blocks, t.numbers = nil, nil, nil
	}
}

// openMeasured opens the counters, if there are any.
func (t *tables) openMeasured() (err error) {
	flows, blocks := t.maps[mapMeasuredFlows], t.maps[mapMeasuredBlocks]
	if flows != nil && blocks != nil {
		t.measured, err = newMeasuredTable(flows, blocks)
	}
	return err
}

// nextMeasured opens the counters of the next tables, which may be the same.
func (t *tables) nextMeasured(before *tables) error {
	if t.maps[mapMeasuredFlows] == before.maps[mapMeasuredFlows] && t.maps[mapMeasuredBlocks] == before.maps[mapMeasuredBlocks] {
		t.measured = before.measured
		return nil
	}
	return t.openMeasured()
}

// clear forgets what was counted in a flow's place.
func (t *measuredTable) clear(number uint32) {
	for at := number; at < uint32(len(t.blocks)); at += t.room {
		t.blocks[at] = abiFlowBlocks{}
	}
}

// measuredChange is a change of the measured flows that may be undone.
type measuredChange struct {
	table    *measuredTable
	markings *ebpf.Map
	before   abiMarking
	added    []abiMeasuredKey
	begun    map[abiMeasuredKey]abiMeasuredFlow // counting begins with this change
	gone     []abiMeasuredKey
	numbers  map[string]counted
	length   uint64
}

// measure makes programs count the flows of a generation, those of the previous one as
// well until finish. Flows that stay keep their counters.
func (g *generation) measure(shared mapSet, next, before *tables) (*measuredChange, error) {
	c := &measuredChange{table: next.measured, markings: shared[mapMarkings], numbers: make(map[string]counted)}
	if err := c.markings.Lookup(uint32(0), &c.before); err != nil {
		return nil, fmt.Errorf("read map %s: %w", mapMarkings, err)
	}
	m := g.measuring.marking
	m.Seeds, c.length = c.before.Seeds, m.Length
	if m.Seeds == ([2]uint64{}) {
		m.Seeds = [2]uint64{rand.Uint64(), rand.Uint64()}
	}
	if c.table == nil {
		return c, c.mark(abiMarking{Seeds: m.Seeds})
	}
	m.Room = c.table.room
	known, err := knownFlows(before, next)
	if err != nil {
		return nil, err
	}
	anew := before.measured != next.measured || c.changes(m)
	if err := c.enter(&g.measuring, m.Seeds, known, anew); err != nil {
		return nil, errors.Join(err, c.undo())
	}
	if err := c.mark(m); err != nil {
		return nil, errors.Join(err, c.undo())
	}
	return c, nil
}

func (c *measuredChange) mark(m abiMarking) error {
	if err := c.markings.Put(uint32(0), m); err != nil {
		return fmt.Errorf("fill map %s: %w", mapMarkings, err)
	}
	return nil
}

// knownFlows are the keys that programs have already, if their counters stay.
func knownFlows(before, next *tables) (map[abiMeasuredKey]abiMeasuredFlow, error) {
	known := make(map[abiMeasuredKey]abiMeasuredFlow)
	if before.measured == nil || before.measured != next.measured {
		return known, nil
	}
	var key abiMeasuredKey
	var flow abiMeasuredFlow
	it := before.measured.flows.Iterate()
	for it.Next(&key, &flow) {
		known[key] = flow
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read map %s: %w", mapMeasuredFlows, err)
	}
	return known, nil
}

// enter gives each flow its number and its keys.
func (c *measuredChange) enter(m *measuring, seeds [2]uint64, known map[abiMeasuredKey]abiMeasuredFlow, anew bool) error {
	taken := make([]bool, c.table.room)
	for _, f := range known {
		if f.Number < c.table.room {
			taken[f.Number] = true
		}
	}
	entries := make(map[abiMeasuredKey]abiMeasuredFlow)
	free := uint32(0)
	anew = anew || competes(m, seeds, known)
	for i := range m.flows {
		f := &m.flows[i]
		keys := f.keysOf(seeds)
		flow, ok := known[keys[0]]
		if !ok {
			for free < c.table.room && taken[free] {
				free++
			}
			if free == c.table.room {
				return errors.New("no counters left for a measured flow; change fewer flows at a time")
			}
			taken[free] = true
			flow = abiMeasuredFlow{Number: free}
			c.table.clear(free)
		}
		if !ok || anew || slices.ContainsFunc(keys, func(k abiMeasuredKey) bool { _, had := known[k]; return !had }) {
			flow.Since = notYet
		}
		c.numbers[f.name] = counted{flow.Number, flow.Since}
		for _, k := range keys {
			if other, dup := entries[k]; dup && other.Number != flow.Number {
				return fmt.Errorf("measured flow %q: another flow has the same source and segments; give each a traffic-class, flow-label or destination", f.name)
			}
			entries[k] = flow
		}
		if k := f.sourceKey(seeds); m.marking.Clears != 0 && f.direction == uint32(abiDirectionDIRECTION_OUT) {
			if _, ok := entries[k]; !ok {
				entries[k] = flow
			}
		}
	}
	return c.write(entries, known)
}

// write puts the keys that programs do not have yet, and notes those that go.
func (c *measuredChange) write(entries, known map[abiMeasuredKey]abiMeasuredFlow) error {
	var keys []abiMeasuredKey
	var flows []abiMeasuredFlow
	c.begun = make(map[abiMeasuredKey]abiMeasuredFlow)
	for k, f := range entries {
		if f.Since == notYet {
			c.begun[k] = f
		}
		if before, ok := known[k]; ok && before == f {
			continue
		} else if !ok {
			c.added = append(c.added, k)
		}
		keys, flows = append(keys, k), append(flows, f)
	}
	for k := range known {
		if _, stays := entries[k]; !stays {
			c.gone = append(c.gone, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := c.table.flows.BatchUpdate(keys, flows, nil); err != nil {
		return fmt.Errorf("fill map %s: %w", mapMeasuredFlows, err)
	}
	return nil
}

// finish ends the counting of flows that are gone.
func (c *measuredChange) finish() error {
	if c.table == nil {
		return nil
	}
	err := c.begin(uint64(time.Now().UnixNano()))
	c.table.mu.Lock()
	c.table.numbers, c.table.length = c.numbers, c.length
	c.table.mu.Unlock()
	return errors.Join(err, c.remove(c.gone))
}

// begin notes that the programs in force count the new flows.
func (c *measuredChange) begin(now uint64) error {
	for name, at := range c.numbers {
		if at.since == notYet {
			c.numbers[name] = counted{at.number, now}
		}
	}
	if len(c.begun) == 0 {
		return nil
	}
	var keys []abiMeasuredKey
	var flows []abiMeasuredFlow
	for k, f := range c.begun {
		f.Since = now
		keys, flows = append(keys, k), append(flows, f)
	}
	if _, err := c.table.flows.BatchUpdate(keys, flows, nil); err != nil {
		return fmt.Errorf("fill map %s: %w", mapMeasuredFlows, err)
	}
	return nil
}

// changes reports whether packets are marked or selected otherwise than before.
func (c *measuredChange) changes(m abiMarking) bool {
	before := c.before
	before.Room = m.Room
	return before != m
}

// competes reports whether flows that come or go may take packets from others, or leave
// them to others: only if there are several ways to select a flow.
func competes(m *measuring, seeds [2]uint64, known map[abiMeasuredKey]abiMeasuredFlow) bool {
	if m.marking.Selected[0] < 2 && m.marking.Selected[1] < 2 {
		return false
	}
	same := 0
	for i := range m.flows {
		for _, k := range m.flows[i].keysOf(seeds) {
			if _, had := known[k]; !had {
				return true
			}
			same++
		}
	}
	return m.marking.Clears == 0 && same != len(known)
}

// undo ends the counting of new flows.
func (c *measuredChange) undo() error {
	err := c.mark(c.before)
	if c.table != nil {
		err = errors.Join(err, c.remove(c.added))
	}
	return err
}

func (c *measuredChange) remove(keys []abiMeasuredKey) error {
	for _, k := range keys {
		if err := c.table.flows.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove a measured flow: %w", err)
		}
	}
	return nil
}

// Blocks gives what was counted in a block, for every measured flow. It is final once
// the guard after the block's end has passed, and is kept for three blocks.
func (d *Datapath) Blocks(block uint64, visit func(BlockCounts)) {
	d.measured.Load().read(block, visit)
}

func (t *measuredTable) read(block uint64, visit func(BlockCounts)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, at := range t.numbers {
		sum := BlockCounts{Flow: name, Block: block, Complete: at.since <= block*t.length}
		for i := at.number; i < uint32(len(t.blocks)); i += t.room {
			sum.add(&t.blocks[i].Slots[block%uint64(abiMarkingBoundMARKING_SLOTS)])
		}
		visit(sum)
	}
}

// add adds one CPU's counters, if they are of the block.
func (b *BlockCounts) add(c *abiBlockCounts) {
	if c.Block != b.Block {
		return
	}
	b.Packets += c.Packets
	b.Octets += c.Octets
	b.TimeSum += c.Time
	b.DelayPackets += uint64(c.DelayPackets)
	b.DelayTimeSum += c.DelayTime
	b.Late += uint64(c.Late)
	b.Early += uint64(c.Early)
	b.Unmarked += uint64(c.Unmarked)
	b.Unsized += uint64(c.Unsized)
	b.Complete = b.Complete && c.Uncounted == 0
}
