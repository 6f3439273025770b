// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// Points that select other packets than the ingress, or do not say which ones, are uncertain and
// warned of, until they select the same again.
func TestSelectionsAreCompared(t *testing.T) {
	same := loss.Selection{Path: 1, Marking: 1}
	narrow, silent := same, loss.Selection{}
	narrow.Takers = 7
	for _, tt := range []struct {
		name       string
		selection  loss.Selection
		assume     bool
		verdict    loss.Verdict
		assumed    loss.Assumptions
		difference string
	}{
		{"equal", same, false, loss.Measured, 0, ""},
		{"narrower", narrow, false, loss.Uncertain, 0, "a narrower flow there takes packets from it"},
		{"narrower, others are assumed to select the same", narrow, true, loss.Uncertain, 0, "a narrower flow there takes packets from it"},
		{"an exporter of before", silent, false, loss.Uncertain, 0, "it does not say which packets it selects"},
		{"an exporter of before, assumed to select the same", silent, true, loss.Measured, loss.AssumedSelection, ""},
	} {
		c, out, send := offline(t, Config{Join: join.Config{Wait: maxBlockWait}, AssumeSelection: tt.assume}, ipfix.UDP)
		x, first := newBlockExporter(t), time.Now().UnixNano()/int64(blockLength)-20
		block := func(number int64, of loss.Selection) {
			var list []*record.Block
			for point := range loss.PointID(3) {
				b := counted("red", number, point, 2, 10)
				b.ClockError = record.NewField[uint64](1000, true)
				if point == 2 {
					b.Selection = of
				}
				list = append(list, b)
			}
			send(x.message(list...))
			c.flush(time.Now())
		}
		block(first, tt.selection)
		block(first+1, tt.selection)
		block(first+2, same)
		var warnings []*record.Warning
		var whole []*record.Loss
		for _, r := range out.all() {
			switch r := r.(type) {
			case *record.Warning:
				warnings = append(warnings, r)
			case *record.Loss:
				if r.Scope == record.WholeWay {
					whole = append(whole, r)
				} else if r.From == 0 && r.Verdict != loss.Measured {
					t.Errorf("%s: before the point: %+v", tt.name, r)
				}
			}
		}
		if len(whole) != 3 || whole[1].Verdict != tt.verdict || whole[1].Assumed != tt.assumed || whole[1].ToDifference != tt.difference ||
			whole[2].Verdict != loss.Measured {
			t.Errorf("%s: %+v", tt.name, whole)
		}
		if tt.difference == "" {
			if len(warnings) > 0 {
				t.Errorf("%s: %+v", tt.name, warnings[0])
			}
			continue
		}
		if len(warnings) != 2 || warnings[0].Code != string(health.SelectionsDiffer) || !warnings[0].Beyond ||
			!strings.HasSuffix(warnings[0].Facts, "point 2: "+tt.difference) ||
			warnings[1].Beyond {
			t.Errorf("%s: %+v", tt.name, warnings)
		}
	}
}

// What a point said holds while its records are missing: the nodes select the same again only if
// the point that differed says so.
func TestSilenceEndsNoDifference(t *testing.T) {
	same := loss.Selection{Path: 1, Marking: 1}
	narrow := same
	narrow.Takers = 7
	c, out, send := offline(t, Config{Join: join.Config{Wait: maxBlockWait}}, ipfix.UDP)
	x, first := newBlockExporter(t), time.Now().UnixNano()/int64(blockLength)-20
	number := first
	block := func(points ...loss.Selection) { // zero: the record of the point is missing
		t.Helper()
		var list []*record.Block
		for point, selection := range points {
			if b := counted("red", number, loss.PointID(point), 2, 10); selection.Known() {
				b.ClockError, b.Selection = record.NewField[uint64](1000, true), selection
				list = append(list, b)
			}
		}
		send(x.message(list...))
		c.flush(time.Now())
		number++
	}
	end := func() {
		c.change(c.blocks.assembler.Flush)
	}
	none := loss.Selection{}
	block(same, same, same)
	block(same, narrow, narrow)
	block(same, none, none)
	block(same, none, same)
	block(none, same, same)
	end()
	block(same, none, same)
	end()
	block(same, none, narrow) // its result comes after that of the next one
	block(same, same, same)
	end()
	var got []string
	for _, r := range out.all() {
		if w, ok := r.(*record.Warning); ok {
			_, facts, _ := strings.Cut(w.Facts, "selects; ")
			got = append(got, facts)
		}
	}
	want := []string{
		"point 1: a narrower flow there takes packets from it; point 2: a narrower flow there takes packets from it",
		"point 1: as before; it has not reported this block",
		"",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
