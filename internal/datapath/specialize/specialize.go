// SPDX-License-Identifier: Apache-2.0

// Package specialize writes a node's constants into a BPF program, and removes what no
// packet can reach or need with them. The kernel's verifier does not go through branches
// that constants exclude, but it leaves the loads that decided about them for each packet,
// and before Linux 6.8 it verifies functions that nothing calls. What it loads afterwards
// it verifies like any other program.
package specialize

import (
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Program returns the instructions of a program with its functions, given the contents of
// the section of constants that they read. The instructions that it is given stay as they
// are.
func Program(list asm.Instructions, section string, constants []byte) (asm.Instructions, error) {
	functions, err := split(list)
	if err != nil {
		return nil, err
	}
	var out asm.Instructions
	reached := []string{functions[0].name}
	for done := 0; done < len(reached); done++ {
		i := slices.IndexFunc(functions, func(f *function) bool { return f.name == reached[done] })
		if i < 0 {
			return nil, fmt.Errorf("no function %s", reached[done])
		}
		f := functions[i]
		f.section, f.constants = section, constants
		if err := f.specialize(); err != nil {
			return nil, fmt.Errorf("function %s: %w", f.name, err)
		}
		kept, err := f.assemble()
		if err != nil {
			return nil, fmt.Errorf("function %s: %w", f.name, err)
		}
		out = append(out, kept...)
		for _, name := range kept.FunctionReferences() {
			if !slices.Contains(reached, name) {
				reached = append(reached, name)
			}
		}
	}
	return out, nil
}

// function is one function of a program. What is known of an instruction is at its index.
type function struct {
	name      string
	list      asm.Instructions
	section   string
	constants []byte

	targets []int // of jumps: the index where they go
	before  []*state
	removed []bool
}

// split divides a program into its functions, each of which begins with its symbol.
func split(list asm.Instructions) (functions []*function, err error) {
	for i := range list {
		if name := list[i].Symbol(); name != "" {
			functions = append(functions, &function{name: name})
		}
		if len(functions) == 0 {
			return nil, fmt.Errorf("the program begins without a symbol")
		}
		f := functions[len(functions)-1]
		f.list = append(f.list, list[i])
	}
	if len(functions) == 0 {
		return nil, fmt.Errorf("the program has no instructions")
	}
	return functions, nil
}

func (f *function) specialize() error {
	f.removed = make([]bool, len(f.list))
	if err := f.findTargets(); err != nil {
		return err
	}
	if err := f.propagate(); err != nil {
		return err
	}
	f.rewrite()
	for f.removeUnused() || f.removeJumps() {
	}
	return nil
}

// isJump is whether an instruction may go elsewhere than to the next one, and come back no more.
func isJump(ins *asm.Instruction) bool {
	op := ins.OpCode.JumpOp()
	return op != asm.InvalidJumpOp && op != asm.Call && op != asm.Exit
}

func isExit(ins *asm.Instruction) bool { return ins.OpCode.JumpOp() == asm.Exit }

// findTargets finds where jumps go: offsets count units of 8 bytes, of which some
// instructions have two.
func (f *function) findTargets() error {
	index := make(map[asm.RawInstructionOffset]int, len(f.list))
	at := make([]asm.RawInstructionOffset, len(f.list))
	var offset asm.RawInstructionOffset
	for i := range f.list {
		index[offset], at[i] = i, offset
		offset += f.list[i].Width()
	}
	f.targets = make([]int, len(f.list))
	for i := range f.list {
		ins := &f.list[i]
		if !isJump(ins) {
			continue
		}
		if ins.OpCode.JumpOp() == asm.Ja && ins.OpCode.Class() == asm.Jump32Class {
			return fmt.Errorf("instruction %d is a long jump, which is not known here", i)
		}
		target, ok := index[asm.RawInstructionOffset(int64(at[i])+1+int64(ins.Offset))]
		if !ok {
			return fmt.Errorf("instruction %d jumps out of the function", i)
		}
		f.targets[i] = target
	}
	return nil
}

// rewrite removes what is not reached, decides jumps, and replaces results that are known.
func (f *function) rewrite() {
	for i := range f.list {
		ins, s := &f.list[i], f.before[i]
		if s == nil {
			f.removed[i] = true
			continue
		}
		if isJump(ins) {
			if taken, known := s.decides(ins); known && taken {
				*ins = replaced(ins, asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource)})
			} else if known {
				f.removed[i] = true
			}
			continue
		}
		if v := f.after(s, ins); v.kind == kindConstant && isPure(ins) {
			*ins = replaced(ins, load(ins.Dst, v.n))
		}
	}
}

// load is the shortest instruction that loads a number.
func load(r asm.Register, n uint64) asm.Instruction {
	switch {
	case int64(n) >= math.MinInt32 && int64(n) <= math.MaxInt32:
		return asm.Mov.Imm(r, int32(int64(n)))
	case n <= math.MaxUint32:
		return asm.Mov.Imm32(r, int32(uint32(n)))
	}
	return asm.LoadImm(r, int64(n), asm.DWord)
}

// replaced is an instruction in the place of another one, with its symbol and its line.
func replaced(old *asm.Instruction, by asm.Instruction) asm.Instruction {
	if name := old.Symbol(); name != "" {
		by = by.WithSymbol(name)
	}
	if of := btf.FuncMetadata(old); of != nil {
		by = btf.WithFuncMetadata(by, of)
	}
	return by.WithSource(old.Source())
}

// isPure is whether an instruction only gives a register a value. Those that the loader
// still changes are not.
func isPure(ins *asm.Instruction) bool {
	if btf.CORERelocationMetadata(ins) != nil {
		return false
	}
	switch ins.OpCode.Class() {
	case asm.ALUClass, asm.ALU64Class:
		return true
	case asm.LdXClass:
		return ins.OpCode.Mode() == asm.MemMode
	case asm.LdClass:
		return ins.OpCode.IsDWordLoad()
	}
	return false
}

// removeJumps removes jumps to what comes next; it returns whether there was one.
func (f *function) removeJumps() (some bool) {
	for i := 1; i < len(f.list); i++ { // the first one has the function's name
		ins := &f.list[i]
		if f.removed[i] || !isJump(ins) || ins.OpCode.JumpOp() != asm.Ja {
			continue
		}
		if f.targets[i] > i && f.next(i+1) == f.next(f.targets[i]) {
			f.removed[i], some = true, true
		}
	}
	return some
}

// next is the index of the first instruction from i on that stays.
func (f *function) next(i int) int {
	for i < len(f.list) && f.removed[i] {
		i++
	}
	return i
}

// assemble returns the instructions that stay, with the offsets of their jumps.
func (f *function) assemble() (asm.Instructions, error) {
	at := make([]asm.RawInstructionOffset, len(f.list)+1)
	var offset asm.RawInstructionOffset
	for i := range f.list {
		at[i] = offset
		if !f.removed[i] {
			offset += f.list[i].Width()
		}
	}
	at[len(f.list)] = offset
	out := make(asm.Instructions, 0, len(f.list))
	for i := range f.list {
		if f.removed[i] {
			continue
		}
		ins := f.list[i]
		if isJump(&ins) {
			by := int64(at[f.targets[i]]) - int64(at[i]) - 1
			if by < math.MinInt16 || by > math.MaxInt16 {
				return nil, fmt.Errorf("instruction %d jumps too far", i)
			}
			ins.Offset = int16(by)
		}
		out = append(out, ins)
	}
	return out, nil
}
