// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/waymark-net/waymark/internal/problem"
)

// Program is a loaded program as the verifier left it.
type Program struct {
	slots []*asm.Instruction // by number; an instruction of 16 bytes takes two
	lines []Line             // the source of each
	maps  map[uint32]*mapping
	layout
}

// Line is one of a program's source.
type Line struct {
	File   string // without directories
	Number uint32
}

// layout is where the running kernel has what programs reach without a helper.
type layout struct {
	arrayValues                                   uint32 // of an array, from its start
	hashKey                                       uint32 // of an element of a hash
	data, dataEnd, dataMeta, hardStart, rxq, size uint32 // of struct xdp_buff
	rxqDevice, ifindex                            uint32
}

// Open reads a program's instructions.
func Open(p *ebpf.Program) (*Program, error) {
	info, err := p.Info()
	if err != nil {
		return nil, fmt.Errorf("read the program's data: %w", err)
	}
	list, err := info.Instructions()
	if err != nil {
		return nil, fmt.Errorf("read the program's instructions: %w", err)
	}
	out := &Program{}
	if out.layout, err = kernelLayout(); err != nil {
		return nil, err
	}
	var at Line
	for i := range list {
		ins := &list[i]
		if line, ok := ins.Source().(*btf.Line); ok {
			at = Line{line.FileName()[strings.LastIndexByte(line.FileName(), '/')+1:], line.LineNumber()}
		}
		out.slots, out.lines = append(out.slots, ins), append(out.lines, at)
		for range ins.Width() - 1 {
			out.slots, out.lines = append(out.slots, nil), append(out.lines, at)
		}
	}
	return out, nil
}

// closeMaps forgets what maps had in a run.
func (p *Program) closeMaps() {
	for _, m := range p.maps {
		m.Close()
	}
	p.maps = nil
}

// constant is what a 64-bit constant is at run time: a number, a map, or its values.
func (p *Program) constant(m *memory, ins *asm.Instruction) (uint64, error) {
	if ins.Src != asm.PseudoMapFD && ins.Src != asm.PseudoMapValue {
		return uint64(ins.Constant), nil
	}
	in, err := p.mapOf(m, uint32(ins.Constant))
	if err != nil {
		return 0, err
	}
	if ins.Src == asm.PseudoMapFD {
		return in.address, nil
	}
	return in.address + uint64(p.arrayValues) + uint64(ins.Constant)>>32, nil
}

// kernelLayout finds the offsets in the running kernel's types.
var kernelLayout = sync.OnceValues(func() (l layout, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return l, fmt.Errorf("read the kernel's types: %w", err)
	}
	for _, want := range []struct {
		to          *uint32
		kind, field string
	}{
		{&l.arrayValues, "bpf_array", "value"}, {&l.hashKey, "htab_elem", "key"},
		{&l.data, "xdp_buff", "data"}, {&l.dataEnd, "xdp_buff", "data_end"}, {&l.dataMeta, "xdp_buff", "data_meta"},
		{&l.hardStart, "xdp_buff", "data_hard_start"}, {&l.rxq, "xdp_buff", "rxq"},
		{&l.rxqDevice, "xdp_rxq_info", "dev"}, {&l.ifindex, "net_device", "ifindex"},
	} {
		if *want.to, err = offsetOf(spec, want.kind, want.field); err != nil {
			return l, err
		}
	}
	l.size, err = sizeOf(spec, "xdp_buff")
	return l, err
})

func sizeOf(spec *btf.Spec, kind string) (uint32, error) {
	var s *btf.Struct
	if err := spec.TypeByName(kind, &s); err != nil {
		return 0, fmt.Errorf("find the kernel's struct %s: %w", kind, err)
	}
	return s.Size, nil
}

// offsetOf is the offset of a field, which may be in an anonymous member.
func offsetOf(spec *btf.Spec, kind, field string) (uint32, error) {
	var s *btf.Struct
	if err := spec.TypeByName(kind, &s); err != nil {
		return 0, fmt.Errorf("find the kernel's struct %s: %w", kind, err)
	}
	if offset, ok := memberOffset(s.Members, field); ok {
		return offset, nil
	}
	return 0, fmt.Errorf("the kernel's struct %s has no %s", kind, field)
}

func memberOffset(list []btf.Member, field string) (uint32, bool) {
	for _, m := range list {
		if m.Name == field {
			return m.Offset.Bytes(), true
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if offset, ok := memberOffset(inner, field); ok {
			return m.Offset.Bytes() + offset, true
		}
	}
	return 0, false
}

// helper is the name of the kernel's function that an instruction calls.
func (p *Program) helper(ins *asm.Instruction) (string, error) {
	symbols, err := kernelSymbols()
	if err != nil {
		return "", err
	}
	const platform = 1<<28 - 1 // the library keeps an operating system in the upper bits
	name, ok := symbols[uint64(ins.Constant)&platform]
	if !ok {
		return "", fmt.Errorf("no function of the kernel is known at %d after its first helper", ins.Constant)
	}
	return name, nil
}

// kernelSymbols are the kernel's functions by their distance from where calls are
// counted from.
var kernelSymbols = sync.OnceValues(func() (out map[uint64]string, err error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return out, err
	}
	defer f.Close()
	addresses := make(map[uint64]string)
	var base uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 { // of a module
			continue
		}
		address, err := strconv.ParseUint(fields[0], 16, 64)
		if err != nil {
			return out, fmt.Errorf("/proc/kallsyms: %w", err)
		}
		if fields[2] == "__bpf_call_base" {
			base = address
		}
		if _, known := addresses[address]; !known {
			addresses[address] = fields[2]
		}
	}
	if base == 0 {
		return out, problem.New("/proc/kallsyms does not show __bpf_call_base", "run as root, with kernel.kptr_restrict 0 or 1")
	}
	out = make(map[uint64]string, len(addresses))
	for address, name := range addresses {
		if address >= base {
			out[address-base] = name
		}
	}
	return out, nil
})
