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
	for _, hook := range segmentHooks {
		times["srv6-parts"] = append(times["srv6-parts"], ofSegmentPart(packetsMeasured, hook))
	}
	for _, c := range costCases() {
		if c.aim == 0 {
			continue
		}
		l := costLimit(c)
		if l == nil || l.Why == "" {
			t.Errorf("cost: no limit of %q", c.is())
			continue
		}
		for _, each := range append(slices.Concat(l.Plus, l.Ours), l.Floor) {
			if !slices.Contains(times[each.Benchmark], each.Variant) {
				t.Errorf("cost: %q refers to %+v", c.is(), each)
			}
		}
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

// The limits of fast forwarding are bare prototypes of the same treatment, on one queue
// and measured in the same run. They export nothing: what that takes is a part.
func TestLimitsOfFastForwarding(t *testing.T) {
	e := fastExperiment()
	for _, want := range []struct {
		treatment, format string
		noCache           bool
		floor, filled     string
		parts             []string
	}{
		{transitTreatment, withIDs, false, transitTreatment, withIDs, nil},
		{transitTreatment, withIDs, true, transitTreatment, withIDs, nil},
		{transitTreatment, withTimes, false, transitTreatment, withTimes, nil},
		{inlineTreatment, withIDs, false, inlineTreatment, withIDs, nil},
		{tunnelTreatment, withIDs, false, tunnelTreatment, withIDs, nil},
		{tunnelTreatment, withIDs, true, tunnelTreatment, withIDs, nil},
		{decapsulating, noReader, false, decapsulating, "", nil},
		{decapsulating, noReader, true, decapsulating, "", nil},
		{transitTreatment, nineNamespaces, false, transitTreatment, nineNamespaces, nil},
		{"Direct Export, insertion", aggregated.name, false, inlineTreatment, withIDs, []string{partAggregate}},
		{"Direct Export, insertion", everyExported.name, false, inlineTreatment, withIDs, []string{partPostcard}},
		{"Direct Export, transit", aggregated.name, false, plainPackets, "", []string{partDirectExport, partAggregate}},
		{"Direct Export, transit", everyExported.name, false, plainPackets, "", []string{partDirectExport, partPostcard}},
		{"Direct Export, decapsulation", aggregated.name, false, decapsulating, "", []string{partAggregate}},
		{"Direct Export, decapsulation", everyExported.name, false, decapsulating, "", []string{partPostcard}},
	} {
		for _, queues := range []int{0, 1} {
			is := report.Dimensions{
				Way:       report.WayFast,
				Treatment: want.treatment,
				Format:    want.format,
				NoCache:   want.noCache,
				Sink:      sinkXDP,
				Queues:    queues,
			}
			v := findRow(e, is, float64(sizes[0]))
			if v == nil || v.Limit == nil {
				t.Errorf("%s has no limit", is)
				continue
			}
			if difference := cmp.Diff(partReferences(want.parts...), v.Limit.Ours); difference != "" || v.Limit.Plus != nil {
				t.Errorf("%s: %s, and %+v", is, difference, v.Limit.Plus)
			}
			floor := report.Dimensions{
				Treatment: "bare prototype, " + want.floor, By: report.ByBareProgram, Format: want.filled, NoCache: want.noCache, Sink: sinkXDP,
				Queues: 1,
			}
			if difference := cmp.Diff(report.Reference{Variant: floor}, v.Limit.Floor); difference != "" {
				t.Errorf("%s: %s", is, difference)
			}
		}
	}
	for way, part := range map[exportWay][]report.Reference{
		everyExported: partReferences(partPostcard), aggregated: partReferences(partAggregate), sampled: nil,
	} {
		v := findRow(dexTransitExperiment(), report.Dimensions{Treatment: way.name, Way: report.WayStack, Size: shortPacket}, 100)
		if difference := cmp.Diff(part, v.Limit.Ours); difference != "" {
			t.Errorf("%s: %s", v.Is, difference)
		}
	}
}

func partReferences(names ...string) (list []report.Reference) {
	for _, name := range names {
		list = append(list, report.Reference{Benchmark: "parts", Variant: report.Dimensions{Treatment: name}})
	}
	return list
}

// The pages show what is measured, also in short runs.
func TestShown(t *testing.T) {
	for _, shown := range report.Shown() {
		b, err := Find(shown.Benchmark)
		if err != nil {
			t.Error(err)
			continue
		}
		if b.Table == nil {
			continue
		}
		if v := findRow(b.Table(), shown.Variant, shown.X); v == nil {
			t.Errorf("%s does not measure %q at %v", shown.Benchmark, shown.Variant, shown.X)
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
	const perLine, perBurst, footprint, most = 250 * time.Millisecond, 15 * time.Millisecond, time.Minute, 9 * time.Minute
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
