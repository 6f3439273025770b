// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// findRow returns the variant of an experiment at an x; nil without one.
func findRow(e harness.Experiment, is report.Dimensions, x float64) *harness.Variant {
	i := slices.IndexFunc(e.Variants, func(v *harness.Variant) bool { return v.Is == is && v.X == x })
	if i < 0 {
		return nil
	}
	return e.Variants[i]
}

// Each row of fast forwarding has its aim with one queue and with one for each
// CPU, against the faster of the kernel's two.
func TestFastRows(t *testing.T) {
	e := fastExperiment()
	for _, want := range []struct {
		treatment, format string
		asks              bool
		aim               float64
	}{
		{transitTreatment, withIDs, false, 3},
		{transitTreatment, withTimes, false, 2.6},
		{inlineTreatment, withIDs, false, 3},
		{tunnelTreatment, withIDs, false, 3},
		{decapsulating, noReader, false, 3},
		{transitTreatment, withIDs, true, 1.75},
		{tunnelTreatment, withIDs, true, 1.75},
		{decapsulating, noReader, true, 1.75},
		{transitTreatment, nineNamespaces, false, 1.5},
		{"Direct Export, insertion", aggregated.name, false, 2.8},
		{"Direct Export, insertion", everyExported.name, false, 1.5},
		{"Direct Export, transit", aggregated.name, false, 2.8},
		{"Direct Export, transit", everyExported.name, false, 1.5},
		{"Direct Export, decapsulation", aggregated.name, false, 2.8},
		{"Direct Export, decapsulation", everyExported.name, false, 1.5},
	} {
		for _, size := range sizes {
			for _, queues := range []int{1, 0} {
				is := report.Dimensions{
					Way:       report.WayFast,
					Treatment: want.treatment,
					Format:    want.format,
					NoCache:   want.asks,
					Sink:      sinkXDP,
					Queues:    queues,
				}
				v := findRow(e, is, float64(size))
				if v == nil {
					t.Errorf("%s at %d bytes is not measured", is, size)
					continue
				}
				if v.PlainAim != want.aim || v.Aim != 0 {
					t.Errorf("%s at %d bytes: aims of %v and %v, want %v", is, size, v.PlainAim, v.Aim, want.aim)
				}
				plain := v.Plain
				if plain == nil {
					plain = v.Against
				}
				if plain.Is.Format != plainPackets || len(plain.Send.Frame) != size {
					t.Errorf("%s at %d bytes is held to %s, %d bytes", is, size, plain.Is, len(plain.Send.Frame))
				}
				for _, kernel := range []*harness.Variant{v.Against, plain} {
					if r := kernel.Rival; r == nil || r.Rival != kernel || r.Queues == kernel.Queues || !bytes.Equal(r.Send.Frame, kernel.Send.Frame) {
						t.Errorf("%s at %d bytes: %s has the rival %+v", is, size, kernel.Is, r)
					}
				}
			}
		}
	}
}

// Through the stack, every node is compared with the kernel on links with as many
// queues, and has the same aims with one queue as with several.
func TestForwardingRows(t *testing.T) {
	e := forwardingExperiment()
	for _, want := range []struct {
		treatment, hook, format string
		aim, plainAim           float64
	}{
		{"our programs", "xdp", plainPackets, 0.94, 0},
		{ourTransit, "xdp", withIDs, 0, 0.87},
		{ourTransit, "tcx", withIDs, 0, 0.87},
		{ourTransit, "xdp", nineNamespaces, 0, 0.72},
		{ourTransit, "tcx", nineNamespaces, 0, 0.72},
		{"our encapsulation inline", "", withIDs, 0.88, 0},
		{"our encapsulation in a tunnel", "", withIDs, 0.88, 0},
	} {
		for _, size := range sizes {
			for _, queues := range []int{1, 0} {
				is := report.Dimensions{Treatment: want.treatment, Hook: want.hook, Format: want.format, Queues: queues}
				v := findRow(e, is, float64(size))
				if v == nil {
					t.Errorf("%s at %d bytes is not measured", is, size)
					continue
				}
				if v.Aim != want.aim || v.PlainAim != want.plainAim {
					t.Errorf("%s at %d bytes: aims of %v and %v, want %v and %v", is, size, v.Aim, v.PlainAim, want.aim, want.plainAim)
				}
				if hook := v.Limit.Floor.Variant.Hook; want.hook != "" && hook != want.hook {
					t.Errorf("%s at %d bytes is held to empty programs at %s", is, size, hook)
				}
			}
		}
	}
	for _, v := range e.Variants {
		for _, other := range []*harness.Variant{v.Against, v.Plain} {
			if other != nil && other.Queues != v.Queues {
				t.Errorf("%s is compared with %s", v.Is, other.Is)
			}
		}
	}
}

// Every treatment that forwards fast is on two CPUs what it is on one, and is
// compared with that. Where packets of a flow get numbers on both, these are
// checked.
func TestCoresRows(t *testing.T) {
	audits := 0
	for _, v := range twoAgainstOne() {
		switch {
		case v.Is.Comparison != report.AgainstOneCPU || !v.SinkInXDP || v.Queues != 0 || v.Send.Senders != int(v.X):
			t.Errorf("%s at %v: %+v", v.Is, v.X, v)
		case v.X == 1:
			if v.Against != nil || v.Aim != 0 || v.Audits != nil {
				t.Errorf("%s on one CPU is compared with %+v, aim %v", v.Is, v.Against, v.Aim)
			}
			continue
		}
		one := v.Against
		if one == nil || one.Is != v.Is || one.X != 1 || one.LineKey() != v.LineKey() || !bytes.Equal(one.Send.Frame, v.Send.Frame) {
			t.Errorf("%s on two CPUs is compared with %+v", v.Is, one)
		}
		if want := map[bool]float64{false: 1.9}[v.Is.Treatment == endsAlone]; v.Aim != want {
			t.Errorf("%s: an aim of %v, want %v", v.Is, v.Aim, want)
		}
		if v.Audits != nil {
			audits++
		}
	}
	if audits != 4 {
		t.Errorf("%d audits", audits)
	}
	e := harness.Experiment{Variants: twoAgainstOne()}
	for is, flows := range map[report.Dimensions]int{
		{Treatment: plainPackets}:                                                    manyFlows,
		{Treatment: transitTreatment, Format: withIDs}:                               manyFlows,
		{Treatment: transitTreatment, Format: withTimes}:                             manyFlows,
		{Treatment: transitTreatment, Format: nineNamespaces}:                        manyFlows,
		{Treatment: tunnelTreatment + " of 1 in 100", Format: withIDs}:               manyFlows,
		{Treatment: "Direct Export, decapsulation", Format: aggregated.name}:         1,
		{Treatment: "Direct Export, decapsulation", Format: everyRead.name}:          1,
		{Treatment: inlineTreatment, Format: withIDs}:                                manyFlows,
		{Treatment: tunnelTreatment, Format: withIDs}:                                manyFlows,
		{Treatment: decapsulating, Format: noReader}:                                 manyFlows,
		{Treatment: "Direct Export, transit", Format: aggregated.name}:               1,
		{Treatment: "Direct Export, transit", Format: everyRead.name}:                1,
		{Treatment: "Direct Export, insertion", Format: aggregated.name}:             1,
		{Treatment: "Direct Export, insertion", Format: everyRead.name}:              1,
		{Treatment: "Direct Export, insertion in 1 of 100", Format: aggregated.name}: 1,
	} {
		is.Way, is.Comparison, is.Size, is.Flows = report.WayFast, report.AgainstOneCPU, coresSize, flows
		if findRow(e, is, 2) == nil {
			t.Errorf("%s is not measured", is)
		}
	}
}

// Each treatment that has an aim of its own, in nanoseconds, has a row with it, and so has
// insertion of two headers.
func TestCostRows(t *testing.T) {
	for _, want := range []struct {
		hook    datapath.Hook
		outcome model.Outcome
		format  string
		aim     float64
	}{
		{datapath.HookEgressTC, model.OutcomeEncapInserted, "edge to edge, a number", 60},
		{datapath.HookIngressXDP, model.OutcomePotUpdated, "proof of transit", 60},
		{datapath.HookIngressTC, model.OutcomePotUpdated, "proof of transit", 60},
		{datapath.HookEgressTC, model.OutcomeEncapInserted, "into a header, one option of type 0xc00000", 150},
		{datapath.HookEgressTC, model.OutcomeEncapInserted, "into a header, and edge to edge after it", 0},
		{datapath.HookEgressTC, model.OutcomeEncapTunneled, largestHeader, 250},
		{datapath.HookIngressXDP, model.OutcomeTraceFilled, largestHeaderAtHook, 200},
		{datapath.HookIngressTC, model.OutcomeTraceFilled, largestHeaderAtHook, 200},
		{datapath.HookEgressTC, model.OutcomeTraceFilled, largestHeaderAtHook, 200},
	} {
		is := report.Dimensions{Hook: string(want.hook), Outcome: want.outcome.String(), Format: want.format}
		i := slices.IndexFunc(costCases(), func(c costCase) bool { return c.is() == is })
		if i < 0 {
			t.Errorf("%s is not measured", is)
		} else if c := costCases()[i]; c.aim != want.aim {
			t.Errorf("%s: an aim of %v ns, want %v", is, c.aim, want.aim)
		}
	}
	if n := overhead(model.ModeEncap, largestOptions()); n != 264 {
		t.Errorf("the largest header adds %d bytes", n)
	}
}
