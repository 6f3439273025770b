// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Linux's MAX_BPF_STACK and MAX_CALL_FRAMES.
const (
	mostCallStack = 512
	mostCalls     = 8
)

// TestCallStack checks that no chain of calls needs more stack than Linux 6.1 allows: it rounds
// each frame up to 32 bytes, later kernels to 16 where they compile programs.
func TestCallStack(t *testing.T) {
	for _, load := range []func() (*ebpf.CollectionSpec, error){loadIngressXDP, loadIngressTC, loadEgressTC} {
		spec, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for name, program := range spec.Programs {
			first, functions := functionsOf(program.Instructions)
			size, calls, chain := deepest(first, functions)
			t.Logf("%s: %d bytes, %s", name, size, chain)
			if size > mostCallStack || calls > mostCalls {
				t.Errorf("%s needs %d bytes in %d calls, at most %d and %d are allowed: %s", name, size, calls, mostCallStack, mostCalls, chain)
			}
			if size < mostCallStack/2 {
				t.Errorf("%s: %d bytes are too few to be true", name, size)
			}
		}
	}
}

// bpfFunction is a function of a program: the stack that it uses itself, in bytes, and what it calls.
type bpfFunction struct {
	stack int
	calls map[string]bool
}

// functionsOf returns the functions of a program, and the name of its first one.
func functionsOf(list asm.Instructions) (first string, functions map[string]*bpfFunction) {
	functions = make(map[string]*bpfFunction)
	var f *bpfFunction
	for i := range list {
		ins := &list[i]
		if name := ins.Symbol(); name != "" {
			f = &bpfFunction{calls: make(map[string]bool)}
			functions[name] = f
			if first == "" {
				first = name
			}
		}
		if ins.IsFunctionCall() {
			f.calls[ins.Reference()] = true
		}
		f.stack = max(f.stack, stackOf(list, i))
	}
	return first, functions
}

// stackOf returns how far below the frame pointer an instruction reads or writes, or makes a pointer to.
func stackOf(list asm.Instructions, i int) int {
	ins := &list[i]
	switch class := ins.OpCode.Class(); {
	case class == asm.LdXClass && ins.Src == asm.RFP, (class == asm.StXClass || class == asm.StClass) && ins.Dst == asm.RFP:
		return -int(ins.Offset)
	case class == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Add && ins.OpCode.Source() == asm.ImmSource && i > 0:
		if before := &list[i-1]; before.OpCode.ALUOp() == asm.Mov && before.Src == asm.RFP && before.Dst == ins.Dst {
			return -int(ins.Constant)
		}
	}
	return 0
}

// deepest returns the bytes and the number of frames of the chain of calls that needs most.
func deepest(name string, functions map[string]*bpfFunction) (size, calls int, chain string) {
	f := functions[name]
	for called := range f.calls {
		s, n, c := deepest(called, functions)
		if s > size {
			size, chain = s, ", "+c
		}
		calls = max(calls, n)
	}
	return size + (max(f.stack, 1)+31)/32*32, calls + 1, fmt.Sprintf("%s %d%s", name, f.stack, chain)
}
