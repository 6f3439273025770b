// SPDX-License-Identifier: Apache-2.0

// Package executed counts what a program executes for a packet: the instructions that
// are left once the kernel's verifier has removed and inlined what it can, and the
// cache lines that they use. It interprets them, with the contents of the loaded maps,
// so that the figures are the same in every run, whatever else the machine does.
//
// The kernel's functions that a program calls are carried out, too, but only counted as
// calls. Only little-endian machines, and kernels that show what the verifier made
// (Linux 4.13 or later, as root).
package executed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/cilium/ebpf/asm"
)

const (
	stackSize = 512
	// mostExecuted bounds a run: no treatment of ours comes near it.
	mostExecuted = 1 << 20
	mostCalls    = 8
)

// ofThisCPU marks the instruction that makes an address of this CPU from one of all. The
// verifier puts only the address of the CPU's number into programs; the values of maps
// that each CPU has are this CPU's already.
const ofThisCPU = -1

// frame is what a called function does not see of its caller.
type frame struct {
	registers [5]uint64 // r6 to r10
	back      int
}

// machine runs the instructions of one program.
type machine struct {
	*memory
	program   *Program
	registers [11]uint64
	frames    []frame
	stack     uint64 // the lowest address of all frames
	packet    *packet
	clock     Clock
	cpuNumber uint64 // the address of that

	count Count
}

// run executes the program from its start until it exits.
func (m *machine) run(context uint64) (verdict uint32, err error) {
	m.stack = m.add(&region{name: "stack", kind: kindStack, bytes: make([]byte, stackSize*mostCalls)})
	m.registers[asm.R1], m.registers[asm.RFP] = context, m.stack+stackSize
	for at := 0; ; {
		if at < 0 || at >= len(m.program.slots) || m.program.slots[at] == nil {
			return 0, fmt.Errorf("no instruction %d", at)
		}
		ins := m.program.slots[at]
		if m.count.Instructions++; m.count.Instructions > mostExecuted {
			return 0, errors.New("the program does not end")
		}
		m.count.addLine(m.program.lines[at])
		next, done, err := m.step(at, ins)
		if err != nil {
			return 0, fmt.Errorf("instruction %d (%v): %w", at, ins, err)
		}
		if done {
			return uint32(m.registers[asm.R0]), nil
		}
		at = next
	}
}

// step executes an instruction, and returns the number of the next one.
func (m *machine) step(at int, ins *asm.Instruction) (next int, done bool, err error) {
	next = at + int(ins.Width())
	switch class := ins.OpCode.Class(); class {
	case asm.ALUClass, asm.ALU64Class:
		return next, false, m.compute(ins, class == asm.ALU64Class)
	case asm.LdClass, asm.LdXClass:
		return next, false, m.read(ins)
	case asm.StClass, asm.StXClass:
		return next, false, m.write(ins)
	case asm.JumpClass, asm.Jump32Class:
		return m.jump(next, ins)
	default:
		return 0, false, fmt.Errorf("the class %v is not known", class)
	}
}

func (m *machine) read(ins *asm.Instruction) (err error) {
	if ins.OpCode.Class() == asm.LdClass {
		if !ins.OpCode.IsDWordLoad() {
			return errors.New("loads of packets are not known")
		}
		m.registers[ins.Dst], err = m.program.constant(m.memory, ins)
		return err
	}
	size := uint64(ins.OpCode.Size().Sizeof())
	address := m.registers[ins.Src] + uint64(int64(ins.Offset))
	value, err := m.clock.ticks, error(nil)
	if address < kernelImage {
		value, err = m.load(address, size)
	}
	if err != nil {
		return err
	}
	if ins.OpCode.Mode() == asm.MemSXMode {
		value = uint64(int64(value<<(64-8*size)) >> (64 - 8*size))
	}
	m.registers[ins.Dst] = value
	return nil
}

func (m *machine) write(ins *asm.Instruction) error {
	size := uint64(ins.OpCode.Size().Sizeof())
	address, value := m.registers[ins.Dst]+uint64(int64(ins.Offset)), uint64(ins.Constant)
	if ins.OpCode.Class() == asm.StXClass {
		value = m.registers[ins.Src]
	}
	if ins.OpCode.Mode() != asm.AtomicMode {
		return m.store(address, size, value)
	}
	m.count.Atomics++
	old, err := m.load(address, size)
	if err != nil {
		return err
	}
	switch op := ins.OpCode.AtomicOp(); op {
	case asm.AddAtomic, asm.FetchAdd:
		value += old
	case asm.OrAtomic, asm.FetchOr:
		value |= old
	case asm.AndAtomic, asm.FetchAnd:
		value &= old
	case asm.XorAtomic, asm.FetchXor:
		value ^= old
	case asm.Xchg:
	case asm.CmpXchg:
		if old != m.registers[asm.R0] {
			m.registers[asm.R0] = old
			return nil
		}
		return m.store(address, size, value)
	default:
		return fmt.Errorf("the atomic operation %v is not known", op)
	}
	switch ins.OpCode.AtomicOp() {
	case asm.FetchAdd, asm.FetchOr, asm.FetchAnd, asm.FetchXor, asm.Xchg:
		m.registers[ins.Src] = old
	}
	return m.store(address, size, value)
}

// swap changes the order of bytes.
func swap(value uint64, width int64) uint64 {
	switch width {
	case 16:
		return uint64(bits.ReverseBytes16(uint16(value)))
	case 32:
		return uint64(bits.ReverseBytes32(uint32(value)))
	}
	return bits.ReverseBytes64(value)
}

func (m *machine) compute(ins *asm.Instruction, wide bool) error {
	op, dst := ins.OpCode.ALUOp(), m.registers[ins.Dst]
	if op == asm.Swap {
		little := !wide && ins.OpCode.Endianness() == asm.LE
		if value := dst & (1<<uint(ins.Constant) - 1); little {
			m.registers[ins.Dst] = value
		} else {
			m.registers[ins.Dst] = swap(dst, ins.Constant)
		}
		return nil
	}
	src := uint64(ins.Constant)
	if ins.OpCode.Source() == asm.RegSource {
		src = m.registers[ins.Src]
	}
	if op == asm.Mov && ins.Offset == ofThisCPU && src >= kernelImage {
		m.registers[ins.Dst] = m.cpuNumber
		return nil
	}
	if !wide {
		dst, src = uint64(uint32(dst)), uint64(uint32(src))
	}
	width := uint64(64)
	if !wide {
		width = 32
	}
	value, err := calculate(op, dst, src, width)
	if err != nil {
		return err
	}
	if !wide {
		value = uint64(uint32(value))
	}
	m.registers[ins.Dst] = value
	return nil
}

func calculate(op asm.ALUOp, dst, src, width uint64) (uint64, error) {
	signed := func(v uint64) int64 { return int64(v<<(64-width)) >> (64 - width) }
	switch op {
	case asm.Add:
		return dst + src, nil
	case asm.Sub:
		return dst - src, nil
	case asm.Mul:
		return dst * src, nil
	case asm.Div:
		if src == 0 {
			return 0, nil
		}
		return dst / src, nil
	case asm.Mod:
		if src == 0 {
			return dst, nil
		}
		return dst % src, nil
	case asm.Or:
		return dst | src, nil
	case asm.And:
		return dst & src, nil
	case asm.Xor:
		return dst ^ src, nil
	case asm.LSh:
		return dst << (src & (width - 1)), nil
	case asm.RSh:
		return dst >> (src & (width - 1)), nil
	case asm.ArSh:
		return uint64(signed(dst) >> (src & (width - 1))), nil
	case asm.Neg:
		return -dst, nil
	case asm.Mov:
		return src, nil
	case asm.MovSX8:
		return uint64(int64(int8(src))), nil
	case asm.MovSX16:
		return uint64(int64(int16(src))), nil
	case asm.MovSX32:
		return uint64(int64(int32(src))), nil
	}
	return 0, fmt.Errorf("the operation %v is not known", op)
}

func (m *machine) jump(next int, ins *asm.Instruction) (int, bool, error) {
	switch op := ins.OpCode.JumpOp(); op {
	case asm.Exit:
		if len(m.frames) == 0 {
			return 0, true, nil
		}
		last := m.frames[len(m.frames)-1]
		m.frames = m.frames[:len(m.frames)-1]
		copy(m.registers[6:], last.registers[:])
		return last.back, false, nil
	case asm.Call:
		return m.call(next, ins)
	case asm.Ja:
		if ins.OpCode.Class() == asm.Jump32Class {
			return next + int(ins.Constant), false, nil
		}
		return next + int(ins.Offset), false, nil
	default:
		taken, err := m.compare(op, ins)
		if taken {
			next += int(ins.Offset)
		}
		return next, false, err
	}
}

func (m *machine) call(next int, ins *asm.Instruction) (int, bool, error) {
	if ins.IsFunctionCall() {
		if len(m.frames)+1 == mostCalls {
			return 0, false, errors.New("too many calls in one another")
		}
		f := frame{back: next}
		copy(f.registers[:], m.registers[6:])
		m.frames = append(m.frames, f)
		m.registers[asm.RFP] = m.stack + uint64(stackSize*(len(m.frames)+1))
		m.count.Calls++
		return next + int(ins.Offset), false, nil // once compiled, the constant is the function's number
	}
	name, err := m.program.helper(ins)
	if err != nil {
		return 0, false, err
	}
	m.count.Helpers[name]++
	carry, known := helpers[name]
	if !known {
		return 0, false, fmt.Errorf("the kernel's function %s is not known", name)
	}
	m.registers[asm.R0], err = carry(m)
	return next, false, err
}

func (m *machine) compare(op asm.JumpOp, ins *asm.Instruction) (bool, error) {
	a, b := m.registers[ins.Dst], uint64(ins.Constant)
	if ins.OpCode.Source() == asm.RegSource {
		b = m.registers[ins.Src]
	}
	signedA, signedB := int64(a), int64(b)
	if ins.OpCode.Class() == asm.Jump32Class {
		a, b = uint64(uint32(a)), uint64(uint32(b))
		signedA, signedB = int64(int32(a)), int64(int32(b))
	}
	switch op {
	case asm.JEq:
		return a == b, nil
	case asm.JNE:
		return a != b, nil
	case asm.JGT:
		return a > b, nil
	case asm.JGE:
		return a >= b, nil
	case asm.JLT:
		return a < b, nil
	case asm.JLE:
		return a <= b, nil
	case asm.JSet:
		return a&b != 0, nil
	case asm.JSGT:
		return signedA > signedB, nil
	case asm.JSGE:
		return signedA >= signedB, nil
	case asm.JSLT:
		return signedA < signedB, nil
	case asm.JSLE:
		return signedA <= signedB, nil
	}
	return false, fmt.Errorf("the jump %v is not known", op)
}

// put writes a number into a region's bytes.
func put(b []byte, offset uint32, size int, value uint64) {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], value)
	copy(b[offset:int(offset)+size], word[:size])
}
