// SPDX-License-Identifier: Apache-2.0

package config

import (
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// nesting is how many masters above one another Linux allows.
const nesting = 8

// masters lists the devices on which packets appear to arrive after arriving on a
// member: the masters of served interfaces, the masters of those, and so on. Devices
// that are served themselves are left out.
func masters(interfaces []model.Interface, masterOf map[model.IfIndex]model.IfIndex) []model.Master {
	served := map[model.IfIndex]bool{}
	for _, i := range interfaces {
		served[i.Index] = true
	}
	members := map[model.IfIndex]int{}
	for _, m := range masterOf {
		members[m]++
	}
	var list []model.Master
	at := map[model.IfIndex]int{}
	for _, i := range interfaces {
		only := true
		master := masterOf[i.Index]
		for range nesting {
			if master == 0 {
				break
			}
			// with other members, the one that received the packet is not known
			only = only && members[master] == 1
			if n, known := at[master]; known {
				list[n].Roles |= i.Roles
				list[n].ID, list[n].IDWide = ioam.InterfaceIDUnavailable, ioam.InterfaceIDWideUnavailable
			} else if !served[master] {
				m := model.Master{Index: master, ID: ioam.InterfaceIDUnavailable, IDWide: ioam.InterfaceIDWideUnavailable, Roles: i.Roles}
				if only {
					m.ID, m.IDWide = i.ID, i.IDWide
				}
				at[master] = len(list)
				list = append(list, m)
			}
			master = masterOf[master]
		}
	}
	return list
}

// outside returns the served interfaces at the domain's edge whose boundary is drop,
// and the masters whose members all are such. An interface with only the role egress is
// left out: errors about packets that left there come back through it.
func outside(interfaces []model.Interface, masterOf map[model.IfIndex]model.IfIndex) map[model.IfIndex]bool {
	out, served := map[model.IfIndex]bool{}, map[model.IfIndex]bool{}
	for _, i := range interfaces {
		served[i.Index] = true
		if i.Roles == 0 && i.Boundary == model.BoundaryDrop {
			out[i.Index] = true
		}
	}
	for range nesting {
		all := map[model.IfIndex]bool{}
		for member, master := range masterOf {
			before, known := all[master]
			all[master] = out[member] && (before || !known)
		}
		for master, isOutside := range all {
			if isOutside && !served[master] {
				out[master] = true
			}
		}
	}
	return out
}
