// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"math/bits"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/problem"
)

// NoNamespace is the id of an entry that no packet's namespace matches.
const NoNamespace = 1<<32 - 1

// PerfectHash maps the keys of one generation, namespace ids or interface
// indexes, to different numbers below 2^(32-shift).
type PerfectHash struct {
	multiplier, shift uint32
}

// Of is a key's number.
func (h PerfectHash) Of(key uint32) uint32 { return key * h.multiplier >> h.shift }

// ABI is the function as programs have it.
func (h PerfectHash) ABI() bpf.ABIPerfectHash {
	return bpf.ABIPerfectHash{Multiplier: h.multiplier, Shift: h.shift}
}

// Size is how many numbers there are.
func (h PerfectHash) Size() int { return 1 << (32 - h.shift) }

const (
	hashTries   = 1 << 12
	maxHashBits = 17
)

// findPerfectHash uses the smallest table for which some odd multiplier has no
// collision. Keys below 2^16 always have one: themselves.
func findPerfectHash(keys []uint32) (PerfectHash, error) {
	for size := max(bits.Len(uint(max(len(keys), 1)-1)), 1); size <= maxHashBits; size++ {
		for try := range uint32(hashTries) {
			h := PerfectHash{try*0x9e3779b2 | 1, uint32(32 - size)}
			if h.isPerfect(keys) {
				return h, nil
			}
		}
	}
	identity := PerfectHash{1 << 16, 16}
	if !identity.isPerfect(keys) {
		return PerfectHash{}, problem.New("the indexes of the interfaces cannot be told apart in a small table", "serve fewer of them")
	}
	return identity, nil
}

func (h PerfectHash) isPerfect(keys []uint32) bool {
	taken := make([]bool, h.Size())
	for _, key := range keys {
		at := &taken[h.Of(key)]
		if *at {
			return false
		}
		*at = true
	}
	return true
}
