// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
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

// isGone says that an interface is gone, with its hooks; "" if it is there.
func isGone(index model.IfIndex) string {
	var missing netlink.LinkNotFoundError
	if _, err := netlink.LinkByIndex(int(index)); errors.As(err, &missing) {
		return "the interface is gone"
	}
	return ""
}

// look looks at one hook, and remembers its chain for the next look.
func (a *attachment) look(place model.Place, query *tcxQuery, name func(ebpf.ProgramID) string) HookState {
	s := a.state(place, query, name)
	if a.mode == AttachTCX && s.Fault == "" {
		now := query.found()
		s.Changed = !a.chain.isExplained(now)
		a.chain = now
	}
	if !s.Attached && s.Fault == "" {
		s.Fault = isGone(a.index)
	}
	return s
}

// state is what one look at a hook finds.
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
