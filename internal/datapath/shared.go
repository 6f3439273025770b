// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/undo"
)

// sharedMaps outlive generations and belong to no single interface.
var sharedMaps = []string{
	mapFrequencies, mapFrequencyBlocks, mapClock, mapRecords, mapRecordsWanted, mapForwarding, mapTicks, mapDevices, mapNeighbours,
	mapFlowClock, mapDrafts, mapPostcardRates, mapLoopbackRates, mapArrivals, mapMarkings, mapBlockClocks, mapUnserved, mapTapHeads, mapProofBlocks, mapBehaviours, mapSegmentRoutes, mapRouted,
	mapE2EClock, mapE2EPackets,
}

// openShared opens or creates the maps that all interfaces share.
func (d *Datapath) openShared() (_ mapSet, err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	shared := make(mapSet)
	var opened undo.Stack
	defer opened.OnError(&err)
	opened.AddClose(shared.close)
	for _, name := range sharedMaps {
		spec := d.specs[name].Copy()
		if name == mapRecords {
			spec.MaxEntries = uint32(cpus)
		}
		path, err := pinPathOf(d.options.PinPath, name, d.options.Log)
		if err == nil {
			shared[name], err = pinned(path, spec)
		}
		if err != nil {
			delete(shared, name)
			return nil, err
		}
	}
	if err := fillRings(shared[mapRecords], d.specs[mapRecords].InnerMap, cpus); err != nil {
		return nil, err
	}
	if err := keyEdges(shared[mapE2EClock]); err != nil {
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
