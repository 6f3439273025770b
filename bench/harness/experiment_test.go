// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/bench/report"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
)

// Every variant is in one turn, after what it is compared with.
func TestTurns(t *testing.T) {
	a, b, plain := called("a"), called("b"), called("plain")
	list := []*Variant{a}
	for i, against := range []*Variant{a, a, b, a, a, b, a} {
		list = append(list, &Variant{Is: report.Dimensions{Treatment: fmt.Sprint(i)}, Against: against})
	}
	list = append(list, &Variant{Is: report.Dimensions{Treatment: "both"}, Against: a, Plain: plain})
	names := func(together int) (out []string) {
		e := Experiment{Variants: list, Together: together}
		for _, turn := range e.turns() {
			var members []string
			for _, v := range turn.Members() {
				members = append(members, v.Is.Treatment)
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
	if n := (Experiment{Variants: list, Together: 3}).Bursts(); n != 1+4+3+3+3 {
		t.Errorf("%d measurements", n)
	}
}

// Variants are compared with the better of a baseline and its rival, and both are
// measured in the turn.
func TestRivals(t *testing.T) {
	one, several := called("one queue"), called("several queues")
	one.Rival, several.Rival = several, one
	v := &Variant{Is: report.Dimensions{Treatment: "ours"}, Against: one, Plain: several}
	var members []string
	for _, each := range (Turn{v}).Members() {
		members = append(members, each.Is.Treatment)
	}
	if difference := cmp.Diff([]string{"one queue", "several queues", "ours"}, members); difference != "" {
		t.Error(difference)
	}
	values := map[*Variant]float64{one: 3, several: 2, v: 1}
	if rate := several.faster(values); rate != 3 {
		t.Errorf("compared with a rate of %v, want 3", rate)
	}
	one.Timed = true
	if time := one.faster(values); time != 2 {
		t.Errorf("compared with a time of %v, want 2", time)
	}
	if alone := v.faster(values); alone != 1 {
		t.Errorf("without a rival, compared with %v, want 1", alone)
	}
}

// A bare prototype is measured in the turn of the node that does the same work, and a
// brief run leaves it out where it is thorough.
func TestBareIsInTheTurn(t *testing.T) {
	kernel, bare := called("kernel"), called("bare")
	v := &Variant{Is: report.Dimensions{Treatment: "ours"}, Against: kernel, Bare: bare, BareAim: 0.95}
	var members []string
	for _, each := range (Turn{v}).Members() {
		members = append(members, each.Is.Treatment)
	}
	if difference := cmp.Diff([]string{"kernel", "bare", "ours"}, members); difference != "" {
		t.Error(difference)
	}
	s := series{own: []float64{9, 8, 6}, against: []float64{3, 2, 3}, bare: []float64{10, 10, 10}}
	if p := s.point(v); p.BareRatio != 0.8 || p.BareAim != 0.95 || p.Met() || p.Setups != nil {
		t.Errorf("%+v", p)
	}
	bare.Thorough = true
	if brief := (Experiment{Variants: []*Variant{kernel, bare, v}}).Brief(); len(brief.Variants) != 2 || v.Bare != nil {
		t.Errorf("%d variants, a bare prototype: %v", len(brief.Variants), v.Bare)
	}
}

// The medians of set-ups show how far they lie apart.
func TestSetUpsHaveMedians(t *testing.T) {
	v := &Variant{Against: called("kernel")}
	s := series{own: []float64{4, 6, 5, 9, 9, 8, 3}, against: []float64{2, 2, 2, 3, 3, 2, 2}, setups: []int{3, 6}}
	p := s.point(v)
	if p.Setups == nil || *p.Setups != (report.Range{Least: 1.5, Most: 3}) || p.Ratio != 3 {
		t.Errorf("%+v, a ratio of %v", p.Setups, p.Ratio)
	}
}

func called(name string) *Variant { return &Variant{Is: report.Dimensions{Treatment: name}} }

// A share has a lower and an upper bound, "all packets" only a lower one.
func TestShares(t *testing.T) {
	device := func(index int) netlink.Link { return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}} }
	l := &line{Nodes: []*Node{{in: device(1), out: device(2)}}}
	counted := func(n uint64) [][]datapath.Counters {
		c := datapath.Counters{Index: 2}
		c.Egress[model.OutcomeEncapInserted] = n
		return [][]datapath.Counters{{{Index: 1}, c}}
	}
	for _, test := range []struct {
		share   float64
		n       uint64
		allowed bool
	}{
		{0, 10_000, true}, {0, 9900, true}, {0, 9800, false}, {0, 12_000, true},
		{0.01, 100, true}, {0.01, 96, false}, {0.01, 105, false}, {0.0001, 0, true}, {0.0001, 4, false}, {1, 10_000, true}, {1, 11_000, false},
	} {
		v := &Variant{Wants: []Want{{Hook: datapath.HookEgressTC, Outcome: model.OutcomeEncapInserted, Share: test.share}}}
		if err := v.check(l, counted(5), counted(5+test.n), 10_000); (err == nil) != test.allowed {
			t.Errorf("%d of 10000 at a share of %v: %v", test.n, test.share, err)
		}
	}
}

// The programs' counters must match the packets and the way to export.
func TestExportsAreHeldToPackets(t *testing.T) {
	device := func(index int) netlink.Link { return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}} }
	counted := func(packets, postcards, lost, suppressed uint64) [][]datapath.Counters {
		c := datapath.Counters{Index: 2, Postcards: postcards, RecordsLost: lost, ExportsSuppressed: suppressed}
		c.Egress[model.OutcomeDirectExport] = packets
		return [][]datapath.Counters{{{Index: 1}, c}}
	}
	for _, test := range []struct {
		name                                 string
		way                                  model.ExportMode
		read                                 bool
		packets, postcards, lost, suppressed uint64
		want                                 string
	}{
		{"every", model.ExportEvery, true, 1000, 900, 100, 0, ""},
		{"every, one missing", model.ExportEvery, true, 1000, 999, 0, 0, "999 postcards of 1000 packets"},
		{"every, one too many", model.ExportEvery, true, 1000, 1001, 0, 0, "1001 postcards"},
		{"every, limited", model.ExportEvery, true, 1000, 999, 0, 1, "suppressed 1"},
		{"no reader", model.ExportEvery, false, 1000, 0, 0, 0, ""},
		{"no reader, a postcard", model.ExportEvery, false, 1000, 1, 0, 0, "no reader asked"},
		{"aggregate", model.ExportAggregate, true, 1000, 0, 0, 0, ""},
		{"aggregate, a postcard", model.ExportAggregate, true, 1000, 1, 0, 0, "1 postcards"},
		{"sample", model.ExportSample, true, 1000, 10, 1, 0, ""},
		{"sample of few", model.ExportSample, true, 20, 0, 0, 0, ""},
		{"sample, too few", model.ExportSample, true, 1000, 8, 0, 0, "8 postcards"},
		{"sample, too many", model.ExportSample, true, 1000, 12, 0, 0, "12 postcards"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := &Node{in: device(1), out: device(2)}
			if test.read {
				n.reader = &reader{}
				n.reader.postcards.Store(5 + test.postcards)
			}
			l := &line{Nodes: []*Node{n}}
			v := &Variant{Exports: test.way, Wants: []Want{Has(0, datapath.HookEgressTC, model.OutcomeDirectExport)}}
			m := &measuring{results: make(map[*Variant]*series)}
			err := m.exports(v, l, counted(7, 5, 3, 2), counted(7+test.packets, 5+test.postcards, 3+test.lost, 2+test.suppressed))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v instead of %q", err, test.want)
			}
			if err != nil || !test.read {
				return
			}
			if got := m.results[v].exports; got.Written != test.postcards || got.Lost != test.lost {
				t.Errorf("%+v", got)
			}
			if aggregated := test.way != model.ExportEvery; aggregated != (l.aggregated == test.packets) {
				t.Errorf("%d packets were added to flows", l.aggregated)
			}
		})
	}
}
