// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"math"
	"slices"

	"github.com/waymark-net/waymark/bench/report"
)

// quantile is the value below which the fraction q of the values lies,
// interpolated between two values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

func Median(values []float64) float64 { return quantile(values, 0.5) }

// Middle is the mean of the middle half: as stable as the median, and finer than
// the whole nanoseconds of the clock.
func Middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	quarter := len(sorted) / 4
	sorted = sorted[quarter : len(sorted)-quarter]
	var sum float64
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(len(sorted))
}

// Spread is the distance between the quartiles, rounded; nil with fewer than two
// values.
func Spread(values []float64, digits int) *float64 {
	if len(values) < 2 {
		return nil
	}
	s := report.Round(quantile(values, 0.75)-quantile(values, 0.25), digits)
	return &s
}
