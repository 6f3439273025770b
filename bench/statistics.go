// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"slices"

	"github.com/waymark-net/waymark/bench/report"
)

// quantile is the value below which the fraction q of the values lies; between
// two values it is interpolated.
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

func median(values []float64) float64 { return quantile(values, 0.5) }

// middle is the mean of the middle half: as steady as the median, and finer
// than the clock that whole nanoseconds come from.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	quarter := len(sorted) / 4
	sorted = sorted[quarter : len(sorted)-quarter]
	var sum float64
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(len(sorted))
}

// spread is the distance between the quartiles, rounded; nil when there are
// none.
func spread(values []float64, digits int) *float64 {
	if len(values) < 2 {
		return nil
	}
	s := report.Round(quantile(values, 0.75)-quantile(values, 0.25), digits)
	return &s
}
