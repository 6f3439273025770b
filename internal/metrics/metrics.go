// SPDX-License-Identifier: Apache-2.0

// Package metrics serves counters, gauges and histograms to Prometheus: in its text format (version
// 0.0.4), or in its protobuf format to who prefers it, which has native histograms. A library
// writes those of the process itself; docs/decisions/0016-metrics-library.md says why it writes no
// others.
package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	process "github.com/VictoriaMetrics/metrics"
)

// Desc describes a metric. If it has Bounds, it is a histogram; if its name ends in _total, a
// counter; otherwise a gauge.
type Desc struct {
	Name, Help string
	Labels     []string

	Bounds []float64 // of a histogram: upper bounds of classic buckets, in order, without +Inf
	Most   int       // of a histogram: how many series it has besides the one of all others; 0: 256
}

// kind is the type of a metric.
type kind int

// The kinds, by their numbers in the protobuf format.
const (
	counter kind = iota
	gauge
	summary
	untyped
	histogram
)

var kindNames = [...]string{counter: "counter", gauge: "gauge", summary: "summary", untyped: "untyped", histogram: "histogram"}

func (d *Desc) kind() kind {
	switch {
	case d.Bounds != nil:
		return histogram
	case strings.HasSuffix(d.Name, "_total"):
		return counter
	}
	return gauge
}

// Gatherer collects the values of one request. Its zero value takes all.
type Gatherer struct {
	families map[string]*family
	process  bool            // the process' own metrics follow
	only     map[string]bool // the metrics that are taken; nil for all
}

// Only makes a Gatherer that takes these metrics alone, for who wants to know some values.
func Only(names ...string) *Gatherer {
	g := &Gatherer{only: make(map[string]bool, len(names))}
	for _, name := range names {
		g.only[name] = true
	}
	return g
}

// Sum is the sum of a metric's values, of series that have this value of a label. The value of a
// histogram is how many values it has.
func (g *Gatherer) Sum(name, value string) (sum float64) {
	f := g.families[name]
	if f == nil {
		return 0
	}
	all := f.series
	if f.rest != nil {
		all = append(slices.Clip(all), *f.rest)
	}
	for _, s := range all {
		if value == "" || slices.ContainsFunc(s.pairs, func(p pair) bool { return p.value == value }) {
			sum += s.value
		}
	}
	return sum
}

// family is a metric with its series.
type family struct {
	*Desc
	series []series
	rest   *series // of a histogram: all beyond its Most
	typed  *kind   // of a metric of the process, whose name does not say it
}

func (f *family) kind() kind {
	if f.typed != nil {
		return *f.typed
	}
	return f.Desc.kind()
}

type series struct {
	pairs     []pair
	labels    string // the pairs as text
	value     float64
	histogram *prepared  // of a histogram
	quantiles *quantiles // of a summary
}

// pair is a label and its value.
type pair struct{ name, value string }

// newSeries has the labels by name, as Prometheus' own library has them.
func newSeries(d *Desc, labels []string) series {
	s := series{pairs: make([]pair, min(len(d.Labels), len(labels)))}
	for i := range s.pairs {
		s.pairs[i] = pair{d.Labels[i], labels[i]}
	}
	slices.SortFunc(s.pairs, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	list := make([]string, len(s.pairs))
	for i, p := range s.pairs {
		list[i] = p.name + `="` + labelEscapes.Replace(p.value) + `"`
	}
	s.labels = strings.Join(list, ",")
	return s
}

// Add adds a series with a value for each label of the metric.
func (g *Gatherer) Add(d *Desc, value float64, labels ...string) {
	if f := g.family(d); f != nil {
		s := newSeries(d, labels)
		s.value = value
		f.series = append(f.series, s)
	}
}

// family is that of a metric; nil: it is not taken.
func (g *Gatherer) family(d *Desc) *family {
	if g.only != nil && !g.only[d.Name] {
		return nil
	}
	if g.families == nil {
		g.families = make(map[string]*family)
	}
	f := g.families[d.Name]
	if f == nil {
		f = &family{Desc: d}
		g.families[d.Name] = f
	}
	return f
}

// Process adds the metrics of Go's runtime and of this process, go_… and
// process_….
func Process(g *Gatherer) { g.process = true }

func init() { process.ExposeMetadata(true) } // metric types, which Prometheus asks for

// sorted are the families by name, each with its series by label, as Prometheus' own library
// has them.
func (g *Gatherer) sorted() []*family {
	list := make([]*family, 0, len(g.families))
	for _, name := range slices.Sorted(maps.Keys(g.families)) {
		f := g.families[name]
		if f.rest != nil {
			f.series, f.rest = append(f.series, *f.rest), nil
		}
		slices.SortStableFunc(f.series, func(a, b series) int {
			return slices.CompareFunc(a.pairs, b.pairs, func(a, b pair) int { return cmp.Compare(a.value, b.value) })
		})
		list = append(list, f)
	}
	return list
}
