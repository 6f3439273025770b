// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/compile"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/measure"
	"github.com/waymark-net/waymark/internal/datapath/rings"
	"github.com/waymark-net/waymark/internal/datapath/undo"
)

// tables are the maps that outlive generations but exist only while a
// configuration needs them, because they are large.
type tables struct {
	maps      bpf.Maps
	flows     *flows.Table         // of mapFlows, or nil
	sequences *flows.Sequences     // shared by all tables
	cards     *rings.PostcardRings // of mapPostcards, or nil
	measured  *measure.Table       // of measuredMaps, or nil
}

var tableNames = append(
	[]string{
		bpf.MapFlows,
		bpf.MapSequences,
		bpf.MapPathMTUs,
		bpf.MapPostcards,
		bpf.MapProofs,
		bpf.MapE2ENumbers,
		bpf.MapE2EFlows,
		bpf.MapDelays,
	},
	measure.Maps...)

// tableSizes are the entries of the tables that a generation needs.
func tableSizes(g *compile.Generation, cpus int) map[string]uint32 {
	sizes := make(map[string]uint32)
	if g.Exports.FlowSets > 0 {
		sizes[bpf.MapFlows] = g.Exports.FlowSets * uint32(cpus)
	}
	if g.Exports.Sequences {
		sizes[bpf.MapSequences] = uint32(bpf.ABIPostcardBoundSEQUENCE_SETS)
	}
	if g.Exports.Postcards {
		sizes[bpf.MapPostcards] = (rings.PostcardHead + g.Node.PostcardRoom) * uint32(cpus)
	}
	if g.Proofs.Any() {
		sizes[bpf.MapProofs] = uint32(bpf.ABIProofBoundPROOF_SLOTS)
	}
	if g.Node.InsertsE2e == 1 {
		sizes[bpf.MapE2ENumbers] = uint32(bpf.ABIE2eBoundE2E_NUMBER_SETS)
	}
	if g.Node.HasE2e == 1 {
		sizes[bpf.MapE2EFlows] = uint32(bpf.ABIE2eBoundE2E_FLOW_SETS)
	}
	if g.Node.HasDelays == 1 {
		sizes[bpf.MapDelays] = uint32(bpf.ABIDelayBoundDELAY_ROOM) * uint32(cpus)
	}
	if g.Node.InsertsInline == 1 {
		sizes[bpf.MapPathMTUs] = uint32(bpf.ABIPathMtuBoundPATH_MTUS)
	}
	return sizes
}

// recoverTables opens what an earlier agent left.
func (d *Datapath) recoverTables() (_ *tables, err error) {
	t := &tables{maps: make(bpf.Maps), sequences: d.sequences}
	var opened undo.Stack
	defer opened.OnError(&err)
	opened.AddClose(t.close)
	for _, name := range tableNames {
		path, err := bpf.PinPath(d.options.PinPath, name, d.options.Log)
		if err != nil {
			return nil, err
		}
		m, err := ebpf.LoadPinnedMap(path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open pinned map %s: %w", name, err)
		}
		spec := d.specs[name].Copy()
		if spec.MaxEntries = m.MaxEntries(); name == bpf.MapPostcards {
			spec.MaxEntries, err = rings.PostcardEntries()
		}
		if err != nil || spec.Compatible(m) != nil {
			m.Close() // an older version's: the next generation makes a new one
			continue
		}
		t.maps[name] = m
	}
	measure.DropPartly(t.maps)
	return t, t.open(d.shared)
}

func (t *tables) open(shared bpf.Maps) error {
	return errors.Join(t.openFlows(shared), t.openPostcards(), t.openMeasured())
}

func (t *tables) openPostcards() (err error) {
	if m, ok := t.maps[bpf.MapPostcards]; ok {
		t.cards, err = rings.NewPostcardRings(m)
	}
	return err
}

func (t *tables) openFlows(shared bpf.Maps) (err error) {
	if m, ok := t.maps[bpf.MapFlows]; ok {
		t.flows, err = flows.NewTable(m, shared[bpf.MapFlowClock], t.sequences)
	}
	return err
}

// next returns the tables for a generation: existing ones of the right size, or
// new ones, which are not pinned yet.
func (t *tables) next(g *compile.Generation, specs map[string]*ebpf.MapSpec, shared bpf.Maps) (_ *tables, err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	next := &tables{maps: make(bpf.Maps), sequences: t.sequences}
	sizes := tableSizes(g, cpus)
	if m, ok := t.maps[bpf.MapPostcards]; ok {
		sizes[bpf.MapPostcards] = m.MaxEntries() // stays: what is in it may not be read yet
	}
	if m, ok := t.maps[bpf.MapProofs]; ok {
		sizes[bpf.MapProofs] = m.MaxEntries() // stays: its numbers were given, or accepted
	}
	for _, name := range []string{bpf.MapE2ENumbers, bpf.MapE2EFlows, bpf.MapDelays} {
		if m, ok := t.maps[name]; ok {
			sizes[name] = m.MaxEntries() // stays: its numbers were given, or came
		}
	}
	measured, keep, err := g.Measured.Sizes(t.measured, shared, cpus)
	if err != nil {
		return nil, err
	}
	maps.Copy(sizes, measured)
	var change undo.Stack
	defer change.OnError(&err)
	change.AddClose(func() { next.abandon(t) })
	for name, size := range sizes {
		_, isMeasured := measured[name]
		if m, ok := t.maps[name]; ok && m.MaxEntries() == size && (keep || !isMeasured) {
			next.maps[name] = m
			continue
		}
		spec := specs[name].Copy()
		spec.MaxEntries = size
		if next.maps[name], err = ebpf.NewMap(spec); err != nil {
			delete(next.maps, name)
			return nil, fmt.Errorf("create map %s: %w", name, err)
		}
	}
	if next.maps[bpf.MapFlows] == t.maps[bpf.MapFlows] {
		next.flows = t.flows
	} else if err := next.openFlows(shared); err != nil {
		return nil, err
	}
	if next.maps[bpf.MapPostcards] == t.maps[bpf.MapPostcards] {
		next.cards = t.cards
	} else if err := next.openPostcards(); err != nil {
		return nil, err
	}
	return next, next.nextMeasured(t)
}

// abandon closes the maps that are not in use.
func (t *tables) abandon(inUse *tables) {
	if t.cards != inUse.cards {
		t.cards.Close()
	}
	if t.measured != inUse.measured {
		t.measured.Close()
	}
	for name, m := range t.maps {
		if inUse.maps[name] != m {
			m.Close()
		}
	}
}

// adopt pins the tables in place of those that were in use, and closes those.
func (t *tables) adopt(pinPath string, old *tables) error {
	var errs []error
	for _, name := range tableNames {
		if t.maps[name] == old.maps[name] {
			continue
		}
		file, err := bpf.PinFile(name)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		path := filepath.Join(pinPath, file)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		if m := t.maps[name]; m != nil {
			errs = append(errs, m.Pin(path))
		}
		if m := old.maps[name]; m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

func (t *tables) close() {
	t.cards.Close()
	t.measured.Close()
	t.maps.Close()
}

// openMeasured opens the counters, if there are any.
func (t *tables) openMeasured() (err error) {
	if t.maps[bpf.MapMeasuredKeys] != nil {
		t.measured, err = measure.NewTable(t.maps)
	}
	return err
}

// nextMeasured opens the counters of the next tables, which may be the same.
func (t *tables) nextMeasured(before *tables) error {
	if t.maps[bpf.MapMeasuredKeys] == before.maps[bpf.MapMeasuredKeys] {
		t.measured = before.measured
		return nil
	}
	return t.openMeasured()
}
