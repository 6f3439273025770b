// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"github.com/waymark-net/waymark/internal/health"
)

// followRoutes watches what the kernel forwards by, while interfaces forward
// fast. While nothing is watched, the programs notice: they ask the kernel for
// each packet, and later leave all to the stack.
func (a *Agent) followRoutes(ctx context.Context) {
	a.routeWatch.follow(ctx, a.watchRoutes, func(err error) {
		a.log.Warn("packets are forwarded by the stack soon: its routes are not watched", "error", err)
	})
}

func (a *Agent) watchRoutes(ctx context.Context, begun func()) error {
	plane, err := a.datapath.Forwarding()
	if err != nil {
		return err
	}
	begun()
	defer a.byStack.Store(nil)
	return a.options.System.WatchRoutes(ctx, plane, a.explainStack, a.log)
}

// explainStack notes why the stack forwards all although interfaces are to
// forward fast.
func (a *Agent) explainStack(why string) {
	if why == "" {
		if a.byStack.Swap(nil) == nil {
			return
		}
		a.log.Info("interfaces with forwarding: fast forward without the stack")
		return
	}
	a.byStack.Store(&why)
	a.log.Info("the stack forwards all packets", "why", why)
}

// stackWarnings says the same to who asks for the status.
func (a *Agent) stackWarnings() []health.Warning {
	why := a.byStack.Load()
	if why == nil {
		return nil
	}
	return []health.Warning{health.New(health.FastSuspended, "",
		"the stack forwards all packets, although interfaces are to forward fast: "+*why,
		"change what is named here, or set forwarding: stack; docs/how-to/forward-fast.md lists what goes to the stack")}
}
