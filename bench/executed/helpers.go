// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Verdicts and errors of the kernel's functions (include/uapi/linux/bpf.h and errno.h).
const (
	xdpRedirect = 4
	invalid     = ^uint64(unix.EINVAL) + 1
)

// helpers are the functions of the kernel that programs call, as far as packets that
// are forwarded fast need them.
var helpers = map[string]func(*machine) (uint64, error){
	"__htab_map_lookup_elem": func(m *machine) (uint64, error) { return m.lookUp(m.program.hashKey) },
	"trie_lookup_elem":       (*machine).lookUpPrefix,
	"htab_lru_map_update_elem": func(*machine) (uint64, error) {
		return 0, nil // only the next run could see it
	},
	"dev_hash_map_redirect":    (*machine).redirectByMap,
	"bpf_xdp_redirect":         func(*machine) (uint64, error) { return xdpRedirect, nil },
	"bpf_xdp_adjust_head":      (*machine).adjustHead,
	"bpf_xdp_get_buff_len":     func(m *machine) (uint64, error) { return m.packet.length(), nil },
	"bpf_ktime_get_tai_ns":     func(m *machine) (uint64, error) { return m.clock.tai, nil },
	"bpf_ktime_get_coarse_ns":  func(m *machine) (uint64, error) { return m.clock.coarse, nil },
	"bpf_get_smp_processor_id": func(*machine) (uint64, error) { return currentCPU() },
	"bpf_get_prandom_u32":      func(*machine) (uint64, error) { return 4, nil },
	"bpf_ringbuf_query":        func(*machine) (uint64, error) { return 0, nil },
	"bpf_ringbuf_reserve":      func(*machine) (uint64, error) { return 0, nil },
	"bpf_xdp_load_bytes":       func(m *machine) (uint64, error) { return m.copyBytes(false) },
	"bpf_xdp_store_bytes":      func(m *machine) (uint64, error) { return m.copyBytes(true) },
}

// currentCPU is the one on which this thread runs; it stays the same on a pinned one.
func currentCPU() (uint64, error) {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return 0, fmt.Errorf("find the CPU: %w", errno)
	}
	return uint64(cpu), nil
}

// lookUp finds an element of a hash, with as many bytes before its key as the kernel
// has there; the program skips them.
func (m *machine) lookUp(head uint32) (uint64, error) {
	in, err := m.program.mapAt(m.registers[asm.R1])
	if err != nil {
		return 0, err
	}
	key, err := m.at(m.registers[asm.R2], uint64(in.KeySize()))
	if err != nil {
		return 0, err
	}
	return in.find(m.memory, append([]byte(nil), key...), head)
}

// lookUpPrefix finds a value of a trie.
func (m *machine) lookUpPrefix() (uint64, error) {
	in, err := m.program.mapAt(m.registers[asm.R1])
	if err != nil {
		return 0, err
	}
	at, err := m.lookUp(0)
	if at != 0 {
		at += uint64(align8(in.KeySize()))
	}
	return at, err
}

func (m *machine) redirectByMap() (uint64, error) {
	in, err := m.program.mapAt(m.registers[asm.R1])
	if err != nil {
		return 0, err
	}
	var value []byte
	if err := in.Lookup(uint32(m.registers[asm.R2]), &value); err != nil {
		return m.registers[asm.R3] & 3, nil
	}
	return xdpRedirect, nil
}

func (m *machine) adjustHead() (uint64, error) {
	if !m.packet.move(int32(m.registers[asm.R2])) {
		return invalid, nil
	}
	return 0, m.packet.publish(m)
}

func (m *machine) copyBytes(into bool) (uint64, error) {
	offset, to, size := m.registers[asm.R2], m.registers[asm.R3], uint64(uint32(m.registers[asm.R4]))
	if offset+size > m.packet.length() {
		return invalid, nil
	}
	packet, err := m.at(m.packet.first()+offset, size)
	if err != nil {
		return 0, err
	}
	other, err := m.at(to, size)
	if err != nil {
		return 0, err
	}
	if into {
		copy(packet, other)
	} else {
		copy(other, packet)
	}
	return 0, nil
}
