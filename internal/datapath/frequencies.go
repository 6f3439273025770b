// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// assignFrequencies finds each encapsulation's slot by its name, so that k/n
// continues, and gives new ones a free slot. Stale slots are those without an
// owner, fresh ones those newly taken: the caller frees the stale slots once the
// generation is in force, or the fresh ones if it fails.
func assignFrequencies(g *generation, shared mapSet) (stale, fresh []uint32, err error) {
	frequencies := shared[mapFrequencies]
	slots := make(map[[56]byte]uint32)
	var free []uint32
	var slot uint32
	var entry ABIFrequency
	for it := frequencies.Iterate(); it.Next(&slot, &entry); {
		if entry.Name == ([56]byte{}) {
			free = append(free, slot)
		} else {
			slots[entry.Name] = slot
		}
	}
	for i, owner := range g.owners {
		if e := &g.encapsulations[i]; e.FrequencyK >= e.FrequencyN && e.HasBudget == 0 && e.Loopback == 0 {
			continue // selects every packet: nothing to count
		}
		key := frequencyKey(owner)
		at, ok := slots[key]
		if !ok {
			if len(free) == 0 {
				return nil, fresh, errors.New("no slot left to count an encapsulation's frequency; remove encapsulations that are not used")
			}
			at, free = free[0], free[1:]
			if err := beginFrequency(shared, at, key); err != nil {
				return nil, fresh, err
			}
			fresh = append(fresh, at)
		}
		delete(slots, key)
		g.encapsulations[i].FrequencySlot = at
	}
	for _, at := range slots {
		stale = append(stale, at)
	}
	return stale, fresh, nil
}

// beginFrequency assigns a slot that no program uses to an encapsulation.
func beginFrequency(shared mapSet, slot uint32, key [56]byte) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count CPUs: %w", err)
	}
	if err := shared[mapFrequencyBlocks].Put(slot, make([]ABIFrequencyBlock, cpus)); err != nil {
		return fmt.Errorf("fill map %s: %w", mapFrequencyBlocks, err)
	}
	if err := shared[mapFrequencies].Put(slot, ABIFrequency{Name: key}); err != nil {
		return fmt.Errorf("fill map %s: %w", mapFrequencies, err)
	}
	return nil
}

// freeFrequencies frees slots.
func freeFrequencies(frequencies *ebpf.Map, slots []uint32) error {
	for _, slot := range slots {
		if err := frequencies.Put(slot, ABIFrequency{}); err != nil {
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
