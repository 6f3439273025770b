// SPDX-License-Identifier: Apache-2.0

// Package bpf has the compiled BPF programs, the types that they share with Go, the names of
// their maps, and the pins of those that are kept.
package bpf

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Maps of one generation, and those that outlive generations.
const (
	MapTallies         = "tallies"
	MapState           = ".data.state"
	MapNamespaceIndex  = "namespace_index"
	MapNamespaces      = "namespaces"
	MapInterfaces      = "interfaces"
	MapPolicies        = "boundary_policies"
	MapDecapsulations  = "decapsulations"
	MapTunnelSources   = "tunnel_sources"
	MapTunnelEnds      = "tunnel_destinations"
	MapRules           = "rules"
	MapRuleTrie        = "rule_trie"
	MapEncapsulations  = "encapsulations"
	MapFrequencies     = "frequencies"
	MapFrequencyBlocks = "frequency_blocks"
	MapClock           = "clock"
	MapRecords         = "records"
	MapRecordsWanted   = "records_wanted"
	MapNextHops        = "next_hops"
	MapForwarding      = ".data.forwarding"
	MapTicks           = "ticks"
	MapDevices         = "devices"
	MapNeighbours      = "neighbours"
	MapFlows           = "flows"
	MapFlowClock       = "flow_clock"
	MapDrafts          = "drafts"
	MapPostcardRates   = "postcard_rates"
	MapPostcards       = "postcards"
	MapLoopbackRates   = "loopback_rates"
	MapArrivals        = "arrivals"
	MapSequences       = "sequences"
	MapPathMTUs        = "path_mtus"
	MapProofs          = "proofs"
	MapProofBlocks     = "proof_blocks"
	MapE2ENumbers      = "e2e_numbers"
	MapE2EFlows        = "e2e_flows"
	MapE2EClock        = "e2e_clock"
	MapDelays          = "delays"
	MapE2EPackets      = "e2e_packets"
	MapCollectors      = "collectors"
	MapMarkings        = "markings"
	MapMeasuredGroups  = "measured_groups"
	MapMeasuredKeys    = "measured_keys"
	MapMeasuredCounts  = "measured_counts"
	MapMeasuredNotes   = "measured_notes"
	MapMeasuredFlows   = "measured_flows"
	MapBlockClocks     = "block_clocks"
	MapUnserved        = "unserved"
	MapTapHeads        = "tap_heads"
	MapBehaviours      = "behaviours"
	MapSegmentRoutes   = "segment_routes"
	MapRouted          = "routed"
)

// PinTally is the name of the pin of an interface's counters.
const PinTally = "counters"

// Mappable lets the maps that the agent writes through memory be created for that.
func Mappable(specs map[string]*ebpf.MapSpec) {
	for _, name := range []string{MapState, MapForwarding} {
		specs[name].Flags |= unix.BPF_F_MMAPABLE
	}
}

// Maps is maps by name; closing them does not end those that a program holds.
type Maps map[string]*ebpf.Map

// Close closes all maps in this process.
func (s Maps) Close() {
	for _, m := range s {
		m.Close()
	}
}

// Pinned opens a map that outlives generations, or creates and pins it. A map
// that an older program left with another layout is replaced.
func Pinned(path string, spec *ebpf.MapSpec) (*ebpf.Map, error) {
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
