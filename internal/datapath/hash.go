// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"math/bits"
)

// noNamespace is the id of an entry that no packet's namespace matches.
const noNamespace = 1<<32 - 1

// perfectHash maps the keys of one generation, namespace ids or interface
// indexes, to different numbers below 2^(32-shift).
type perfectHash struct {
	multiplier, shift uint32
}

func (h perfectHash) of(key uint32) uint32 { return key * h.multiplier >> h.shift }

func (h perfectHash) abi() ABIPerfectHash {
	return ABIPerfectHash{Multiplier: h.multiplier, Shift: h.shift}
}

func (h perfectHash) size() int { return 1 << (32 - h.shift) }

const (
	hashTries   = 1 << 12
	maxHashBits = 17
)

// findPerfectHash uses the smallest table for which some odd multiplier has no
// collision. Keys below 2^16 always have one: themselves.
func findPerfectHash(keys []uint32) (perfectHash, error) {
	for size := max(bits.Len(uint(max(len(keys), 1)-1)), 1); size <= maxHashBits; size++ {
		for try := range uint32(hashTries) {
			h := perfectHash{try*0x9e3779b2 | 1, uint32(32 - size)}
			if h.isPerfect(keys) {
				return h, nil
			}
		}
	}
	identity := perfectHash{1 << 16, 16}
	if !identity.isPerfect(keys) {
		return perfectHash{}, errors.New("the indexes of the interfaces cannot be told apart in a small table; serve fewer of them")
	}
	return identity, nil
}

func (h perfectHash) isPerfect(keys []uint32) bool {
	taken := make([]bool, h.size())
	for _, key := range keys {
		at := &taken[h.of(key)]
		if *at {
			return false
		}
		*at = true
	}
	return true
}
