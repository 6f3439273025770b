// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/waymark-net/waymark/internal/exponential"

// Family is a metric with its series, for who sends metrics elsewhere.
type Family struct {
	*Desc
	Counter bool
	Series  []Series
}

// Series is a series of a Family.
type Series struct {
	Labels    [][2]string // name and value, by name
	Value     float64     // not of a histogram
	Histogram *Buckets    // nil: none
}

// Buckets are the values of a histogram.
type Buckets struct {
	Count      uint64
	Sum        float64
	Native     *exponential.Histogram // in order; nil: there are classic buckets only
	Cumulative []uint64               // for each of the family's Bounds
}

// Families are the metrics by name, without those of the process.
func (g *Gatherer) Families() (list []Family) {
	for _, f := range g.sorted() {
		out := Family{Desc: f.Desc, Counter: f.kind() == counter}
		for _, s := range f.series {
			one := Series{Value: s.value}
			for _, p := range s.pairs {
				one.Labels = append(one.Labels, [2]string{p.name, p.value})
			}
			if h := s.histogram; h != nil {
				one.Histogram = &Buckets{Count: h.count, Sum: h.sum, Native: h.native, Cumulative: h.cumulative}
			}
			out.Series = append(out.Series, one)
		}
		list = append(list, out)
	}
	return list
}
