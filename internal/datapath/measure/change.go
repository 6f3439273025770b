// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/problem"
)

// Change is a change of the measured flows that may be undone.
type Change struct {
	table      *Table
	markings   *ebpf.Map
	before     bpf.ABIMarking
	added      []uint32                    // places of keys that this change entered
	reassigned map[uint32]uint32           // places of keys that it gave to other flows -> whose they were
	started    map[uint32]bpf.ABIFlowState // numbers of flows whose counting begins with it -> what was said of them
	ended      []uint32                    // places of keys that end with it
	numbers    map[string]counted
	length     uint64
	guard      uint64
}

// Begin makes programs count the flows of a generation, those of the previous one as
// well until finish. Flows that stay keep their counters. served is a number for the set of
// interfaces at which packets are counted; first: no earlier generation of this agent runs.
func (m *Flows) Begin(shared bpf.Maps, next, before *Table, served uint32, first bool) (*Change, error) {
	c := &Change{
		table: next, markings: shared[bpf.MapMarkings],
		reassigned: make(map[uint32]uint32), started: make(map[uint32]bpf.ABIFlowState), numbers: make(map[string]counted),
	}
	if err := c.markings.Lookup(uint32(0), &c.before); err != nil {
		return nil, fmt.Errorf("read map %s: %w", bpf.MapMarkings, err)
	}
	marking := m.marking
	marking.Seeds, marking.Served = c.before.Seeds, served
	c.length, c.guard = marking.Length, marking.Guard
	if c.table == nil {
		return c, c.mark(bpf.ABIMarking{Seeds: marking.Seeds})
	}
	marking.Room, marking.Places = c.table.room(), c.table.places()
	m.hash(marking.Seeds)
	anew := before != next || c.changes(marking)
	if first && c.before.Served != 0 && c.before.Served != served { // the set changed between two agents
		anew = true
	}
	err := c.enter(m, anew)
	if err == nil {
		err = c.mark(marking)
	}
	if err != nil {
		return nil, errors.Join(err, c.Undo())
	}
	return c, nil
}

func (c *Change) mark(m bpf.ABIMarking) error {
	if err := c.markings.Put(uint32(0), m); err != nil {
		return fmt.Errorf("fill map %s: %w", bpf.MapMarkings, err)
	}
	return nil
}

// enter gives each flow its number and its keys.
func (c *Change) enter(m *Flows, anew bool) error {
	known, keys := c.table.known(), c.table.keys.entries
	taken, given := make([]bool, c.table.room()), make([]bool, c.table.room())
	for _, place := range known {
		taken[keys[place].Number] = true
	}
	entered := make(map[segmentKey]int) // keys of this generation -> flow
	free := uint32(0)
	anew = anew || competes(m, known)
	for i := range m.flows {
		f := &m.flows[i]
		for _, k := range f.keys {
			if other, taken := entered[k]; taken && other != i {
				return fmt.Errorf("measured flows %q and %q have one key", m.flows[other].name, f.name)
			}
			entered[k] = i
		}
		at, ok := known[f.keys[0]]
		flow := counted{number: keys[at].Number, in: f.direction == uint32(bpf.ABIDirectionDIRECTION_IN), selection: f.packets}
		if ok = ok && !given[flow.number]; !ok { // that is of another flow now, which had both keys
			for free < c.table.room() && taken[free] {
				free++
			}
			if free == c.table.room() {
				return problem.New("no counters left for a measured flow", "change fewer flows at a time")
			}
			taken[free] = true
			flow.number = free
			c.table.clearNumber(free)
		}
		given[flow.number] = true
		isNew := func(k segmentKey) bool { _, had := known[k]; return !had }
		state := &c.table.flows.entries[flow.number]
		if !ok || anew || state.Monitor != f.monitor || slices.ContainsFunc(f.keys, isNew) {
			c.started[flow.number] = *state
			atomic.StoreUint64(&state.Since, notYet)
			atomic.StoreUint32(&state.Monitor, f.monitor)
		}
		flow.since, flow.way = state.Since, f.way()
		if known, ok := c.table.numbers[f.name]; ok && known.number == flow.number && state.Since != notYet {
			flow.since = known.since // that of the next agent may be later
		} else if _, begins := c.started[flow.number]; !begins && state.Since == notYet {
			c.started[flow.number] = *state // an earlier agent did not see all interfaces counted again
		}
		for _, k := range f.keys {
			place, err := c.put(k, flow.number, known)
			if err != nil {
				return err
			}
			flow.places = append(flow.places, place)
		}
		c.numbers[f.name] = flow
	}
	return c.enterSources(m, known, entered)
}

// enterSources enters the keys by which packets of no flow are found that are to lose
// their mark, and notes the keys that go.
func (c *Change) enterSources(m *Flows, known map[segmentKey]uint32, entered map[segmentKey]int) error {
	for i := range m.flows {
		f := &m.flows[i]
		if _, ok := entered[f.bySource]; ok || !m.clears(f) {
			continue
		}
		number := c.numbers[f.name].number
		if _, err := c.put(f.bySource, number, known); err != nil {
			return err
		}
		entered[f.bySource] = i
	}
	for k, place := range known {
		if _, stays := entered[k]; !stays {
			c.ended = append(c.ended, place)
		}
	}
	return nil
}

// put gives a key to a flow.
func (c *Change) put(k segmentKey, number uint32, known map[segmentKey]uint32) (place uint32, err error) {
	keys := c.table.table
	place, had := keys.find(k)
	if had {
		if before := keys.keys[place].Number; before != number {
			c.reassigned[place] = before
			keys.renumber(place, number)
		}
		return place, nil
	}
	place, ok := keys.vacancy(k)
	if !ok {
		return 0, problem.New("no place left for the key of a measured flow", "change fewer flows at a time")
	}
	c.table.clearPlace(place)
	keys.enter(place, k, number)
	c.added = append(c.added, place)
	return place, nil
}

// Finish ends the counting of flows that are gone, and only then says since when the others are
// counted: what goes may have taken packets from them until then.
func (c *Change) Finish() {
	if c.table == nil {
		return
	}
	for _, place := range c.ended {
		c.table.table.remove(place)
	}
	now := uint64(time.Now().UnixNano())
	for number := range c.started {
		atomic.StoreUint64(&c.table.flows.entries[number].Since, now)
	}
	for name, at := range c.numbers {
		if at.since == notYet {
			at.since = now
			c.numbers[name] = at
		}
	}
	c.table.mu.Lock()
	c.table.numbers, c.table.length, c.table.guard = c.numbers, c.length, c.guard
	c.table.mu.Unlock()
}

// Continues reports whether some flow keeps what was counted of it before.
func (c *Change) Continues() bool { return len(c.started) < len(c.numbers) }

// changes reports whether packets are marked or selected otherwise than before.
func (c *Change) changes(m bpf.ABIMarking) bool {
	before := c.before
	before.Room, before.Places, before.Served = m.Room, m.Places, m.Served
	return before != m
}

// competes reports whether flows that come may take packets from others, or flows that go leave
// packets to others. They may only if flows are selected in several ways.
func competes(m *Flows, known map[segmentKey]uint32) bool {
	if m.marking.Selected[0] < 2 && m.marking.Selected[1] < 2 {
		return false
	}
	stays := make(map[segmentKey]bool)
	for k := range m.each() {
		if _, had := known[k]; !had {
			return true
		}
		stays[k] = true
	}
	return len(stays) != len(known)
}

// Undo ends the counting of new flows, and leaves the others as they were.
func (c *Change) Undo() error {
	err := c.mark(c.before)
	if c.table == nil {
		return err
	}
	for _, place := range c.added {
		c.table.table.remove(place)
	}
	for place, number := range c.reassigned {
		c.table.table.renumber(place, number)
	}
	for number, before := range c.started {
		state := &c.table.flows.entries[number]
		atomic.StoreUint64(&state.Since, before.Since)
		atomic.StoreUint32(&state.Monitor, before.Monitor)
	}
	return err
}
