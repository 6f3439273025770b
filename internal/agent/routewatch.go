// SPDX-License-Identifier: Apache-2.0

package agent

import "context"

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
	return a.options.System.WatchRoutes(ctx, plane, a.log)
}
