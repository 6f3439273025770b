// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

func prepared(t *testing.T, cases []costCase) *costRun {
	t.Helper()
	testnet.NeedRoot(t)
	run, err := newCostRun(cases)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run.close)
	return run
}

// One run for both tests, so that the kernel verifies the programs of all cases
// only once.
func TestCost(t *testing.T) {
	run := prepared(t, costCases())
	t.Run("figures", func(t *testing.T) { holdCost(t, run) })
	t.Run("restoration", func(t *testing.T) { holdRestoration(t, run) })
}

func holdCost(t *testing.T, run *costRun) {
	b, err := Find("cost")
	if err != nil {
		t.Fatal(err)
	}
	b.Measure = run.measure
	r := quick(t, b, "ns")
	if len(r.Points) != len(costCases()) {
		t.Errorf("%d points of %d cases", len(r.Points), len(costCases()))
	}
	for _, p := range r.Points {
		if p.Instructions == 0 || p.Reference <= 0 {
			t.Errorf("%s: %d verified instructions, the plain packet took %v ns", p.Variant, p.Instructions, p.Reference)
		}
	}
}

// holdRestoration checks that every repetition has the wanted outcome, and that
// the last one leaves the same frame as a single run, whatever ran before.
func holdRestoration(t *testing.T, run *costRun) {
	for _, p := range run.points {
		if err := p.measure(0, false); err != nil {
			t.Errorf("%s: %v", p.is(), err)
			continue
		}
		if p.mayAlso(model.OutcomeEncapInserted) {
			continue // its first packet differs from the rest
		}
		once, err := harness.RunOnce(p.program, p.frame, p.in)
		if err != nil {
			t.Fatal(err)
		}
		many, err := p.lastOf(100)
		if err != nil {
			t.Fatal(err)
		}
		if p.timed() {
			clearOptions(once)
			clearOptions(many)
		}
		if !bytes.Equal(once, many) {
			t.Errorf("%s: one run leaves\n%x, a hundred\n%x", p.is(), once, many)
		}
	}
}

// timed reports whether the written bytes differ from run to run.
func (c costCase) timed() bool {
	return strings.Contains(c.detail, "timestamps") || strings.Contains(c.detail, "every bit") ||
		strings.Contains(c.detail, "sequence") || strings.Contains(c.detail, "proof") || strings.Contains(c.detail, "edge to edge")
}

// clearOptions clears what follows the first four bytes of the extension headers.
func clearOptions(frame []byte) {
	const options = harness.IPv6Header + 4
	ip := frame[harness.EthernetHeader:]
	if end := ipv6.FindUpperLayer(ip).Offset; end > options {
		clear(ip[options:end])
	}
}

// lastOf is the frame after the last of many runs.
func (p *costPoint) lastOf(times uint32) ([]byte, error) {
	if err := p.restore.Set(p.program, p.frame, p.what); err != nil {
		return nil, err
	}
	o := &ebpf.RunOptions{Data: p.frame, DataOut: make([]byte, len(p.frame)+1024), Repeat: times}
	if p.program.Type() == ebpf.SchedCLS {
		o.Context = &p.in
	}
	_, err := p.restore.Restore.Run(o)
	return o.DataOut, err
}

// Without restoration the second run gets a different packet, and the harness
// must not accept that as a measurement. (In XDP, the headers of a tunnel are
// still there when the frame grows over them again.)
func TestMissingRestorationIsNoticed(t *testing.T) {
	changing := []model.Outcome{
		model.OutcomeTraceFilled, model.OutcomeTraceOverflow, model.OutcomeEncapInserted,
		model.OutcomeInlineRemoved, model.OutcomeTunnelDecapsulated, model.OutcomeBoundaryStripped,
	}
	seen := make(map[model.Outcome]bool)
	var cases []costCase
	for _, c := range costCases() {
		for _, o := range changing {
			if c.outcome == o && c.hook != datapath.HookIngressXDP && !c.completes() && !seen[o] {
				seen[o] = true
				cases = append(cases, c)
			}
		}
	}
	if len(cases) != len(changing) {
		t.Fatalf("%d cases of %d outcomes", len(cases), len(changing))
	}
	for _, p := range prepared(t, cases).points {
		p.what = harness.Restoration{Length: len(p.frame)}
		if err := p.measure(0, true); err == nil {
			t.Errorf("%s: nothing was restored, and the harness did not notice", p.is())
		}
	}
}
