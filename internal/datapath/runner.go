// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"maps"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/model"
)

// Hook is a place where a program looks at packets.
type Hook string

// The hooks, one program each.
const (
	HookIngressXDP Hook = "xdp ingress"
	HookIngressTC  Hook = "tc ingress"
	HookEgressTC   Hook = "tc egress"
)

// Runner is one interface's programs and maps, attached to nothing: for the
// kernel's program-run facility.
type Runner struct {
	maps     mapSet
	programs map[Hook]*ebpf.Program
	rings    []*ring // when they have been discarded from
}

// NewRunner loads the programs that an Ethernet interface of a configuration
// would get, as Apply does, for the hooks that are named.
func NewRunner(cfg Config, index model.IfIndex, hooks ...Hook) (*Runner, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise the memory lock limit: %w; run as root or with CAP_SYS_RESOURCE", err)
	}
	specs, err := mapSpecs()
	if err != nil {
		return nil, err
	}
	g, err := compile(cfg.Node, cfg.NextHops, func(i model.IfIndex) device {
		d := ethernet(i)
		d.fast = cfg.Fast[i]
		return d
	})
	if err != nil {
		return nil, err
	}
	r := &Runner{maps: make(mapSet), programs: make(map[Hook]*ebpf.Program)}
	if err := r.load(g, specs, index, hooks); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runner) load(g *generation, specs map[string]*ebpf.MapSpec, index model.IfIndex, hooks []Hook) error {
	if _, err := g.createAll(specs, r.maps); err != nil {
		return err
	}
	for _, in := range g.interfaces {
		if in.index == index {
			return r.loadPrograms(in, hooks)
		}
	}
	return fmt.Errorf("interface %d is not in the configuration", index)
}

// createAll makes and fills every map that the programs of one interface use,
// none of them pinned. Those that it made are in maps also when it fails.
func (g *generation) createAll(specs map[string]*ebpf.MapSpec, all mapSet) (*flowTable, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	for _, name := range append([]string{mapCounters}, sharedMaps...) {
		spec := specs[name].Copy()
		if name == mapRecords {
			spec.MaxEntries = uint32(cpus)
		}
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return nil, fmt.Errorf("create map %s: %w", name, err)
		}
		all[name] = m
	}
	if err := setRecordsWanted(all[mapRecordsWanted], true); err != nil {
		return nil, err
	}
	if err := fillRings(all[mapRecords], specs[mapRecords].InnerMap, cpus); err != nil {
		return nil, err
	}
	if _, _, err := g.assignFrequencies(all); err != nil {
		return nil, err
	}
	if err := beginFlows(all[mapFlowClock]); err != nil {
		return nil, err
	}
	none := &tables{maps: make(mapSet), gaps: newFlowGaps()}
	own, err := none.next(g, specs, all)
	if err != nil {
		return nil, err
	}
	maps.Copy(all, own.maps)
	if all[mapExportCredits], err = newExportCredits(specs[mapExportCredits], g.exporting.limit); err != nil {
		delete(all, mapExportCredits)
		return nil, err
	}
	generation, err := g.create(specs)
	maps.Copy(all, generation)
	return own.flows, err
}

func (r *Runner) loadPrograms(in interfaceConstants, hooks []Hook) error {
	known := map[Hook]hook{
		HookIngressXDP: hookIngressXDP, HookIngressTC: hookIngressTC, HookEgressTC: hookEgressTC,
	}
	for _, name := range hooks {
		h, ok := known[name]
		if !ok {
			return fmt.Errorf("no hook is called %q", name)
		}
		program, err := h.program(in.of(h.attach), r.maps)
		if err != nil {
			return err
		}
		r.programs[name] = program
	}
	return nil
}

// Program is the program of a hook that was asked for, else nil. It belongs to
// the Runner.
func (r *Runner) Program(h Hook) *ebpf.Program { return r.programs[h] }

// Forwarding gives access to what fast forwarding knows. It serves nothing, so
// ForwardsFast must not be asked.
func (r *Runner) Forwarding() (*Forwarding, error) { return newForwarding(r.maps) }

// SetRecordsWanted says whether anybody asks for records; at first, somebody does.
func (r *Runner) SetRecordsWanted(wanted bool) error {
	return setRecordsWanted(r.maps[mapRecordsWanted], wanted)
}

// Counters reads what the programs have counted, summed over CPUs.
func (r *Runner) Counters() (Counters, error) {
	s := served{counters: r.maps[mapCounters]}
	return s.read()
}

// Memory is how many bytes the kernel holds for each map, and for all programs
// as "programs". Before Linux 6.4 the kernel only estimates.
func (r *Runner) Memory() (map[string]uint64, error) {
	held := make(map[string]uint64)
	for name, m := range r.maps {
		n, err := mapMemory(m)
		if err != nil {
			return nil, fmt.Errorf("read the size of map %s: %w", name, err)
		}
		held[name] = n
	}
	rings := r.maps[mapRecords]
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

// DiscardRecords empties the rings, so that the next records find room.
func (r *Runner) DiscardRecords() (err error) {
	if r.rings == nil {
		if r.rings, err = openRings(r.maps[mapRecords]); err != nil {
			return err
		}
	}
	return readWaiting(r.rings, 0, func([]byte, time.Duration) {})
}

// Close frees programs and maps.
func (r *Runner) Close() {
	closeRings(r.rings)
	for _, program := range r.programs {
		program.Close()
	}
	r.maps.close()
}
