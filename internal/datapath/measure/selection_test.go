// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

// TestSelectionNumbers checks the numbers by which model.Selections orders flows that compete for
// packets.
func TestSelectionNumbers(t *testing.T) {
	for want, got := range map[bpf.ABISelection]bpf.ABISelection{
		1: bpf.ABISelectionSELECT_SEGMENTS, 2: bpf.ABISelectionSELECT_DESTINATION, 4: bpf.ABISelectionSELECT_CLASS,
		8: bpf.ABISelectionSELECT_LABEL, 16: bpf.ABISelectionSELECT_INLINE, 32: bpf.ABISelectionSELECT_MONITOR,
	} {
		if got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
}

// TestSelectionOfTheWholeBlock checks that a block is complete only if one selection holds for all
// of it: not that in which a narrower flow comes or goes, whatever other flows there are.
func TestSelectionOfTheWholeBlock(t *testing.T) {
	class, other := uint8(0), uint8(0x20)
	red, web, video := flowOf(1), flowOf(1), flowOf(1)
	web.Name, web.TrafficClass, video.Name, video.TrafficClass = "web", &class, "video", &other
	for _, tt := range []struct {
		name          string
		before, after []model.MeasuredFlow
		clear         bool
		same          bool // nothing changes for the flow
	}{
		{"the first narrower flow comes", []model.MeasuredFlow{red}, []model.MeasuredFlow{red, web}, false, false},
		{"the last narrower flow goes", []model.MeasuredFlow{red, web}, []model.MeasuredFlow{red}, false, false},
		{"another narrower flow comes", []model.MeasuredFlow{red, web}, []model.MeasuredFlow{red, web, video}, false, false},
		{"one of two goes", []model.MeasuredFlow{red, web, video}, []model.MeasuredFlow{red, web}, false, false},
		{"another takes its place", []model.MeasuredFlow{red, web}, []model.MeasuredFlow{red, video}, false, false},
		{"one of two goes, marks are cleared", []model.MeasuredFlow{red, web, video}, []model.MeasuredFlow{red, web}, true, false},
		{"nothing", []model.MeasuredFlow{red, web}, []model.MeasuredFlow{red, web}, true, true},
	} {
		config := func(flows []model.MeasuredFlow) model.Measurement {
			cfg := measurementOf(flows...)
			cfg.Clear = tt.clear
			for i := range cfg.Flows {
				cfg.Flows[i].Direction = model.DirectionOut
			}
			return cfg
		}
		shared, table := opened(t, config(tt.before))
		counts := func(block uint64) (found BlockCounts) {
			table.Read(block, nil, func(c BlockCounts) {
				if c.Flow == red.Name {
					found = c
				}
			})
			return found
		}
		was := counts(0).Selection
		for number := range table.flows.entries { // as if it had been counted for long
			table.flows.entries[number].Since = 1
		}
		for name, at := range table.numbers {
			at.since = 1
			table.numbers[name] = at
		}
		began := time.Now()
		change(t, shared, table, config(tt.after))
		block, now := uint64(began.UnixNano())/uint64(time.Second), counts(uint64(time.Now().UnixNano())/uint64(time.Second))
		if before, after := counts(block), counts(now.Block+1); before.Complete != tt.same || now.Complete != tt.same || !after.Complete {
			t.Errorf("%s: complete %v, then %v, then %v", tt.name, before.Complete, now.Complete, after.Complete)
		}
		if was == now.Selection != tt.same || !now.Selection.Known() || now.Selection != config(tt.after).Selections()[0] {
			t.Errorf("%s: %+v, before %+v", tt.name, now.Selection, was)
		}
	}
}

// TestWholeBlocks checks from when on a flow must be counted: where packets arrive, those of the
// block may be early by the guard.
func TestWholeBlocks(t *testing.T) {
	const length, guard, block = uint64(time.Second), uint64(100 * time.Millisecond), 1_700_000_000
	m := Table{length: length, guard: guard}
	for _, tt := range []struct {
		since   uint64
		in, out bool
	}{
		{block*length - guard, true, true},
		{block*length - guard + 1, false, true},
		{block * length, false, true},
		{block*length + 1, false, false},
		{notYet, false, false},
	} {
		if in, out := m.isWhole(counted{since: tt.since, in: true}, block), m.isWhole(counted{since: tt.since}, block); in != tt.in ||
			out != tt.out {
			t.Errorf("since %d: %v where packets arrive, %v where they leave", tt.since, in, out)
		}
	}
	if !m.isWhole(counted{in: true}, 0) {
		t.Error("the first block of all begins before time does")
	}
}
