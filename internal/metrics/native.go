// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/waymark-net/waymark/internal/exponential"

// classicBuckets counts the values up to each bound. A bucket with a bound inside counts for the next
// bound, because where its values are is not known.
func classicBuckets(e *exponential.Histogram, bounds []float64) []uint64 {
	cumulative := make([]uint64, len(bounds))
	next, n := 0, uint64(0)
	for i, bound := range bounds {
		for next < len(e.Buckets) && exponential.Upper(e.Buckets[next].Index, e.Scale) <= bound*(1+1e-12) {
			n += e.Buckets[next].Count
			next++
		}
		cumulative[i] = n
		if e.ZeroThreshold <= bound {
			cumulative[i] += e.Zero
		}
	}
	return cumulative
}

// span is a row of buckets of a native histogram: after how many others, and how many.
type span struct{ offset, length int }

// nativeSpans are the buckets as Prometheus writes them: each count is the difference to the one before.
func nativeSpans(e *exponential.Histogram) (list []span, deltas []int64) {
	next, before := 0, uint64(0)
	for _, b := range e.Buckets {
		index := b.Index + 1 // as Prometheus counts
		if last := len(list) - 1; last >= 0 && index == next {
			list[last].length++
		} else {
			list = append(list, span{index - next, 1})
		}
		deltas = append(deltas, int64(b.Count-before))
		next, before = index+1, b.Count
	}
	if len(list) == 0 && e.ZeroThreshold == 0 {
		list = []span{{}} // or it would be no native histogram
	}
	return list, deltas
}
