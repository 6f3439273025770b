// SPDX-License-Identifier: Apache-2.0

package datapath

import (
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
