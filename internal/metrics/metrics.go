// SPDX-License-Identifier: Apache-2.0

// Package metrics serves counters and gauges in Prometheus' text format (version
// 0.0.4). A library writes those of the process itself;
// docs/decisions/0016-metrics-library.md says why it writes no others.
package metrics

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	process "github.com/VictoriaMetrics/metrics"
)

// Desc describes a metric. If its name ends in _total, it is a counter, otherwise
// a gauge.
type Desc struct {
	Name, Help string
	Labels     []string
}

func (d *Desc) kind() string {
	if strings.HasSuffix(d.Name, "_total") {
		return "counter"
	}
	return "gauge"
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

// Sum is the sum of a metric's values, of series that have this value of a label.
func (g *Gatherer) Sum(name, value string) (sum float64) {
	f := g.families[name]
	if f == nil {
		return 0
	}
	for _, s := range f.series {
		if value == "" || strings.Contains(s.labels, `="`+value+`"`) {
			sum += s.value
		}
	}
	return sum
}

// family is a metric with its series.
type family struct {
	*Desc
	series []series
}

type series struct {
	labels string
	value  float64
}

// Add adds a series with a value for each label of the metric.
func (g *Gatherer) Add(d *Desc, value float64, labels ...string) {
	if g.only != nil && !g.only[d.Name] {
		return
	}
	list := make([]string, min(len(d.Labels), len(labels)))
	for i := range list {
		list[i] = d.Labels[i] + `="` + labelEscapes.Replace(labels[i]) + `"`
	}
	slices.Sort(list) // by name, as Prometheus' own library does
	if g.families == nil {
		g.families = make(map[string]*family)
	}
	f := g.families[d.Name]
	if f == nil {
		f = &family{Desc: d}
		g.families[d.Name] = f
	}
	f.series = append(f.series, series{strings.Join(list, ","), value})
}

// Process adds the metrics of Go's runtime and of this process, go_… and
// process_….
func Process(g *Gatherer) { g.process = true }

func init() { process.ExposeMetadata(true) } // metric types, which Prometheus asks for

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// text is the exposition: metrics by name, series by label.
func (g *Gatherer) text() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(g.families)) {
		f := g.families[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, helpEscapes.Replace(f.Help), name, f.kind())
		slices.SortStableFunc(f.series, func(a, b series) int { return cmp.Compare(a.labels, b.labels) })
		for _, s := range f.series {
			b.WriteString(name)
			if s.labels != "" {
				b.WriteString("{" + s.labels + "}")
			}
			b.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
		}
	}
	if g.process {
		process.WriteProcessMetrics(&b)
		process.WriteFDMetrics(&b)
	}
	return b.Bytes()
}

// mostRequests is how many requests may be answered at a time, because each reads
// all counters.
const mostRequests = 4

// Handler answers with the metrics of the sources.
func Handler(sources ...func(*Gatherer)) http.Handler {
	places := make(chan struct{}, mostRequests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		default:
			http.Error(w, fmt.Sprintf("%d requests are being answered; try again later", mostRequests), http.StatusServiceUnavailable)
			return
		}
		var g Gatherer
		for _, source := range sources {
			source(&g)
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		text := g.text()
		if !acceptsGzip(r) {
			w.Write(text) // an error means that the client is gone
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		z.Write(text)
		z.Close()
	})
}

func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";"); coding == "gzip" {
			return strings.TrimSpace(weight) != "q=0"
		}
	}
	return false
}
