// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"encoding/binary"
	"fmt"
)

// An address has the number of its region in its upper half, and the offset in the
// lower one. The first region's number is such that no small integer is an address.
const (
	regionShift = 32
	firstRegion = 1 << 12
	// lineSize is how many bytes of memory a cache takes together.
	lineSize = 64
)

// kind says what a region is, for the count of cache lines.
type kind int

const (
	kindStack kind = iota // always in the nearest cache
	kindPacket
	kindMap
	kindKernel // structures of the kernel
)

// region is memory that a program reads and writes: all of it, or what a function
// finds when it is first used.
type region struct {
	name  string
	kind  kind
	bytes []byte
	// fill makes the bytes that an access needs; nil: they are all there.
	fill func(r *region, offset, size uint64) error
}

// memory is all that a program sees.
type memory struct {
	regions []*region
	lines   map[kind]map[uint64]bool // cache lines that were used
}

func newMemory() *memory { return &memory{lines: make(map[kind]map[uint64]bool)} }

// add returns the address of the region's first byte.
func (m *memory) add(r *region) uint64 {
	m.regions = append(m.regions, r)
	return uint64(firstRegion+len(m.regions)-1) << regionShift
}

// at finds bytes, and notes their cache lines.
func (m *memory) at(address, size uint64) ([]byte, error) {
	number, offset := address>>regionShift, address&(1<<regionShift-1)
	if number < firstRegion || number-firstRegion >= uint64(len(m.regions)) {
		return nil, fmt.Errorf("no memory at %#x", address)
	}
	r := m.regions[number-firstRegion]
	if r.fill != nil {
		if err := r.fill(r, offset, size); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	if offset+size > uint64(len(r.bytes)) {
		return nil, fmt.Errorf("%s has %d bytes: none at %d", r.name, len(r.bytes), offset)
	}
	if r.kind != kindStack {
		if m.lines[r.kind] == nil {
			m.lines[r.kind] = make(map[uint64]bool)
		}
		for line := offset / lineSize; line <= (offset+size-1)/lineSize; line++ {
			m.lines[r.kind][number<<regionShift|line] = true
		}
	}
	return r.bytes[offset : offset+size], nil
}

func (m *memory) load(address, size uint64) (uint64, error) {
	b, err := m.at(address, size)
	if err != nil {
		return 0, err
	}
	var word [8]byte
	copy(word[:], b)
	return binary.LittleEndian.Uint64(word[:]), nil
}

func (m *memory) store(address, size, value uint64) error {
	b, err := m.at(address, size)
	if err != nil {
		return err
	}
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], value)
	copy(b, word[:size])
	return nil
}

// grown makes a region at least this long; what is new is zero.
func (r *region) grown(size uint64) {
	if missing := int64(size) - int64(len(r.bytes)); missing > 0 {
		r.bytes = append(r.bytes, make([]byte, missing)...)
	}
}
