// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pathmtu"
)

// tunnels are the configured encapsulations that make tunnels.
func tunnels(s *service.State) []pathmtu.Tunnel {
	mtus := make(map[model.IfIndex]int)
	for _, i := range s.Resolved.Node.Interfaces {
		mtus[i.Index] = i.MTU
	}
	var out []pathmtu.Tunnel
	for _, e := range s.Resolved.Node.Encapsulations {
		if e.Mode != model.ModeInline {
			out = append(out, pathmtu.Tunnel{Source: e.TunnelSource, Destination: e.TunnelDestination, MTU: mtus[e.Interface]})
		}
	}
	return out
}
