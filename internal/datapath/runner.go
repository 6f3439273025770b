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

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/datapath/undo"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
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
	rings    []*rings.Ring // opened by DiscardRecords
}

// NewRunner loads, for the named hooks, the programs that Apply would give an
// Ethernet interface of a configuration. The programs treat every packet as one
// of that interface.
func NewRunner(cfg Config, index model.IfIndex, hooks ...Hook) (*Runner, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, problem.Wrap(
			fmt.Errorf("raise the memory lock limit: %w", err),
			"run as root or with CAP_SYS_RESOURCE",
		)
	}
	g, err := compile.Node(cfg.Node, cfg.NextHops, func(i model.IfIndex) attach.Device {
		if cfg.Fast[i] {
			return attach.FastEthernet(i)
		}
		return attach.Ethernet(i)
	})
	if err != nil {
		return nil, err
	}
	g.TakesOptions(cfg.StackOptions)
	g.Node.FixedIfindex = uint32(index)
	r := &Runner{programs: make(map[Hook]*ebpf.Program)}
	if err := r.load(g, index, hooks); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runner) load(g *compile.Generation, index model.IfIndex, hooks []Hook) error {
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
	in    compile.Interface
	set   *programSet
	kept  bpf.Maps
	tally *ebpf.Map
	flows *flows.Table // nil unless some namespace aggregates
	cards atomic.Pointer[rings.PostcardRings]
	own   *tables
}

// open makes and fills every map, except kept ones that exist already. On error,
// it closes what it made.
func (s *site) open(g *compile.Generation, index model.IfIndex) error {
	keepParsed()
	specs, err := mapSpecs()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(g.Interfaces, func(in compile.Interface) bool { return in.Index == index })
	if i < 0 {
		return fmt.Errorf("interface %d is not in the configuration", index)
	}
	s.in = g.Interfaces[i]
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
	if s.tally, err = ebpf.NewMap(specs[bpf.MapTallies].InnerMap); err != nil {
		return fmt.Errorf("create the counters: %w", err)
	}
	tallies := make(map[model.IfIndex]*ebpf.Map) // the other interfaces' budgets need counters, too
	for _, in := range g.Interfaces {
		tallies[in.Index] = s.tally
	}
	if err := s.set.tally(tallies); err != nil {
		return err
	}
	return s.set.activate(g, func(in compile.Interface) bool { return in.Device.Fast })
}

// program is the program of one of the interface's hooks; it belongs to the site.
func (s *site) program(h hookName) (*ebpf.Program, error) {
	v := variant{hook: h, linkHeader: s.in.Device.LinkHeader}
	switch h {
	case hookIngressXDP:
		v.fast = s.in.Device.FastIn(attach.XDP)
	case hookIngressTC:
		v.fast = s.in.Device.FastIn(attach.TCX)
	}
	return s.set.program(v)
}

func (s *site) close() {
	if s.set != nil {
		s.set.close()
	}
	if s.tally != nil {
		s.tally.Close()
	}
	s.cards.Load().Close()
	if s.own != nil {
		s.own.measured.Close()
	}
	s.kept.Close()
}

// keep makes the maps that outlive a generation, unpinned.
func keep(g *compile.Generation, specs map[string]*ebpf.MapSpec) (all bpf.Maps, own *tables, err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, nil, fmt.Errorf("count CPUs: %w", err)
	}
	all = make(bpf.Maps)
	var made undo.Stack
	defer made.OnError(&err)
	made.AddClose(func() { all.Close(); all = nil })
	for _, name := range sharedMaps {
		spec := specs[name].Copy()
		if name == bpf.MapRecords {
			spec.MaxEntries = uint32(cpus)
		}
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return all, nil, fmt.Errorf("create map %s: %w", name, err)
		}
		all[name] = m
	}
	if err := setRecordsWanted(all[bpf.MapRecordsWanted], AllRecords); err != nil {
		return all, nil, err
	}
	if err := fillRings(all[bpf.MapRecords], specs[bpf.MapRecords].InnerMap, cpus); err != nil {
		return all, nil, err
	}
	if err := flows.KeyEdges(all[bpf.MapE2EClock]); err != nil {
		return all, nil, err
	}
	if _, _, err := assignFrequencies(g, all); err != nil {
		return all, nil, err
	}
	if err := flows.Begin(all[bpf.MapFlowClock]); err != nil {
		return all, nil, err
	}
	none := &tables{maps: make(bpf.Maps), sequences: flows.NewSequences()}
	if own, err = none.next(g, specs, all); err != nil {
		return all, nil, err
	}
	maps.Copy(all, own.maps)
	if err := assignProofs(g, own.maps[bpf.MapProofs], nil); err != nil {
		return all, own, err
	}
	change, err := g.Measured.Begin(all, own.measured, none.measured, measure.Digest(countingAt(g)), false)
	if err == nil {
		change.Finish()
	}
	return all, own, err
}

// Program is the program of a hook that NewRunner was given, or nil. It belongs
// to the Runner.
func (r *Runner) Program(h Hook) *ebpf.Program { return r.programs[h] }

// Forwarding gives access to the state of fast forwarding. It serves no
// interface, so Entrances must not be called.
func (r *Runner) Forwarding() (*forward.Control, error) { return forward.New(r.site.kept, nil) }

// SetRecordsWanted sets how many records have a reader; at first, all do.
func (r *Runner) SetRecordsWanted(n int) error {
	return setRecordsWanted(r.site.kept[bpf.MapRecordsWanted], n)
}

// Counters reads the programs' counters, summed over CPUs.
func (r *Runner) Counters() (Counters, error) {
	var reader tallyReader
	return reader.read(&served{tally: r.site.tally})
}

// Blocks gives what was counted in a block, for every measured flow.
func (r *Runner) Blocks(block uint64, visit func(measure.BlockCounts)) {
	r.site.own.measured.Read(block, nil, visit)
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
	all := r.site.kept[bpf.MapRecords]
	for cpu := range all.MaxEntries() {
		var ring *ebpf.Map
		if err := all.Lookup(cpu, &ring); err != nil {
			return nil, fmt.Errorf("open the ring of CPU %d: %w", cpu, err)
		}
		n, err := mapMemory(ring)
		ring.Close()
		if err != nil {
			return nil, fmt.Errorf("read the size of the ring of CPU %d: %w", cpu, err)
		}
		held[bpf.MapRecords] += n
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
func (r *Runner) ReadSamples(ctx context.Context, to rings.Samples) error {
	all, err := rings.Open(r.site.kept[bpf.MapRecords], &r.site.cards)
	if err != nil {
		return err
	}
	defer rings.Close(all)
	wish := rings.NewDemand()
	wish.Set(true)
	return rings.Read(ctx, all, wish, func() time.Duration { return 0 }, rings.Taker{
		Sample: func(sample []byte, offset time.Duration) {
			to.Dispatch(sample, offset, func() *flows.Table { return r.site.flows })
		},
		Postcards: to.Postcards,
	})
}

// DiscardRecords empties the rings to make room for the next records.
func (r *Runner) DiscardRecords() (err error) {
	if r.rings == nil {
		if r.rings, err = rings.Open(r.site.kept[bpf.MapRecords], &r.site.cards); err != nil {
			return err
		}
	}
	return rings.ReadWaiting(r.rings, 0, rings.Taker{Sample: func([]byte, time.Duration) {}, Postcards: func([]rings.Postcard) {}})
}

// Close frees programs and maps.
func (r *Runner) Close() {
	rings.Close(r.rings)
	r.site.close()
}
