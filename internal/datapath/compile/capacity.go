// SPDX-License-Identifier: Apache-2.0

package compile

import "github.com/waymark-net/waymark/internal/datapath/bpf"

// Capacity is the number of entries in each table of a generation.
type Capacity struct {
	Interfaces, InterfaceTable, policies, Namespaces, NamespaceIndex,
	decapsulations, Sources, destinations,
	Rules, trie, Encapsulations, collectors uint32
}

// smallest is the minimum size of a table, so that a few changes need no new one.
const smallest = 16

// Needs is the capacity that a generation needs.
func (g *Generation) Needs() Capacity {
	return Capacity{
		Interfaces:     uint32(len(g.Interfaces)),
		InterfaceTable: uint32(g.InterfaceHash.Size()),
		policies:       uint32(g.policies),
		Namespaces:     uint32(len(g.Namespaces)),
		NamespaceIndex: uint32(g.NamespaceHash.Size()),
		decapsulations: uint32(len(g.TunnelEnds.Ends)),
		Sources:        uint32(len(g.TunnelEnds.Sources)),
		destinations:   uint32(len(g.TunnelEnds.Guarded)),
		Rules:          uint32(len(g.Rules)),
		trie:           uint32(len(g.Trie)),
		Encapsulations: uint32(len(g.Encapsulations)),
		collectors:     uint32(len(g.Exports.Collectors)),
	}
}

func (c *Capacity) each() []*uint32 {
	return []*uint32{
		&c.Interfaces, &c.InterfaceTable, &c.policies, &c.Namespaces, &c.NamespaceIndex,
		&c.decapsulations, &c.Sources, &c.destinations,
		&c.Rules, &c.trie, &c.Encapsulations, &c.collectors,
	}
}

// Rounded adds room for growth: powers of two. Hash tables are larger than their
// contents.
func (c Capacity) Rounded() Capacity {
	for _, n := range c.each() {
		*n = max(bpf.PowerOfTwo(uint(*n)), smallest)
	}
	c.InterfaceTable = max(c.InterfaceTable, 4*c.Interfaces)
	c.NamespaceIndex = max(c.NamespaceIndex, 4*c.Namespaces)
	return c
}

// Fits reports whether needed is within the capacity.
func (c Capacity) Fits(needed Capacity) bool {
	room := c.each()
	for i, n := range needed.each() {
		if *n > *room[i] {
			return false
		}
	}
	return true
}

// Sizes are the entries of the maps, each of which holds two generations.
func (c Capacity) Sizes() map[string]uint32 {
	return map[string]uint32{
		bpf.MapInterfaces:     2 * c.InterfaceTable,
		bpf.MapPolicies:       2 * c.policies,
		bpf.MapNamespaces:     2 * c.Namespaces,
		bpf.MapNamespaceIndex: 2 * c.NamespaceIndex,
		bpf.MapDecapsulations: 2 * c.decapsulations,
		bpf.MapTunnelSources:  2 * c.Sources,
		bpf.MapTunnelEnds:     2 * c.destinations,
		bpf.MapRules:          2 * c.Rules,
		bpf.MapRuleTrie:       2 * c.trie,
		bpf.MapEncapsulations: 2 * c.Encapsulations,
		bpf.MapCollectors:     2 * c.collectors,
	}
}
