// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

// TunnelEnds is what the programs know about tunnel ends.
type TunnelEnds struct {
	Addresses [][16]byte // of tunnels that end here
	Ends      []bpf.ABITunnelEnd
	Sources   []bpf.ABISourcePrefix
	Guarded   []netip.Addr // all tunnel destinations, here or elsewhere
}

func compileTunnelEnds(cfg model.NodeConfig) TunnelEnds {
	t := TunnelEnds{Guarded: cfg.KnownTunnelDestinations()}
	for _, d := range cfg.Decapsulations {
		t.Addresses = append(t.Addresses, d.TunnelDestination.As16())
		t.Ends = append(t.Ends, bpf.ABITunnelEnd{
			FirstSource: uint32(len(t.Sources)), Sources: uint32(len(d.Sources)), Bare: uint32(bpf.Boolean(d.Bare)),
		})
		for _, prefix := range d.Sources {
			var source bpf.ABISourcePrefix
			source.Address, source.Mask = bpf.PrefixWords(prefix)
			t.Sources = append(t.Sources, source)
		}
	}
	return t
}

// constants sets what programs are compiled for.
func (t TunnelEnds) constants(node *bpf.ABINodeConfig) {
	node.HasDecapsulations = bpf.Boolean(len(t.Ends) > 0)
	node.HasSources = bpf.Boolean(len(t.Sources) > 0)
}

// Summarize sets what programs look at for every packet.
func (t TunnelEnds) Summarize(tables *bpf.ABITables) {
	tables.Decapsulations = uint32(min(len(t.Ends), 2))
	if len(t.Ends) == 1 {
		tables.Decapsulation, tables.End = bpf.AddressWords(netip.AddrFrom16(t.Addresses[0])), t.Ends[0]
	}
	tables.TunnelsGuarded = uint32(min(len(t.Guarded), 2))
	if len(t.Guarded) == 1 {
		tables.Guarded = bpf.AddressWords(t.Guarded[0])
	}
}
