// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
)

// What a node said of what it selects holds while it is silent: the warning ends only when all
// nodes that differed say that they select the same.
func TestSilenceEndsNoDifference(t *testing.T) {
	log := &agenttest.Log{}
	w := flowWatches{d: Dependencies{Log: slog.New(slog.NewTextHandler(log, nil))}}
	at := netip.MustParseAddrPort
	w.begin([]model.MeasuredFlow{{Name: "red", Points: []netip.AddrPort{at("[2001:db8::1]:862"), at("[2001:db8::2]:862")}}})
	same := loss.Selection{Block: 1000, Path: 1, Marking: 1}
	narrow, none := same, loss.Selection{}
	narrow.Takers = 7
	f := &loss.Flow{ID: 1, Points: []loss.PointID{0, 1, 2}, Timing: loss.Timing{Length: time.Second, ClockDifference: 50e6, MaxDelay: 50e6}}
	lines := 0
	for i, tt := range []struct {
		block   int64
		points  [3]loss.Selection // zero: it is silent
		differs string            // the nodes in the warning
		logged  int
	}{
		{5, [3]loss.Selection{same, same, same}, "", 0},
		{6, [3]loss.Selection{same, narrow, same}, "::1", 1},
		{7, [3]loss.Selection{same, none, same}, "::1", 0},
		{8, [3]loss.Selection{same, none, narrow}, "::1 ::2", 1},
		{9, [3]loss.Selection{same, none, none}, "::1 ::2", 0},
		{10, [3]loss.Selection{none, same, same}, "::1 ::2", 0},
		{11, [3]loss.Selection{}, "::1 ::2", 0},
		{12, [3]loss.Selection{same, same, none}, "::2", 1},
		{14, [3]loss.Selection{same, same, same}, "", 1},
		{13, [3]loss.Selection{same, none, narrow}, "", 0},   // it comes after a later block
		{2, [3]loss.Selection{same, same, narrow}, "::2", 1}, // the clock was set
	} {
		reports := make([]loss.Report, 3)
		for p, s := range tt.points {
			if s.Known() {
				reports[p] = loss.Report{Present: true, Selection: s, Reading: loss.Reading{Point: loss.PointID(p), Packets: 10}}
			}
		}
		r := loss.Compute(f, tt.block, reports)
		w.result("red", &r, nil)
		var got []string
		for _, warning := range w.warnings() {
			for _, node := range []string{"::1", "::2"} {
				if strings.Contains(warning.Text, node+")") {
					got = append(got, node)
				}
			}
		}
		if strings.Join(got, " ") != tt.differs {
			t.Errorf("step %d: %v differ, want %q: %+v", i, got, tt.differs, w.warnings())
		}
		if lines += tt.logged; strings.Count(log.String(), "\n") != lines {
			t.Fatalf("step %d: %d lines, want %d:\n%s", i, strings.Count(log.String(), "\n"), lines, log)
		}
	}
}
