// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Device is a network interface as far as it decides where packets appear to arrive.
type Device struct {
	Index model.IfIndex
	// Master is the bridge, VRF or bond that it is a member of; 0: none.
	Master model.IfIndex
	// Lower is the interface on which this one is a VLAN device; 0: it is none.
	Lower model.IfIndex
	// Bridge reports that it is a bridge, which may take a tag off a packet.
	Bridge bool
}

// readTags is how many VLAN tags the programs read (docs/data-plane/parsing.md).
const readTags = 2

// arrivals finds out what packets that appear to arrive on a device have in common.
type arrivals struct {
	served  map[model.IfIndex]*model.Interface
	devices map[model.IfIndex]Device
	members map[model.IfIndex][]model.IfIndex
	known   map[model.IfIndex]arrival
}

// arrival is what is known of packets that appear to arrive on a device.
type arrival struct {
	below  bool // a served interface is
	id     ioam.InterfaceID
	wide   ioam.InterfaceIDWide
	roles  model.Role
	proven bool // all of them passed the ingress hook, which found their IPv6 header
	tags   int  // that packets may have lost since then
}

// from describes a device. Devices that lie in a circle, which Linux refuses, have
// nothing in common.
func (a *arrivals) from(index model.IfIndex) arrival {
	if known, ok := a.known[index]; ok {
		return known
	}
	a.known[index] = arrival{}
	out := a.describe(index)
	out.proven = out.proven && out.tags <= readTags
	a.known[index] = out
	return out
}

func (a *arrivals) describe(index model.IfIndex) arrival {
	device := a.devices[index]
	if a.served[index] == nil && device.Lower != 0 {
		out := a.from(device.Lower)
		out.tags++
		out.below = out.below && out.tags <= readTags
		return out
	}
	out := arrival{id: ioam.InterfaceIDUnavailable, wide: ioam.InterfaceIDWideUnavailable, proven: true}
	for _, m := range a.members[index] {
		member := a.from(m)
		if out.proven = out.proven && member.below && member.proven; !member.below {
			continue
		}
		if out.below, out.tags = true, max(out.tags, member.tags); len(a.members[index]) == 1 {
			out.id, out.wide = member.id, member.wide // with others, the one that received the packet is not known
		}
		out.roles |= member.roles
	}
	if device.Bridge {
		out.tags++
	}
	if own := a.served[index]; own != nil {
		if !out.below {
			out.id, out.wide = own.ID, own.IDWide
		} else {
			out.id, out.wide = ioam.InterfaceIDUnavailable, ioam.InterfaceIDWideUnavailable
		}
		out.below, out.roles, out.tags = true, out.roles|own.Roles, 0
		out.proven = own.Roles&model.RoleIngress != 0
	}
	return out
}

// uppers lists the devices on which packets appear to arrive after arriving on a served
// interface below: its masters and VLAN devices, those of these, and so on. Devices that
// are served themselves are left out, and so are those beyond [model.MaxUppers].
func uppers(interfaces []model.Interface, devices []Device) []model.Upper {
	a := arrivals{
		served: map[model.IfIndex]*model.Interface{}, devices: map[model.IfIndex]Device{},
		members: map[model.IfIndex][]model.IfIndex{}, known: map[model.IfIndex]arrival{},
	}
	for i := range interfaces {
		a.served[interfaces[i].Index] = &interfaces[i]
	}
	above := map[model.IfIndex]bool{}
	for _, d := range devices {
		a.devices[d.Index] = d
		if d.Master != 0 {
			a.members[d.Master] = append(a.members[d.Master], d.Index)
			above[d.Master] = true
		}
		if d.Lower != 0 {
			above[d.Index] = true
		}
	}
	var list []model.Upper
	for _, index := range slices.Sorted(maps.Keys(above)) {
		if from := a.from(index); from.below && a.served[index] == nil {
			list = append(list, model.Upper{
				Index: index, ID: from.id, IDWide: from.wide, Roles: from.roles,
				VLAN: a.devices[index].Lower != 0, Proven: from.proven,
			})
		}
	}
	return list[:min(len(list), model.MaxUppers)]
}

// nesting is how many devices above one another Linux allows.
const nesting = 8

// edgeDevices returns the served interfaces at the domain's edge whose default policy is drop,
// their VLAN devices, and the masters whose members all are such. An interface with only
// the role egress is left out: errors about packets that left there come back through it.
func edgeDevices(interfaces []model.Interface, devices []Device) map[model.IfIndex]bool {
	out, served := map[model.IfIndex]bool{}, map[model.IfIndex]bool{}
	for _, i := range interfaces {
		served[i.Index] = true
		if i.Roles == 0 && i.Boundary == model.BoundaryDrop {
			out[i.Index] = true
		}
	}
	for range nesting {
		all := map[model.IfIndex]bool{}
		for _, d := range devices {
			if d.Lower != 0 {
				all[d.Index] = out[d.Lower]
			}
			if d.Master != 0 {
				before, known := all[d.Master]
				all[d.Master] = out[d.Index] && (before || !known)
			}
		}
		for index, isOutside := range all {
			if isOutside && !served[index] {
				out[index] = true
			}
		}
	}
	return out
}
