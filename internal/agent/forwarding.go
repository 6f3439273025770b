// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
)

// forwarding watches what determines the kernel's forwarding, while interfaces forward
// fast. Without the watch, the programs notice: they first ask the kernel for each
// packet, and later leave all packets to the stack.
type forwarding struct {
	service.Idle
	*core
	service.Watch
	byStack atomic.Pointer[string] // why the stack forwards all packets; nil when it does not
}

func newForwarding(c *core) *forwarding { return &forwarding{core: c, Watch: service.NewWatch()} }

func (f *forwarding) Prepare(p *service.Plan) error {
	p.OnCommit(func() { f.Set(len(p.Next.Resolved.Fast) > 0) })
	return nil
}

func (f *forwarding) Run(ctx context.Context) error {
	f.Follow(ctx, f.watchRoutes, func(err error) {
		f.log.Warn("route watch failed; forwarding falls back to the kernel stack", "error", err)
	})
	return nil
}

func (f *forwarding) watchRoutes(ctx context.Context, begun func()) error {
	plane, err := f.datapath.Forwarding()
	if err != nil {
		return err
	}
	begun()
	defer f.byStack.Store(nil)
	return f.system.WatchRoutes(ctx, plane, f.explain, f.log)
}

// explain notes why the stack forwards all packets despite forwarding: fast.
func (f *forwarding) explain(why string) {
	if why == "" {
		if f.byStack.Swap(nil) == nil {
			return
		}
		f.log.Info("interfaces with forwarding: fast forward without the stack")
		return
	}
	f.byStack.Store(&why)
	f.log.Info("the stack forwards all packets", "why", why)
}

func (f *forwarding) Warnings(*service.State) (ws []health.Warning) {
	if fault := f.Fault.Load(); fault != nil {
		ws = append(ws, health.New(health.RoutesUnwatched, "",
			"route watch failed, so interfaces with forwarding: fast leave their packets to the stack: "+*fault,
			"fix the error, or set forwarding: stack; the agent tries again every second"))
	}
	if why := f.byStack.Load(); why != nil {
		ws = append(ws, health.New(health.FastSuspended, "",
			"the stack forwards all packets, although interfaces have forwarding: fast: "+*why,
			"change what is named here, or set forwarding: stack; docs/how-to/forward-fast.md lists what only the stack does"))
	}
	return ws
}
