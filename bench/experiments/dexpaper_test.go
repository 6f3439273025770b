// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
)

// Short runs leave out points between others, and variants whose effect other
// curves show, too; they keep every way to export and every parameter.
func TestBrief(t *testing.T) {
	for _, make1 := range []func() harness.Experiment{dexEncapsulationExperiment, dexTransitExperiment, dexDecapsulationExperiment} {
		e := make1()
		for _, v := range e.Variants {
			if v.X <= 0 || v.X > 100 {
				t.Errorf("%s has an option in %v%% of the packets", v.Is, v.X)
			}
		}
		short := curvesOf(e.Brief())
		for name, full := range curvesOf(e) {
			want := percents
			switch {
			case name.Comparison == report.ByParameter:
				want = percents[2:]
			case name.Comparison == report.AsInPaper && len(full) != len(paperPercents):
				t.Errorf("%s has %v", name, full)
			case name.By == report.ByTwin, name.By == report.ByKernel && name.Way == report.WayFast:
				want = nil // others are compared with them
			case short[name] == nil && strings.Contains(name.Format, "trace type"):
				want = nil
			}
			if difference := cmp.Diff(want, short[name]); difference != "" {
				t.Errorf("%s: %s", name, difference)
			}
		}
		for _, kind := range []string{"0x800000", "0x100000", "0x002000"} {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(short)), func(d report.Dimensions) bool {
				return d.Comparison == report.AsInPaper && strings.Contains(d.Format, kind)
			}) {
				t.Errorf("trace type %s is left out", kind)
			}
		}
	}
}

// Each way to export has its aims, with packets of both lengths: through the stack
// against the same node without Direct Export, and with fast forwarding against
// plain packets that the kernel forwards.
func TestDexAims(t *testing.T) {
	type aims struct{ stack1, stack100, fast100 float64 }
	for _, make1 := range []func() harness.Experiment{dexEncapsulationExperiment, dexTransitExperiment, dexDecapsulationExperiment} {
		e := make1()
		for way, want := range map[exportWay]aims{
			everyUnread:   {},
			everyRead:     {},
			everyExported: {0.995, 0.80, 0},
			aggregated:    {0.995, 0.94, 2.8},
			sampled:       {0.995, 0, 0},
		} {
			for _, size := range []int{shortPacket, longPacket} {
				for _, each := range []struct {
					way           report.Way
					x             float64
					aim, plainAim float64
				}{
					{report.WayStack, 1, want.stack1, 0},
					{report.WayStack, 10, 0, 0},
					{report.WayStack, 100, want.stack100, 0},
					{report.WayFast, 1, 0, 0},
					{report.WayFast, 100, 0, want.fast100},
				} {
					is := report.Dimensions{Treatment: way.name, Way: each.way, Size: size}
					v := findRow(e, is, each.x)
					if v == nil {
						t.Errorf("%s at %v is not measured", is, each.x)
						continue
					}
					if v.Aim != each.aim || v.PlainAim != each.plainAim {
						t.Errorf("%s at %v: aims of %v and %v, want %v and %v", is, each.x, v.Aim, v.PlainAim, each.aim, each.plainAim)
					}
					if v.Against == nil || v.Against.Is.By != "" || v.Plain == nil || v.Plain.Is.By != report.ByKernel {
						t.Errorf("%s at %v is compared with %+v and %+v", is, each.x, v.Against, v.Plain)
					}
					if r := v.Plain.Rival; (r != nil) != (each.way == report.WayFast) ||
						r != nil && (r.Rival != v.Plain || r.Queues != 1 || v.Plain.Queues != 0) {
						t.Errorf("%s at %v: the kernel has the rival %+v", is, each.x, r)
					}
				}
			}
		}
	}
}

// What differs between two lines is measured where an aim is smaller than that may be:
// with the same node and the same packets.
func TestTwins(t *testing.T) {
	for _, make1 := range []func() harness.Experiment{dexEncapsulationExperiment, dexTransitExperiment, dexDecapsulationExperiment} {
		e := make1()
		for _, size := range []int{shortPacket, longPacket} {
			v := findRow(e, report.Dimensions{Treatment: sameNodeAgain, By: report.ByTwin, Way: report.WayStack, Size: size}, 1)
			aimed := findRow(e, report.Dimensions{Treatment: everyExported.name, Way: report.WayStack, Size: size}, 1)
			switch {
			case v == nil:
				t.Errorf("no twin with %d bytes", size)
			case v.Against != aimed.Against || v.LineKey() == v.Against.LineKey() || !slices.Equal(v.Send.Frame, v.Against.Send.Frame):
				t.Errorf("%s is compared with %+v", v.Is, v.Against)
			}
		}
	}
}

func curvesOf(e harness.Experiment) map[report.Dimensions][]float64 {
	curves := make(map[report.Dimensions][]float64)
	for _, v := range e.Variants {
		curves[v.Is] = append(curves[v.Is], v.X)
	}
	return curves
}

// Raising lines and waiting for packets and records takes about as long as
// measuring: docs and help promise ten minutes for all benchmarks in short runs.
func TestDurations(t *testing.T) {
	var short time.Duration
	for _, b := range All() {
		short += b.Short.Duration
		if b.Full.Duration > 8*time.Minute {
			t.Errorf("%s takes %v", b.Name, b.Full.Duration)
		}
	}
	if short > 5*time.Minute {
		t.Errorf("all in short take %v", short)
	}
}
