// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/waymark-net/waymark/test/testnet"
)

// The interpreter and the kernel come to the same result with random programs.
func TestLikeTheKernel(t *testing.T) {
	testnet.NeedRoot(t)
	const seed, programs = 7, 300
	random := rand.New(rand.NewPCG(seed, seed))
	frame := make([]byte, 64)
	for n := range programs {
		list := randomProgram(random)
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: list, License: "GPL"})
		if err != nil {
			t.Fatalf("program %d: %+v\n%v", n, err, list)
		}
		want, err := program.Run(&ebpf.RunOptions{Data: frame})
		if err != nil {
			t.Fatal(err)
		}
		of, err := Open(program)
		if err != nil {
			t.Fatal(err)
		}
		now, err := Now()
		if err != nil {
			t.Fatal(err)
		}
		got, err := of.XDP(frame, 1, now)
		program.Close()
		if err != nil || got.Verdict != want {
			t.Fatalf("program %d: %v, %#x instead of %#x\n%v", n, err, got.Verdict, want, list)
		}
		if got.Instructions < 10 {
			t.Errorf("program %d: %d instructions", n, got.Instructions)
		}
	}
}

// randomProgram computes with registers and the stack, jumps forward, and returns a
// hash of all registers.
func randomProgram(random *rand.Rand) asm.Instructions {
	const first, last, length = asm.R0, asm.R9, 60
	register := func() asm.Register { return first + asm.Register(random.IntN(int(last)+1)) }
	operations := []asm.ALUOp{asm.Add, asm.Sub, asm.Mul, asm.Div, asm.Mod, asm.Or, asm.And, asm.Xor, asm.Mov}
	shifts := []asm.ALUOp{asm.LSh, asm.RSh, asm.ArSh}
	jumps := []asm.JumpOp{asm.JEq, asm.JNE, asm.JGT, asm.JGE, asm.JLT, asm.JLE, asm.JSet, asm.JSGT, asm.JSGE, asm.JSLT, asm.JSLE}
	sizes := []asm.Size{asm.Byte, asm.Half, asm.Word, asm.DWord}
	var list asm.Instructions
	for r := first; r <= last; r++ {
		list = append(list, asm.LoadImm(r, int64(random.Uint64()), asm.DWord))
	}
	for at := int16(-64); at < 0; at += 8 {
		list = append(list, asm.StoreMem(asm.RFP, at, register(), asm.DWord))
	}
	for i := range length {
		var ins asm.Instruction
		switch random.IntN(8) {
		case 0:
			op := shifts[random.IntN(len(shifts))]
			ins = []asm.Instruction{op.Imm(register(), random.Int32N(64)), op.Imm32(register(), random.Int32N(32))}[random.IntN(2)]
		case 1:
			ins = asm.LoadMem(register(), asm.RFP, -int16(8*(1+random.IntN(8))), sizes[random.IntN(len(sizes))])
		case 2:
			ins = asm.StoreMem(asm.RFP, -int16(8*(1+random.IntN(8))), register(), sizes[random.IntN(len(sizes))])
		case 3:
			order := []asm.Endianness{asm.BE, asm.LE}[random.IntN(2)]
			ins = asm.HostTo(order, register(), sizes[1+random.IntN(3)])
		case 4:
			op, label := jumps[random.IntN(len(jumps))], fmt.Sprintf("after %d", min(i+1+random.IntN(4), length-1))
			ins = []asm.Instruction{
				op.Imm(register(), int32(random.Uint32()), label), op.Imm32(register(), int32(random.Uint32()), label),
				op.Reg(register(), register(), label), op.Reg32(register(), register(), label),
			}[random.IntN(4)]
			if i == length-1 {
				ins = asm.Mov.Reg(asm.R0, asm.R0)
			}
		default:
			op := operations[random.IntN(len(operations))]
			constant := int32(random.Uint32()) | 1 // the verifier refuses to divide by a constant 0
			ins = []asm.Instruction{
				op.Imm(register(), constant), op.Imm32(register(), constant),
				op.Reg(register(), register()), op.Reg32(register(), register()),
			}[random.IntN(4)]
		}
		list = append(list, ins.WithSymbol(fmt.Sprintf("after %d", i)))
	}
	for r := asm.R1; r <= last; r++ {
		list = append(list, asm.Mul.Imm(asm.R0, 31), asm.Add.Reg(asm.R0, r))
	}
	list = append(list, asm.Mov.Reg(asm.R1, asm.R0), asm.RSh.Imm(asm.R1, 32), asm.Xor.Reg(asm.R0, asm.R1), asm.Return())
	return list
}

// What cannot be carried out is an error, and no panic.
func TestUnknown(t *testing.T) {
	at := func(list ...asm.Instruction) error {
		p := &Program{}
		for i := range list {
			p.slots, p.lines = append(p.slots, &list[i]), append(p.lines, Line{})
		}
		m := &machine{memory: newMemory(), program: p, count: newCount()}
		_, err := m.run(0)
		return err
	}
	for name, list := range map[string][]asm.Instruction{
		"nothing":          {},
		"no end":           {asm.Mov.Imm(asm.R0, 0)},
		"a loop":           {{OpCode: asm.Ja.Op(asm.ImmSource), Offset: -1}},
		"no memory":        {asm.LoadMem(asm.R0, asm.R0, 0, asm.DWord)},
		"beyond the stack": {asm.LoadMem(asm.R0, asm.RFP, stackSize*mostCalls, asm.DWord)},
	} {
		if err := at(list...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
