// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/undo"
	"github.com/waymark-net/waymark/internal/model"
)

// prepared is an interface whose programs are loaded but not attached.
type prepared struct {
	*served
	in      compile.Interface
	created bool // this transaction made its directory
	want    attach.Mode
	place   model.Place
	edge    [2]bool        // the domain's edge filters at egress, ingress
	notXDP  string         // why auto does not use XDP; "" if it may
	late    bool           // auto prefers tc at ingress
	dead    []*attach.Hook // whose programs someone took off, and others took their places
}

// transaction attaches a set of programs to the interfaces of a generation. It adds
// its steps to the change.
type transaction struct {
	datapath   *Datapath
	change     *undo.Stack // of which this is a part
	set        *programSet
	places     map[model.IfIndex]model.Place
	edges      map[model.IfIndex][2]bool // where the domain's edge filters, at egress and at ingress
	interfaces map[model.IfIndex]*prepared
	attached   bool                   // an interface may have had no program before
	hooked     map[model.IfIndex]bool // those of which that is so
	lost       map[model.IfIndex]bool // and those that lost a program of ours, at an unknown time
}

// newTransaction begins with the running set.
func (d *Datapath) newTransaction(change *undo.Stack, cfg Config) *transaction {
	return &transaction{
		datapath: d, change: change, set: d.set, places: cfg.Places, edges: edgesOf(cfg.Node),
		interfaces: make(map[model.IfIndex]*prepared),
		hooked:     make(map[model.IfIndex]bool), lost: make(map[model.IfIndex]bool),
	}
}

// prepare notes what an interface needs. Nothing that runs changes.
func (t *transaction) prepare(g *compile.Generation, in compile.Interface, want attach.Mode) error {
	p := &prepared{in: in, want: want, place: t.places[in.Index], edge: t.edges[in.Index]}
	if p.want == "" {
		p.want = attach.Auto
	}
	p.served = t.datapath.served[in.Index]
	if p.served == nil {
		s, err := t.datapath.open(in.Index)
		if err != nil {
			return err
		}
		p.served, p.created = s, true
	}
	t.interfaces[in.Index] = p
	p.late = g.FillsForStack(in) || compile.IsCopiedForXDP(in)
	if in.Device.Virtual && g.Removes(in) {
		p.notXDP = attach.NotCutInXDP
		if p.want == attach.XDP {
			return attach.Error(in.Index, true, attach.XDP, errors.New(p.notXDP))
		}
	}
	return nil
}

// load loads the programs that the interfaces are expected to need.
func (t *transaction) load() error {
	needed := make(map[variant]bool)
	for _, p := range t.interfaces {
		needed[p.variant(false, "")], needed[p.variant(true, p.expected())] = true, true
	}
	return t.set.load(slices.Collect(maps.Keys(needed)))
}

// expected is the mode of the ingress hook, unless the driver refuses it.
func (p *prepared) expected() attach.Mode {
	modes := p.modes(true)
	if p.ingress != nil && slices.Contains(modes, p.ingress.Mode) {
		return p.ingress.Mode
	}
	return modes[0]
}

// willForwardFast reports whether an interface will forward fast if its ingress
// hook gets the expected mode.
func (t *transaction) willForwardFast(in compile.Interface) bool {
	return in.Device.FastIn(t.interfaces[in.Index].expected())
}

// forwardsFast is the same for the mode that worked.
func (t *transaction) forwardsFast(in compile.Interface) bool {
	return in.Device.FastIn(t.interfaces[in.Index].ingress.Mode)
}

// isAsExpected reports whether every interface forwards as expected.
func (t *transaction) isAsExpected(before map[model.IfIndex]bool) bool {
	for index, p := range t.interfaces {
		if before[index] != t.forwardsFast(p.in) {
			return false
		}
	}
	return true
}

// tallies are the counters of the interfaces.
func (t *transaction) tallies() map[model.IfIndex]*ebpf.Map {
	all := make(map[model.IfIndex]*ebpf.Map)
	for index, p := range t.interfaces {
		all[index] = p.tally
	}
	return all
}

// commit attaches where the domain's edge filters first. Then egress comes first, so that
// no packet is started by an ingress hook without an egress hook to complete it.
func (t *transaction) commit() error {
	t.removeLeftovers()
	for _, edge := range []bool{true, false} {
		for at, ingress := range []bool{false, true} {
			for _, p := range t.interfaces {
				if p.edge[at] != edge {
					continue
				}
				if err := t.place(p, ingress); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removeLeftovers takes off what hooks have besides one attachment of ours: no packet may meet two
// programs.
func (t *transaction) removeLeftovers() {
	for index, p := range t.interfaces {
		for _, a := range p.leftovers {
			if err := a.Detach(); err != nil {
				t.datapath.options.Log.Warn("remove an old attachment", "interface", index, "error", err)
			}
			a.Release()
		}
		p.leftovers = nil
	}
}

// finish releases what was kept to take the change back.
func (t *transaction) finish() {
	for index, p := range t.interfaces {
		t.datapath.served[index] = p.served
		p.served.place, p.served.edges = p.place, p.edge
		p.ingress.Release()
		p.egress.Release()
		for _, a := range p.dead {
			a.Close()
		}
	}
}

func (p *prepared) mayUseXDP() bool {
	return p.want == attach.XDP || p.want == attach.Auto && p.notXDP == ""
}

// modes are the attachments to try, best first. One that is in place and among them
// stays, because a change of modes leaves packets untouched.
func (p *prepared) modes(ingress bool) []attach.Mode {
	switch {
	case p.want == attach.Auto && ingress && p.in.Device.OnlyInTC(): // also where it is in XDP now
		return []attach.Mode{attach.TCX, attach.Clsact}
	case p.want == attach.Auto && ingress && p.mayUseXDP() && p.late:
		return []attach.Mode{attach.TCX, attach.Clsact, attach.XDP}
	case p.want == attach.Auto && ingress && p.mayUseXDP():
		return []attach.Mode{attach.XDP, attach.TCX, attach.Clsact}
	case p.want == attach.Auto, p.want == attach.TC, p.want == attach.XDP && !ingress:
		return []attach.Mode{attach.TCX, attach.Clsact}
	}
	return []attach.Mode{p.want}
}

func (p *prepared) variant(ingress bool, mode attach.Mode) variant {
	v := variant{hook: hookEgressTC, linkHeader: p.in.Device.LinkHeader}
	if ingress {
		v.hook, v.fast = ingressHook(mode), p.in.Device.FastIn(mode)
	}
	return v
}

// place swaps the program of one hook, or attaches it in the first mode that works.
func (t *transaction) place(p *prepared, ingress bool) error {
	at := &p.served.egress
	if ingress {
		at = &p.served.ingress
	}
	if ingress && p.notXDP != "" {
		p.served.xdpRefused = p.notXDP
	}
	current, dead := *at, (*attach.Hook)(nil)
	if current != nil && !current.Alive() {
		t.lost[p.index] = true
		current.Unpin()
		current, dead = nil, current // looks find it until another one is attached
	}
	modes := p.modes(ingress)
	if current != nil {
		for _, mode := range modes {
			if mode != current.Mode {
				continue
			}
			program, err := t.set.program(p.variant(ingress, mode))
			if err != nil || program == current.Program {
				return err
			}
			return t.swap(current, program)
		}
		// another mode is wanted: the packet must not meet both
		if err := current.Detach(); err != nil {
			return err
		}
		t.change.Add(func() error { return t.restore(p, current, at) })
		*at = nil
	}
	var errs []error
	for _, mode := range modes {
		program, err := t.set.program(p.variant(ingress, mode))
		if err != nil {
			return err
		}
		a, err := attach.New(t.datapath.directory(p.index), p.index, ingress, mode, program, p.place)
		if err != nil {
			errs = append(errs, err)
			if mode == attach.XDP && p.want == attach.Auto {
				p.served.xdpRefused = err.Error()
			}
			continue
		}
		if mode == attach.XDP {
			p.served.xdpRefused = ""
		}
		*at, t.attached, t.hooked[p.index] = a, true, true
		if dead != nil {
			p.dead, p.served.putBack[bpf.Boolean(ingress)] = append(p.dead, dead), true
		}
		if !p.created { // else abandon ends it, with all others
			t.change.Add(func() error {
				*at = dead
				return a.Detach()
			})
		}
		return nil
	}
	return errors.Join(errs...)
}

func (t *transaction) swap(a *attach.Hook, program *ebpf.Program) error {
	old := a.Program
	if err := a.Update(program); err != nil {
		return err
	}
	t.change.Add(func() error { return a.Update(old) })
	return nil
}

func (t *transaction) restore(p *prepared, old *attach.Hook, at **attach.Hook) error {
	a, err := attach.New(t.datapath.directory(p.index), p.index, old.Ingress, old.Mode, old.Program, p.served.place)
	if err == nil {
		*at = a
	}
	return err
}

// abandon drops new interfaces.
func (t *transaction) abandon() {
	var made []*served
	for _, p := range t.interfaces {
		if p.created {
			p.served.edges = p.edge
			made = append(made, p.served)
		}
	}
	if err := t.datapath.leave(made); err != nil {
		t.datapath.options.Log.Warn("forget new interfaces", "error", err)
	}
}
