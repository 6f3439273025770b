// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"crypto/sha256"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/problem"
)

// assignFrequencies finds each encapsulation's slot by its name, so that k/n
// continues, and gives new ones a free slot. Stale slots are those without an
// owner, fresh ones those newly taken: the caller frees the stale slots once the
// generation is in force, or the fresh ones if it fails.
func assignFrequencies(g *compile.Generation, shared bpf.Maps) (stale, fresh []uint32, err error) {
	frequencies := shared[bpf.MapFrequencies]
	slots := make(map[[56]byte]uint32)
	var free []uint32
	var slot uint32
	var entry bpf.ABIFrequency
	for it := frequencies.Iterate(); it.Next(&slot, &entry); {
		if entry.Name == ([56]byte{}) {
			free = append(free, slot)
		} else {
			slots[entry.Name] = slot
		}
	}
	for i, owner := range g.Owners {
		if e := &g.Encapsulations[i]; e.FrequencyK >= e.FrequencyN && e.HasBudget == 0 && e.Loopback == 0 {
			continue // selects every packet: nothing to count
		}
		key := frequencyKey(owner)
		at, ok := slots[key]
		if !ok {
			if len(free) == 0 {
				return nil, fresh, problem.New("no slot left to count an encapsulation's frequency", "remove encapsulations that are not used")
			}
			at, free = free[0], free[1:]
			if err := beginFrequency(shared, at, key); err != nil {
				return nil, fresh, err
			}
			fresh = append(fresh, at)
		}
		delete(slots, key)
		g.Encapsulations[i].FrequencySlot = at
	}
	for _, at := range slots {
		stale = append(stale, at)
	}
	return stale, fresh, nil
}

// beginFrequency assigns a slot that no program uses to an encapsulation.
func beginFrequency(shared bpf.Maps, slot uint32, key [56]byte) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	if err := shared[bpf.MapFrequencyBlocks].Put(slot, make([]bpf.ABIFrequencyBlock, cpus)); err != nil {
		return fmt.Errorf("fill map %s: %w", bpf.MapFrequencyBlocks, err)
	}
	if err := shared[bpf.MapFrequencies].Put(slot, bpf.ABIFrequency{Name: key}); err != nil {
		return fmt.Errorf("fill map %s: %w", bpf.MapFrequencies, err)
	}
	return nil
}

// freeFrequencies frees slots.
func freeFrequencies(frequencies *ebpf.Map, slots []uint32) error {
	for _, slot := range slots {
		if err := frequencies.Put(slot, bpf.ABIFrequency{}); err != nil {
			return fmt.Errorf("free a frequency: %w", err)
		}
	}
	return nil
}

// frequencyKey is a name, or the digest of one that is too long.
func frequencyKey(name string) (key [56]byte) {
	if len(name) <= len(key) && name != "" {
		copy(key[:], name)
		return key
	}
	sum := sha256.Sum256([]byte(name))
	copy(key[:], "sha256:")
	copy(key[7:], sum[:])
	return key
}
