// SPDX-License-Identifier: Apache-2.0

package delays

import (
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/datapath/delays/histogramtest"
	"github.com/waymark-net/waymark/test/testnet"
)

// bucketOf is the slow way: the lowest i with value <= 2^(i/16), which is value^16 <= 2^i.
func bucketOf(value uint64) uint64 {
	power := new(big.Int).Exp(new(big.Int).SetUint64(value), big.NewInt(16), nil)
	return uint64(power.Sub(power, big.NewInt(1)).BitLen())
}

// values are small ones, those next to bounds of buckets and powers of two, and random ones of
// all lengths.
func values() []uint64 {
	var list []uint64
	for v := range uint64(100_000) {
		list = append(list, v+1)
	}
	for i := range uint(62 * 16) {
		bound := new(big.Int).Sqrt(new(big.Int).Lsh(big.NewInt(1), 2*i)) // 2^i
		for range 4 {
			bound.Sqrt(bound)
		}
		for near := -2; near <= 2; near++ {
			if v := bound.Int64() + int64(near); v > 0 {
				list = append(list, uint64(v))
			}
		}
	}
	for i := range 64 {
		power := uint64(1) << i
		list = append(list, power, power+1, max(power-1, 1))
	}
	for range 200_000 {
		list = append(list, max(rand.Uint64()>>rand.IntN(64), 1))
	}
	return append(list, 1<<63, 1<<64-1)
}

// The program puts every value into the bucket that an OTLP exponential histogram of scale 4 has
// for it, by integers of any size.
func TestBuckets(t *testing.T) {
	testnet.NeedRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	var objects histogramtest.HistogramObjects
	if err := histogramtest.LoadHistogramObjects(&objects, nil); err != nil {
		t.Fatal(err)
	}
	defer objects.Close()
	size := int(objects.Values.MaxEntries())
	keys, found := make([]uint32, size), make([]uint64, size)
	for i := range keys {
		keys[i] = uint32(i)
	}
	seen := make(map[uint64]bool)
	for list := values(); len(list) > 0; list = list[min(size, len(list)):] {
		part := make([]uint64, size)
		n := copy(part, list)
		if _, err := objects.Values.BatchUpdate(keys, part, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, err := objects.FindBuckets.Test(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := objects.Values.Lookup(keys[i], &found[i]); err != nil {
				t.Fatal(err)
			}
			if want := bucketOf(part[i]); found[i] != want {
				t.Fatalf("%d (%d bits) is in bucket %d, want %d", part[i], bits.Len64(part[i]), found[i], want)
			}
			seen[found[i]] = true
		}
	}
	for b := uint64(16 * 8); b <= 16*64; b++ { // of small numbers, some buckets have none
		if !seen[b] {
			t.Errorf("no value is in bucket %d", b)
		}
	}
}
