// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of linux/bpf.h.
const (
	cmdMapCreate      = 0
	cmdProgLoad       = 5
	cmdObjectInfo     = 15
	cmdLinkCreate     = 28
	mapTypeRingBuffer = 27
	progTypeSchedCLS  = 3
	progTypeXDP       = 6
	attachTCXIngress  = 46
	helperKtimeGetTAI = 208
)

// instruction is struct bpf_insn.
type instruction struct {
	op    uint8
	_     uint8 // registers
	_     int16 // offset
	value int32
}

var (
	moveZeroToR0 = instruction{op: 0xb7}
	exit         = instruction{op: 0x95}
)

func call(helper int32) instruction { return instruction{op: 0x85, value: helper} }

// loadProgram returns the file descriptor of a program.
func loadProgram(kind uint32, code ...instruction) (int, error) {
	license := [...]byte{'G', 'P', 'L', 0}
	attr := struct {
		kind, count   uint32
		code, license uint64
		_             [96]byte
	}{kind: kind, count: uint32(len(code)), code: pointer(&code[0]), license: pointer(&license[0])}
	fd, err := bpf(cmdProgLoad, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(code)
	runtime.KeepAlive(&license)
	return fd, err
}

func pointer[T any](p *T) uint64 { return uint64(uintptr(unsafe.Pointer(p))) }

func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// answer reads the result of a probe: some errors mean "no", all others
// "unknown".
func answer(what string, err error) Support {
	switch {
	case err == nil:
		return Support{Yes: true}
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOSYS):
		return Support{}
	default:
		return Support{Err: fmt.Errorf("%s: %w", what, err)}
	}
}

func probeProgram(kind uint32) Support {
	return probeHelper(kind, -1)
}

// probeJIT loads a program and checks whether it was compiled to machine code.
// The setting net.core.bpf_jit_enable is only visible in the initial network
// namespace.
func probeJIT() Support {
	fd, err := loadProgram(progTypeSchedCLS, moveZeroToR0, exit)
	if err != nil {
		return Support{Err: fmt.Errorf("load a program: %w", err)}
	}
	defer unix.Close(fd)
	var info struct { // the beginning of struct bpf_prog_info
		kind, id      uint32
		tag           [8]byte
		jited, xlated uint32
	}
	attr := struct {
		program, length uint32
		info            uint64
		_               [112]byte
	}{program: uint32(fd), length: uint32(unsafe.Sizeof(info)), info: pointer(&info)}
	if _, err := bpf(cmdObjectInfo, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return Support{Err: fmt.Errorf("look at a program: %w", err)}
	}
	runtime.KeepAlive(&info)
	return Support{Yes: info.jited > 0}
}

// probeHelper loads a program that calls a helper; -1 calls none.
func probeHelper(kind uint32, helper int32) Support {
	code := []instruction{moveZeroToR0, exit}
	if helper >= 0 {
		code = append([]instruction{call(helper)}, code...)
	}
	fd, err := loadProgram(kind, code...)
	if err == nil {
		unix.Close(fd)
	}
	return answer("load a program", err)
}

func probeRingBuffer() Support {
	attr := struct {
		kind, key, value, entries uint32
		_                         [56]byte
	}{kind: mapTypeRingBuffer, entries: uint32(unix.Getpagesize())}
	fd, err := bpf(cmdMapCreate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err == nil {
		unix.Close(fd)
	}
	return answer("create a ring buffer", err)
}

// probeTCX attaches to an interface index that cannot exist: a kernel with tcx
// looks for the interface, one without refuses the type first.
func probeTCX() Support {
	fd, err := loadProgram(progTypeSchedCLS, moveZeroToR0, exit)
	if err != nil {
		return Support{Err: fmt.Errorf("load a program: %w", err)}
	}
	defer unix.Close(fd)
	attr := struct {
		program, target, attach, flags uint32
		_                              [48]byte
	}{program: uint32(fd), target: math.MaxUint32, attach: attachTCXIngress}
	link, err := bpf(cmdLinkCreate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	switch {
	case errors.Is(err, unix.ENODEV):
		return Support{Yes: true}
	case err == nil:
		unix.Close(link)
		return Support{Yes: true}
	}
	return answer("attach by tcx", err)
}
