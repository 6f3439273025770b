// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
)

// Numbers of enumerations of opentelemetry-proto.
const (
	spanInternal = 1 // Span.SPAN_KIND_INTERNAL
	statusError  = 2 // Status.STATUS_CODE_ERROR
	cumulative   = 2 // AGGREGATION_TEMPORALITY_CUMULATIVE
)

// resource is a Resource: a node.
func resource(node string) (m message) {
	m.attributes(1, []attribute{{keyService, node}})
	return m
}

// named is an InstrumentationScope.
func named(version string) (m message) {
	m.text(1, scope)
	m.text(2, version)
	return m
}

// tracesRequest is an ExportTraceServiceRequest. Spans are by the node that they are of.
func tracesRequest(ways []*way, version string) (m message) {
	spans := make(map[string][]message)
	var order []string
	add := func(node string, span message) {
		if spans[node] == nil {
			order = append(order, node)
		}
		spans[node] = append(spans[node], span)
	}
	for _, w := range ways {
		add(w.reporter, w.root())
		for i := range w.hops {
			add(w.hops[i].node, w.child(i))
		}
	}
	for _, node := range order {
		m.inner(1, ofNode(node, version, spans[node]))
	}
	return m
}

// root is the Span of the whole path.
func (w *way) root() (m message) {
	start, end := w.bounds()
	m.octets(1, w.id[:])
	m.octets(2, w.span(0))
	m.text(5, "path "+w.names[0]+">"+w.names[len(w.names)-1])
	m.uint(6, spanInternal)
	m.time(7, start)
	m.time(8, after(start, end))
	list := w.attributes
	if w.incomplete != "" {
		list = append(slices.Clip(list), attribute{keyErrorType, w.incomplete})
	}
	m.attributes(9, list)
	if w.incomplete != "" {
		var status message
		status.text(2, w.incomplete)
		status.uint(3, statusError)
		m.inner(15, status)
	}
	return m
}

// after is the end of a span: a nanosecond after its start where it is not known how long it took. Jaeger
// takes spans without a duration for broken ones, and warns of each.
func after(start, end time.Time) time.Time {
	if !end.After(start) {
		return start.Add(1)
	}
	return end
}

// child is the Span of a hop.
func (w *way) child(i int) (m message) {
	h := &w.hops[i]
	m.octets(1, w.id[:])
	m.octets(2, w.span(i+1))
	m.octets(4, w.span(0))
	name := h.node
	if h.in != "" || h.out != "" {
		name += " " + h.in + ">" + h.out
	}
	m.text(5, name)
	m.uint(6, spanInternal)
	m.time(7, h.start)
	m.time(8, after(h.start, h.end))
	m.attributes(9, h.attributes)
	return m
}

// ofNode is what a node sends of one kind: ResourceSpans, ResourceLogs or ResourceMetrics.
func ofNode(node, version string, list []message) (of message) {
	var in message
	in.inner(1, named(version))
	for _, one := range list {
		in.inner(2, one)
	}
	in.text(3, schemaURL)
	of.inner(1, resource(node))
	of.inner(2, in)
	of.text(3, schemaURL)
	return of
}

// logsRequest is an ExportLogsServiceRequest of events.
func logsRequest(events []*record.Event, version string) (m message) {
	logs := make(map[string][]message)
	var order []string
	for _, e := range events {
		var l message
		severity := severities[e.Severity]
		l.time(1, e.Time.Time)
		l.uint(2, severity.number)
		l.text(3, severity.text)
		var body message
		body.anyValue(e.Facts)
		l.inner(5, body)
		l.attributes(6, eventAttributes(e))
		l.time(11, e.Time.Time)
		l.text(12, eventName(e))
		if logs[e.Node] == nil {
			order = append(order, e.Node)
		}
		logs[e.Node] = append(logs[e.Node], l)
	}
	for _, node := range order {
		m.inner(1, ofNode(node, version, logs[node]))
	}
	return m
}

// metricsRequest is an ExportMetricsServiceRequest of a node's metrics. They
// have no start: the data plane counts since before the agent began, some of it over its restarts.
func metricsRequest(node, version string, families []metrics.Family, examples map[string]message, now time.Time) (m message) {
	var list []message
	for i := range families {
		if len(families[i].Series) > 0 {
			list = append(list, metric(&families[i], examples, now))
		}
	}
	m.inner(1, ofNode(node, version, list))
	return m
}

// metric is a Metric: a sum, a gauge, or a histogram, exponential where its buckets are.
func metric(f *metrics.Family, examples map[string]message, now time.Time) (m message) {
	name, unit := metricName(f.Name)
	m.text(1, name)
	m.text(2, f.Help)
	m.text(3, unit)
	var points message
	number := protowire.Number(5) // gauge
	native := slices.ContainsFunc(f.Series, func(s metrics.Series) bool { return s.Histogram != nil && s.Histogram.Native != nil })
	for _, s := range f.Series {
		var p message
		switch {
		case s.Histogram == nil:
			p = numberPoint(&s, now)
		case native && s.Histogram.Native != nil && spread(s.Histogram.Native) <= mostSpread:
			p = exponentialPoint(&s, now)
			p.exemplar(11, f, &s, examples)
		case !native:
			p = classicPoint(&s, f.Bounds, now)
			p.exemplar(8, f, &s, examples)
		default:
			continue // a metric has one kind of points
		}
		points.inner(1, p)
	}
	switch {
	case f.Bounds != nil && native:
		number = 10
		points.uint(2, cumulative)
	case f.Bounds != nil:
		number = 9
		points.uint(2, cumulative)
	case f.Counter:
		number = 7
		points.uint(2, cumulative)
		points.uint(3, 1) // monotonic
	}
	m.inner(number, points)
	return m
}

// mostSpread is the most buckets of a point, empty ones among them. Values that need more, of
// twenty powers of ten at the finest scale, are left out.
const mostSpread = 1 << 14

func spread(e *exponential.Histogram) int {
	if len(e.Buckets) == 0 {
		return 0
	}
	return e.Buckets[len(e.Buckets)-1].Index - e.Buckets[0].Index + 1
}

func labels(s *metrics.Series) (list []attribute) {
	for _, l := range s.Labels {
		list = append(list, attribute{l[0], l[1]})
	}
	return list
}

// numberPoint is a NumberDataPoint.
func numberPoint(s *metrics.Series, now time.Time) (m message) {
	m.time(3, now)
	m.double(4, s.Value)
	m.attributes(7, labels(s))
	return m
}

// classicPoint is a HistogramDataPoint.
func classicPoint(s *metrics.Series, bounds []float64, now time.Time) (m message) {
	h := s.Histogram
	m.time(3, now)
	m.fixed(4, h.Count)
	m.double(5, h.Sum)
	counts := make([]uint64, len(bounds)+1)
	before := uint64(0)
	for i, n := range h.Cumulative {
		counts[i], before = n-before, n
	}
	counts[len(bounds)] = h.Count - min(before, h.Count)
	m.packed(6, counts)
	m.packed(7, doubles(bounds))
	m.attributes(9, labels(s))
	return m
}

// exponentialPoint is an ExponentialHistogramDataPoint.
func exponentialPoint(s *metrics.Series, now time.Time) (m message) {
	h := s.Histogram
	m.attributes(1, labels(s))
	m.time(3, now)
	m.fixed(4, h.Count)
	m.double(5, h.Sum)
	m.sint(6, int64(h.Native.Scale))
	m.fixed(7, h.Native.Zero)
	if b := h.Native.Buckets; len(b) > 0 {
		first := b[0].Index
		counts := make([]uint64, b[len(b)-1].Index-first+1)
		for _, one := range b {
			counts[one.Index-first] = one.Count
		}
		var buckets message
		buckets.sint(1, int64(first))
		buckets.packedVarints(2, counts)
		m.inner(8, buckets)
	}
	if h.Native.ZeroThreshold > 0 {
		m.double(14, h.Native.ZeroThreshold)
	}
	return m
}

func doubles(list []float64) []uint64 {
	out := make([]uint64, len(list))
	for i, v := range list {
		out[i] = math.Float64bits(v)
	}
	return out
}
