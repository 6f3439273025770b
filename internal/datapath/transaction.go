// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"maps"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// prepared is an interface whose new programs are loaded, not attached yet.
type prepared struct {
	*served
	created bool // its directory is this transaction's
	want    AttachMode
	notXDP  string // why auto passes XDP over; "" = it does not
	// ingress programs by mode: with auto, XDP and the one to fall back on
	ingress map[AttachMode]*ebpf.Program
	egress  *ebpf.Program
}

// transaction swaps one generation for another, or leaves all as it was.
type transaction struct {
	datapath   *Datapath
	interfaces []*prepared
	attached   bool // packets may have met no program before
	undo       []func() error
}

// prepare loads an interface's programs. Nothing that runs changes.
func (t *transaction) prepare(in interfaceConstants, want AttachMode, generation, tables mapSet) error {
	p := &prepared{want: want, ingress: make(map[AttachMode]*ebpf.Program)}
	if p.want == "" {
		p.want = AttachAuto
	}
	p.served = t.datapath.served[in.index]
	if p.served == nil {
		s, err := t.datapath.open(in.index)
		if err != nil {
			return err
		}
		p.served, p.created = s, true
	}
	t.interfaces = append(t.interfaces, p)
	if in.device.virtual && in.removes() {
		p.notXDP = notCutInXDP
		if p.want == AttachXDP {
			return attachError(in.index, true, AttachXDP, errors.New(p.notXDP))
		}
	}

	credits, err := newExportCredits(t.datapath.specs[mapExportCredits], in.node.ExportLimit)
	if err != nil {
		return err
	}
	defer credits.Close() // the programs hold it
	all := mapSet{mapCounters: p.counters, mapExportCredits: credits}
	maps.Copy(all, generation)
	maps.Copy(all, tables)
	maps.Copy(all, t.datapath.shared)
	if p.egress, err = hookEgressTC.program(in.node, all); err != nil {
		return err
	}
	if p.mayUseXDP() {
		if p.ingress[AttachXDP], err = hookIngressXDP.program(in.of(AttachXDP), all); err != nil {
			return err
		}
	}
	if p.want != AttachXDP {
		if p.ingress[AttachTCX], err = hookIngressTC.program(in.of(AttachTCX), all); err != nil {
			return err
		}
	}
	return nil
}

// commit attaches: egress first, so that no packet is begun at an ingress hook
// whose egress hook is not there to complete it.
func (t *transaction) commit() error {
	for _, p := range t.interfaces {
		if err := t.place(p, false); err != nil {
			return errors.Join(err, t.rollback())
		}
	}
	for _, p := range t.interfaces {
		if err := t.place(p, true); err != nil {
			return errors.Join(err, t.rollback())
		}
	}
	for _, p := range t.interfaces {
		t.datapath.served[p.index] = p.served
		for _, a := range p.leftovers {
			if err := a.detach(); err != nil {
				t.datapath.options.Log.Warn("remove an old attachment", "interface", p.index, "error", err)
			}
		}
		p.leftovers = nil
		for _, program := range p.ingress {
			if program != nil && program != p.served.ingress.program {
				program.Close()
			}
		}
	}
	return nil
}

func (p *prepared) mayUseXDP() bool {
	return p.want == AttachXDP || p.want == AttachAuto && p.notXDP == ""
}

// modes are the attachments to try, best first.
func (p *prepared) modes(ingress bool) []AttachMode {
	switch {
	case p.want == AttachAuto && ingress && p.mayUseXDP():
		return []AttachMode{AttachXDP, AttachTCX, AttachClsact}
	case p.want == AttachAuto, p.want == AttachXDP && !ingress:
		return []AttachMode{AttachTCX, AttachClsact}
	}
	return []AttachMode{p.want}
}

func (p *prepared) programFor(ingress bool, mode AttachMode) *ebpf.Program {
	if !ingress {
		return p.egress
	}
	if mode == AttachXDP {
		return p.ingress[AttachXDP]
	}
	return p.ingress[AttachTCX]
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
	current := *at
	if current != nil && !current.alive() {
		current.forget()
		*at, current = nil, nil
	}
	modes := p.modes(ingress)
	if current != nil {
		for _, mode := range modes {
			if mode == current.mode {
				return t.swap(current, p.programFor(ingress, mode))
			}
		}
		// another mode is asked for: the packet must not meet both
		if err := current.detach(); err != nil {
			return err
		}
		t.undo = append(t.undo, func() error { return t.restore(p.index, current, at) })
		*at = nil
	}
	var errs []error
	for _, mode := range modes {
		a, err := attach(t.datapath.directory(p.index), p.index, ingress, mode, p.programFor(ingress, mode))
		if err != nil {
			errs = append(errs, err)
			if mode == AttachXDP {
				p.served.xdpRefused = err.Error()
			}
			continue
		}
		if mode == AttachXDP {
			p.served.xdpRefused = ""
		}
		*at, t.attached = a, true
		t.undo = append(t.undo, func() error {
			*at = nil
			return a.detach()
		})
		return nil
	}
	return errors.Join(errs...)
}

func (t *transaction) swap(a *attachment, program *ebpf.Program) error {
	old := a.program
	if err := a.update(program); err != nil {
		return err
	}
	t.undo = append(t.undo, func() error { return a.update(old) })
	return nil
}

func (t *transaction) restore(index model.IfIndex, old *attachment, at **attachment) error {
	a, err := attach(t.datapath.directory(index), index, old.ingress, old.mode, old.program)
	if err == nil {
		*at = a
	}
	return err
}

// rollback undoes what was done, the last first.
func (t *transaction) rollback() error {
	var errs []error
	for i := len(t.undo) - 1; i >= 0; i-- {
		errs = append(errs, t.undo[i]())
	}
	t.abandon()
	return errors.Join(errs...)
}

// abandon frees what was prepared and is not in use.
func (t *transaction) abandon() {
	for _, p := range t.interfaces {
		for _, program := range p.ingress {
			if program != nil {
				program.Close()
			}
		}
		if p.egress != nil {
			p.egress.Close()
		}
		if p.created {
			if err := t.datapath.drop(p.served); err != nil {
				t.datapath.options.Log.Warn("forget an interface", "interface", p.index, "error", err)
			}
		}
	}
}
