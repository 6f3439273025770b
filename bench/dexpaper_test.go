// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/waymark-net/waymark/bench/report"
)

// What a run in passing leaves out are points between others, or what is seen in
// other curves as well: no way to export, and no parameter.
func TestBrief(t *testing.T) {
	for _, make1 := range []func() experiment{dexEncapsulationExperiment, dexTransitExperiment, dexDecapsulationExperiment} {
		e := make1()
		short := curvesOf(e.brief())
		for name, full := range curvesOf(e) {
			want := percents
			switch {
			case name.Comparison == report.ByParameter:
				want = percents[2:]
			case name.Comparison == report.AsInPaper && len(full) != len(paperPercents):
				t.Errorf("%s has %v", name, full)
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

func curvesOf(e experiment) map[report.Dimensions][]float64 {
	curves := make(map[report.Dimensions][]float64)
	for _, v := range e.variants {
		curves[v.is] = append(curves[v.is], v.x)
	}
	return curves
}

// Raising lines and letting packets and records arrive takes about as long again
// as measuring: docs and help promise ten minutes for all benchmarks in short.
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

// Every variant has one turn, after what it is compared with.
func TestTurns(t *testing.T) {
	a, b, plain := called("a"), called("b"), called("plain")
	list := []*variant{a}
	for i, against := range []*variant{a, a, b, a, a, b, a} {
		list = append(list, &variant{is: ofNode(fmt.Sprint(i), 0), against: against})
	}
	list = append(list, &variant{is: ofNode("both", 0), against: a, plain: plain})
	names := func(together int) (out []string) {
		e := experiment{variants: list, together: together}
		for _, turn := range e.turns() {
			var members []string
			for _, v := range turn.members() {
				members = append(members, v.is.Treatment)
			}
			out = append(out, strings.Join(members, " "))
		}
		return out
	}
	if difference := cmp.Diff([]string{"a", "a 0 1 3", "b 2 5", "a 4 6", "a plain both"}, names(3)); difference != "" {
		t.Error(difference)
	}
	if difference := cmp.Diff([]string{"a", "a 0", "a 1", "b 2", "a 3", "a 4", "b 5", "a 6", "a plain both"}, names(0)); difference != "" {
		t.Error(difference)
	}
	if n := (experiment{variants: list, together: 3}).bursts(); n != 1+4+3+3+3 {
		t.Errorf("%d measurements", n)
	}
}

func called(name string) *variant { return &variant{is: ofNode(name, 0)} }
