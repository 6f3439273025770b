// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"math/bits"

	"github.com/waymark-net/waymark/ioam"
)

// noNamespace is the id of an entry that no packet's namespace matches.
const noNamespace = 1<<32 - 1

// perfectHash maps the 16-bit ids of one generation's namespaces to different
// numbers below 2^(16-shift).
type perfectHash struct {
	multiplier, shift uint16
}

func (h perfectHash) of(id uint32) uint32 {
	return id * uint32(h.multiplier) & 0xffff >> h.shift
}

// findPerfectHash takes the smallest table for which some odd multiplier has no
// collision. The largest table needs no luck: it is the id itself.
func findPerfectHash(namespaces []ioam.Namespace) perfectHash {
	const tries = 1 << 12
	for size := bits.Len(uint(max(len(namespaces), 1) - 1)); size < 16; size++ {
		for multiplier := 1; multiplier < 2*tries; multiplier += 2 {
			h := perfectHash{uint16(multiplier), uint16(16 - size)}
			if h.isPerfect(namespaces, 1<<size) {
				return h
			}
		}
	}
	return perfectHash{multiplier: 1}
}

func (h perfectHash) isPerfect(namespaces []ioam.Namespace, size int) bool {
	taken := make([]bool, size)
	for _, ns := range namespaces {
		at := &taken[h.of(uint32(ns.ID))]
		if *at {
			return false
		}
		*at = true
	}
	return true
}
