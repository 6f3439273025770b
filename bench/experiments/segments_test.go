// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/test/testnet"
)

// Every node that measures is compared with the same node without programs and the same
// packets, and has an aim and what may keep it from that.
func TestHashedRows(t *testing.T) {
	e := hashedExperiment()
	for _, size := range sizes {
		for _, want := range []report.Dimensions{
			{Treatment: colouring, Hook: atDeparture, Format: atHeadEnd},
			{Treatment: counting, Hook: "xdp", Format: atEndpoint},
			{Treatment: counting, Hook: "xdp", Format: atDecap},
			{Treatment: counting, Hook: "tcx", Format: atDecap},
		} {
			for _, n := range flowCounts {
				want.Size, want.Queues = size, 1
				v := findRow(e, want, float64(n))
				if v == nil {
					t.Errorf("%s with %d flows is not measured", want, n)
					continue
				}
				if v.Aim != measuringAim || !v.Counted || v.Queues != 1 || v.Send.Values != n || len(v.Wants) != 1 {
					t.Errorf("%s with %d flows: %+v", want, n, v)
				}
				if base := v.Against; base.Is.By != report.ByKernel || base.Line[0].Config != nil || !slices.Equal(base.Line[0].Commands, v.Line[0].Commands) || !bytes.Equal(base.Send.Frame, v.Send.Frame) {
					t.Errorf("%s with %d flows is compared with %s", want, n, base.Is)
				}
				if floor := findRow(e, v.Limit.Floor.Variant, float64(n)); floor == nil || floor.Is.Hook != want.Hook || floor.Against != v.Against {
					t.Errorf("%s with %d flows has the floor %s", want, n, v.Limit.Floor.Variant)
				}
			}
		}
	}
}

// Our search and the linear one take turns, with the same packets.
func TestLinearRows(t *testing.T) {
	e := linearExperiment()
	for _, v := range e.Variants {
		if v.Line[0].Search == nil {
			continue
		}
		is := v.Is
		is.Treatment = map[string]string{linearColouring: colouring, linearCounting: counting}[is.Treatment]
		ours := findRow(e, is, v.X)
		if ours == nil || ours.Against != v.Against || len(v.Line[0].Search.Lists) != int(v.X) || !bytes.Equal(ours.Send.Frame, v.Send.Frame) {
			t.Errorf("%s with %v flows is beside %+v", v.Is, v.X, ours)
		}
	}
}

// Each value that a paper published is beside one of our variants.
func TestPublishedRows(t *testing.T) {
	list, err := report.Published()
	if err != nil {
		t.Fatal(err)
	}
	tables := make(map[string]harness.Experiment)
	for _, b := range All() {
		if b.Table != nil {
			tables[b.Name] = b.Table()
		}
	}
	for _, r := range list {
		if findRow(tables[r.Benchmark], r.Variant, r.X) == nil {
			t.Errorf("%s has no variant %q at %v", r.Benchmark, r.Variant, r.X)
		}
	}
}

// Packets of many flows cost more than those of one, and packets of none less. One of
// three measurements must show this, as other programs may use the machine.
func TestSegmentParts(t *testing.T) {
	testnet.NeedRoot(t)
	var r report.Result
	for range 3 {
		var err error
		if r, err = runSegmentParts(context.Background(), harness.Options{Duration: time.Second, Rounds: 2}); err != nil {
			t.Fatal(err)
		}
		if plausible(r.Points) {
			break
		}
	}
	if !plausible(r.Points) {
		t.Errorf("%+v", r.Points)
	}
	if want := len(segmentHooks) * (3*len(costFlows) + 1); len(r.Points) != want {
		t.Errorf("%d points instead of %d", len(r.Points), want)
	}
}

func plausible(points []report.Point) bool {
	took := make(map[string]float64)
	for _, p := range points {
		if p.X > 0 {
			took[p.Dimensions.Treatment] += *p.NS
		}
	}
	return took[packetsPlain] > 0 && took[packetsOther] > took[packetsPlain] && took[packetsMeasured] > took[packetsOther]
}
