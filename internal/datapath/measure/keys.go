// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"iter"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// segmentKey is the hash of what selects a flow, as a place of the table of keys has it.
type segmentKey struct {
	head uint64
	tail uint32
}

// group is the first group of places that the key may be in, before the mask.
func (k segmentKey) group() uint32 { return uint32(k.head >> 32) }

// fingerprint is what a group says of the key.
func (k segmentKey) fingerprint() uint8 {
	return uint8((k.head>>56)*(256-uint64(fingerprints))>>8) + fingerprints
}

const (
	placeFree    = uint8(bpf.ABIPlaceStatePLACE_FREE)
	placeLeft    = uint8(bpf.ABIPlaceStatePLACE_LEFT)
	fingerprints = uint8(bpf.ABIPlaceStateFINGERPRINTS)
	keyGroup     = uint32(bpf.ABIMarkingBoundMEASURED_GROUP)
	keyProbes    = uint32(bpf.ABIMarkingBoundMEASURED_PROBES)
)

// keyTable is the programs' table of keys, with open addressing in groups of places. Programs
// read it while it changes, so a key never moves. A lookup goes on to the next group only if
// a group has no place that is marked free.
type keyTable struct {
	groups []uint64
	keys   []bpf.ABIMeasuredKey
	passed []uint16 // by group: keys that are in groups after it, because it was full
}

func newKeyTable(groups []uint64, keys []bpf.ABIMeasuredKey) keyTable {
	t := keyTable{groups, keys, make([]uint16, len(groups))}
	for k, place := range t.all() {
		t.pass(k, place, 1)
	}
	return t
}

// emptyKeyTable is one that no program has.
func emptyKeyTable(places uint32) keyTable {
	return newKeyTable(make([]uint64, places/keyGroup), make([]bpf.ABIMeasuredKey, places))
}

func (t keyTable) clone() keyTable {
	return keyTable{slices.Clone(t.groups), slices.Clone(t.keys), slices.Clone(t.passed)}
}

func (t keyTable) mask() uint32 { return uint32(len(t.groups)) - 1 }

// octet is what a place's group says of it.
func (t keyTable) octet(place uint32) uint8 {
	return uint8(t.groups[place/keyGroup] >> (place % keyGroup * 8))
}

func (t keyTable) setOctet(place uint32, octet uint8) {
	word, shift := &t.groups[place/keyGroup], place%keyGroup*8
	atomic.StoreUint64(word, *word&^(0xff<<shift)|uint64(octet)<<shift)
}

func (t keyTable) at(place uint32) segmentKey {
	return segmentKey{t.keys[place].Head, t.keys[place].Tail}
}

// all are the keys that are there, and their places.
func (t keyTable) all() iter.Seq2[segmentKey, uint32] {
	return func(yield func(segmentKey, uint32) bool) {
		for place := range uint32(len(t.keys)) {
			if t.octet(place) >= fingerprints && !yield(t.at(place), place) {
				return
			}
		}
	}
}

// find gives a key's place.
func (t keyTable) find(k segmentKey) (place uint32, ok bool) {
	for i := range keyProbes {
		first, passed := (k.group()+i)&t.mask()*keyGroup, true
		for place := first; place < first+keyGroup; place++ {
			octet := t.octet(place)
			if octet == k.fingerprint() && t.at(place) == k {
				return place, true
			}
			passed = passed && octet != placeFree
		}
		if !passed {
			return 0, false
		}
	}
	return 0, false
}

// vacancy is a place for a key that is not there.
func (t keyTable) vacancy(k segmentKey) (place uint32, ok bool) {
	for i := range keyProbes * keyGroup {
		place = (k.group()+i/keyGroup)&t.mask()*keyGroup + i%keyGroup
		if t.octet(place) < fingerprints {
			return place, true
		}
	}
	return 0, false
}

// enter puts a key into a vacancy.
func (t keyTable) enter(place uint32, k segmentKey, number uint32) {
	t.pass(k, place, 1)
	t.keys[place].Head = k.head
	t.setRest(place, k.tail, number)
	t.setOctet(place, k.fingerprint())
}

// pass notes that a key is, or is no longer, in a group after others.
func (t keyTable) pass(k segmentKey, place uint32, n int) {
	for g := k.group() & t.mask(); g != place/keyGroup; g = (g + 1) & t.mask() {
		t.passed[g] += uint16(n)
	}
}

// renumber gives a key to another flow.
func (t keyTable) renumber(place, number uint32) { t.setRest(place, t.keys[place].Tail, number) }

func (t keyTable) setRest(place, tail, number uint32) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&t.keys[place].Tail)), uint64(tail)|uint64(number)<<32)
}

// remove takes a key away. If keys may be after its group, its place keeps saying so;
// places that said so because of this key alone are free.
func (t keyTable) remove(place uint32) {
	k := t.at(place)
	t.setOctet(place, placeLeft)
	t.pass(k, place, -1)
	for g := k.group() & t.mask(); ; g = (g + 1) & t.mask() {
		if t.passed[g] == 0 {
			t.free(g)
		}
		if g == place/keyGroup {
			return
		}
	}
}

// free frees the places that keys have left in a group.
func (t keyTable) free(group uint32) {
	word := t.groups[group]
	for i := range keyGroup {
		if shift := i * 8; uint8(word>>shift) == placeLeft {
			word &^= 0xff << shift
		}
	}
	atomic.StoreUint64(&t.groups[group], word)
}
