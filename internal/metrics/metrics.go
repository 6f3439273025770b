// SPDX-License-Identifier: Apache-2.0

// Package metrics serves counters and gauges in Prometheus' text format
// (version 0.0.4), and those of the process itself.
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
)

// Desc describes a metric. One whose name ends in _total is a counter, the
// others are gauges.
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

// Gatherer collects the values of one request. Its zero value is ready for use.
type Gatherer struct{ families map[string]*family }

// family is a metric with its series.
type family struct {
	help, kind string
	series     []series
}

type series struct {
	suffix, labels string // of a summary, the suffix is that of its sum or count
	value          float64
}

// Add adds a series with a value for each label of the metric.
func (g *Gatherer) Add(d *Desc, value float64, labels ...string) {
	list := make([]string, min(len(d.Labels), len(labels)))
	for i := range list {
		list[i] = d.Labels[i] + `="` + labelEscapes.Replace(labels[i]) + `"`
	}
	slices.Sort(list) // by name, as Prometheus' own library does
	g.add(d.Name, d.Help, d.kind(), series{labels: strings.Join(list, ","), value: value})
}

func (g *Gatherer) add(name, help, kind string, s series) {
	if g.families == nil {
		g.families = make(map[string]*family)
	}
	f := g.families[name]
	if f == nil {
		f = &family{help: help, kind: kind}
		g.families[name] = f
	}
	f.series = append(f.series, s)
}

var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// text is the exposition: metrics by name, series by label.
func (g *Gatherer) text() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(g.families)) {
		f := g.families[name]
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, helpEscapes.Replace(f.help), name, f.kind)
		slices.SortStableFunc(f.series, func(a, b series) int {
			return cmp.Or(cmp.Compare(a.suffix, b.suffix), cmp.Compare(a.labels, b.labels))
		})
		for _, s := range f.series {
			b.WriteString(name + s.suffix)
			if s.labels != "" {
				b.WriteString("{" + s.labels + "}")
			}
			b.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
		}
	}
	return b.Bytes()
}

// mostRequests is how many requests may be answered at a time: each reads all
// counters.
const mostRequests = 4

// Handler answers with what the sources add.
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
			w.Write(text) // a client that has gone gets nothing
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
