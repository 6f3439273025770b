// SPDX-License-Identifier: Apache-2.0

package specialize

import "github.com/cilium/ebpf/asm"

// removeUnused removes instructions whose result no instruction reads; it returns whether
// there was one. A function's first instruction stays, because it has the function's name.
func (f *function) removeUnused() (some bool) {
	needed := f.neededAfter()
	for i := 1; i < len(f.list); i++ {
		ins := &f.list[i]
		if f.removed[i] || !isPure(ins) || needed[i].has(ins.Dst) {
			continue
		}
		f.removed[i], some = true, true
	}
	return some
}

// neededAfter finds the registers that are read after each instruction before they are
// written again.
func (f *function) neededAfter() []registers {
	needed := make([]registers, len(f.list))
	before := make([]registers, len(f.list)+1)
	for changed := true; changed; {
		changed = false
		for i := len(f.list) - 1; i >= 0; i-- {
			if f.removed[i] {
				if before[i] != before[i+1] {
					before[i], changed = before[i+1], true
				}
				continue
			}
			ins := &f.list[i]
			var after registers
			if !isExit(ins) && !(isJump(ins) && ins.OpCode.JumpOp() == asm.Ja) {
				after = before[i+1]
			}
			if isJump(ins) {
				after |= before[f.targets[i]]
			}
			read, written := uses(ins)
			needed[i] = after
			if now := after&^written | read; now != before[i] {
				before[i], changed = now, true
			}
		}
	}
	return needed
}

// uses are the registers that an instruction reads, and those that have another value
// afterwards, whatever they had.
func uses(ins *asm.Instruction) (read, written registers) {
	switch class := ins.OpCode.Class(); class {
	case asm.ALUClass, asm.ALU64Class:
		op := ins.OpCode.ALUOp()
		if ins.OpCode.Source() == asm.RegSource && op != asm.Swap {
			read |= of(ins.Src)
		}
		if op != asm.Mov && op != asm.MovSX8 && op != asm.MovSX16 && op != asm.MovSX32 {
			read |= of(ins.Dst)
		}
		return read, of(ins.Dst)
	case asm.LdClass:
		if ins.OpCode.IsDWordLoad() {
			return 0, of(ins.Dst)
		}
		return of(ins.Src, asm.R6), of(asm.R0, asm.R1, asm.R2, asm.R3, asm.R4, asm.R5)
	case asm.LdXClass:
		return of(ins.Src), of(ins.Dst)
	case asm.StClass:
		return of(ins.Dst), 0
	case asm.StXClass:
		if ins.OpCode.Mode() == asm.AtomicMode {
			return of(ins.Dst, ins.Src, asm.R0), 0
		}
		return of(ins.Dst, ins.Src), 0
	}
	switch ins.OpCode.JumpOp() {
	case asm.Exit:
		return of(asm.R0), 0
	case asm.Call:
		arguments := of(asm.R1, asm.R2, asm.R3, asm.R4, asm.R5)
		return arguments, arguments | of(asm.R0)
	case asm.Ja:
		return 0, 0
	}
	if ins.OpCode.Source() == asm.RegSource {
		read |= of(ins.Src)
	}
	return read | of(ins.Dst), 0
}
