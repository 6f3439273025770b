// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// mapping is a map as a program sees it: an array's values are reached without a
// helper, everything else is found when it is asked for. What a program writes is
// kept for its run, and does not reach the kernel's map.
type mapping struct {
	*ebpf.Map
	address  uint64
	elements map[string]uint64 // where elements of a hash are, by key
	filled   map[uint64]bool   // elements of an array that are there
}

const percpuPointer = 8

func align8(n uint32) uint32 { return (n + 7) &^ 7 }

// mapOf finds a map by its number in the kernel.
func (p *Program) mapOf(m *memory, id uint32) (*mapping, error) {
	if known, ok := p.maps[id]; ok {
		return known, nil
	}
	found, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if err != nil {
		return nil, fmt.Errorf("open map %d: %w", id, err)
	}
	in := &mapping{Map: found, elements: make(map[string]uint64), filled: make(map[uint64]bool)}
	p.maps[id] = in
	in.address = m.add(&region{name: "map " + found.String(), kind: kindMap, fill: func(r *region, offset, size uint64) error {
		return p.fill(m, in, r, offset, size)
	}})
	return in, nil
}

// stride is how far elements of an array lie apart.
func (in *mapping) stride() uint64 {
	switch in.Type() {
	case ebpf.PerCPUArray, ebpf.ArrayOfMaps:
		return percpuPointer
	}
	return uint64(align8(in.ValueSize()))
}

// fill reads the elements of an array that an access needs.
func (p *Program) fill(m *memory, in *mapping, r *region, offset, size uint64) error {
	if offset < uint64(p.arrayValues) {
		return fmt.Errorf("the head of a map is not known, at %d", offset)
	}
	stride := in.stride()
	for i := (offset - uint64(p.arrayValues)) / stride; i <= (offset+size-1-uint64(p.arrayValues))/stride; i++ {
		if in.filled[i] {
			continue
		}
		content, err := p.element(m, in, uint32(i))
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		r.grown(uint64(p.arrayValues) + (i+1)*stride)
		copy(r.bytes[uint64(p.arrayValues)+i*stride:], content)
		in.filled[i] = true
	}
	return nil
}

// element is what an array has at an index: a value, or the address of one.
func (p *Program) element(m *memory, in *mapping, index uint32) ([]byte, error) {
	switch in.Type() {
	case ebpf.Array:
		var value []byte
		err := in.Lookup(index, &value)
		return value, err
	case ebpf.PerCPUArray:
		var values [][]byte
		if err := in.Lookup(index, &values); err != nil {
			return nil, err
		}
		cpu, err := currentCPU()
		if err != nil {
			return nil, err
		}
		at := m.add(&region{name: "one CPU's " + in.String(), kind: kindMap, bytes: values[cpu]})
		return binary.LittleEndian.AppendUint64(nil, at), nil
	case ebpf.ArrayOfMaps:
		var id ebpf.MapID
		if err := in.Lookup(index, &id); errors.Is(err, ebpf.ErrKeyNotExist) {
			return make([]byte, percpuPointer), nil
		} else if err != nil {
			return nil, err
		}
		inner, err := p.mapOf(m, uint32(id))
		if err != nil {
			return nil, err
		}
		return binary.LittleEndian.AppendUint64(nil, inner.address), nil
	}
	return nil, fmt.Errorf("a %v is no array", in.Type())
}

// mapAt finds the map that a register points to.
func (p *Program) mapAt(address uint64) (*mapping, error) {
	for _, in := range p.maps {
		if in.address == address {
			return in, nil
		}
	}
	return nil, fmt.Errorf("no map is at %#x", address)
}

// find returns where a hash has an element, with its value: `head` bytes come before
// the key. 0: there is none.
func (in *mapping) find(m *memory, key []byte, head uint32) (uint64, error) {
	if at, known := in.elements[string(key)]; known {
		return at, nil
	}
	var value []byte
	switch err := in.Lookup(key, &value); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		in.elements[string(key)] = 0
		return 0, nil
	case err != nil:
		return 0, err
	}
	content := make([]byte, head+align8(in.KeySize()))
	copy(content[head:], key)
	at := m.add(&region{name: "an element of " + in.String(), kind: kindMap, bytes: append(content, value...)})
	in.elements[string(key)] = at
	return at, nil
}
