// SPDX-License-Identifier: Apache-2.0

package specialize

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// kind is what is known of a register's value.
type kind uint8

const (
	kindUnknown  kind = iota
	kindConstant      // it is n
	kindSection       // it is the address of octet n of the section of constants
)

type value struct {
	kind kind
	n    uint64
}

func constant(n uint64) value { return value{kindConstant, n} }

// state is what is known before an instruction: the value of each register.
type state [asm.RFP + 1]value

// join keeps what two ways to an instruction agree on; it returns whether that is less
// than before.
func (s *state) join(other *state) (changed bool) {
	for i := range s {
		if s[i] != other[i] && s[i].kind != kindUnknown {
			s[i], changed = value{}, true
		}
	}
	return changed
}

// propagate finds what is reached with the constants, and what registers hold there.
func (f *function) propagate() error {
	f.before = make([]*state, len(f.list))
	f.before[0] = new(state)
	work := []int{0}
	reach := func(i int, s *state) {
		if f.before[i] == nil {
			first := *s
			f.before[i] = &first
		} else if !f.before[i].join(s) {
			return
		}
		work = append(work, i)
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		ins, s := &f.list[i], *f.before[i]
		falls := !isExit(ins)
		if isJump(ins) {
			taken, known := s.decides(ins)
			if !known || taken {
				reach(f.targets[i], &s)
			}
			falls = !known || !taken
		} else {
			f.apply(&s, ins)
		}
		if !falls {
			continue
		}
		if i+1 == len(f.list) {
			return fmt.Errorf("instruction %d is the last one, and no exit", i)
		}
		reach(i+1, &s)
	}
	return nil
}

// apply is what an instruction that is no jump does to registers.
func (f *function) apply(s *state, ins *asm.Instruction) {
	switch ins.OpCode.Class() {
	case asm.ALUClass, asm.ALU64Class, asm.LdXClass, asm.LdClass:
		s[ins.Dst] = f.after(s, ins)
		if ins.OpCode.Class() == asm.LdClass && !ins.OpCode.IsDWordLoad() {
			s[asm.R0] = value{}
		}
	case asm.StXClass:
		if ins.OpCode.Mode() == asm.AtomicMode { // it may fetch, into the source or R0, or load
			s[ins.Src], s[ins.Dst], s[asm.R0] = value{}, value{}, value{}
		}
	case asm.JumpClass, asm.Jump32Class: // a call
		for r := asm.R0; r <= asm.R5; r++ {
			s[r] = value{}
		}
	}
}

// after is the value of the destination after an instruction that computes or loads it.
func (f *function) after(s *state, ins *asm.Instruction) value {
	if btf.CORERelocationMetadata(ins) != nil {
		return value{} // the loader writes another number
	}
	switch class := ins.OpCode.Class(); class {
	case asm.LdClass:
		if ins.IsLoadFromMap() && ins.Src == asm.PseudoMapValue && ins.Reference() == f.section {
			return value{kindSection, uint64(ins.Constant) >> 32}
		}
	case asm.LdXClass:
		if ins.OpCode.Mode() == asm.MemMode && s[ins.Src].kind == kindSection {
			return f.read(s[ins.Src].n+uint64(int64(ins.Offset)), ins.OpCode.Size().Sizeof())
		}
	case asm.ALUClass, asm.ALU64Class:
		return compute(s, ins, class == asm.ALU64Class)
	}
	return value{}
}

// read is a number in the section of constants.
func (f *function) read(offset uint64, size int) value {
	if offset > uint64(len(f.constants)) || uint64(size) > uint64(len(f.constants))-offset {
		return value{}
	}
	b := f.constants[offset:]
	switch size {
	case 1:
		return constant(uint64(b[0]))
	case 2:
		return constant(uint64(binary.NativeEndian.Uint16(b)))
	case 4:
		return constant(uint64(binary.NativeEndian.Uint32(b)))
	case 8:
		return constant(binary.NativeEndian.Uint64(b))
	}
	return value{}
}

// operand is the second operand of an instruction, sign-extended.
func (s *state) operand(ins *asm.Instruction) value {
	if ins.OpCode.Source() == asm.RegSource {
		return s[ins.Src]
	}
	return constant(uint64(ins.Constant))
}

// compute is the result of an operation on known numbers. What the kernel defines in a
// special way, such as division by zero, is left to it.
func compute(s *state, ins *asm.Instruction, wide bool) value {
	if ins.Offset != 0 { // a sign-extending move, or signed division
		return value{}
	}
	a, b := s[ins.Dst], s.operand(ins)
	op := ins.OpCode.ALUOp()
	if op == asm.Mov && wide {
		return b
	}
	if op == asm.Add && wide && a.kind == kindSection && b.kind == kindConstant {
		return value{kindSection, a.n + b.n}
	}
	if b.kind != kindConstant || (op != asm.Mov && a.kind != kindConstant) {
		return value{}
	}
	x, y, width := a.n, b.n, uint64(64)
	if !wide {
		x, y, width = uint64(uint32(x)), uint64(uint32(y)), 32
	}
	var n uint64
	switch op {
	case asm.Mov:
		n = y
	case asm.Add:
		n = x + y
	case asm.Sub:
		n = x - y
	case asm.Mul:
		n = x * y
	case asm.Or:
		n = x | y
	case asm.And:
		n = x & y
	case asm.Xor:
		n = x ^ y
	case asm.LSh:
		n = x << (y & (width - 1))
	case asm.RSh:
		n = x >> (y & (width - 1))
	default:
		return value{}
	}
	if !wide {
		n = uint64(uint32(n))
	}
	return constant(n)
}

// decides is whether a jump is taken, if that is known.
func (s *state) decides(ins *asm.Instruction) (taken, known bool) {
	op := ins.OpCode.JumpOp()
	if op == asm.Ja {
		return true, true
	}
	a, b := s[ins.Dst], s.operand(ins)
	if a.kind != kindConstant || b.kind != kindConstant {
		return false, false
	}
	x, y := a.n, b.n
	signedX, signedY := int64(x), int64(y)
	if ins.OpCode.Class() == asm.Jump32Class {
		x, y = uint64(uint32(x)), uint64(uint32(y))
		signedX, signedY = int64(int32(uint32(x))), int64(int32(uint32(y)))
	}
	switch op {
	case asm.JEq:
		return x == y, true
	case asm.JNE:
		return x != y, true
	case asm.JGT:
		return x > y, true
	case asm.JGE:
		return x >= y, true
	case asm.JLT:
		return x < y, true
	case asm.JLE:
		return x <= y, true
	case asm.JSet:
		return x&y != 0, true
	case asm.JSGT:
		return signedX > signedY, true
	case asm.JSGE:
		return signedX >= signedY, true
	case asm.JSLT:
		return signedX < signedY, true
	case asm.JSLE:
		return signedX <= signedY, true
	}
	return false, false
}

// registers is a set of them, a bit each.
type registers uint16

func of(list ...asm.Register) (r registers) {
	for _, one := range list {
		r |= 1 << one
	}
	return r
}

func (r registers) has(one asm.Register) bool { return r>>one&1 != 0 }
