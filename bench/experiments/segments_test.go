// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/test/testnet"
)

// Every node that measures is compared with the same node without programs and the same
// packets, and has an aim and what may keep it from that.
func TestHashedRows(t *testing.T) {
	e := hashedExperiment()
	for _, size := range sizes {
		for _, want := range []report.Dimensions{
			{Treatment: colouring, Hook: atDeparture, Format: atHeadEnd},
			{Treatment: counting, Hook: "tcx", Format: atHeadEndInTunnel},
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
				if base := v.Against; base.Is.By != report.ByKernel || base.Line[0].Config != nil ||
					!slices.Equal(base.Line[0].Commands, v.Line[0].Commands) ||
					!bytes.Equal(base.Send.Frame, v.Send.Frame) {
					t.Errorf("%s with %d flows is compared with %s", want, n, base.Is)
				}
				if ours := v.Limit.Ours; len(ours) != 1 ||
					!strings.HasPrefix(
						ours[0].Variant.Hook,
						map[string]string{"xdp": "xdp ingress", "tcx": "tc ingress", atDeparture: "tc egress"}[want.Hook],
					) {
					t.Errorf("%s with %d flows has the times %+v", want, n, ours)
				}
				if floor := findRow(e, v.Limit.Floor.Variant, float64(n)); floor == nil || floor.Is.Hook != want.Hook || floor.Against != v.Against {
					t.Errorf("%s with %d flows has the floor %s", want, n, v.Limit.Floor.Variant)
				}
			}
		}
	}
}

// Every node that forwards without the stack is compared with the kernel's own SRv6, and
// those that count and colour have the aim, at every number of flows, and as their limit
// the same node without flows.
func TestFastSegmentRows(t *testing.T) {
	e := segmentForwardingExperiment()
	for _, size := range sizes {
		for _, want := range []struct {
			treatment, format string
			aim               float64
		}{
			{counting, "no endpoint", 0},
			{colouring, atHeadEnd, fastMeasuringAim},
			{counting, atHeadEndInTunnel, 0},
			{colouring, "head end, reduced", fastMeasuringAim},
			{colouring, atEndpoint, fastMeasuringAim},
			{counting, atEndpoint, 0},
			{colouring, "End.X", fastMeasuringAim},
			{counting, "End.X", 0},
			{counting, atDecap, 0},
		} {
			for _, n := range flowCounts {
				is := report.Dimensions{Treatment: want.treatment, Format: want.format, Way: report.WayFast, Size: size, Queues: 1}
				v := findRow(e, is, float64(n))
				if v == nil {
					t.Errorf("%s with %d flows is not measured", is, n)
					continue
				}
				if v.Aim != want.aim || !v.Counted || !v.SinkInXDP || v.Send.Values != n || len(v.Wants) != 1 ||
					v.Wants[0].Hook != harness.HookForwarded {
					t.Errorf("%s with %d flows: %+v", is, n, v)
				}
				if base := v.Against; base.Is.By != report.ByKernel || base.Line[0].Config != nil ||
					!slices.Equal(base.Line[0].Commands, v.Line[0].Commands) ||
					!bytes.Equal(base.Send.Frame, v.Send.Frame) {
					t.Errorf("%s with %d flows is compared with %s", is, n, base.Is)
				}
				is.Treatment = unmeasured
				if want.aim > 0 && v.Limit.Floor.Variant != is || findRow(e, is, float64(n)) == nil {
					t.Errorf("%s with %d flows has the limit %+v", v.Is, n, v.Limit)
				}
				if kept := strings.HasPrefix(v.Line[0].Name, fmt.Sprintf("%d next hops", nextHopsKept)); kept != (2*n >= nextHopsKept) {
					t.Errorf("%s with %d flows: %s", v.Is, n, v.Line[0].Name)
				}
			}
		}
	}
}

// A node that colours gives packets that arrive with a colour another one, which shows
// that it does.
func TestColouringIsSeen(t *testing.T) {
	sent := routedFrame(sizes[0], 1)
	arrived := bytes.Clone(sent)
	arrived[atSRH+3] = 0
	copy(arrived[harness.EthernetHeader+24:], arrived[atSRH+8:atSRH+24])
	s := colouringAt(endpoint)
	if err := s.arrives(s.colours()...)(sent, arrived); err == nil {
		t.Error("a packet with the colour that it had passes")
	}
	coloured := harness.With(arrived, atOuterClass, 0x60|s.colours()[1]>>4, s.colours()[1]<<4)
	if err := s.arrives(s.colours()...)(sent, coloured); err != nil {
		t.Error(err)
	}
	if err := s.arrives(s.colours()...)(sent, harness.With(coloured, atSRH+3, 1)); err == nil {
		t.Error("a packet that was not forwarded to its last segment passes")
	}
}

// Our search and the linear one take turns, with the same packets.
func TestLinearRows(t *testing.T) {
	e := linearExperiment()
	for _, n := range linearCounts {
		for _, treatment := range []string{linearCounting, linearColouring} {
			if findRow(
				e,
				report.Dimensions{Treatment: treatment, Hook: atDeparture, Format: atPolicies, Queues: 1, Size: sizes[0]},
				float64(n),
			) == nil {
				t.Errorf("%s is not measured with %d flows where packets leave", treatment, n)
			}
		}
	}
	for _, v := range e.Variants {
		if v.Line[0].Search == nil {
			continue
		}
		is := v.Is
		if search := v.Line[0].Search; search.Leaving != (is.Hook == atDeparture) || (search.Colour > 0) != (is.Treatment == linearColouring) {
			t.Errorf("%s is %+v", v.Is, search)
		}
		is.Treatment = map[string]string{atPolicies: colouring, atDecap: counting}[is.Format] // a head end does not only count
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
	for _, p := range r.Points {
		if (p.Aim != 0) != (p.Dimensions.Treatment == packetsMeasured) || (p.Aim != 0) != (p.Limit != nil) {
			t.Errorf("%s with %v flows: the aim %v, the limit %+v", p.Variant, p.X, p.Aim, p.Limit)
		}
		floor := func(q report.Point) bool { return q.Dimensions == p.Limit.Floor.Variant && q.X == p.Limit.Floor.X }
		if p.Limit != nil && (p.Limit.Why == "" || p.Limit.Rest == "" || !slices.ContainsFunc(r.Points, floor)) {
			t.Errorf("%s with %v flows has the limit %+v", p.Variant, p.X, p.Limit)
		}
	}
}

// With few flows the limit is a packet of no flow, with many one of few flows.
func TestSegmentLimits(t *testing.T) {
	for _, hook := range segmentHooks {
		few, many := segmentLimit(hook, costFlows[0]), segmentLimit(hook, costFlows[1])
		if few.Floor.Variant != ofSegmentPart(packetsOther, hook) || many.Floor.Variant != ofSegmentPart(packetsMeasured, hook) ||
			few.Floor.X != 1 ||
			many.Floor.X != 1 {
			t.Errorf("%s: %+v and %+v", hook, few.Floor, many.Floor)
		}
		if strings.Contains(few.Rest, "colour") != (hook == datapath.HookEgressTC) || !strings.Contains(many.Rest, "TLB") {
			t.Errorf("%s: %q and %q", hook, few.Rest, many.Rest)
		}
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
