// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// nearTime is how far a timestamp may be from its packet's capture: less than TAI is
// ahead of UTC, and more than clocks set by hand differ.
const nearTime = 10 * time.Second

// Times compares timestamps with the capture's own times, to detect a wrong format: in
// one they are half a minute to many years off.
type Times struct {
	clocks []record.Clock // to read them with; the requested one is first
	near   []int          // for each clock, how many timestamps are near with it
	seen   int
}

func newTimes(asked record.Clock) Times {
	t := Times{clocks: []record.Clock{asked}}
	for _, c := range []record.Clock{
		{Format: ioam.TimestampPOSIX, TAIOffset: asked.TAIOffset},
		{Format: ioam.TimestampPTP, TAIOffset: asked.TAIOffset},
		{Format: ioam.TimestampNTP, TAIOffset: asked.TAIOffset},
		{Format: ioam.TimestampPTP, TAIOffset: 37 * time.Second},
		{Format: ioam.TimestampPTP}, // the node's kernel does not know TAI
	} {
		if !slices.Contains(t.clocks, c) {
			t.clocks = append(t.clocks, c)
		}
	}
	t.near = make([]int, len(t.clocks))
	return t
}

// add counts the timestamps of a trace that was captured at a time.
func (t *Times) add(captured time.Time, nodes []ioam.NodeData) {
	if captured.IsZero() {
		return // not every packet of a pcapng file has a time
	}
	for _, node := range nodes {
		if _, ok := node.TimestampSeconds(); !ok {
			continue
		}
		t.seen++
		for i, c := range t.clocks {
			if at, ok := node.Timestamp(c.Format, c.TAIOffset); ok && at.Sub(captured).Abs() <= nearTime {
				t.near[i]++
			}
		}
	}
}

// Remark says why most timestamps are implausible, and which format may be meant; ""
// when they are plausible. One node with a wrong clock does not count as most.
func (t *Times) Remark() string {
	if 2*t.near[0] >= t.seen {
		return ""
	}
	remark := fmt.Sprintf(
		"read as %v, %d of %d timestamps differ by more than %v from the time of capture",
		t.clocks[0].Format,
		t.seen-t.near[0],
		t.seen,
		nearTime,
	)
	best := slices.Index(t.near, slices.Max(t.near))
	if 2*t.near[best] < t.seen {
		return remark + ", and so do most in every other format: a clock of the domain or of the capture is wrong"
	}
	cure := fmt.Sprintf("--timestamp-format %v", t.clocks[best].Format)
	if t.clocks[best].TAIOffset != t.clocks[0].TAIOffset {
		cure += fmt.Sprintf(" --tai-offset %v", t.clocks[best].TAIOffset)
	}
	return remark + "; with " + cure + " they agree"
}
