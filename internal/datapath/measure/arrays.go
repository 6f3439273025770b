// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sharedArray is the entries of a map, in memory that programs and agent share.
type sharedArray[T any] struct {
	entries []T
	memory  []byte
}

func openArray[T any](m *ebpf.Map) (a sharedArray[T], err error) {
	entries := int(m.MaxEntries())
	a.memory, err = unix.Mmap(m.FD(), 0, entries*int(unsafe.Sizeof(*new(T))), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return a, fmt.Errorf("map the memory of measured flows: %w", err)
	}
	a.entries = unsafe.Slice((*T)(unsafe.Pointer(&a.memory[0])), entries)
	return a, nil
}

func (a *sharedArray[T]) close() {
	if a.memory != nil {
		_ = unix.Munmap(a.memory)
		a.memory, a.entries = nil, nil
	}
}
