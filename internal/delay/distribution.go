// SPDX-License-Identifier: Apache-2.0

// Package delay summarizes delays: minimum, mean, percentiles and jitter (RFC 3393). It
// is pure arithmetic in bounded memory. Test packets and marked packets share it.
package delay

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
)

// subBits says how fine a distribution is: values of one power of two share 2^subBits
// buckets, so a percentile is wrong by less than 1/256.
const subBits = 8

// Distribution is a distribution of times, which may be negative: one-way delays are
// when clocks differ. Its memory is bounded by the number of buckets, 2 × 56 × 256.
type Distribution struct {
	buckets  map[int32]uint64
	count    uint64
	sum      float64
	min, max int64
}

// bucket is the number of a value's bucket; numbers are in the order of values.
func bucket(v int64) int32 {
	if v < 0 {
		return -1 - bucket(-1-v) // -1 is next to 0; the smallest value has a positive one, too
	}
	shift := max(0, bits.Len64(uint64(v))-1-subBits)
	return int32(shift<<subBits) + int32(v>>shift)
}

// middle is the middle of a bucket's values.
func middle(b int32) int64 {
	if b < 0 {
		return -1 - middle(-1-b)
	}
	shift := max(0, b>>subBits-1)
	low := int64(b-shift<<subBits) << shift
	return low + (int64(1)<<shift-1)/2
}

// Add adds a value.
func (d *Distribution) Add(v time.Duration) {
	if d.buckets == nil {
		d.buckets = make(map[int32]uint64)
		d.min, d.max = math.MaxInt64, math.MinInt64
	}
	d.buckets[bucket(int64(v))]++
	d.count++
	d.sum += float64(v)
	d.min, d.max = min(d.min, int64(v)), max(d.max, int64(v))
}

// Merge adds the values of another distribution.
func (d *Distribution) Merge(other *Distribution) {
	if other.count == 0 {
		return
	}
	if d.buckets == nil {
		d.buckets = make(map[int32]uint64)
		d.min, d.max = math.MaxInt64, math.MinInt64
	}
	for b, n := range other.buckets {
		d.buckets[b] += n
	}
	d.count += other.count
	d.sum += other.sum
	d.min, d.max = min(d.min, other.min), max(d.max, other.max)
}

// Summary summarizes a distribution. Times are in nanoseconds.
type Summary struct {
	Count  uint64 `json:"count"`
	Min    int64  `json:"min_ns"`
	Mean   int64  `json:"mean_ns"`
	Median int64  `json:"median_ns"`
	P95    int64  `json:"p95_ns"`
	P99    int64  `json:"p99_ns"`
	Max    int64  `json:"max_ns"`
	Jitter *int64 `json:"jitter_ns"` // null where no two packets or blocks in a row were measured
}

// Summary is the summary of the distribution; nil if it is empty.
func (d *Distribution) Summary() *Summary {
	if d.count == 0 {
		return nil
	}
	s := &Summary{Count: d.count, Min: d.min, Max: d.max}
	s.Mean = min(max(int64(math.Round(d.sum/float64(d.count))), d.min), d.max) // float64 has 53 bits
	numbers := make([]int32, 0, len(d.buckets))
	for b := range d.buckets {
		numbers = append(numbers, b)
	}
	slices.SortFunc(numbers, cmp.Compare[int32])
	var below uint64
	percentiles := []struct {
		rank uint64
		to   *int64
	}{{rank(d.count, 50), &s.Median}, {rank(d.count, 95), &s.P95}, {rank(d.count, 99), &s.P99}}
	for _, b := range numbers {
		below += d.buckets[b]
		for len(percentiles) > 0 && below >= percentiles[0].rank {
			*percentiles[0].to = min(max(middle(b), d.min), d.max)
			percentiles = percentiles[1:]
		}
	}
	return s
}

// rank is the number of the value, counted from 1, that p percent of all do not
// exceed.
func rank(count, p uint64) uint64 {
	high, low := bits.Mul64(count, p)
	q, r := bits.Div64(high, low, 100)
	if r > 0 {
		q++
	}
	return max(1, q)
}

// Series is the delays of packets, or of blocks of packets, that have numbers in the
// order in which they were sent.
type Series struct {
	Distribution
	jitter jitter
}

// Add adds the delay of a packet or block. Numbers may wrap.
func (s *Series) Add(number uint32, v time.Duration) {
	s.Distribution.Add(v)
	s.jitter.add(number, int64(v))
}

// Summary is the summary with the jitter; nil if there is no delay.
func (s *Series) Summary() *Summary {
	out := s.Distribution.Summary()
	if out != nil {
		out.Jitter = s.jitter.mean()
	}
	return out
}

// jitter is the mean of the differences between the delays of packets that were sent
// one after the other (RFC 3393 §4.5: selected by consecutive packets).
type jitter struct {
	sequence uint32
	last     int64
	any      bool
	sum      float64
	count    uint64
}

func (j *jitter) add(sequence uint32, delay int64) {
	if j.any && sequence == j.sequence+1 {
		j.sum += math.Abs(float64(delay - j.last))
		j.count++
	}
	if !j.any || int32(sequence-j.sequence) > 0 {
		j.any, j.sequence, j.last = true, sequence, delay
	}
}

func (j *jitter) mean() *int64 {
	if j.count == 0 {
		return nil
	}
	mean := int64(math.Round(j.sum / float64(j.count)))
	return &mean
}
