// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/model"
)

// tableWriter fills one of the two sets of tables that the maps hold.
type tableWriter struct {
	set         *programSet
	tablesIndex uint32
	errs        []error
}

func (w *tableWriter) put(name string, key, value any) {
	if err := w.set.maps[name].Put(key, value); err != nil {
		w.errs = append(w.errs, fmt.Errorf("fill map %s: %w", name, err))
	}
}

func (w *tableWriter) delete(name string, key any) {
	if err := w.set.maps[name].Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		w.errs = append(w.errs, fmt.Errorf("clear map %s: %w", name, err))
	}
}

// fill writes entries of an array, starting at an index.
func fill[T any](w *tableWriter, name string, from uint32, entries []T) {
	if len(entries) == 0 {
		return
	}
	keys := make([]uint32, len(entries))
	for i := range keys {
		keys[i] = from + uint32(i)
	}
	if _, err := w.set.maps[name].BatchUpdate(keys, entries, nil); err != nil {
		w.errs = append(w.errs, fmt.Errorf("fill map %s: %w", name, err))
	}
}

func (w *tableWriter) destination(address [16]byte) bpf.ABIDestinationKey {
	return bpf.ABIDestinationKey{Address: bpf.AddressWords(netip.AddrFrom16(address)), TablesIndex: w.tablesIndex}
}

// clear removes the keys of the generation that used these tables before. Arrays are
// overwritten.
func (w *tableWriter) clear(before *compile.Generation) {
	if before == nil {
		return
	}
	for _, address := range before.TunnelEnds.Addresses {
		w.delete(bpf.MapDecapsulations, w.destination(address))
	}
	for _, address := range before.TunnelEnds.Guarded {
		w.delete(bpf.MapTunnelEnds, w.destination(address.As16()))
	}
	for _, c := range before.Exports.Collectors {
		c.TablesIndex = uint8(w.tablesIndex)
		w.delete(bpf.MapCollectors, c)
	}
	for _, in := range before.Interfaces {
		for _, p := range in.Policies {
			w.delete(bpf.MapPolicies, w.policyKey(in, p))
		}
	}
	for key := range before.Trie {
		key.Tree = w.tree(key.Tree)
		w.delete(bpf.MapRuleTrie, key)
	}
}

func (w *tableWriter) namespaces(g *compile.Generation) {
	base := w.tablesIndex * w.set.capacity.Namespaces
	entries := g.Namespaces
	if len(entries) == 0 { // the index must be valid even without entries
		entries = []bpf.ABIIoamNamespace{{Id: compile.NoNamespace}}
	}
	fill(w, bpf.MapNamespaces, base, entries)
	index := make([]uint32, g.NamespaceHash.Size())
	for i := range index {
		index[i] = base
	}
	for i, ns := range g.Namespaces {
		index[g.NamespaceHash.Of(ns.Id)] = base + uint32(i)
	}
	fill(w, bpf.MapNamespaceIndex, w.tablesIndex*w.set.capacity.NamespaceIndex, index)
}

func (w *tableWriter) policyKey(in compile.Interface, p model.NamespacePolicy) bpf.ABIPolicyKey {
	return bpf.ABIPolicyKey{Ifindex: uint32(in.Index), NamespaceId: uint16(p.Namespace), TablesIndex: uint8(w.tablesIndex)}
}

func (w *tableWriter) policies(g *compile.Generation) {
	for _, in := range g.Interfaces {
		for _, p := range in.Policies {
			w.put(bpf.MapPolicies, w.policyKey(in, p), uint32(p.Boundary))
		}
	}
}

// tree numbers the interfaces' tries over both generations.
func (w *tableWriter) tree(number uint32) uint32 { return number | w.tablesIndex<<31 }

func (w *tableWriter) interfaces(g *compile.Generation, fast func(compile.Interface) bool) {
	table := make([]bpf.ABIInterface, g.InterfaceHash.Size())
	for _, in := range g.Interfaces {
		entry := in.Entry
		entry.Slot, entry.TablesIndex = compile.NoSlot, uint8(w.tablesIndex)
		if slot, ok := w.set.slots[in.Index]; ok {
			entry.Slot = uint16(slot)
		}
		entry.Fast = bpf.Boolean(fast(in))
		switch {
		case entry.HasTrie == 1:
			entry.FirstRule = w.tree(entry.FirstRule)
		case entry.FirstRule != compile.NoRule:
			entry.FirstRule += w.tablesIndex * w.set.capacity.Rules
		}
		table[g.InterfaceHash.Of(entry.Ifindex)] = entry
	}
	for _, u := range g.Uppers {
		u.TablesIndex = uint8(w.tablesIndex)
		table[g.InterfaceHash.Of(u.Ifindex)] = u
	}
	fill(w, bpf.MapInterfaces, w.tablesIndex*w.set.capacity.InterfaceTable, table)
}

func (w *tableWriter) tunnelEnds(g *compile.Generation) {
	base := w.tablesIndex * w.set.capacity.Sources
	for i, address := range g.TunnelEnds.Addresses {
		end := g.TunnelEnds.Ends[i]
		end.FirstSource += base
		w.put(bpf.MapDecapsulations, w.destination(address), end)
	}
	fill(w, bpf.MapTunnelSources, base, g.TunnelEnds.Sources)
	for _, address := range g.TunnelEnds.Guarded {
		w.put(bpf.MapTunnelEnds, w.destination(address.As16()), uint32(1))
	}
}

func (w *tableWriter) encapsulations(g *compile.Generation) {
	firstRule, first := w.tablesIndex*w.set.capacity.Rules, w.tablesIndex*w.set.capacity.Encapsulations
	rules := make([]bpf.ABIRule, len(g.Rules))
	for i, rule := range g.Rules {
		rule.Encapsulation += first
		if rule.Next != compile.NoRule {
			rule.Next += firstRule
		}
		rules[i] = rule
	}
	fill(w, bpf.MapRules, firstRule, rules)
	for key, rule := range g.Trie {
		key.Tree = w.tree(key.Tree)
		w.put(bpf.MapRuleTrie, key, rule+firstRule)
	}
	entries := make([]bpf.ABIEncapsulation, len(g.Encapsulations))
	for i, e := range g.Encapsulations {
		e.Index = first + uint32(i)
		entries[i] = e
	}
	fill(w, bpf.MapEncapsulations, first, entries)
}
