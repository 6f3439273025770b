// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/undo"
	"github.com/waymark-net/waymark/internal/model"
)

// variant identifies one program of a set: what is compiled in besides the node's
// constants.
type variant struct {
	hook       hookName
	linkHeader uint8
	fast       bool
}

// programSet holds the programs that all interfaces share, and the maps with the
// tables of two generations: the one in use, and the previous one, which the next
// one replaces.
type programSet struct {
	node     bpf.ABINodeConfig // as compiled
	loaded   bpf.ABINodeConfig // as loaded, with this set's keys
	capacity compile.Capacity
	maps     bpf.Maps // tables that belong to the set
	all      bpf.Maps // also those that outlive the set
	programs map[variant]*ebpf.Program
	memory   []byte // memory of mapState
	filled   [2]*compile.Generation
	slots    map[model.IfIndex]uint32 // slots in the map of tallies
	quiet    chan struct{}            // closed once no packet uses the other tables
}

// newProgramSet makes the maps for a generation. Programs are loaded on demand.
func newProgramSet(g *compile.Generation, specs map[string]*ebpf.MapSpec, kept bpf.Maps) (_ *programSet, err error) {
	s := &programSet{
		node: g.Node, loaded: g.Node, capacity: g.Needs().Rounded(),
		maps: make(bpf.Maps), all: make(bpf.Maps), programs: make(map[variant]*ebpf.Program),
		slots: make(map[model.IfIndex]uint32), quiet: make(chan struct{}),
	}
	close(s.quiet)
	var made undo.Stack
	defer made.OnError(&err)
	made.AddClose(s.close)
	for i := range s.loaded.HashKeys {
		s.loaded.HashKeys[i] = rand.Uint64()
	}
	for i := range s.loaded.TableKeys {
		s.loaded.TableKeys[i] = rand.Uint64()
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	sizes := s.capacity.Sizes()
	sizes[bpf.MapNextHops] = g.Node.NextHopSets * uint32(cpus)
	sizes[bpf.MapTallies] = s.capacity.Interfaces
	sizes[bpf.MapState] = 1
	for name, size := range sizes {
		spec := specs[name].Copy()
		spec.MaxEntries = size
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return nil, fmt.Errorf("create map %s: %w", name, err)
		}
		s.maps[name], s.all[name] = m, m
	}
	for name, m := range kept {
		s.all[name] = m
	}
	if s.memory, err = unix.Mmap(s.maps[bpf.MapState].FD(), 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map the state of the tables: %w", err)
	}
	return s, nil
}

// serves reports whether a generation needs no other programs or maps.
func (s *programSet) serves(g *compile.Generation, kept bpf.Maps) bool {
	if !s.isCompiledFor(g.Node) || !s.capacity.Fits(g.Needs()) || s.slotsWith(g) > s.capacity.Interfaces {
		return false
	}
	for name, m := range kept {
		if s.all[name] != m {
			return false
		}
	}
	return true
}

// slotsWith is how many slots are in use during a change of generation: the slots
// of dropped interfaces are only freed afterwards.
func (s *programSet) slotsWith(g *compile.Generation) uint32 {
	taken := uint32(len(s.slots))
	for _, in := range g.Interfaces {
		if _, has := s.slots[in.Index]; !has {
			taken++
		}
	}
	return taken
}

// isCompiledFor reports whether programs with the set's constants treat packets
// as programs compiled for node would. An extra feature only finds nothing to do.
func (s *programSet) isCompiledFor(node bpf.ABINodeConfig) bool {
	have := s.node
	for _, feature := range []struct{ have, needed *uint8 }{
		{&have.HasEdges, &node.HasEdges}, {&have.HasSources, &node.HasSources}, {&have.HasRemovals, &node.HasRemovals},
		{&have.HasEncapsulations, &node.HasEncapsulations}, {&have.InsertsInline, &node.InsertsInline},
		{&have.HasPostcards, &node.HasPostcards}, {&have.InsertsDex, &node.InsertsDex}, {&have.Measures, &node.Measures},
		{&have.HasProofs, &node.HasProofs}, {&have.InsertsProofs, &node.InsertsProofs},
		{&have.InsertsMark, &node.InsertsMark}, {&have.HasE2e, &node.HasE2e}, {&have.InsertsE2e, &node.InsertsE2e},
		{&have.TraceFlags, &node.TraceFlags}, {&have.AsksLoopback, &node.AsksLoopback}, {&have.Nests, &node.Nests},
		{&have.HasDelays, &node.HasDelays}, {&have.HasBudgets, &node.HasBudgets}, {&have.Strips, &node.Strips}, {&have.MayTakeBack, &node.MayTakeBack},
	} {
		*feature.needed |= *feature.have
	}
	return have == node
}

func (s *programSet) state() *bpf.ABIState { return (*bpf.ABIState)(unsafe.Pointer(&s.memory[0])) }

// unusedIndex is that of the tables that packets do not use.
func (s *programSet) unusedIndex() uint32 { return 1 - atomic.LoadUint32(&s.state().Current) }

// program returns a program of the set, which owns it.
func (s *programSet) program(v variant) (*ebpf.Program, error) {
	err := s.load([]variant{v})
	return s.programs[v], err
}

// load loads programs at the same time: the kernel verifies each on one CPU, in about a
// quarter of a second.
func (s *programSet) load(needed []variant) error {
	loaded := make([]*ebpf.Program, len(needed))
	var group errgroup.Group
	for i, v := range needed {
		if s.programs[v] != nil {
			continue
		}
		node := s.loaded
		node.LinkHeader, node.Fast = v.linkHeader, bpf.Boolean(v.fast)
		group.Go(func() (err error) {
			loaded[i], err = hooks[v.hook].program(node, s.all)
			return err
		})
	}
	err := group.Wait()
	for i, p := range loaded {
		if p != nil {
			s.programs[needed[i]] = p
		}
	}
	return err
}

// tally puts the interfaces' counters into the map that programs use.
func (s *programSet) tally(tallies map[model.IfIndex]*ebpf.Map) error {
	used := make(map[uint32]bool)
	for _, slot := range s.slots {
		used[slot] = true
	}
	var slots, counters []uint32
	slot := uint32(0)
	for index, m := range tallies {
		if _, known := s.slots[index]; known {
			continue
		}
		for used[slot] {
			slot++
		}
		used[slot] = true
		s.slots[index] = slot
		slots, counters = append(slots, slot), append(counters, uint32(m.FD()))
	}
	if len(slots) == 0 {
		return nil
	}
	if _, err := s.maps[bpf.MapTallies].BatchUpdate(slots, counters, nil); err != nil {
		return fmt.Errorf("fill map %s: %w", bpf.MapTallies, err)
	}
	return nil
}

// forget frees the slots of interfaces that are no longer served.
func (s *programSet) forget(served func(model.IfIndex) bool) {
	for index := range s.slots {
		if !served(index) {
			delete(s.slots, index)
		}
	}
}

// activate writes a generation into the tables that packets do not use, and then
// switches all hooks to it at once.
func (s *programSet) activate(g *compile.Generation, fast func(compile.Interface) bool) error {
	<-s.quiet
	index := s.unusedIndex()
	if err := s.write(g, index, fast); err != nil {
		return err
	}
	// Remembered next hops are valid only with the tables by which they were found. The epoch ends them
	// twice: before the change, so that next hops of the old tables are not used with the new ones; and
	// after it, so that those found in the moment between are not, either.
	atomic.AddUint32(&s.state().Epoch, 1)
	atomic.StoreUint32(&s.state().Current, index)
	atomic.AddUint32(&s.state().Epoch, 1)
	return nil
}

// retire waits in the background until no packet uses the previous generation.
func (s *programSet) retire(rings *ebpf.Map) {
	quiet := make(chan struct{})
	s.quiet = quiet
	go func() {
		defer close(quiet)
		waitForPrograms(rings)
	}()
}

// waitForPrograms returns when every program run that was in progress has ended:
// the kernel waits for them after each update of a map of maps.
func waitForPrograms(rings *ebpf.Map) {
	var ring *ebpf.Map
	if rings.Lookup(uint32(0), &ring) == nil {
		_ = rings.Put(uint32(0), ring)
		ring.Close()
	}
}

func (s *programSet) close() {
	<-s.quiet
	if s.memory != nil {
		_ = unix.Munmap(s.memory)
		s.memory = nil
	}
	for _, p := range s.programs {
		p.Close()
	}
	s.maps.Close()
}

// write fills one of the two sets of tables.
func (s *programSet) write(g *compile.Generation, index uint32, fast func(compile.Interface) bool) error {
	w := tableWriter{set: s, tablesIndex: index}
	w.clear(s.filled[index])
	s.filled[index] = g
	w.namespaces(g)
	w.interfaces(g, fast)
	w.policies(g)
	w.tunnelEnds(g)
	w.encapsulations(g)
	for _, c := range g.Exports.Collectors {
		c.TablesIndex = uint8(index)
		w.put(bpf.MapCollectors, c, uint32(1))
	}
	if err := errors.Join(w.errs...); err != nil {
		return err
	}
	tables := &s.state().Tables[index]
	*tables = bpf.ABITables{
		NamespaceHash: g.NamespaceHash.ABI(), NamespaceBase: index * s.capacity.NamespaceIndex,
		InterfaceHash: g.InterfaceHash.ABI(), InterfaceBase: index * s.capacity.InterfaceTable,
		CollectorBits: g.Exports.CollectorBits(), Index: index,
		Removes: uint32(g.RemovesHeaders),
	}
	g.TunnelEnds.Summarize(tables)
	tables.End.FirstSource += index * s.capacity.Sources
	return nil
}
