// SPDX-License-Identifier: Apache-2.0

package datapath

// capacity is the number of entries in each table of a generation.
type capacity struct {
	interfaces, interfaceTable, policies, namespaces, namespaceIndex,
	decapsulations, sources, destinations,
	rules, trie, encapsulations, collectors uint32
}

// smallest is the minimum size of a table, so that a few changes need no new one.
const smallest = 16

// needs is the capacity that a generation needs.
func (g *generation) needs() capacity {
	return capacity{
		interfaces:     uint32(len(g.interfaces)),
		interfaceTable: uint32(g.interfaceHash.size()),
		policies:       uint32(g.policies),
		namespaces:     uint32(len(g.namespaces)),
		namespaceIndex: uint32(g.namespaceHash.size()),
		decapsulations: uint32(len(g.tunnelEnds.ends)),
		sources:        uint32(len(g.tunnelEnds.sources)),
		destinations:   uint32(len(g.tunnelEnds.guarded)),
		rules:          uint32(len(g.rules)),
		trie:           uint32(len(g.trie)),
		encapsulations: uint32(len(g.encapsulations)),
		collectors:     uint32(len(g.exporting.collectors)),
	}
}

func (c *capacity) each() []*uint32 {
	return []*uint32{
		&c.interfaces, &c.interfaceTable, &c.policies, &c.namespaces, &c.namespaceIndex,
		&c.decapsulations, &c.sources, &c.destinations,
		&c.rules, &c.trie, &c.encapsulations, &c.collectors,
	}
}

// rounded adds room for growth: powers of two. Hash tables are larger than their
// contents.
func (c capacity) rounded() capacity {
	for _, n := range c.each() {
		*n = max(powerOfTwo(uint(*n)), smallest)
	}
	c.interfaceTable = max(c.interfaceTable, 4*c.interfaces)
	c.namespaceIndex = max(c.namespaceIndex, 4*c.namespaces)
	return c
}

// fits reports whether needed is within the capacity.
func (c capacity) fits(needed capacity) bool {
	room := c.each()
	for i, n := range needed.each() {
		if *n > *room[i] {
			return false
		}
	}
	return true
}

// sizes are the entries of the maps, each of which holds two generations.
func (c capacity) sizes() map[string]uint32 {
	return map[string]uint32{
		mapInterfaces:     2 * c.interfaceTable,
		mapPolicies:       2 * c.policies,
		mapNamespaces:     2 * c.namespaces,
		mapNamespaceIndex: 2 * c.namespaceIndex,
		mapDecapsulations: 2 * c.decapsulations,
		mapTunnelSources:  2 * c.sources,
		mapTunnelEnds:     2 * c.destinations,
		mapRules:          2 * c.rules,
		mapRuleTrie:       2 * c.trie,
		mapEncapsulations: 2 * c.encapsulations,
		mapCollectors:     2 * c.collectors,
	}
}
