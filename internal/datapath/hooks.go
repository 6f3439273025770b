// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// Hooks looks at the hooks of the interfaces for which look returns true.
func (d *Datapath) Hooks(look func(index model.IfIndex, mode AttachMode) bool) []HookState {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []HookState
	for _, s := range d.served {
		for _, a := range []*attachment{s.ingress, s.egress} {
			if a != nil && look(s.index, a.mode) {
				state := a.look(s.place, &d.query, d.programName)
				state.Name = s.name
				out = append(out, state)
			}
		}
	}
	slices.SortFunc(out, func(a, b HookState) int { return int(a.Index) - int(b.Index) })
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
	name := nameOf(id)
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
