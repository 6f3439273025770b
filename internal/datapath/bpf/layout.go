// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"
)

// layouts are the types that define the contents of kept maps: for example, a
// version that renumbers outcomes must not read another version's counts.
var layouts = map[string][]string{
	PinTally:          {"tally", "outcome", "counter", "stack_reason"},
	MapRecords:        {"record", "flow_sample", "flow", "flow_totals", "flow_key", "outcome", "sample_kind"},
	MapRecordsWanted:  {"record_bound"},
	MapFlows:          {"flow", "flow_totals", "flow_key"},
	MapPostcards:      {"postcard", "postcard_head", "postcard_bound", "flow_key"},
	MapSequences:      {"sequence_slot"},
	MapProofs:         {"proof"},
	MapE2ENumbers:     {"e2e_entry", "e2e_number"},
	MapE2EFlows:       {"e2e_entry", "e2e_flow", "e2e_left"},
	MapDelays:         {"delay_series", "delay_bound", "delay_kind"},
	MapBehaviours:     {"behaviour", "behaviour_kind"},
	MapMarkings:       {"marking"},
	MapBlockClocks:    {"block_clock", "cut_packet"},
	MapMeasuredGroups: {"marking", "marking_bound", "place_state"},
	MapMeasuredKeys:   {"marking", "measured_key"},
	MapMeasuredCounts: {"marking", "block_counts"},
	MapMeasuredNotes:  {"marking", "block_notes"},
	MapMeasuredFlows:  {"marking", "flow_state"},
}

// loadTypes returns the types that programs and agent share.
var loadTypes = sync.OnceValues(func() (*btf.Spec, error) {
	spec, err := LoadABI()
	if err != nil {
		return nil, err
	}
	return spec.Types, nil
})

// pinName is a map's name without the dots of data sections, which the kernel refuses in
// the names of pins.
func pinName(name string) string { return strings.TrimPrefix(name, ".data.") }

// PinFile is the name of a kept map's pin, with a digest of its layout where that
// matters.
func PinFile(name string) (string, error) {
	names, ok := layouts[name]
	if !ok {
		return pinName(name), nil
	}
	types, err := loadTypes()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	for _, t := range names {
		found, err := types.AnyTypesByName(t)
		if err != nil {
			return "", fmt.Errorf("look up type %s: %w", t, err)
		}
		fmt.Fprintf(digest, "%s:", t)
		switch t := found[0].(type) {
		case *btf.Enum:
			for _, v := range t.Values {
				fmt.Fprintf(digest, "%s=%d,", v.Name, v.Value)
			}
		case *btf.Struct:
			fmt.Fprintf(digest, "%d,", t.Size)
			for _, m := range t.Members {
				fmt.Fprintf(digest, "%s@%d,", m.Name, m.Offset)
			}
		}
	}
	return name + "-" + hex.EncodeToString(digest.Sum(nil)[:4]), nil
}

// PinPath is where a kept map is pinned. Maps with another layout, left by an
// agent of another version, are dropped: their counts start again.
func PinPath(directory, name string, log *slog.Logger) (string, error) {
	file, err := PinFile(name)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(directory)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the pins: %w", err)
	}
	pin := pinName(name)
	for _, e := range entries {
		if e.Name() == file || e.Name() != pin && !strings.HasPrefix(e.Name(), pin+"-") {
			continue
		}
		if err := os.Remove(filepath.Join(directory, e.Name())); err != nil {
			return "", fmt.Errorf("give up the pin of another version: %w", err)
		}
		log.Info(
			"another version left a map with another layout; what is in it is given up",
			"map",
			name,
			"pin",
			filepath.Join(directory, e.Name()),
		)
	}
	return filepath.Join(directory, file), nil
}

// RemoveUnknownPins removes pins of maps that only other versions have: this one has known.
func RemoveUnknownPins(directory string, known []string, log *slog.Logger) error {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return fmt.Errorf("read the pins: %w", err)
	}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), "-")
		if e.IsDir() || slices.ContainsFunc(known, func(k string) bool { return pinName(k) == name }) {
			continue
		}
		path := filepath.Join(directory, e.Name())
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the pin of another version: %w", err)
		}
		log.Info("another version left a map that this one does not have; its pin is removed", "pin", path)
	}
	return nil
}
