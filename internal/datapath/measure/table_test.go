// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// fakeMeasured is the counters of one flow, "red", for two CPUs, in memory of this process.
// The flow has the keys of two places.
func fakeMeasured() *Table {
	const places, room, slots = 8, 4, 2 * int(bpf.ABIMarkingBoundMARKING_SLOTS)
	return &Table{
		keys:   sharedArray[bpf.ABIMeasuredKey]{entries: make([]bpf.ABIMeasuredKey, places)},
		counts: sharedArray[bpf.ABIBlockCounts]{entries: make([]bpf.ABIBlockCounts, places*slots)},
		notes:  sharedArray[bpf.ABIBlockNotes]{entries: make([]bpf.ABIBlockNotes, room*slots)},
		flows:  sharedArray[bpf.ABIFlowState]{entries: make([]bpf.ABIFlowState, room)},
		length: 1e9, numbers: map[string]counted{"red": {number: 3, places: []uint32{2, 5}}},
	}
}

// set sets what a CPU counted by the flow's second key, and noted, in the place of a block.
func (t *Table) set(cpu int, block uint64, counts, notes uint64) {
	slot := uint32(cpu*int(bpf.ABIMarkingBoundMARKING_SLOTS)) + uint32(block%uint64(bpf.ABIMarkingBoundMARKING_SLOTS))
	t.counts.entries[slot*t.places()+5] = bpf.ABIBlockCounts{Block: counts, Packets: 10}
	t.notes.entries[slot*t.room()+3] = bpf.ABIBlockNotes{Block: uint32(notes), Late: 1}
}

// readOnly is what is read of a block.
func (t *Table) readOnly(block uint64) (c BlockCounts) {
	t.Read(block, nil, func(each BlockCounts) { c = each })
	return c
}

// TestReplacedBlocks reads a block in whose place a CPU counts a later one already: what is
// left of it is not complete. Blocks of before, and of a clock that was far ahead, say nothing.
func TestReplacedBlocks(t *testing.T) {
	const slots, block = uint64(bpf.ABIMarkingBoundMARKING_SLOTS), uint64(1<<33 + 6)
	for _, tt := range []struct {
		name          string
		counts, notes uint64 // blocks in the place on the second CPU
		packets, late uint64
		complete      bool
	}{
		{"both CPUs", block, block, 20, 2, true},
		{"one CPU", 0, 0, 10, 1, true},
		{"the other has an earlier block", block - slots, block - slots, 10, 1, true},
		{"the other is one turn ahead", block + slots, block, 10, 2, false},
		{"its notes are", block, block + slots, 20, 1, false},
		{"two turns", block + 2*slots, 0, 10, 1, false},
		{"a clock that was ahead", block + 3*slots, block + 1<<20, 10, 1, true},
	} {
		m := fakeMeasured()
		m.set(0, block, block, block)
		m.set(1, block, tt.counts, tt.notes)
		if c := m.readOnly(block); c.Packets != tt.packets || c.Late != tt.late || c.Complete != tt.complete || c.Reported {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

// TestReportedBlocks notes for the next agent which blocks were reported.
func TestReportedBlocks(t *testing.T) {
	m := fakeMeasured()
	const block = uint64(1<<32 + 100)
	if m.readOnly(block).Reported {
		t.Error("a block is reported at the begin")
	}
	m.Report("blue", block) // no such flow
	for _, each := range []uint64{block - 8, block - 4, block - 5} {
		m.Report("red", each)
	}
	for each, want := range map[uint64]bool{block - 12: true, block - 5: true, block - 4: true, block - 3: false, block: false,
		block + 1<<20: false} {
		if got := m.readOnly(each).Reported; got != want {
			t.Errorf("block %d is reported: %v", int64(each-block), got)
		}
	}
	m.clearNumber(3)
	if m.readOnly(block - 4).Reported {
		t.Error("another flow of the same number is reported")
	}
	(*Table)(nil).Report("red", 1)
}
