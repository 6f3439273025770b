// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// TestStackFitsEveryKernel adds up the stack frames along every chain of calls.
// Linux 6.1 rounds each frame up to 32 bytes, an empty one too, and refuses a chain of
// more than 512; newer kernels accept more. Programs that load here may not load there.
// No kernel takes more than 8 frames.
func TestStackFitsEveryKernel(t *testing.T) {
	const most, rounding, mostFrames = 512, 32, 8
	for name, load := range map[string]func() (*ebpf.CollectionSpec, error){
		"ingress_xdp": bpf.LoadIngressXDP, "ingress_tc": bpf.LoadIngressTC, "egress_tc": bpf.LoadEgressTC,
	} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		program, ok := spec.Programs[name]
		if !ok {
			t.Fatalf("object of %s has no program of that name", name)
		}
		frames, calls := frames(program.Instructions)
		deepest := map[string]string{}
		var depth func(string) int
		depth = func(function string) int {
			below := 0
			for callee := range calls[function] {
				if d := depth(callee); d > below {
					below, deepest[function] = d, callee
				}
			}
			return (max(frames[function], 1)+rounding-1)/rounding*rounding + below
		}
		d := depth(name)
		var longest func(string) int
		longest = func(function string) (below int) {
			for callee := range calls[function] {
				below = max(below, longest(callee))
			}
			return 1 + below
		}
		if n := longest(name); n > mostFrames {
			t.Errorf("%s: a chain of calls has %d frames, at most %d", name, n, mostFrames)
		}
		chain := ""
		for f := name; f != ""; f = deepest[f] {
			t.Logf("%s: %s has a frame of %d bytes", name, f, frames[f])
			chain += " " + f
		}
		if len(calls[name]) == 0 {
			t.Errorf("%s: no calls found", name)
		}
		if d > most {
			t.Errorf("%s needs %d bytes of stack, at most %d: chain%s", name, d, most, chain)
		}
	}
}

// frames returns the stack size of each function in bytes, and the functions that
// it calls.
func frames(instructions asm.Instructions) (frames map[string]int, calls map[string]map[string]bool) {
	frames, calls = map[string]int{}, map[string]map[string]bool{}
	function := ""
	onStack := map[asm.Register]bool{}
	use := func(offset int) { frames[function] = max(frames[function], -offset) }
	for _, ins := range instructions {
		if f := btf.FuncMetadata(&ins); f != nil {
			function = f.Name
			calls[function] = map[string]bool{}
		}
		if ins.IsFunctionReference() { // a call, or the body of a loop for bpf_loop()
			calls[function][ins.Reference()] = true
		}
		class := ins.OpCode.Class()
		switch {
		case class.IsStore() && ins.Dst == asm.RFP, class.IsLoad() && ins.Src == asm.RFP:
			use(int(ins.Offset))
		case class.IsALU() && ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource && onStack[ins.Dst]:
			use(int(ins.Constant))
		}
		if class.IsALU() && ins.OpCode.ALUOp() == asm.Mov && ins.OpCode.Source() == asm.RegSource {
			onStack[ins.Dst] = ins.Src == asm.RFP
		} else {
			onStack[ins.Dst] = onStack[ins.Dst] && !class.IsALU() && !class.IsLoad()
		}
	}
	return frames, calls
}
