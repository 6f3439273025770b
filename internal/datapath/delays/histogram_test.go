// SPDX-License-Identifier: Apache-2.0

package delays

import (
	"errors"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/waymark-net/waymark/internal/datapath/delays/histogramtest"
	"github.com/waymark-net/waymark/internal/exponential"
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

// timeBucketOf is the slow way for a time: the lowest i with ns/10^9 <= 2^(i/16-30), which is
// (ns*2^30)^16 <= 10^144 * 2^i.
func timeBucketOf(ns uint64) uint64 {
	power := new(big.Int).Lsh(new(big.Int).SetUint64(ns), 30)
	power.Exp(power, big.NewInt(16), nil)
	second := new(big.Int).Exp(big.NewInt(10), big.NewInt(144), nil)
	quotient, rest := power.QuoRem(power, second, new(big.Int))
	if rest.Sign() == 0 {
		quotient.Sub(quotient, big.NewInt(1))
	}
	return uint64(quotient.BitLen())
}

// The programs put every value, and every time, into the bucket that an OTLP exponential histogram of scale 4 has
// for it, by integers of any size. Only long times may be below a bound that they exceed by less than 6e-10 of themselves.
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
	find := func(program *ebpf.Program, list []uint64, each func(value, bucket uint64)) {
		size := int(objects.Values.MaxEntries())
		keys := make([]uint32, size)
		for i := range keys {
			keys[i] = uint32(i)
		}
		for ; len(list) > 0; list = list[min(size, len(list)):] {
			part := make([]uint64, size)
			n := copy(part, list)
			if _, err := objects.Values.BatchUpdate(keys, part, nil); err != nil {
				t.Fatal(err)
			}
			if _, _, err := program.Test(make([]byte, 64)); err != nil {
				t.Fatal(err)
			}
			var at ebpf.MapBatchCursor
			found, places := make([]uint64, size), make([]uint32, size)
			if count, err := objects.Values.BatchLookup(&at, places, found, nil); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) ||
				count != size {
				t.Fatal(count, err)
			}
			for i, place := range places {
				if int(place) < n {
					each(part[place], found[i])
				}
			}
		}
	}
	seen := make(map[uint64]bool)
	find(objects.FindBuckets, values(), func(value, bucket uint64) {
		if want := bucketOf(value); bucket != want {
			t.Fatalf("%d (%d bits) is in bucket %d, want %d", value, bits.Len64(value), bucket, want)
		}
		seen[bucket] = true
	})
	for b := uint64(16 * 8); b <= 16*64; b++ { // of small numbers, some buckets have none
		if !seen[b] {
			t.Errorf("no value is in bucket %d", b)
		}
	}
	clear(seen)
	find(objects.FindTimeBuckets, times(), func(ns, bucket uint64) {
		if want := timeBucketOf(ns); bucket != want && (ns < 10_000_000 || bucket != timeBucketOf(ns-1-ns*6/10_000_000_000)) {
			t.Fatalf("%d ns are in bucket %d, want %d", ns, bucket, want)
		}
		seen[bucket] = true
	})
	for b := 16 * 8; b < Buckets; b++ {
		if !seen[uint64(b)] {
			t.Errorf("no time is in bucket %d", b)
		}
	}
	if seen[uint64(Buckets)] {
		t.Error("a time is beyond the buckets")
	}
}

// times are those up to 2^36 ns that are small, next to bounds of buckets, parts of a second, or random.
func times() []uint64 {
	var list []uint64
	for ns := range uint64(20_000) {
		list = append(list, ns+1)
	}
	for i := range Buckets {
		bound := int64(exponential.Upper(i-below, exponential.DelayScale) * 1e9)
		for near := int64(-2); near <= 2; near++ {
			if ns := bound + near; ns > 0 && ns <= 1<<36 {
				list = append(list, uint64(ns))
			}
		}
	}
	for i := range 10 {
		list = append(list, 1e9>>i, 1e9>>i+1)
	}
	for range 50_000 {
		list = append(list, max(rand.Uint64N(1<<36)>>rand.IntN(36), 1))
	}
	return append(list, 1<<36-1, 1<<36)
}
