// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// idsPerLook bounds what a look at the kernel's settings costs: of more
// interfaces than that, each look takes the next ones.
const idsPerLook = 16

// followIDs looks whether ids that the configuration leaves to the kernel's
// settings are others by now. No event reports them: rtnetlink does not carry
// these settings, and inotify does not see /proc/sys. Tick number n begins where
// the one before ended.
func (a *Agent) followIDs(n int) {
	s := a.state.Load()
	if leaves(s.config.Node.ID, s.resolved.Node.ID, a.options.System.NodeID) ||
		leaves(s.config.Node.IDWide, s.resolved.Node.IDWide, a.options.System.NodeIDWide) {
		a.look()
		return
	}
	served := s.resolved.Node.Interfaces
	for i := range min(idsPerLook, len(served)) {
		in := served[(n*idsPerLook+i)%len(served)]
		own := configured(s.config, in.Name)
		if leaves(own.ID, in.ID, func() (ioam.InterfaceID, error) { return a.options.System.InterfaceID(in.Name) }) ||
			leaves(own.IDWide, in.IDWide, func() (ioam.InterfaceIDWide, error) { return a.options.System.InterfaceIDWide(in.Name) }) {
			a.look()
			return
		}
	}
}

// leaves reports whether an id that is not configured is no longer what it was.
func leaves[T comparable](own *T, was T, read func() (T, error)) bool {
	if own != nil {
		return false
	}
	now, err := read()
	return err == nil && now != was
}

func configured(c *config.Config, name string) config.Interface {
	for _, in := range c.Interfaces {
		if in.Name == name {
			return in
		}
	}
	return config.Interface{}
}

// logIDs logs the ids that followed the kernel's settings, a line each.
func (a *Agent) logIDs(before, now *state) {
	if before == nil {
		return
	}
	was, is := before.resolved.Node, now.resolved.Node
	follow := func(setting string, configured bool, was, is any) {
		if !configured && was != is {
			a.log.Info("an id follows the kernel's setting", "setting", setting, "was", was, "is", is)
		}
	}
	follow("net.ipv6.ioam6_id", now.config.Node.ID != nil || before.config.Node.ID != nil, was.ID, is.ID)
	follow("net.ipv6.ioam6_id_wide", now.config.Node.IDWide != nil || before.config.Node.IDWide != nil, was.IDWide, is.IDWide)
	old := map[model.IfIndex]model.Interface{}
	for _, in := range was.Interfaces {
		old[in.Index] = in
	}
	for _, in := range is.Interfaces {
		was, ok := old[in.Index]
		if !ok {
			continue
		}
		own, owned := configured(now.config, in.Name), configured(before.config, in.Name)
		follow(fmt.Sprintf("net.ipv6.conf.%s.ioam6_id", in.Name), own.ID != nil || owned.ID != nil, was.ID, in.ID)
		follow(fmt.Sprintf("net.ipv6.conf.%s.ioam6_id_wide", in.Name), own.IDWide != nil || owned.IDWide != nil, was.IDWide, in.IDWide)
	}
}
