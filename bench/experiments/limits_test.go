// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

// Whatever has an aim says what may keep it from that, in terms of figures that
// are measured.
func TestLimits(t *testing.T) {
	testnet.NeedRoot(t)
	times := map[string][]report.Dimensions{}
	for _, p := range parts() {
		times["parts"] = append(times["parts"], p.is())
	}
	for _, c := range costCases() {
		times["cost"] = append(times["cost"], c.is())
	}
	for _, b := range All() {
		if b.Table == nil {
			continue
		}
		for _, v := range b.Table().Variants {
			if v.Aim == 0 && v.PlainAim == 0 {
				continue
			}
			l := v.Limit
			if l == nil || l.Why == "" {
				t.Errorf("%s: no limit of %q", b.Name, v.Is)
				continue
			}
			in, x := b, v.X
			if l.Floor.Benchmark != "" {
				in, _ = Find(l.Floor.Benchmark)
			}
			if l.Floor.X != 0 {
				x = l.Floor.X
			}
			floor := func(other *harness.Variant) bool { return other.Is == l.Floor.Variant && other.X == x }
			if !slices.ContainsFunc(in.Table().Variants, floor) {
				t.Errorf("%s: %q refers to %+v at %v", b.Name, v.Is, l.Floor, x)
			}
			for _, each := range slices.Concat(l.Plus, l.Ours) {
				if !slices.Contains(times[each.Benchmark], each.Variant) {
					t.Errorf("%s: %q refers to %+v", b.Name, v.Is, each)
				}
			}
		}
	}
}

// The number of bytes that the papers say their headers add.
func TestPaperHeaders(t *testing.T) {
	var options, namespaces []int
	for n := 1; n <= 9; n++ {
		options = append(options, overhead(model.ModeEncap, pathInEach(1, fields(n))))
		namespaces = append(namespaces, overhead(model.ModeEncap, pathInEach(n, fields(1))))
	}
	if difference := cmp.Diff([]int{72, 80, 96, 104, 120, 128, 152, 176, 200}, options); difference != "" {
		t.Error("options", difference)
	}
	if difference := cmp.Diff([]int{72, 96, 120, 144, 168, 192, 216, 240, 264}, namespaces); difference != "" {
		t.Error("namespaces", difference)
	}
	if most := overhead(model.ModeInline, pathInEach(1, fields(len(fieldBits)))); most < 180 || most > 220 {
		t.Errorf("11 options add %d bytes instead of about 200", most)
	}
}

// The value called the default is the configuration's default.
func TestDefaultNextHops(t *testing.T) {
	c, err := config.Parse("node.yaml", []byte("node: {id: 1}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if int(c.Node.NextHops) != defaultNextHops {
		t.Errorf("%d next hops by default", c.Node.NextHops)
	}
}

// All benchmarks in short runs must take less than ten minutes, including the
// time to raise lines and the time between measurements: on a quiet machine about
// a quarter of a second for a line, and 15 ms around a measurement.
func TestShortFormIsShort(t *testing.T) {
	const perLine, perBurst, footprint, most = 250 * time.Millisecond, 15 * time.Millisecond, time.Minute, 8 * time.Minute
	all := footprint
	for _, b := range All() {
		all += b.Short.Duration
		if b.Table == nil {
			continue
		}
		e, lines := b.Table().Brief(), make(map[string]bool)
		for _, v := range e.Variants {
			for _, member := range (harness.Turn{v}).Members() {
				lines[member.LineKey()] = true
			}
		}
		all += time.Duration(len(lines))*perLine + time.Duration(b.Short.Rounds*e.Bursts())*perBurst
	}
	if all > most {
		t.Errorf("%v", all)
	} else {
		t.Logf("%v", all)
	}
}
