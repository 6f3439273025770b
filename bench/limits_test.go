// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"strings"
	"testing"
)

// Whatever has an aim says what keeps it from there, in figures that are measured.
func TestLimits(t *testing.T) {
	times := map[string][]string{}
	for _, p := range parts() {
		times["parts"] = append(times["parts"], p.name)
	}
	for _, c := range costCases() {
		times["cost"] = append(times["cost"], c.name())
	}
	for _, b := range All() {
		if b.make == nil {
			continue
		}
		limits := Result{Name: b.Name}.limits()
		for _, v := range b.make().variants {
			if v.aim == 0 && v.plainAim == 0 {
				continue
			}
			l := limits[[2]any{v.name, v.x}]
			if l == nil || l.why == "" {
				t.Errorf("%s: no limit of %q", b.Name, v.name)
				continue
			}
			in, x := b, v.x
			if l.floor.benchmark != "" {
				in, _ = Find(l.floor.benchmark)
			}
			if l.floor.x != 0 {
				x = l.floor.x
			}
			floor := func(other *variant) bool { return other.name == l.floor.variant && other.x == x }
			if !slices.ContainsFunc(in.make().variants, floor) {
				t.Errorf("%s: %q refers to %+v at %v", b.Name, v.name, l.floor, x)
			}
			for _, each := range slices.Concat(l.plus, l.ours) {
				if !slices.Contains(times[each.benchmark], each.variant) {
					t.Errorf("%s: %q refers to %+v", b.Name, v.name, each)
				}
			}
		}
	}
}

func TestDistance(t *testing.T) {
	rate := func(ns float64) *float64 { pps := 1e9 / ns; return &pps }
	ns := func(v float64) *float64 { return &v }
	of := func(transit, alone float64) Result {
		return Result{Name: "forwarding", Machine: "one", Points: []Point{
			{Variant: "our transit at xdp, ids", X: 78, PPS: rate(transit), Ratio: 500 / transit, Aim: 0.8},
			{Variant: hooksAlone + " at xdp, ids", X: 78, PPS: rate(alone), Ratio: 500 / alone},
			{Variant: hooksAlone + " at xdp, ids", X: 1236, PPS: rate(900), Ratio: 0.5},
		}}
	}
	times := Result{Name: "parts", Machine: "one"}
	for _, name := range []string{partParse, partHeader, partFill, partEgressParse, partComplete} {
		times.Points = append(times.Points, Point{Variant: name, X: 118, NS: ns(10)})
	}
	elsewhere := times
	elsewhere.Machine = "another"
	const begin = "*our transit at xdp, ids* (78 bytes) takes 700 ns a packet where the aim allows 625"
	for _, test := range []struct {
		name   string
		result Result
		others []Result
		want   string
	}{
		{"limit within the aim", of(700, 600), []Result{times}, begin + ": " + whyHooks +
			", makes it 600, which is within the aim; ours is 100 ns from that limit, of which our programs take 50 when all they touch is in the caches."},
		{"limit beyond the aim", of(700, 650), nil, begin + ": " + whyHooks + ", makes it 650, which alone is beyond the aim; ours is 50 ns from that limit."},
		{"parts of another machine", of(700, 650), []Result{elsewhere}, begin + ": " + whyHooks + ", makes it 650, which alone is beyond the aim; ours is 50 ns from that limit."},
		{"at the limit", of(700, 700), nil, begin + ": " + whyHooks + ", makes it 700, which alone is beyond the aim; ours is at that limit."},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := test.result.distance(test.result.Points[0], test.result.limits()[[2]any{"our transit at xdp, ids", 78.0}], append(test.others, test.result))
			if got != test.want {
				t.Errorf("%s\ninstead of\n%s", got, test.want)
			}
		})
	}
	fast := Result{Name: "fast", Points: []Point{
		{Variant: "fast forwarding, transit, ids, no cache, sink in XDP", X: 78, PPS: rate(300), Ratio: 1.9, PlainRatio: 1.5, PlainAim: askingAim},
		{Variant: "fast forwarding, plain packets, no cache, sink in XDP", X: 78, PPS: rate(270), Ratio: 1.7, PlainRatio: 5. / 3},
	}}
	got := fast.distance(fast.Points[0], fast.limits()[[2]any{fast.Points[0].Variant, 78.0}], measured{fast})
	if want := "takes 300 ns a packet where the aim allows 257: "; !strings.Contains(got, want) || !strings.Contains(got, "makes it 270, which alone is beyond") {
		t.Errorf("%s", got)
	}
}
