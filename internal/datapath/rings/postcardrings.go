// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// PostcardHead is how many postcards have room where a ring's head is.
const PostcardHead = uint32(bpf.ABIPostcardBoundPOSTCARD_HEAD)

// Bounds of the rings of postcards: postcards of one CPU, and bytes of all CPUs.
const (
	mostPostcards     = 32768
	fewestPostcards   = 2048
	mostPostcardBytes = 128 << 20
)

// PostcardRoom is how many postcards may wait for a CPU's reader.
var PostcardRoom = sync.OnceValues(func() (uint32, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return 0, fmt.Errorf("count CPUs: %w", err)
	}
	return postcardRoomOn(cpus), nil
})

// PostcardEntries is the size of the map with all rings.
func PostcardEntries() (uint32, error) {
	room, err := PostcardRoom()
	if err != nil {
		return 0, err
	}
	cpus, err := ebpf.PossibleCPU()
	return uint32(cpus) * (PostcardHead + room), err
}

func postcardRoomOn(cpus int) uint32 {
	room := mostPostcards
	for room > fewestPostcards && cpus*room*postcardSize > mostPostcardBytes {
		room /= 2
	}
	return uint32(room)
}

// PostcardRings are the postcards that programs have written, a ring for each CPU,
// in memory that programs and agent share.
type PostcardRings struct {
	memory  []byte
	entries []bpf.ABIPostcard
	room    uint64 // postcards of a CPU
}

// NewPostcardRings maps the memory of all rings.
func NewPostcardRings(m *ebpf.Map) (*PostcardRings, error) {
	room, err := PostcardRoom()
	if err != nil {
		return nil, err
	}
	entries := int(m.MaxEntries())
	memory, err := unix.Mmap(m.FD(), 0, entries*postcardSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the rings of postcards: %w", err)
	}
	return &PostcardRings{
		memory:  memory,
		entries: unsafe.Slice((*bpf.ABIPostcard)(unsafe.Pointer(&memory[0])), entries),
		room:    uint64(room),
	}, nil
}

// Close must not be called while a CPU's postcards are read.
func (r *PostcardRings) Close() {
	if r != nil && r.memory != nil {
		_ = unix.Munmap(r.memory)
		r.memory, r.entries = nil, nil
	}
}

// Of is the ring of a CPU.
func (r *PostcardRings) Of(cpu int) (head *bpf.ABIPostcardHead, cards []bpf.ABIPostcard) {
	stride := int(PostcardHead) + int(r.room)
	all := r.entries[cpu*stride:][:stride]
	return (*bpf.ABIPostcardHead)(unsafe.Pointer(&all[0])), all[PostcardHead:]
}

// waiting reports whether a CPU has postcards that were not read.
func (r *PostcardRings) waiting(cpu int) bool {
	if r == nil {
		return false
	}
	head, _ := r.Of(cpu)
	return atomic.LoadUint64(&head.Written) != atomic.LoadUint64(&head.Read)
}

// postcardsAtOnce is how many postcards are read before their places are free again.
const postcardsAtOnce = 64

// Read passes on postcards of a CPU, at most postcardsAtOnce, and returns how many.
// They are valid until consume returns.
func (r *PostcardRings) Read(cpu int, consume func([]bpf.ABIPostcard)) int {
	if r == nil {
		return 0
	}
	head, cards := r.Of(cpu)
	read, written := atomic.LoadUint64(&head.Read), atomic.LoadUint64(&head.Written)
	if written-read > r.room { // not what programs write
		atomic.StoreUint64(&head.Read, written)
		return 0
	}
	first := read % r.room
	n := min(written-read, postcardsAtOnce, r.room-first)
	if n > 0 {
		consume(cards[first : first+n])
		atomic.StoreUint64(&head.Read, read+n)
	}
	return int(n)
}
