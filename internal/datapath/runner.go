// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/datapath/undo"
	"github.com/waymark-net/waymark/internal/model"
)

// Hook is a place where a program handles packets.
type Hook string

// The hooks, one program each.
const (
	HookIngressXDP Hook = "xdp ingress"
	HookIngressTC  Hook = "tc ingress"
	HookEgressTC   Hook = "tc egress"
)

// Runner is one interface's programs and maps, unattached, for the kernel's
// program-run facility.
type Runner struct {
	site     site
	programs map[Hook]*ebpf.Program
	rings    []*ring // opened by DiscardRecords
}

// NewRunner loads, for the named hooks, the programs that Apply would give an
// Ethernet interface of a configuration. The programs treat every packet as one
// of that interface.
func NewRunner(cfg Config, index model.IfIndex, hooks ...Hook) (*Runner, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise the memory lock limit: %w; run as root or with CAP_SYS_RESOURCE", err)
	}
	g, err := compile(cfg.Node, cfg.NextHops, func(i model.IfIndex) device {
		d := ethernet(i)
		d.fast = cfg.Fast[i]
		return d
	})
	if err != nil {
		return nil, err
	}
	g.takesOptions(cfg.StackOptions)
	g.node.FixedIfindex = uint32(index)
	r := &Runner{programs: make(map[Hook]*ebpf.Program)}
	if err := r.load(g, index, hooks); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runner) load(g *generation, index model.IfIndex, hooks []Hook) error {
	if err := r.site.open(g, index); err != nil {
		return err
	}
	known := map[Hook]hookName{
		HookIngressXDP: hookIngressXDP, HookIngressTC: hookIngressTC, HookEgressTC: hookEgressTC,
	}
	for _, name := range hooks {
		h, ok := known[name]
		if !ok {
			return fmt.Errorf("no hook is called %q", name)
		}
		var err error
		if r.programs[name], err = r.site.program(h); err != nil {
			return err
		}
	}
	return nil
}

// site is a program set with everything that it needs, unpinned, for the programs
// of one interface.
type site struct {
	in    compiledInterface
	set   *programSet
	kept  mapSet
	tally *ebpf.Map
	flows *flowTable // nil unless some namespace aggregates
	cards atomic.Pointer[postcardRings]
	own   *tables
}

// open makes and fills every map, except kept ones that exist already. On error,
// it closes what it made.
func (s *site) open(g *generation, index model.IfIndex) error {
	specs, err := mapSpecs()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(g.interfaces, func(in compiledInterface) bool { return in.index == index })
	if i < 0 {
		return fmt.Errorf("interface %d is not in the configuration", index)
	}
	s.in = g.interfaces[i]
	if s.kept == nil {
		var own *tables
		if s.kept, own, err = keep(g, specs); err != nil {
			return err
		}
		s.flows = own.flows
		s.cards.Store(own.cards)
		s.own = own
	}
	if s.set, err = newProgramSet(g, specs, s.kept); err != nil {
		return err
	}
	if s.tally, err = ebpf.NewMap(specs[mapTallies].InnerMap); err != nil {
		return fmt.Errorf("create the counters: %w", err)
	}
	tallies := make(map[model.IfIndex]*ebpf.Map) // the other interfaces' budgets need counters, too
	for _, in := range g.interfaces {
		tallies[in.index] = s.tally
	}
	if err := s.set.tally(tallies); err != nil {
		return err
	}
	return s.set.activate(g, func(in compiledInterface) bool { return in.device.fast })
}

// program is the program of one of the interface's hooks; it belongs to the site.
func (s *site) program(h hookName) (*ebpf.Program, error) {
	return s.set.program(variant{hook: h, linkHeader: s.in.device.linkHeader, fast: s.in.device.fast && h != hookEgressTC})
}

func (s *site) close() {
	if s.set != nil {
		s.set.close()
	}
	if s.tally != nil {
		s.tally.Close()
	}
	s.cards.Load().close()
	if s.own != nil {
		s.own.measured.close()
	}
	s.kept.close()
}

// keep makes the maps that outlive a generation, unpinned.
func keep(g *generation, specs map[string]*ebpf.MapSpec) (all mapSet, own *tables, err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, nil, fmt.Errorf("count CPUs: %w", err)
	}
	all = make(mapSet)
	var made undo.Stack
	defer made.OnError(&err)
	made.AddClose(func() { all.close(); all = nil })
	for _, name := range sharedMaps {
		spec := specs[name].Copy()
		if name == mapRecords {
			spec.MaxEntries = uint32(cpus)
		}
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return all, nil, fmt.Errorf("create map %s: %w", name, err)
		}
		all[name] = m
	}
	if err := setRecordsWanted(all[mapRecordsWanted], true); err != nil {
		return all, nil, err
	}
	if err := fillRings(all[mapRecords], specs[mapRecords].InnerMap, cpus); err != nil {
		return all, nil, err
	}
	if err := keyEdges(all[mapE2EClock]); err != nil {
		return all, nil, err
	}
	if _, _, err := assignFrequencies(g, all); err != nil {
		return all, nil, err
	}
	if err := beginFlows(all[mapFlowClock]); err != nil {
		return all, nil, err
	}
	none := &tables{maps: make(mapSet), gaps: newFlowGaps()}
	if own, err = none.next(g, specs, all); err != nil {
		return all, nil, err
	}
	maps.Copy(all, own.maps)
	if err := assignProofs(g, own.maps[mapProofs], nil); err != nil {
		return all, own, err
	}
	change, err := g.measuring.begin(all, own.measured, none.measured, digestOf(countingAt(g)), false)
	if err == nil {
		change.finish()
	}
	return all, own, err
}

// Program is the program of a hook that NewRunner was given, or nil. It belongs
// to the Runner.
func (r *Runner) Program(h Hook) *ebpf.Program { return r.programs[h] }

// Forwarding gives access to the state of fast forwarding. It serves no
// interface, so Entrances must not be called.
func (r *Runner) Forwarding() (*Forwarding, error) { return newForwarding(r.site.kept, nil) }

// SetRecordsWanted sets whether records have a reader; at first, they do.
func (r *Runner) SetRecordsWanted(wanted bool) error {
	return setRecordsWanted(r.site.kept[mapRecordsWanted], wanted)
}

// Counters reads the programs' counters, summed over CPUs.
func (r *Runner) Counters() (Counters, error) {
	var reader tallyReader
	return reader.read(&served{tally: r.site.tally})
}

// Blocks gives what was counted in a block, for every measured flow.
func (r *Runner) Blocks(block uint64, visit func(BlockCounts)) {
	r.site.own.measured.read(block, nil, visit)
}

// Memory is how many bytes the kernel holds for each map, and for all programs as
// "programs". Before Linux 6.4 the kernel only estimates.
func (r *Runner) Memory() (map[string]uint64, error) {
	held := make(map[string]uint64)
	for name, m := range r.site.set.all {
		n, err := mapMemory(m)
		if err != nil {
			return nil, fmt.Errorf("read the size of map %s: %w", name, err)
		}
		held[name] = n
	}
	rings := r.site.kept[mapRecords]
	for cpu := range rings.MaxEntries() {
		var ring *ebpf.Map
		if err := rings.Lookup(cpu, &ring); err != nil {
			return nil, fmt.Errorf("open the ring of CPU %d: %w", cpu, err)
		}
		n, err := mapMemory(ring)
		ring.Close()
		if err != nil {
			return nil, fmt.Errorf("read the size of the ring of CPU %d: %w", cpu, err)
		}
		held[mapRecords] += n
	}
	for hook, program := range r.programs {
		info, err := program.Info()
		if err != nil {
			return nil, fmt.Errorf("read the size of the program at %s: %w", hook, err)
		}
		n, _ := info.Memlock()
		held["programs"] += n
	}
	return held, nil
}

func mapMemory(m *ebpf.Map) (uint64, error) {
	info, err := m.Info()
	if err != nil {
		return 0, err
	}
	n, _ := info.Memlock() // a trie without entries has none
	return n, nil
}

// ReadSamples passes on what programs write until the context ends.
func (r *Runner) ReadSamples(ctx context.Context, to Samples) error {
	all, err := openRings(r.site.kept[mapRecords], &r.site.cards)
	if err != nil {
		return err
	}
	defer closeRings(all)
	wish := newDemand()
	wish.set(true)
	return readRings(ctx, all, wish, func() time.Duration { return 0 }, taker{
		sample: func(sample []byte, offset time.Duration) {
			to.take(sample, offset, func() *flowTable { return r.site.flows })
		},
		postcards: to.Postcards,
	})
}

// DiscardRecords empties the rings to make room for the next records.
func (r *Runner) DiscardRecords() (err error) {
	if r.rings == nil {
		if r.rings, err = openRings(r.site.kept[mapRecords], &r.site.cards); err != nil {
			return err
		}
	}
	return readWaiting(r.rings, 0, taker{sample: func([]byte, time.Duration) {}, postcards: func([]Postcard) {}})
}

// Close frees programs and maps.
func (r *Runner) Close() {
	closeRings(r.rings)
	r.site.close()
}
