// SPDX-License-Identifier: Apache-2.0

package config

import (
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// nesting is how deep Linux lets devices be members of one another.
const nesting = 8

// masters are the devices that packets seem to arrive on which arrived on a
// member of theirs: the masters of served interfaces, the masters of those, and
// so on. What is served itself is left out.
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
			// others may be members, too: then nothing tells which it was
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

// outside are the served interfaces at the domain's edge whose boundary is drop,
// and the masters all of whose members are. An interface with the role egress
// alone is none of them: errors about what leaves there come back by it.
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
