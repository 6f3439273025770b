// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/waymark-net/waymark/internal/exponential"
)

// Histogram is the value of a histogram's series.
type Histogram struct {
	Sum float64 // of the values

	// Native are its exponential buckets, such as those of a map that the data plane counts. Without
	// them, it has classic buckets only.
	Native *exponential.Histogram
	// Classic counts the values of each classic bucket by itself, for Bounds of the metric, and last
	// those beyond them. Without it, they are made of Native, exactly if each bound is one of a bucket.
	Classic []uint64
}

// prepared is a histogram as both formats need it.
type prepared struct {
	count      uint64
	sum        float64
	native     *exponential.Histogram // sound; nil: none
	cumulative []uint64               // for each bound
}

// prepare counts values by the buckets, because Prometheus refuses a native histogram with another
// count, which a map that is being counted may have.
func (h *Histogram) prepare(bounds []float64) *prepared {
	p := &prepared{sum: h.Sum, native: h.Native.Sound(), cumulative: make([]uint64, len(bounds))}
	if p.native != nil {
		p.count = p.native.Total()
	}
	if h.Classic == nil {
		if p.native != nil {
			p.cumulative = classicBuckets(p.native, bounds)
		}
		return p
	}
	n := uint64(0)
	for i, c := range h.Classic[:min(len(h.Classic), len(bounds)+1)] {
		if n += c; i < len(bounds) {
			p.cumulative[i] = n
		}
	}
	if p.native == nil {
		p.count = n
	}
	return p
}

// add counts what another histogram with the same bounds counts.
func (p *prepared) add(o *prepared) {
	switch {
	case o.count == 0:
	case p.count == 0:
		p.native = o.native
	case p.native != nil && o.native != nil:
		p.native.Add(o.native)
	default:
		p.native = nil // it would lack the other's
	}
	p.count += o.count
	p.sum += o.sum
	for i := range p.cumulative {
		p.cumulative[i] += o.cumulative[i]
	}
}

// mostSeries is how many series a histogram has, if its metric says nothing else: each has as many
// numbers as buckets.
const mostSeries = 256

// others is the value of all labels of the series that has the rest.
const others = "other"

func (d *Desc) most() int {
	if d.Most > 0 {
		return d.Most
	}
	return mostSeries
}

// AddHistogram adds a series with a value for each label of a metric that has Bounds. Those beyond
// Most are added up in one series whose labels are all "other": add them in the same order each time.
func (g *Gatherer) AddHistogram(d *Desc, h Histogram, labels ...string) {
	f := g.family(d)
	if f == nil {
		return
	}
	s := newSeries(d, labels)
	s.histogram = h.prepare(d.Bounds)
	s.value = float64(s.histogram.count)
	rest := newSeries(d, slices.Repeat([]string{others}, len(d.Labels)))
	switch {
	case len(d.Labels) == 0, len(f.series) < d.most() && s.labels != rest.labels:
		f.series = append(f.series, s)
	case f.rest == nil:
		s.pairs, s.labels = rest.pairs, rest.labels
		f.rest = &s
	default:
		f.rest.value += s.value
		f.rest.histogram.add(s.histogram)
	}
}

// mostBuckets is how many exponential buckets an observed histogram has. When it needs more, they
// become coarser.
const mostBuckets = 160

// Observed is a histogram of values that are observed one by one. Several goroutines may use it.
type Observed struct {
	bounds []float64

	mu sync.Mutex
	h  Histogram
}

// NewObserved makes a histogram with the metric's classic buckets, and native ones of a scale.
func NewObserved(d *Desc, scale int) *Observed {
	scale = min(max(scale, exponential.MinScale), exponential.MaxScale)
	return &Observed{bounds: d.Bounds, h: Histogram{Native: &exponential.Histogram{Scale: scale}, Classic: make([]uint64, len(d.Bounds)+1)}}
}

// Observe counts a value. NaN and infinite ones are left out. Values below 0 have no native bucket of
// their own and count as 0 there.
func (o *Observed) Observe(v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.h.Sum += v
	i, _ := slices.BinarySearch(o.bounds, v)
	o.h.Classic[i]++
	e := o.h.Native
	if v <= 0 {
		e.Zero++
		return
	}
	index := exponential.IndexOf(v, e.Scale)
	k, found := slices.BinarySearchFunc(e.Buckets, index, func(b exponential.Bucket, index int) int { return b.Index - index })
	if found {
		e.Buckets[k].Count++
		return
	}
	e.Buckets = slices.Insert(e.Buckets, k, exponential.Bucket{Index: index, Count: 1})
	for len(e.Buckets) > mostBuckets && e.Scale > exponential.MinScale {
		e.Coarser(1)
	}
}

// Histogram is what it has counted by now.
func (o *Observed) Histogram() Histogram {
	o.mu.Lock()
	defer o.mu.Unlock()
	h, native := o.h, *o.h.Native
	native.Buckets, h.Classic = slices.Clone(native.Buckets), slices.Clone(h.Classic)
	h.Native = &native
	return h
}

// Observations are the observed histograms of a metric, one for each combination of labels.
type Observations struct {
	desc  *Desc
	scale int

	mu   sync.Mutex
	by   map[string]*Observed
	list []labelled // in the order in which they began
}

type labelled struct {
	labels []string
	*Observed
}

// NewObservations makes the histograms of a metric.
func NewObservations(d *Desc, scale int) *Observations {
	return &Observations{desc: d, scale: scale, by: make(map[string]*Observed)}
}

// Of is the histogram of a combination of labels. When the metric has Most of them, all new
// combinations have one in common, whose labels are "other".
func (o *Observations) Of(labels ...string) *Observed {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := strings.Join(labels, "\xff")
	if h := o.by[key]; h != nil {
		return h
	}
	if len(o.list) >= o.desc.most() {
		labels = slices.Repeat([]string{others}, len(o.desc.Labels))
		if key = strings.Join(labels, "\xff"); o.by[key] != nil {
			return o.by[key]
		}
	}
	h := NewObserved(o.desc, o.scale)
	o.by[key] = h
	o.list = append(o.list, labelled{slices.Clone(labels), h})
	return h
}

// Collect adds all series.
func (o *Observations) Collect(g *Gatherer) {
	o.mu.Lock()
	list := slices.Clone(o.list)
	o.mu.Unlock()
	for _, one := range list {
		g.AddHistogram(o.desc, one.Histogram(), one.labels...)
	}
}
