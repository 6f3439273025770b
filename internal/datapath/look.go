// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/model"
)

// toLookAt returns nil while no arriving flow is measured.
func (d *Datapath) toLookAt() (*measure.Targets, error) {
	d.applying.Lock()
	defer d.applying.Unlock()
	g := d.running()
	if g == nil || !g.Measured.CountArrivals() {
		return nil, nil
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	served, upper := devicesOf(g)
	look := &measure.Targets{
		Programs: make(map[bool]*ebpf.Program), At: measure.Untouched(links, served, upper),
		Names: make(map[model.IfIndex]string), Table: d.measured.Load(),
	}
	for _, l := range links {
		look.Names[model.IfIndex(l.Attrs().Index)] = l.Attrs().Name
	}
	for _, member := range look.At {
		if look.Programs[member] != nil {
			continue
		}
		if look.Programs[member], err = d.set.program(variant{hook: tapHook(member)}); err != nil {
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
func devicesOf(g *compile.Generation) (served, upper map[int]bool) {
	served, upper = make(map[int]bool), make(map[int]bool)
	for _, in := range g.Interfaces {
		served[int(in.Index)] = true
	}
	for _, u := range g.Uppers {
		upper[int(u.Ifindex)] = true
	}
	return served, upper
}

// NewTaps makes taps for a data plane; none is open yet.
func (d *Datapath) NewTaps() *measure.Taps {
	return measure.NewTaps(d.toLookAt, d.measured.Load, d.shared[bpf.MapUnserved])
}
