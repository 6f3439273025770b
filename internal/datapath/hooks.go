// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// HookState is what one look at a hook found.
type HookState struct {
	Index    model.IfIndex
	Name     string // of the interface
	Ingress  bool
	Mode     AttachMode
	Program  uint32 // the kernel's id of our program
	Attached bool   // our program is on the hook
	Place    model.Place
	InPlace  bool           // it has that place among the programs of its kind
	Before   []OtherProgram // programs of others that run earlier on the same device and direction, without those in XDP
	Changed  bool           // programs of others came and went in tcx since the look before
	Fault    string         // why the hook could not be looked at
}

// Hooks looks at the hooks of the interfaces for which look returns true.
func (d *Datapath) Hooks(look func(index model.IfIndex, mode AttachMode) bool) []HookState {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []HookState
	for _, s := range d.served {
		for _, a := range []*attachment{s.ingress, s.egress} {
			if a != nil && look(s.index, a.mode) {
				state := a.state(s.place, &d.query, d.programName)
				state.Name = s.name
				if a.mode == AttachTCX && state.Fault == "" {
					now := d.query.found()
					state.Changed = !a.chain.isExplained(now)
					a.chain = now
				}
				if !state.Attached && state.Fault == "" {
					state.Fault = isGone(s.index)
				}
				out = append(out, state)
			}
		}
	}
	slices.SortFunc(out, func(a, b HookState) int { return int(a.Index) - int(b.Index) })
	return out
}

// isGone says that an interface is gone, with its hooks; "" if it is there.
func isGone(index model.IfIndex) string {
	var missing netlink.LinkNotFoundError
	if _, err := netlink.LinkByIndex(int(index)); errors.As(err, &missing) {
		return "the interface is gone"
	}
	return ""
}

// programNamesKept bounds the names that are remembered: the kernel gives an id to
// another program only after some two thousand million.
const programNamesKept = 4096

// programName is under mu.
func (d *Datapath) programName(id ebpf.ProgramID) string {
	if name, ok := d.programNames[id]; ok {
		return name
	}
	if d.programNames == nil || len(d.programNames) >= programNamesKept {
		d.programNames = make(map[ebpf.ProgramID]string)
	}
	name := nameOf(id)
	if name != "" {
		d.programNames[id] = name
	}
	return name
}

// state looks at one hook.
func (a *attachment) state(place model.Place, query *tcxQuery, name func(ebpf.ProgramID) string) HookState {
	s := HookState{Index: a.index, Ingress: a.ingress, Mode: a.mode, Program: uint32(a.id), Place: place}
	if a.mode == AttachXDP {
		s.Attached, s.InPlace = a.alive(), true
		return s
	}
	err := query.ask(a.index, a.ingress)
	chain := query.chain(name)
	if err != nil && a.mode == AttachTCX && !errors.Is(err, unix.ENODEV) {
		s.Fault = err.Error()
	}
	if a.mode == AttachTCX {
		at := slices.IndexFunc(chain, func(n OtherProgram) bool { return n.Program == uint32(a.id) })
		if s.Attached = at >= 0 && query.isLink(at, a.linkID); s.Attached {
			s.Before = chain[:at:at]
			s.InPlace = place.Holds(namesOf(chain[:at]), namesOf(chain[at+1:]))
		}
		return s
	}
	filters, err := filterChain(a.index, a.ingress, name)
	if err != nil {
		s.Fault = err.Error()
	}
	at := slices.IndexFunc(filters, func(f filter) bool { return f.ours && f.Program == uint32(a.id) })
	if s.Attached = at >= 0; !s.Attached {
		return s
	}
	s.InPlace = holdsAmong(place, slices.Delete(slices.Clone(filters), at, at+1), at)
	s.Before = chain // the kernel runs tcx before clsact
	for _, f := range filters[:at] {
		s.Before = append(s.Before, f.OtherProgram)
	}
	return s
}

// Reposition takes our program on a hook to its place in the chain, if it is elsewhere. What was
// counted meanwhile is not complete.
func (d *Datapath) Reposition(index model.IfIndex, ingress bool) error {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.served[index]
	if s == nil {
		return nil
	}
	a := s.egress
	if ingress {
		a = s.ingress
	}
	if a == nil || a.mode == AttachXDP {
		return nil
	}
	if state := a.state(s.place, &d.query, d.programName); state.Attached && state.InPlace {
		return nil
	}
	d.countAs(d.counting, true)
	if err := a.move(d.directory(index), s.place); err != nil {
		return fmt.Errorf("move the %s program of interface %d (%s): %w", a.mode, index, s.place, err)
	}
	return nil
}
