// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/model"
)

// tunnelEnds is what the programs know about tunnel ends.
type tunnelEnds struct {
	addresses [][16]byte // of tunnels that end here
	ends      []ABITunnelEnd
	sources   []ABISourcePrefix
	guarded   []netip.Addr // all tunnel destinations, here or elsewhere
}

func compileTunnelEnds(cfg model.NodeConfig) tunnelEnds {
	t := tunnelEnds{guarded: cfg.KnownTunnelDestinations()}
	for _, d := range cfg.Decapsulations {
		t.addresses = append(t.addresses, d.TunnelDestination.As16())
		t.ends = append(t.ends, ABITunnelEnd{
			FirstSource: uint32(len(t.sources)), Sources: uint32(len(d.Sources)), Bare: uint32(boolean(d.Bare)),
		})
		for _, prefix := range d.Sources {
			var source ABISourcePrefix
			source.Address, source.Mask = prefixWords(prefix)
			t.sources = append(t.sources, source)
		}
	}
	return t
}

// constants sets what programs are compiled for.
func (t tunnelEnds) constants(node *ABINodeConfig) {
	node.HasDecapsulations = boolean(len(t.ends) > 0)
	node.HasSources = boolean(len(t.sources) > 0)
}

// summarize sets what programs look at for every packet.
func (t tunnelEnds) summarize(tables *ABITables) {
	tables.Decapsulations = uint32(min(len(t.ends), 2))
	if len(t.ends) == 1 {
		tables.Decapsulation, tables.End = addressWords(netip.AddrFrom16(t.addresses[0])), t.ends[0]
	}
	tables.TunnelsGuarded = uint32(min(len(t.guarded), 2))
	if len(t.guarded) == 1 {
		tables.Guarded = addressWords(t.guarded[0])
	}
}
