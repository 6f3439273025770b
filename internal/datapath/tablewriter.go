// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// tableWriter fills one half of a set's tables.
type tableWriter struct {
	set  *programSet
	half uint32
	errs []error
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

func (w *tableWriter) destination(address [16]byte) ABIDestinationKey {
	return ABIDestinationKey{Address: addressWords(netip.AddrFrom16(address)), Half: w.half}
}

// clear removes the keys of the generation that used the half before. Arrays are
// overwritten.
func (w *tableWriter) clear(before *generation) {
	if before == nil {
		return
	}
	for _, address := range before.tunnelEnds.addresses {
		w.delete(mapDecapsulations, w.destination(address))
	}
	for _, address := range before.tunnelEnds.guarded {
		w.delete(mapTunnelEnds, w.destination(address.As16()))
	}
	for _, c := range before.exporting.collectors {
		c.Half = uint8(w.half)
		w.delete(mapCollectors, c)
	}
	for _, in := range before.interfaces {
		for _, p := range in.policies {
			w.delete(mapPolicies, w.policyKey(in, p))
		}
	}
	for key := range before.trie {
		key.Tree = w.tree(key.Tree)
		w.delete(mapRuleTrie, key)
	}
}

func (w *tableWriter) namespaces(g *generation) {
	base := w.half * w.set.capacity.namespaces
	entries := g.namespaces
	if len(entries) == 0 { // the index must be valid even without entries
		entries = []ABIIoamNamespace{{Id: noNamespace}}
	}
	fill(w, mapNamespaces, base, entries)
	index := make([]uint32, g.namespaceHash.size())
	for i := range index {
		index[i] = base
	}
	for i, ns := range g.namespaces {
		index[g.namespaceHash.of(ns.Id)] = base + uint32(i)
	}
	fill(w, mapNamespaceIndex, w.half*w.set.capacity.namespaceIndex, index)
}

func (w *tableWriter) policyKey(in compiledInterface, p model.NamespacePolicy) ABIPolicyKey {
	return ABIPolicyKey{Ifindex: uint32(in.index), NamespaceId: uint16(p.Namespace), Half: uint8(w.half)}
}

func (w *tableWriter) policies(g *generation) {
	for _, in := range g.interfaces {
		for _, p := range in.policies {
			w.put(mapPolicies, w.policyKey(in, p), uint32(p.Boundary))
		}
	}
}

// tree numbers the interfaces' tries over both generations.
func (w *tableWriter) tree(number uint32) uint32 { return number | w.half<<31 }

func (w *tableWriter) interfaces(g *generation, fast func(compiledInterface) bool) {
	table := make([]ABIInterface, g.interfaceHash.size())
	for _, in := range g.interfaces {
		entry := in.entry
		entry.Slot, entry.Half = noSlot, uint8(w.half)
		if slot, ok := w.set.slots[in.index]; ok {
			entry.Slot = uint16(slot)
		}
		entry.Fast = boolean(fast(in))
		switch {
		case entry.HasTrie == 1:
			entry.FirstRule = w.tree(entry.FirstRule)
		case entry.FirstRule != noRule:
			entry.FirstRule += w.half * w.set.capacity.rules
		}
		table[g.interfaceHash.of(entry.Ifindex)] = entry
	}
	for _, u := range g.uppers {
		u.Half = uint8(w.half)
		table[g.interfaceHash.of(u.Ifindex)] = u
	}
	fill(w, mapInterfaces, w.half*w.set.capacity.interfaceTable, table)
}

func (w *tableWriter) tunnelEnds(g *generation) {
	base := w.half * w.set.capacity.sources
	for i, address := range g.tunnelEnds.addresses {
		end := g.tunnelEnds.ends[i]
		end.FirstSource += base
		w.put(mapDecapsulations, w.destination(address), end)
	}
	fill(w, mapTunnelSources, base, g.tunnelEnds.sources)
	for _, address := range g.tunnelEnds.guarded {
		w.put(mapTunnelEnds, w.destination(address.As16()), uint32(1))
	}
}

func (w *tableWriter) encapsulations(g *generation) {
	firstRule, first := w.half*w.set.capacity.rules, w.half*w.set.capacity.encapsulations
	rules := make([]ABIRule, len(g.rules))
	for i, rule := range g.rules {
		rule.Encapsulation += first
		if rule.Next != noRule {
			rule.Next += firstRule
		}
		rules[i] = rule
	}
	fill(w, mapRules, firstRule, rules)
	for key, rule := range g.trie {
		key.Tree = w.tree(key.Tree)
		w.put(mapRuleTrie, key, rule+firstRule)
	}
	entries := make([]ABIEncapsulation, len(g.encapsulations))
	for i, e := range g.encapsulations {
		e.Index = first + uint32(i)
		entries[i] = e
	}
	fill(w, mapEncapsulations, first, entries)
}
