// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// State is what one look at a hook found.
type State struct {
	Index    model.IfIndex
	Name     string // of the interface
	Ingress  bool
	Mode     Mode
	Program  uint32 // the kernel's id of our program
	Attached bool   // our program is on the hook
	Place    model.Place
	InPlace  bool           // it has that place among the programs of its kind
	Before   []OtherProgram // programs of others that run earlier on the same device and direction, without those in XDP
	Changed  bool           // programs of others came and went in tcx since the look before; before our filter, came or went
	PutBack  bool           // a change found the program off its hook since the look before, and put it back
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

// Look looks at one hook, and remembers its chain for the next look.
func (a *Hook) Look(place model.Place, query *Query, name func(ebpf.ProgramID) string) State {
	s := a.State(place, query, name)
	if now := query.found(); s.Fault == "" && a.Mode != XDP {
		s.Changed = a.Mode == TCX && !a.chain.isExplained(now) || a.Mode == Clsact && a.looked && !a.chain.isSame(now)
		a.chain, a.looked = now, true
	}
	if !s.Attached && s.Fault == "" {
		s.Fault = isGone(a.index)
	}
	return s
}

// State is what one look at a hook finds.
func (a *Hook) State(place model.Place, query *Query, name func(ebpf.ProgramID) string) State {
	s := State{Index: a.index, Ingress: a.Ingress, Mode: a.Mode, Program: uint32(a.id), Place: place}
	if a.Mode == XDP {
		s.Attached, s.InPlace = a.Alive(), true
		return s
	}
	err := query.ask(a.index, a.Ingress)
	chain := query.chain(name)
	if err != nil && a.Mode == TCX && !errors.Is(err, unix.ENODEV) {
		s.Fault = err.Error()
	}
	if a.Mode == TCX {
		at := slices.IndexFunc(chain, func(n OtherProgram) bool { return n.Program == uint32(a.id) })
		if s.Attached = at >= 0 && query.isLink(at, a.linkID); s.Attached {
			s.Before = query.others(chain, 0, at)
			s.InPlace = place.Holds(namesOf(s.Before), namesOf(query.others(chain, at+1, len(chain))))
		}
		return s
	}
	filters, err := filterChain(a.index, a.Ingress, name)
	if err != nil {
		s.Fault = err.Error()
	}
	at := slices.IndexFunc(filters, func(f filter) bool { return f.ours && f.Program == uint32(a.id) })
	if s.Attached = at >= 0; !s.Attached {
		return s
	}
	s.InPlace = holdsAmong(place, slices.Delete(slices.Clone(filters), at, at+1), at)
	s.Before = query.others(chain, 0, len(chain)) // the kernel runs tcx before clsact
	for _, f := range filters[:at] {
		s.Before = append(s.Before, f.OtherProgram)
	}
	return s
}
