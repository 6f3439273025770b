// SPDX-License-Identifier: Apache-2.0

package specialize

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

const section = ".rodata"

// program is a list of instructions whose jumps are given by the index where they go.
type program struct {
	list    asm.Instructions
	targets map[int]int
}

func (p *program) add(list ...asm.Instruction) { p.list = append(p.list, list...) }

// jump adds a jump to the instruction that is so many further on than the next.
func (p *program) jump(ins asm.Instruction, further int) {
	ins = ins.WithReference("")
	if p.targets == nil {
		p.targets = make(map[int]int)
	}
	p.targets[len(p.list)] = len(p.list) + 1 + further
	p.add(ins)
}

// instructions are those with the offsets of their jumps.
func (p *program) instructions(name string) asm.Instructions {
	list := slices.Clone(p.list)
	at := make([]asm.RawInstructionOffset, len(list)+1)
	for i := range list {
		at[i+1] = at[i] + list[i].Width()
	}
	for i, target := range p.targets {
		list[i].Offset = int16(int(at[target]) - int(at[i]) - 1)
	}
	list[0] = list[0].WithSymbol(name)
	return list
}

// constantAt loads a constant into a register.
func constantAt(r asm.Register, offset uint32, size asm.Size) []asm.Instruction {
	const into = 4 // the address is that of octets before, as compilers have it
	return []asm.Instruction{
		asm.LoadMapValue(r, 0, offset-min(offset, into)).WithReference(section),
		asm.LoadMem(r, r, int16(min(offset, into)), size),
	}
}

// The branch that a constant excludes is not there any more, nor what decided about it,
// nor the function that only it called.
func TestBranch(t *testing.T) {
	var main, other program
	main.add(asm.Mov.Imm(asm.R0, 2))
	main.add(constantAt(asm.R3, 9, asm.Byte)...)
	main.jump(asm.JEq.Imm(asm.R3, 0, ""), 1)
	main.add(asm.Call.Label("other"))
	main.add(asm.LoadImm(asm.R4, 1<<40, asm.DWord), asm.Return())
	other.add(asm.Mov.Imm(asm.R0, 7), asm.Return())
	list := append(main.instructions("main"), other.instructions("other")...)
	for _, c := range []struct {
		name     string
		constant byte
		want     []asm.OpCode
	}{
		{"excluded", 0, []asm.OpCode{asm.Mov.Op(asm.ImmSource), asm.Exit.Op(asm.ImmSource)}},
		{"taken", 1, []asm.OpCode{ // what may be an argument stays
			asm.Mov.Op(asm.ImmSource), asm.Mov.Op(asm.ImmSource), asm.Call.Op(asm.ImmSource), asm.Exit.Op(asm.ImmSource),
			asm.Mov.Op(asm.ImmSource), asm.Exit.Op(asm.ImmSource),
		}},
	} {
		constants := make([]byte, 16)
		constants[9] = c.constant
		before := slices.Clone(list)
		got, err := Program(list, section, constants)
		if err != nil {
			t.Fatal(err)
		}
		var codes []asm.OpCode
		for _, ins := range got {
			codes = append(codes, ins.OpCode)
		}
		if !slices.Equal(codes, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
		for i := range list {
			if list[i].OpCode != before[i].OpCode || list[i].Offset != before[i].Offset {
				t.Fatalf("%s: the program itself was changed", c.name)
			}
		}
	}
}

// A loop stays, with its jump back over instructions that went.
func TestLoop(t *testing.T) {
	var main program
	main.add(asm.Mov.Imm(asm.R0, 0), asm.Mov.Imm(asm.R6, 5))
	main.add(constantAt(asm.R3, 0, asm.Word)...)    // 2 and 3
	main.add(asm.Add.Reg(asm.R0, asm.R3))           // 4
	main.add(asm.LoadImm(asm.R5, 1<<50, asm.DWord)) // 5: nobody reads it
	main.add(asm.Sub.Imm(asm.R6, 1))                // 6
	main.jump(asm.JNE.Imm(asm.R6, 0, ""), 2-7-1)    // 7
	main.add(asm.Return())                          // 8
	got, err := Program(main.instructions("main"), section, []byte{3, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 7 {
		t.Errorf("%d instructions: %v", len(got), got)
	}
	if result := run(t, got, make([]byte, 8)); result != 15 {
		t.Errorf("%d", result)
	}
}

// Programs that are not whole are errors, and no panic.
func TestNotWhole(t *testing.T) {
	for name, list := range map[string]asm.Instructions{
		"nothing":         {},
		"no name":         {asm.Return()},
		"no end":          {asm.Mov.Imm(asm.R0, 0).WithSymbol("main")},
		"jumps out":       {asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource), Offset: 5}.WithSymbol("main"), asm.Return()},
		"calls no one":    {asm.Call.Label("nobody").WithSymbol("main"), asm.Return()},
		"into an address": {asm.Instruction{OpCode: asm.Ja.Op(asm.ImmSource), Offset: 1}.WithSymbol("main"), asm.LoadImm(asm.R0, 1<<40, asm.DWord), asm.Return()},
	} {
		if got, err := Program(list, section, nil); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	beyond := append(asm.Instructions{}, constantAt(asm.R0, 4, asm.DWord)...)
	beyond[0] = beyond[0].WithSymbol("main")
	got, err := Program(append(beyond, asm.Return()), section, make([]byte, 8))
	if err != nil || len(got) != 3 {
		t.Errorf("a constant beyond the section: %v: %v", err, got) // the verifier says so
	}
}

// The kernel comes to the same result with a random program and with what becomes of it.
func TestSameResult(t *testing.T) {
	testnet.NeedRoot(t)
	const seed, programs = 11, 300
	random := rand.New(rand.NewPCG(seed, seed))
	var before, after int
	for n := range programs {
		constants := make([]byte, 32)
		for i := range constants {
			constants[i] = byte(random.Uint32() >> random.IntN(32))
		}
		main, other := randomProgram(random, "other"), randomProgram(random, "")
		list := append(main.instructions("main"), other.instructions("other")...)
		got, err := Program(list, section, constants)
		if err != nil {
			t.Fatalf("program %d: %v\n%v", n, err, list)
		}
		before, after = before+len(list), after+len(got)
		if want, result := run(t, list, constants), run(t, got, constants); result != want {
			t.Fatalf("program %d: %#x instead of %#x\n%v\n%v", n, result, want, list, got)
		}
	}
	t.Logf("%d of %d instructions stay", after, before)
	if after > before*9/10 {
		t.Error("hardly an instruction went")
	}
}

// run has the kernel run a program.
func run(t *testing.T, list asm.Instructions, constants []byte) uint32 {
	t.Helper()
	spec := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{section: {
			Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(constants)), MaxEntries: 1, Flags: unix.BPF_F_RDONLY_PROG,
			Contents: []ebpf.MapKV{{Key: uint32(0), Value: constants}},
		}},
		Programs: map[string]*ebpf.ProgramSpec{"main": {Type: ebpf.XDP, Instructions: slices.Clone(list), License: "GPL"}},
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v\n%v", err, list)
	}
	defer c.Close()
	result, err := c.Programs["main"].Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// randomProgram computes with constants, other numbers and the stack, jumps forward, calls
// the other function if there is one, and returns a hash of its registers.
func randomProgram(random *rand.Rand, other string) (p program) {
	const last, length = asm.R9, 60
	register := func() asm.Register { return asm.Register(random.IntN(int(last) + 1)) }
	operations := []asm.ALUOp{asm.Add, asm.Sub, asm.Mul, asm.Div, asm.Mod, asm.Or, asm.And, asm.Xor, asm.Mov, asm.Mov}
	shifts := []asm.ALUOp{asm.LSh, asm.RSh, asm.ArSh}
	jumps := []asm.JumpOp{asm.JEq, asm.JNE, asm.JGT, asm.JGE, asm.JLT, asm.JLE, asm.JSet, asm.JSGT, asm.JSGE, asm.JSLT, asm.JSLE}
	sizes := []asm.Size{asm.Byte, asm.Half, asm.Word, asm.DWord}
	number := func() int32 { return int32(random.Uint32()) >> random.IntN(32) }
	for r := asm.R0; r <= last; r++ {
		p.add(asm.LoadImm(r, int64(random.Uint64()), asm.DWord))
	}
	for at := int16(-64); at < 0; at += 8 {
		p.add(asm.StoreMem(asm.RFP, at, register(), asm.DWord))
	}
	if other != "" {
		p.add(asm.Call.Label(other))
		for r := asm.R1; r <= asm.R5; r++ {
			p.add(asm.Mov.Imm(r, number()))
		}
	}
	for range length {
		switch random.IntN(9) {
		case 0:
			op := shifts[random.IntN(len(shifts))]
			p.add([]asm.Instruction{op.Imm(register(), random.Int32N(64)), op.Imm32(register(), random.Int32N(32))}[random.IntN(2)])
		case 1:
			p.add(asm.LoadMem(register(), asm.RFP, -int16(8*(1+random.IntN(8))), sizes[random.IntN(len(sizes))]))
		case 2:
			p.add(asm.StoreMem(asm.RFP, -int16(8*(1+random.IntN(8))), register(), sizes[random.IntN(len(sizes))]))
		case 3:
			p.add(asm.HostTo([]asm.Endianness{asm.BE, asm.LE}[random.IntN(2)], register(), sizes[1+random.IntN(3)]))
		case 4, 5:
			op := jumps[random.IntN(len(jumps))]
			p.jump([]asm.Instruction{
				op.Imm(register(), number(), ""), op.Imm32(register(), number(), ""),
				op.Reg(register(), register(), ""), op.Reg32(register(), register(), ""),
			}[random.IntN(4)], 2)
			p.add(asm.Mov.Imm(register(), number()), asm.Xor.Reg(register(), register()))
		case 6:
			size := random.IntN(len(sizes))
			p.add(constantAt(register(), uint32(random.IntN(4))<<3, sizes[size])...)
		default:
			op := operations[random.IntN(len(operations))]
			constant := number() | 1 // the verifier refuses to divide by a constant 0
			p.add([]asm.Instruction{
				op.Imm(register(), constant), op.Imm32(register(), constant),
				op.Reg(register(), register()), op.Reg32(register(), register()),
			}[random.IntN(4)])
		}
	}
	for r := asm.R1; r <= last; r++ {
		p.add(asm.Mul.Imm(asm.R0, 31), asm.Add.Reg(asm.R0, r))
	}
	p.add(asm.Mov.Reg(asm.R1, asm.R0), asm.RSh.Imm(asm.R1, 32), asm.Xor.Reg(asm.R0, asm.R1), asm.Return())
	return p
}
