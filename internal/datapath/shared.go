// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/undo"
)

// sharedMaps outlive generations and belong to no single interface.
var sharedMaps = []string{
	bpf.MapFrequencies, bpf.MapFrequencyBlocks, bpf.MapClock, bpf.MapRecords, bpf.MapRecordsWanted, bpf.MapForwarding, bpf.MapTicks, bpf.MapDevices, bpf.MapNeighbours,
	bpf.MapFlowClock, bpf.MapDrafts, bpf.MapPostcardRates, bpf.MapLoopbackRates, bpf.MapArrivals, bpf.MapMarkings, bpf.MapBlockClocks, bpf.MapUnserved, bpf.MapTapHeads, bpf.MapProofBlocks, bpf.MapBehaviours, bpf.MapSegmentRoutes, bpf.MapRouted,
	bpf.MapE2EClock, bpf.MapE2EPackets,
}

// openShared opens or creates the maps that all interfaces share.
func (d *Datapath) openShared() (_ bpf.Maps, err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	shared := make(bpf.Maps)
	var opened undo.Stack
	defer opened.OnError(&err)
	opened.AddClose(shared.Close)
	for _, name := range sharedMaps {
		spec := d.specs[name].Copy()
		if name == bpf.MapRecords {
			spec.MaxEntries = uint32(cpus)
		}
		path, err := bpf.PinPath(d.options.PinPath, name, d.options.Log)
		if err == nil {
			shared[name], err = bpf.Pinned(path, spec)
		}
		if err != nil {
			delete(shared, name)
			return nil, err
		}
	}
	if err := fillRings(shared[bpf.MapRecords], d.specs[bpf.MapRecords].InnerMap, cpus); err != nil {
		return nil, err
	}
	if err := flows.KeyEdges(shared[bpf.MapE2EClock]); err != nil {
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
