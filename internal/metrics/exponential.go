// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// Exponential are the buckets of OTLP's exponential histograms, which are those of Prometheus'
// native ones: each power of two has 2^Scale of them, in equal ratios, such as 16 with bounds
// 2^(i/16). A map that divides it in equal steps has other bounds, 1+i/16. The unit of the values is
// that of the metric: it cannot be changed later, except by powers of two.
type Exponential struct {
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
	minScale = -4
	maxScale = 8
)

// ratios are the first bounds from 1 on, of each scale above 0.
var ratios = func() (all [maxScale + 1][]float64) {
	for scale := range all {
		n := 1 << scale
		for i := range n {
			all[scale] = append(all[scale], math.Exp2(float64(i)/float64(n)))
		}
	}
	return all
}()

// indexOf is the bucket of a positive value.
func indexOf(v float64, scale int) int {
	fraction, exponent := math.Frexp(v) // from 1/2 on, below 1
	bounds := ratios[max(scale, 0)]
	i := sort.SearchFloat64s(bounds, 2*fraction) + (exponent-1)*len(bounds) - 1
	if scale < 0 {
		i >>= -scale
	}
	return i
}

// upper is the upper bound of a bucket, which belongs to it.
func upper(index, scale int) float64 {
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

// total is how many values it counts.
func (e *Exponential) total() uint64 {
	n := e.Zero
	for _, b := range e.Buckets {
		n += b.Count
	}
	return n
}

// sound is a copy in order, without empty buckets, and with a scale that is known; nil if that is
// not possible.
func (e *Exponential) sound() *Exponential {
	if e == nil || e.Scale < minScale {
		return nil
	}
	out := *e
	out.Buckets = nil
	shift := max(e.Scale-maxScale, 0)
	out.Scale -= shift
	out.join(e.Buckets, shift)
	return &out
}

// join counts other buckets, whose scale is greater by shift.
func (e *Exponential) join(buckets []Bucket, shift int) {
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

// coarser halves the number of buckets of each power of two.
func (e *Exponential) coarser(steps int) {
	buckets := e.Buckets
	e.Scale, e.Buckets = e.Scale-steps, nil
	e.join(buckets, steps)
}

// add counts what another one counts, at the smaller scale of both. Both are sound.
func (e *Exponential) add(o *Exponential) {
	if e.Scale > o.Scale {
		e.coarser(e.Scale - o.Scale)
	}
	e.join(o.Buckets, o.Scale-e.Scale)
	e.Zero += o.Zero
	e.ZeroThreshold = max(e.ZeroThreshold, o.ZeroThreshold)
	for len(e.Buckets) > 0 && upper(e.Buckets[0].Index, e.Scale) <= e.ZeroThreshold {
		e.Zero += e.Buckets[0].Count
		e.Buckets = e.Buckets[1:]
	}
}

// classic counts the values up to each bound. A bucket with a bound inside counts for the next
// bound, because where its values are is not known.
func (e *Exponential) classic(bounds []float64) []uint64 {
	cumulative := make([]uint64, len(bounds))
	next, n := 0, uint64(0)
	for i, bound := range bounds {
		for next < len(e.Buckets) && upper(e.Buckets[next].Index, e.Scale) <= bound*(1+1e-12) {
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

// spans are the buckets as Prometheus writes them: each count is the difference to the one before.
func (e *Exponential) spans() (spans []span, deltas []int64) {
	next, before := 0, uint64(0)
	for _, b := range e.Buckets {
		index := b.Index + 1 // as Prometheus counts
		if last := len(spans) - 1; last >= 0 && index == next {
			spans[last].length++
		} else {
			spans = append(spans, span{index - next, 1})
		}
		deltas = append(deltas, int64(b.Count-before))
		next, before = index+1, b.Count
	}
	if len(spans) == 0 && e.ZeroThreshold == 0 {
		spans = []span{{}} // or it would be no native histogram
	}
	return spans, deltas
}
