// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/model"
)

// tunnelEnds is what the programs know of tunnels' ends.
type tunnelEnds struct {
	addresses [][16]byte // that end here
	ends      []abiTunnelEnd
	sources   []abiSourcePrefix
	guarded   []netip.Addr // wherever they end
}

func compileTunnelEnds(cfg model.NodeConfig) tunnelEnds {
	t := tunnelEnds{guarded: cfg.KnownTunnelDestinations()}
	for _, d := range cfg.Decapsulations {
		t.addresses = append(t.addresses, d.TunnelDestination.As16())
		t.ends = append(t.ends, abiTunnelEnd{
			FirstSource: uint32(len(t.sources)), Sources: uint32(len(d.Sources)), Bare: uint32(boolean(d.Bare)),
		})
		for _, prefix := range d.Sources {
			var source abiSourcePrefix
			source.Address, source.Mask = prefixWords(prefix)
			t.sources = append(t.sources, source)
		}
	}
	return t
}

// constants are the read-only data of the programs of an interface, whose roles
// and policy are there already.
func (t tunnelEnds) constants(node *abiNodeConfig) {
	node.HasDecapsulations = uint8(min(len(t.ends), 2))
	node.HasSources = boolean(len(t.sources) > 0)
	if len(t.ends) == 1 {
		node.Decapsulation, node.End = addressWords(netip.AddrFrom16(t.addresses[0])), t.ends[0]
	}
	if model.Role(node.Roles)&model.RoleIngress != 0 || model.Boundary(node.Boundary) != model.BoundaryDrop {
		return
	}
	node.TunnelsGuarded = uint32(min(len(t.guarded), 2))
	if len(t.guarded) == 1 {
		node.Guarded = addressWords(t.guarded[0])
	}
}
