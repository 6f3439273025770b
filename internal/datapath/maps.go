// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
)

// Maps of one generation, and those that outlive generations.
const (
	mapTallies         = "tallies"
	mapState           = ".data.state"
	mapNamespaceIndex  = "namespace_index"
	mapNamespaces      = "namespaces"
	mapInterfaces      = "interfaces"
	mapPolicies        = "boundary_policies"
	mapDecapsulations  = "decapsulations"
	mapTunnelSources   = "tunnel_sources"
	mapTunnelEnds      = "tunnel_destinations"
	mapRules           = "rules"
	mapRuleTrie        = "rule_trie"
	mapEncapsulations  = "encapsulations"
	mapFrequencies     = "frequencies"
	mapFrequencyBlocks = "frequency_blocks"
	mapClock           = "clock"
	mapRecords         = "records"
	mapRecordsWanted   = "records_wanted"
	mapNextHops        = "next_hops"
	mapForwarding      = "forwarding"
	mapTicks           = "ticks"
	mapDevices         = "devices"
	mapNeighbours      = "neighbours"
	mapFlows           = "flows"
	mapFlowClock       = "flow_clock"
	mapDrafts          = "drafts"
	mapPostcardRates   = "postcard_rates"
	mapPostcards       = "postcards"
	mapLoopbackRates   = "loopback_rates"
	mapArrivals        = "arrivals"
	mapSequences       = "sequences"
	mapPathMTUs        = "path_mtus"
	mapProofs          = "proofs"
	mapProofBlocks     = "proof_blocks"
	mapE2ENumbers      = "e2e_numbers"
	mapE2EFlows        = "e2e_flows"
	mapE2EClock        = "e2e_clock"
	mapE2EPackets      = "e2e_packets"
	mapCollectors      = "collectors"
	mapMarkings        = "markings"
	mapMeasuredGroups  = "measured_groups"
	mapMeasuredKeys    = "measured_keys"
	mapMeasuredCounts  = "measured_counts"
	mapMeasuredNotes   = "measured_notes"
	mapMeasuredFlows   = "measured_flows"
	mapBlockClocks     = "block_clocks"
	mapUnserved        = "unserved"
	mapTapHeads        = "tap_heads"
	mapBehaviours      = "behaviours"
	mapSegmentRoutes   = "segment_routes"
	mapRouted          = "routed"
)

// pinTally is the name of the pin of an interface's counters.
const pinTally = "counters"

// sharedMaps outlive generations and belong to no single interface.
var sharedMaps = []string{
	mapFrequencies, mapFrequencyBlocks, mapClock, mapRecords, mapRecordsWanted, mapForwarding, mapTicks, mapDevices, mapNeighbours,
	mapFlowClock, mapDrafts, mapPostcardRates, mapLoopbackRates, mapArrivals, mapMarkings, mapBlockClocks, mapUnserved, mapTapHeads, mapProofBlocks, mapBehaviours, mapSegmentRoutes, mapRouted,
	mapE2EClock, mapE2EPackets,
}

// mapSet is maps by name; closing them does not end those that a program holds.
type mapSet map[string]*ebpf.Map

func (s mapSet) close() {
	for _, m := range s {
		m.Close()
	}
}

// pinned opens a map that outlives generations, or creates and pins it. A map
// that an older program left with another layout is replaced.
func pinned(path string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err == nil && spec.Compatible(m) != nil {
		m.Close()
		if err = os.Remove(path); err != nil {
			return nil, err
		}
		err = os.ErrNotExist
	}
	if err == nil {
		return m, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open pinned map %s: %w", path, err)
	}
	if m, err = ebpf.NewMap(spec); err != nil {
		return nil, fmt.Errorf("create map %s: %w", spec.Name, err)
	}
	if err := m.Pin(path); err != nil {
		m.Close()
		return nil, fmt.Errorf("pin map %s: %w", path, err)
	}
	return m, nil
}

// openShared opens or creates the maps that all interfaces share.
func (d *Datapath) openShared() (mapSet, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	shared := make(mapSet)
	for _, name := range sharedMaps {
		spec := d.specs[name].Copy()
		if name == mapRecords {
			spec.MaxEntries = uint32(cpus)
		}
		path, err := d.pinPathOf(d.options.PinPath, name)
		if err == nil {
			shared[name], err = pinned(path, spec)
		}
		if err != nil {
			delete(shared, name)
			shared.close()
			return nil, err
		}
	}
	if err := fillRings(shared[mapRecords], d.specs[mapRecords].InnerMap, cpus); err != nil {
		shared.close()
		return nil, err
	}
	if err := keyEdges(shared[mapE2EClock]); err != nil {
		shared.close()
		return nil, err
	}
	return shared, nil
}

// fillRings gives every CPU its ring; existing rings stay.
func fillRings(records *ebpf.Map, spec *ebpf.MapSpec, cpus int) error {
	for cpu := range uint32(cpus) {
		var ring *ebpf.Map
		if records.Lookup(cpu, &ring) == nil {
			ring.Close()
			continue
		}
		ring, err := ebpf.NewMap(spec)
		if err != nil {
			return fmt.Errorf("create ring of CPU %d: %w", cpu, err)
		}
		err = records.Put(cpu, ring)
		ring.Close()
		if err != nil {
			return fmt.Errorf("install ring of CPU %d: %w", cpu, err)
		}
	}
	return nil
}

// assignFrequencies finds each encapsulation's slot by its name, so that k/n
// continues, and gives new ones a free slot. Stale slots are those without an
// owner, fresh ones those newly taken: the caller frees the stale slots once the
// generation is in force, or the fresh ones if it fails.
func (g *generation) assignFrequencies(shared mapSet) (stale, fresh []uint32, err error) {
	frequencies := shared[mapFrequencies]
	slots := make(map[[56]byte]uint32)
	var free []uint32
	var slot uint32
	var entry abiFrequency
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
	if err := shared[mapFrequencyBlocks].Put(slot, make([]abiFrequencyBlock, cpus)); err != nil {
		return fmt.Errorf("fill map %s: %w", mapFrequencyBlocks, err)
	}
	if err := shared[mapFrequencies].Put(slot, abiFrequency{Name: key}); err != nil {
		return fmt.Errorf("fill map %s: %w", mapFrequencies, err)
	}
	return nil
}

// freeFrequencies frees slots.
func freeFrequencies(frequencies *ebpf.Map, slots []uint32) error {
	for _, slot := range slots {
		if err := frequencies.Put(slot, abiFrequency{}); err != nil {
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
