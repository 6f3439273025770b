// SPDX-License-Identifier: Apache-2.0

// Package exponential has histograms with buckets in equal ratios, as OTLP and Prometheus have them:
// of any values, and of delays in nanoseconds.
package exponential

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Histogram has the buckets of OTLP's exponential histograms, which are those of Prometheus' native
// ones: each power of two has 2^Scale of them, in equal ratios, such as 16 with bounds 2^(i/16). A map
// that divides it in equal steps has other bounds, 1+i/16. The unit of the values cannot be changed
// later, except by powers of two.
type Histogram struct {
	Scale         int
	ZeroThreshold float64
	Zero          uint64   // values up to ZeroThreshold
	Buckets       []Bucket // that are not empty
}

// Bucket counts values in (base^Index, base^(Index+1)], where base is 2^(2^-Scale), as in OTLP.
// Prometheus' indexes are greater by one.
type Bucket struct {
	Index int
	Count uint64
}

// The scales that Prometheus knows; it calls them schemas.
const (
	MinScale = -4
	MaxScale = 8
)

// ratios are the first bounds from 1 on, of each scale above 0.
var ratios = func() (all [MaxScale + 1][]float64) {
	for scale := range all {
		n := 1 << scale
		for i := range n {
			all[scale] = append(all[scale], math.Exp2(float64(i)/float64(n)))
		}
	}
	return all
}()

// IndexOf is the bucket of a positive value.
func IndexOf(v float64, scale int) int {
	fraction, exponent := math.Frexp(v) // from 1/2 on, below 1
	bounds := ratios[max(scale, 0)]
	i := sort.SearchFloat64s(bounds, 2*fraction) + (exponent-1)*len(bounds) - 1
	if scale < 0 {
		i >>= -scale
	}
	return i
}

// Upper is the upper bound of a bucket, which belongs to it.
func Upper(index, scale int) float64 {
	k := index + 1
	if scale <= 0 {
		return math.Ldexp(1, k<<-scale)
	}
	bounds := ratios[scale]
	return math.Ldexp(bounds[k&(len(bounds)-1)], k>>scale)
}

// Powers are the powers of two from 2^first to 2^last, every step-th. They are bounds of
// exponential buckets of every scale from 0 on, so classic buckets of them are exact.
func Powers(first, last, step int) (list []float64) {
	for i := first; i <= last; i += max(step, 1) {
		list = append(list, math.Ldexp(1, i))
	}
	return list
}

// Total is how many values it counts.
func (e *Histogram) Total() uint64 {
	n := e.Zero
	for _, b := range e.Buckets {
		n += b.Count
	}
	return n
}

// Sound is a copy in order, without empty buckets, and with a scale that is known; nil if that is
// not possible.
func (e *Histogram) Sound() *Histogram {
	if e == nil || e.Scale < MinScale {
		return nil
	}
	out := *e
	out.Buckets = nil
	shift := max(e.Scale-MaxScale, 0)
	out.Scale -= shift
	out.join(e.Buckets, shift)
	return &out
}

// join counts other buckets, whose scale is greater by shift.
func (e *Histogram) join(buckets []Bucket, shift int) {
	all := slices.Clone(e.Buckets)
	for _, b := range buckets {
		all = append(all, Bucket{b.Index >> shift, b.Count})
	}
	slices.SortFunc(all, func(a, b Bucket) int { return cmp.Compare(a.Index, b.Index) })
	e.Buckets = all[:0]
	for _, b := range all {
		switch last := len(e.Buckets) - 1; {
		case b.Count == 0:
		case last >= 0 && e.Buckets[last].Index == b.Index:
			e.Buckets[last].Count += b.Count
		default:
			e.Buckets = append(e.Buckets, b)
		}
	}
}

// Coarser halves the number of buckets of each power of two, steps times.
func (e *Histogram) Coarser(steps int) {
	buckets := e.Buckets
	e.Scale, e.Buckets = e.Scale-steps, nil
	e.join(buckets, steps)
}

// Add counts what another one counts, at the smaller scale of both. Both are sound.
func (e *Histogram) Add(o *Histogram) {
	if e.Scale > o.Scale {
		e.Coarser(e.Scale - o.Scale)
	}
	e.join(o.Buckets, o.Scale-e.Scale)
	e.Zero += o.Zero
	e.ZeroThreshold = max(e.ZeroThreshold, o.ZeroThreshold)
	for len(e.Buckets) > 0 && Upper(e.Buckets[0].Index, e.Scale) <= e.ZeroThreshold {
		e.Zero += e.Buckets[0].Count
		e.Buckets = e.Buckets[1:]
	}
}
