// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/test/testnet"
)

// A calibration must end with the length that it started with, or the kernel
// refuses the run.
func TestAdjustments(t *testing.T) {
	testnet.NeedRoot(t)
	for _, kind := range []ebpf.ProgramType{ebpf.XDP, ebpf.SchedCLS} {
		r, err := NewRestorer(kind)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for _, keep := range []bool{false, true} {
			if _, err := r.MeasureAdjustments(keep, 100); err != nil {
				t.Errorf("%v, keep %v: %v", kind, keep, err)
			}
			frame := Plain(Destination, 142)
			f := restoreFrame{
				Length:     142,
				Growths:    calibrationSteps,
				Growth:     calibrationBytes,
				Shrinkings: 1,
				Shrinking:  calibrationSteps * calibrationBytes,
			}
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
