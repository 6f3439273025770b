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

	"github.com/waymark-net/waymark/internal/datapath/undo"
)

// tables are the maps that outlive generations but exist only while a
// configuration needs them, because they are large.
type tables struct {
	maps     mapSet
	flows    *flowTable     // of mapFlows, or nil
	gaps     *flowGaps      // shared by all tables
	cards    *postcardRings // of mapPostcards, or nil
	measured *measuredTable // of measuredMaps, or nil
}

var tableNames = append([]string{mapFlows, mapSequences, mapPathMTUs, mapPostcards, mapProofs, mapE2ENumbers, mapE2EFlows}, measuredMaps...)

// tableSizes are the entries of the tables that a generation needs.
func tableSizes(g *generation, cpus int) map[string]uint32 {
	sizes := make(map[string]uint32)
	if g.exporting.flowSets > 0 {
		sizes[mapFlows] = g.exporting.flowSets * uint32(cpus)
	}
	if g.exporting.sequences {
		sizes[mapSequences] = uint32(ABIPostcardBoundSEQUENCE_SETS)
	}
	if g.exporting.postcards {
		sizes[mapPostcards] = (postcardHead + g.node.PostcardRoom) * uint32(cpus)
	}
	if g.proving.any() {
		sizes[mapProofs] = uint32(ABIProofBoundPROOF_SLOTS)
	}
	if g.node.InsertsE2e == 1 {
		sizes[mapE2ENumbers] = uint32(ABIE2eBoundE2E_NUMBER_SETS)
	}
	if g.node.HasE2e == 1 {
		sizes[mapE2EFlows] = uint32(ABIE2eBoundE2E_FLOW_SETS)
	}
	if g.node.InsertsInline == 1 {
		sizes[mapPathMTUs] = uint32(ABIPathMtuBoundPATH_MTUS)
	}
	return sizes
}

// recoverTables opens what an earlier agent left.
func (d *Datapath) recoverTables() (_ *tables, err error) {
	t := &tables{maps: make(mapSet), gaps: d.gaps}
	var opened undo.Stack
	defer opened.OnError(&err)
	opened.AddClose(t.close)
	for _, name := range tableNames {
		path, err := pinPathOf(d.options.PinPath, name, d.options.Log)
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
		if spec.MaxEntries = m.MaxEntries(); name == mapPostcards {
			spec.MaxEntries, err = postcardEntries()
		}
		if err != nil || spec.Compatible(m) != nil {
			m.Close() // an older version's: the next generation makes a new one
			continue
		}
		t.maps[name] = m
	}
	dropPartly(t.maps)
	return t, t.open(d.shared)
}

func (t *tables) open(shared mapSet) error {
	return errors.Join(t.openFlows(shared), t.openPostcards(), t.openMeasured())
}

func (t *tables) openPostcards() (err error) {
	if m, ok := t.maps[mapPostcards]; ok {
		t.cards, err = newPostcardRings(m)
	}
	return err
}

func (t *tables) openFlows(shared mapSet) (err error) {
	if m, ok := t.maps[mapFlows]; ok {
		t.flows, err = newFlowTable(m, shared[mapFlowClock], t.gaps)
	}
	return err
}

// next returns the tables for a generation: existing ones of the right size, or
// new ones, which are not pinned yet.
func (t *tables) next(g *generation, specs map[string]*ebpf.MapSpec, shared mapSet) (_ *tables, err error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	next := &tables{maps: make(mapSet), gaps: t.gaps}
	sizes := tableSizes(g, cpus)
	if m, ok := t.maps[mapPostcards]; ok {
		sizes[mapPostcards] = m.MaxEntries() // stays: what is in it may not be read yet
	}
	if m, ok := t.maps[mapProofs]; ok {
		sizes[mapProofs] = m.MaxEntries() // stays: its numbers were given, or accepted
	}
	for _, name := range []string{mapE2ENumbers, mapE2EFlows} {
		if m, ok := t.maps[name]; ok {
			sizes[name] = m.MaxEntries() // stays: its numbers were given, or came
		}
	}
	measured, keep, err := g.measuring.sizes(t.measured, shared, cpus)
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
	if next.maps[mapFlows] == t.maps[mapFlows] {
		next.flows = t.flows
	} else if err := next.openFlows(shared); err != nil {
		return nil, err
	}
	if next.maps[mapPostcards] == t.maps[mapPostcards] {
		next.cards = t.cards
	} else if err := next.openPostcards(); err != nil {
		return nil, err
	}
	return next, next.nextMeasured(t)
}

// abandon closes the maps that are not in use.
func (t *tables) abandon(inUse *tables) {
	if t.cards != inUse.cards {
		t.cards.close()
	}
	if t.measured != inUse.measured {
		t.measured.close()
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
		file, err := pinFile(name)
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
	t.cards.close()
	t.measured.close()
	t.maps.close()
}

// openMeasured opens the counters, if there are any.
func (t *tables) openMeasured() (err error) {
	if t.maps[mapMeasuredKeys] != nil {
		t.measured, err = newMeasuredTable(t.maps)
	}
	return err
}

// nextMeasured opens the counters of the next tables, which may be the same.
func (t *tables) nextMeasured(before *tables) error {
	if t.maps[mapMeasuredKeys] == before.maps[mapMeasuredKeys] {
		t.measured = before.measured
		return nil
	}
	return t.openMeasured()
}
