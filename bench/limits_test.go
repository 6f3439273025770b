// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"testing"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/test/testnet"
)

// Whatever has an aim says what keeps it from there, in figures that are measured.
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
		if b.make == nil {
			continue
		}
		for _, v := range b.make().variants {
			if v.aim == 0 && v.plainAim == 0 {
				continue
			}
			l := v.limit
			if l == nil || l.Why == "" {
				t.Errorf("%s: no limit of %q", b.Name, v.is)
				continue
			}
			in, x := b, v.x
			if l.Floor.Benchmark != "" {
				in, _ = Find(l.Floor.Benchmark)
			}
			if l.Floor.X != 0 {
				x = l.Floor.X
			}
			floor := func(other *variant) bool { return other.is == l.Floor.Variant && other.x == x }
			if !slices.ContainsFunc(in.make().variants, floor) {
				t.Errorf("%s: %q refers to %+v at %v", b.Name, v.is, l.Floor, x)
			}
			for _, each := range slices.Concat(l.Plus, l.Ours) {
				if !slices.Contains(times[each.Benchmark], each.Variant) {
					t.Errorf("%s: %q refers to %+v", b.Name, v.is, each)
				}
			}
		}
	}
}
