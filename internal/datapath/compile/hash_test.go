// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"math/rand/v2"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

func TestPerfectHash(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	check := func(keys []uint32, largest int) {
		t.Helper()
		h, err := findPerfectHash(keys)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[uint32]bool)
		for _, key := range keys {
			at := h.Of(key)
			if seen[at] || at >= uint32(h.Size()) {
				t.Fatalf("%d keys, %+v: %d is taken or beyond the table", len(keys), h, at)
			}
			seen[at] = true
		}
		if h.Size() > largest {
			t.Errorf("%d keys need a table of %d", len(keys), h.Size())
		}
	}
	for _, count := range []int{0, 1, 2, 3, 9, 100, 1000, model.MaxNamespaces} {
		ids := make([]uint32, count)
		for i, id := range random.Perm(1 << 16)[:count] {
			ids[i] = uint32(id)
		}
		check(ids, max(16, min(count*count, 1<<16)))
	}
	for range 20 {
		indexes := make([]uint32, 100)
		for i := range indexes {
			indexes[i] = random.Uint32()
		}
		check(indexes, 4096)
	}
	// The kernel counts indexes up, so those of one machine are close together.
	for _, first := range []uint32{2, 70_000, 1 << 30} {
		indexes := make([]uint32, model.MaxInterfaces)
		for i := range indexes {
			indexes[i] = first + uint32(i)*2
		}
		check(indexes, 4*model.MaxInterfaces)
	}
}
