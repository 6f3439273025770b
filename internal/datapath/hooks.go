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
	Fault    string         // why the hook could not be looked at
}

// DeviceTraffic is what a device and the hooks on it have counted.
type DeviceTraffic struct {
	Index          model.IfIndex
	Received, Sent uint64 // packets, by the device
	AtIngress      uint64 // packets, by the ingress hook, before the device was read; with those that left without the stack
	AtEgress       uint64
	// Meanwhile are further packets that the hooks counted until the device had been read.
	MeanwhileAtIngress, MeanwhileAtEgress uint64
	XDP                                   *OtherProgram
}

// Hooks looks at the hooks of the interfaces for which look returns true.
func (d *Datapath) Hooks(look func(index model.IfIndex, mode AttachMode) bool) []HookState {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []HookState
	for _, s := range d.served {
		for _, a := range []*attachment{s.ingress, s.egress} {
			if a != nil && look(s.index, a.mode) {
				state := a.state(s.place, d.programName)
				state.Name = s.name
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
func (a *attachment) state(place model.Place, name func(ebpf.ProgramID) string) HookState {
	s := HookState{Index: a.index, Ingress: a.ingress, Mode: a.mode, Program: uint32(a.id), Place: place}
	if a.mode == AttachXDP {
		s.Attached, s.InPlace = a.alive(), true
		return s
	}
	chain, err := tcxChain(a.index, a.ingress, name)
	if err != nil && a.mode == AttachTCX && !errors.Is(err, unix.ENODEV) {
		s.Fault = err.Error()
	}
	if a.mode == AttachTCX {
		at := slices.IndexFunc(chain, func(n OtherProgram) bool { return n.Program == uint32(a.id) })
		s.Attached = at >= 0 && a.alive()
		if s.Attached {
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
	own := make([]OtherProgram, len(filters))
	for i, f := range filters {
		own[i] = f.OtherProgram
	}
	s.InPlace = place.Holds(namesOf(own[:at]), namesOf(own[at+1:]))
	s.Before = append(chain, own[:at]...) // the kernel runs tcx before clsact
	return s
}

// Devices reads what served devices and their hooks have counted, and which programs of
// others they have in XDP.
func (d *Datapath) Devices() ([]DeviceTraffic, error) {
	earlier, err := d.hookPackets()
	if err != nil {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	later, err := d.hookPackets()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []DeviceTraffic
	for _, l := range links {
		s := d.served[model.IfIndex(l.Attrs().Index)]
		before, ok := earlier[model.IfIndex(l.Attrs().Index)]
		if s == nil || !ok {
			continue
		}
		t := DeviceTraffic{Index: s.index, XDP: d.othersXDP(s, l.Attrs().Xdp), AtIngress: before[0], AtEgress: before[1]}
		if after, ok := later[s.index]; ok {
			t.MeanwhileAtIngress, t.MeanwhileAtEgress = after[0]-before[0], after[1]-before[1]
		}
		if n := l.Attrs().Statistics; n != nil {
			t.Received, t.Sent = n.RxPackets, n.TxPackets
		}
		out = append(out, t)
	}
	return out, nil
}

// hookPackets are the packets that the hooks of each interface have counted, at ingress and
// egress. What arrived and left elsewhere without the stack has passed no egress hook.
func (d *Datapath) hookPackets() (map[model.IfIndex][2]uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[model.IfIndex][2]uint64, len(d.served))
	for index, s := range d.served {
		c, err := s.read()
		if err != nil {
			return nil, err
		}
		var sum [2]uint64
		for o := range model.NumOutcomes {
			sum[0] += c.Ingress[o] + c.Forwarded[o]
			sum[1] += c.Egress[o]
		}
		all[index] = sum
	}
	return all, nil
}

// othersXDP is the program of someone else in XDP that runs before ours.
func (d *Datapath) othersXDP(s *served, xdp *netlink.LinkXdp) *OtherProgram {
	if xdp == nil || !xdp.Attached || s.ingress == nil || s.ingress.mode == AttachXDP {
		return nil
	}
	id := ebpf.ProgramID(xdp.ProgId)
	return &OtherProgram{Program: xdp.ProgId, Name: d.programName(id), Kind: string(AttachXDP)}
}

// Reposition takes our program on a hook to its place in the chain. What was counted
// meanwhile is not complete.
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
	d.countAs(d.counting, true)
	if err := a.move(d.directory(index), s.place); err != nil {
		return fmt.Errorf("move the %s program of interface %d (%s): %w", a.mode, index, s.place, err)
	}
	return nil
}
