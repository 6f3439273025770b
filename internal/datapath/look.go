// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/model"
)

// toLookAt returns nil while no arriving flow is measured.
func (d *Datapath) toLookAt() (*tapped, error) {
	d.applying.Lock()
	defer d.applying.Unlock()
	g := d.running()
	if g == nil || !g.measuring.arrive() {
		return nil, nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	served, upper := devicesOf(g)
	look := &tapped{
		programs: make(map[bool]*ebpf.Program), at: untouched(links, served, upper),
		names: make(map[model.IfIndex]string), table: d.measured.Load(),
	}
	for _, l := range links {
		look.names[model.IfIndex(l.Attrs().Index)] = l.Attrs().Name
	}
	for _, member := range look.at {
		if look.programs[member] != nil {
			continue
		}
		if look.programs[member], err = d.set.program(variant{hook: tapHook(member)}); err != nil {
			return nil, err
		}
	}
	return look, nil
}

func tapHook(member bool) hookName {
	if member {
		return hookTapMember
	}
	return hookTap
}

// devicesOf are the interfaces that are served, and those above them.
func devicesOf(g *generation) (served, upper map[int]bool) {
	served, upper = make(map[int]bool), make(map[int]bool)
	for _, in := range g.interfaces {
		served[int(in.index)] = true
	}
	for _, u := range g.uppers {
		upper[int(u.Ifindex)] = true
	}
	return served, upper
}

// NewTaps makes taps for a data plane; none is open yet.
func (d *Datapath) NewTaps() *Taps {
	return newTaps(d.toLookAt, d.measured.Load, d.shared[mapUnserved])
}
