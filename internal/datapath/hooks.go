// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

// Hooks looks at the hooks of the interfaces for which look returns true.
func (d *Datapath) Hooks(look func(index model.IfIndex, mode attach.Mode) bool) []attach.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []attach.State
	for _, s := range d.served {
		for _, a := range []*attach.Hook{s.ingress, s.egress} {
			if a != nil && look(s.index, a.Mode) {
				state := a.Look(s.place, &d.query, d.programName)
				state.Name = s.name
				back := &s.putBack[bpf.Boolean(a.Ingress)]
				state.PutBack, *back = *back, false
				out = append(out, state)
			}
		}
	}
	slices.SortFunc(out, func(a, b attach.State) int { return int(a.Index) - int(b.Index) })
	return out
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
	name := attach.ProgramName(id)
	if name != "" {
		d.programNames[id] = name
	}
	return name
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
	if a == nil || a.Mode == attach.XDP {
		return nil
	}
	if state := a.State(s.place, &d.query, d.programName); state.Attached && state.InPlace {
		return nil
	}
	d.countAs(d.counting, true)
	if err := a.Move(d.directory(index), s.place); err != nil {
		return fmt.Errorf("move the %s program of interface %d (%s): %w", a.Mode, index, s.place, err)
	}
	return nil
}
