// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"math/rand/v2"
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

func TestPerfectHash(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, count := range []int{0, 1, 2, 3, 9, 100, 1000, ioam.MaxNamespaces} {
		for range 3 {
			ids := random.Perm(1 << 16)[:count]
			namespaces := make([]ioam.Namespace, count)
			for i, id := range ids {
				namespaces[i].ID = ioam.NamespaceID(id)
			}
			h := findPerfectHash(namespaces)
			seen := make(map[uint32]bool)
			for _, ns := range namespaces {
				at := h.of(uint32(ns.ID))
				if seen[at] || at >= 1<<(16-h.shift) {
					t.Fatalf("%d namespaces, %+v: %d is taken or beyond the table", count, h, at)
				}
				seen[at] = true
			}
			if count <= 9 && h.shift < 10 {
				t.Errorf("%d namespaces need a table of %d", count, 1<<(16-h.shift))
			}
		}
	}
}
