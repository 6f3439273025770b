// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/testnet"
)

func prepared(t *testing.T, cases []costCase) *costRun {
	t.Helper()
	testnet.NeedRoot(t)
	run := &costRun{nodes: make(map[string]*datapath.Runner), restorers: make(map[ebpf.ProgramType]*restorer)}
	t.Cleanup(run.close)
	if err := run.prepare(cases); err != nil {
		t.Fatal(err)
	}
	return run
}

// Every repetition must have the wanted outcome, and the last one must leave
// what a single run leaves, whatever ran before.
func TestRestore(t *testing.T) {
	for _, p := range prepared(t, costCases()).points {
		if err := p.measure(0, false); err != nil {
			t.Errorf("%s: %v", p.is(), err)
			continue
		}
		if p.mayAlso(model.OutcomeEncapInserted) {
			continue // its first packet is another than the rest
		}
		once, err := runOnce(p.program, p.frame, p.in)
		if err != nil {
			t.Fatal(err)
		}
		many, err := p.lastOf(100)
		if err != nil {
			t.Fatal(err)
		}
		if p.timed() {
			once, many = once[:ethernetHeader+ipv6Header], many[:ethernetHeader+ipv6Header]
		}
		if !bytes.Equal(once, many) {
			t.Errorf("%s: one run leaves\n%x, a hundred\n%x", p.is(), once, many)
		}
	}
}

// timed tells whether what is written differs from run to run.
func (c costCase) timed() bool {
	return strings.Contains(c.detail, "timestamps") || strings.Contains(c.detail, "every bit") ||
		strings.Contains(c.detail, "sequence")
}

// lastOf is the frame that the last of many runs leaves.
func (p *costPoint) lastOf(times uint32) ([]byte, error) {
	if err := p.restore.set(p.program, p.frame, p.what); err != nil {
		return nil, err
	}
	o := &ebpf.RunOptions{Data: p.frame, DataOut: make([]byte, len(p.frame)+1024), Repeat: times}
	if p.program.Type() == ebpf.SchedCLS {
		o.Context = &p.in
	}
	_, err := p.restore.restore.Run(o)
	return o.DataOut, err
}

// Without restoration the second run meets another packet; the harness must
// not take that for a measurement. (In XDP, the headers of a tunnel are still
// there when the frame grows over them again.)
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
		p.what = restoration{length: len(p.frame)}
		if err := p.measure(0, true); err == nil {
			t.Errorf("%s: nothing was restored, and nobody noticed", p.is())
		}
	}
}

// A calibration ends with the length it began with, or the kernel refuses.
func TestAdjustments(t *testing.T) {
	testnet.NeedRoot(t)
	for _, kind := range []ebpf.ProgramType{ebpf.XDP, ebpf.SchedCLS} {
		r, err := newRestorer(kind)
		if err != nil {
			t.Fatal(err)
		}
		defer r.close()
		for _, keep := range []bool{false, true} {
			if _, err := r.measureAdjustments(keep, 100); err != nil {
				t.Errorf("%v, keep %v: %v", kind, keep, err)
			}
			frame := plain(destination, 142)
			f := restoreFrame{Length: 142, Growths: calibrationSteps, Growth: calibrationBytes, Shrinkings: 1, Shrinking: calibrationSteps * calibrationBytes}
			if keep {
				f.Keep = 1
			}
			if err := r.collection.Maps[restoreMapFrames].Put(uint32(0), f); err != nil {
				t.Fatal(err)
			}
			verdict, out, err := r.calibrate.Test(frame)
			passes := map[ebpf.ProgramType]uint32{ebpf.XDP: 2, ebpf.SchedCLS: 0}[kind]
			if err != nil || verdict != passes || len(out) != len(frame) {
				t.Errorf("%v, keep %v: verdict %d, %d bytes, %v", kind, keep, verdict, len(out), err)
			}
		}
	}
}
