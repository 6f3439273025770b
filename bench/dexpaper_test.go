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
)

// Each figure of the paper is a panel, in which everything published is beside a
// curve of ours, and looks like no other.
func TestFiguresOfPaper(t *testing.T) {
	papers, err := papersValues()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]int)
	for _, name := range []string{"dex-encap", "dex-transit", "dex-decap"} {
		b, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range invented(b).panels(papers) {
			title, isFigure := strings.CutPrefix(p.title, "figure ")
			looks := make(map[string]bool)
			for i, pair := range p.pairs() {
				looks[fmt.Sprint(styled(i).outline, styled(i).color)] = true
				switch {
				case pair.ours == nil, isFigure && len(pair.published) != 1, !isFigure && len(pair.published) > 0:
					t.Errorf("%s: %+v", p.title, pair)
				case isFigure && !slices.Equal(pair.ours.x, pair.published[0].x):
					t.Errorf("%s: %s has %v beside %v", p.title, pair.name, pair.ours.x, pair.published[0].x)
				}
			}
			if isFigure {
				number, _, _ := strings.Cut(title, ":")
				series[number] = len(p.pairs())
			}
			if len(looks) < min(len(p.pairs()), len(outlines)) {
				t.Errorf("%s: %d of %d curves look different", p.title, len(looks), len(p.pairs()))
			}
		}
	}
	if difference := cmp.Diff(map[string]int{"3": 9, "4": 3, "5": 3, "6": 9, "7": 3, "8": 9, "9": 3}, series); difference != "" {
		t.Error(difference)
	}
}

// What a run in passing leaves out are points between others, or what is seen in
// other curves as well: no way to export, and no parameter.
func TestBrief(t *testing.T) {
	for _, make1 := range []func() experiment{dexEncapsulationExperiment, dexTransitExperiment, dexDecapsulationExperiment} {
		e := make1()
		short := curvesOf(e.brief())
		for name, full := range curvesOf(e) {
			want := percents
			_, panel := split(name)
			switch {
			case strings.HasPrefix(panel, byParameter):
				want = percents[2:]
			case strings.HasPrefix(panel, asInPaper) && len(full) != len(paperPercents):
				t.Errorf("%s has %v", name, full)
			case short[name] == nil && strings.Contains(name, "trace type"):
				want = nil
			}
			if difference := cmp.Diff(want, short[name]); difference != "" {
				t.Errorf("%s: %s", name, difference)
			}
		}
		for _, kind := range []string{"0x800000", "0x100000", "0x002000"} {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(short)), func(name string) bool { return strings.Contains(name, kind+", as in the paper") }) {
				t.Errorf("trace type %s is left out", kind)
			}
		}
	}
}

func curvesOf(e experiment) map[string][]float64 {
	curves := make(map[string][]float64)
	for _, v := range e.variants {
		curves[v.name] = append(curves[v.name], v.x)
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
	a, b, plain := &variant{name: "a"}, &variant{name: "b"}, &variant{name: "plain"}
	list := []*variant{a}
	for i, against := range []*variant{a, a, b, a, a, b, a} {
		list = append(list, &variant{name: fmt.Sprint(i), against: against})
	}
	list = append(list, &variant{name: "both", against: a, plain: plain})
	names := func(together int) (out []string) {
		e := experiment{variants: list, together: together}
		for _, turn := range e.turns() {
			var members []string
			for _, v := range turn.members() {
				members = append(members, v.name)
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
