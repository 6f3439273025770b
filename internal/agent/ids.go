// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// idsPerLook bounds the cost of reading the kernel's settings: with more interfaces,
// each look reads the next ones.
const idsPerLook = 16

// kernelIDs polls the ids that the configuration leaves to the kernel's settings, and
// how many options the stack takes. No event reports their changes: rtnetlink does not carry these settings, and inotify
// does not see /proc/sys.
type kernelIDs struct {
	service.Idle
	*core
	looks int // where the last look ended
}

func (k *kernelIDs) Prepare(p *service.Plan) error {
	p.OnCommit(func() { k.logChanges(p.Before, p.Next) })
	return nil
}

func (k *kernelIDs) Run(ctx context.Context) error {
	k.tasks.Every(ctx, service.PollPeriod, k.follow)
	return nil
}

func (k *kernelIDs) follow() {
	k.looks++
	s := k.state.Load()
	if leaves(nil, s.Resolved.StackOptions, k.system.StackOptions) ||
		leaves(s.Config.Node.ID, s.Resolved.Node.ID, k.system.NodeID) ||
		leaves(s.Config.Node.IDWide, s.Resolved.Node.IDWide, k.system.NodeIDWide) {
		k.requestResolve()
		return
	}
	served := s.Resolved.Node.Interfaces
	for i := range min(idsPerLook, len(served)) {
		in := served[(k.looks*idsPerLook+i)%len(served)]
		own := configured(s.Config, in.Name)
		if leaves(own.ID, in.ID, func() (ioam.InterfaceID, error) { return k.system.InterfaceID(in.Name) }) ||
			leaves(own.IDWide, in.IDWide, func() (ioam.InterfaceIDWide, error) { return k.system.InterfaceIDWide(in.Name) }) {
			k.requestResolve()
			return
		}
	}
}

// leaves reports whether an id that is not configured has changed.
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

// logChanges logs the ids that followed the kernel's settings, one per line.
func (k *kernelIDs) logChanges(before, now *service.State) {
	if before == nil {
		return
	}
	was, is := before.Resolved.Node, now.Resolved.Node
	follow := func(setting string, configured bool, was, is any) {
		if !configured && was != is {
			k.log.Info("an id follows the kernel's setting", "setting", setting, "was", was, "is", is)
		}
	}
	if was, is := before.Resolved.StackOptions, now.Resolved.StackOptions; was != is {
		k.log.Info("fast forwarding follows the kernel's setting", "setting", "net.ipv6.max_hbh_opts_number", "was", was, "is", is)
	}
	follow("net.ipv6.ioam6_id", now.Config.Node.ID != nil || before.Config.Node.ID != nil, was.ID, is.ID)
	follow("net.ipv6.ioam6_id_wide", now.Config.Node.IDWide != nil || before.Config.Node.IDWide != nil, was.IDWide, is.IDWide)
	old := map[model.IfIndex]model.Interface{}
	for _, in := range was.Interfaces {
		old[in.Index] = in
	}
	for _, in := range is.Interfaces {
		was, ok := old[in.Index]
		if !ok {
			continue
		}
		own, owned := configured(now.Config, in.Name), configured(before.Config, in.Name)
		follow(fmt.Sprintf("net.ipv6.conf.%s.ioam6_id", in.Name), own.ID != nil || owned.ID != nil, was.ID, in.ID)
		follow(fmt.Sprintf("net.ipv6.conf.%s.ioam6_id_wide", in.Name), own.IDWide != nil || owned.IDWide != nil, was.IDWide, in.IDWide)
	}
}
