// SPDX-License-Identifier: Apache-2.0

package delay

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Percentiles differ from those of the sorted values by less than 1/256.
func TestDistributionAgainstSorting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 2, 3, 19, 100, 101, 5000} {
		var d Distribution
		values := make([]int64, size)
		var sum float64
		for i := range values {
			values[i] = int64(math.Exp(random.Float64()*30)) * int64(random.IntN(3)-1)
			d.Add(time.Duration(values[i]))
			sum += float64(values[i])
		}
		slices.Sort(values)
		s := d.Summary()
		exact := func(p float64) int64 { return values[int(math.Ceil(p*float64(size)))-1] }
		for name, pair := range map[string][2]int64{"median": {s.Median, exact(0.5)}, "p95": {s.P95, exact(0.95)}, "p99": {s.P99, exact(0.99)}} {
			if off := math.Abs(float64(pair[0] - pair[1])); off > math.Abs(float64(pair[1]))/256+1 {
				t.Errorf("%s of %d values: %d, want %d", name, size, pair[0], pair[1])
			}
		}
		if s.Min != values[0] || s.Max != values[size-1] || s.Count != uint64(size) || math.Abs(float64(s.Mean)-sum/float64(size)) > 1 {
			t.Errorf("%d values: %+v", size, s)
		}
	}
	if (&Distribution{}).Summary() != nil {
		t.Error("an empty distribution has a summary")
	}
}

// Buckets are in the order of values, and their middles belong to them.
func TestBuckets(t *testing.T) {
	values := []int64{
		math.MinInt64,
		math.MinInt64 + 1,
		-1 << 40,
		-513,
		-512,
		-257,
		-2,
		-1,
		0,
		1,
		255,
		256,
		511,
		512,
		513,
		1 << 40,
		math.MaxInt64,
	}
	for i, v := range values {
		b := bucket(v)
		if i > 0 && bucket(values[i-1]) > b {
			t.Errorf("the bucket %d of %d is below that of %d", b, v, values[i-1])
		}
		if bucket(middle(b)) != b {
			t.Errorf("the middle %d of the bucket %d of %d is not in it", middle(b), b, v)
		}
	}
	for v := range int64(10_000) {
		if bucket(v+1)-bucket(v) > 1 {
			t.Fatalf("no bucket between those of %d and %d", v, v+1)
		}
	}
}

// The mean is not beyond the extremes, although its sum is rounded.
func TestMeanOfLongTimes(t *testing.T) {
	for _, v := range []int64{1<<62 + 1, 1<<62 - 1, -1<<62 - 1, math.MaxInt64, math.MinInt64} {
		var d Distribution
		d.Add(time.Duration(v))
		d.Add(time.Duration(v))
		if s := d.Summary(); s.Mean != v || s.P95 != v {
			t.Errorf("%d: %+v", v, s)
		}
	}
}

// Only numbers that follow one another count for the jitter (RFC 3393 §4.5), and
// numbers wrap.
func TestJitterOfNeighbours(t *testing.T) {
	var s Series
	if s.Summary() != nil {
		t.Error("an empty series has a summary")
	}
	const last = math.MaxUint32
	for i, tt := range []struct {
		number uint32
		delay  time.Duration
		want   int64 // -1: none
	}{{last - 1, 10, -1}, {last, 30, 20}, {0, 20, 15}, {2, 500, 15}, {1, 7, 15}, {3, 501, 10}} {
		s.Add(tt.number, tt.delay)
		got := s.Summary().Jitter
		if (got == nil) != (tt.want < 0) || got != nil && *got != tt.want {
			t.Errorf("after %d: %v, want %d", i, got, tt.want)
		}
	}
}

// A merged distribution is that of all values.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var all, merged, none Distribution
	for size := range 5 {
		var part Distribution
		for range size * 7 {
			v := time.Duration(random.Int64N(1e9) - 5e8)
			all.Add(v)
			part.Add(v)
		}
		merged.Merge(&part)
	}
	merged.Merge(&none)
	if got, want := merged.Summary(), all.Summary(); math.Abs(float64(got.Mean-want.Mean)) > 1 || got.Count != want.Count ||
		got.Min != want.Min ||
		got.Median != want.Median ||
		got.P99 != want.P99 ||
		got.Max != want.Max {
		t.Errorf("%+v, want %+v", got, want)
	}
	if none.Merge(&none); none.Summary() != nil {
		t.Error("two empty distributions have a summary")
	}
}
