// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	pbmetrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	pbtrace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// traced is a trace by nodes 1, 2 and 3, whose times are so many microseconds after the first one.
func traced(after ...int) *record.Trace {
	r := &record.Trace{Node: "aramis", Namespace: 123, Packet: packet(), PathDelay: record.NewField(uint64(after[len(after)-1]*1000), true)}
	for i, us := range after {
		var n record.NodeData
		n.NodeID, n.Timestamp = record.NewField(ioam.NodeID(i+1), true), record.NewField(at.Add(time.Duration(us)*time.Microsecond), true)
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// A trace that was sent is the exemplar of the series that have its delays, once, and of no other.
func TestExemplars(t *testing.T) {
	labels := []string{"from", "to", "namespace", "from_node"}
	segment := &metrics.Desc{Name: segmentDelays, Help: "Delay.", Labels: labels, Bounds: []float64{0.001, 1}}
	whole := &metrics.Desc{Name: pathDelays, Help: "Delay.", Labels: []string{"from", "namespace"}, Bounds: []float64{0.001, 1}}
	gather := func() *metrics.Gatherer {
		g := &metrics.Gatherer{}
		native := metrics.NewObserved(segment, 4)
		native.Observe(30e-6)
		native.Observe(0)
		series := [][]string{{"1", "2", "123", "athos"}, {"2", "3", "123", ""}, {"2", "3", "5", ""}, {"other", "other", "other", ""}}
		for _, labels := range series {
			g.AddHistogram(segment, native.Histogram(), labels...)
		}
		for _, labels := range [][]string{{"1", "123"}, {"2", "123"}} {
			g.AddHistogram(whole, metrics.Histogram{Sum: 1, Classic: []uint64{1, 0, 0}}, labels...)
		}
		return g
	}
	r := newReceiver(t)
	s, _ := r.run(Config{OneIn: 1, Metrics: 20 * time.Millisecond}, sink.Environment{Metrics: gather})
	s.Offer(traced(0, 30, 20)) // the third clock is late: no histogram has that segment
	found := func() (list []string) {
		for _, q := range r.metrics {
			for _, m := range q.ResourceMetrics[0].ScopeMetrics[0].Metrics {
				for _, p := range m.GetExponentialHistogram().GetDataPoints() {
					list = append(list, described(attributesOf(p.Attributes), p.Exemplars)...)
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					list = append(list, described(attributesOf(p.Attributes), p.Exemplars)...)
				}
			}
		}
		return list
	}
	enough := 0
	await(t, "exemplars, and two requests after them", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(found()) > 0 && enough == 0 {
			enough = len(r.metrics) + 2
		}
		return enough > 0 && len(r.metrics) >= enough
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	spans := r.traces[0].ResourceSpans[0].ScopeSpans[0].Spans
	id := hex.EncodeToString(spans[0].TraceId) + "/" + hex.EncodeToString(spans[0].SpanId)
	want := []string{
		fmt.Sprintf("map[from:1 from_node:athos namespace:123 to:2] 3e-05 %d %s", at.Add(30*time.Microsecond).UnixNano(), id),
		fmt.Sprintf("map[from:1 namespace:123] 2e-05 %d %s", at.Add(20*time.Microsecond).UnixNano(), id),
	}
	list := found()
	slices.Sort(list)
	if !slices.Equal(list, want) {
		t.Errorf("%q\nwant %q", list, want)
	}
}

func described(labels map[string]any, list []*pbmetrics.Exemplar) (out []string) {
	for _, e := range list {
		out = append(out, fmt.Sprintf("%v %v %d %x/%x", labels, e.GetAsDouble(), e.TimeUnixNano, e.TraceId, e.SpanId))
	}
	return out
}

// What is kept is bounded.
func TestExemplarsBounded(t *testing.T) {
	var e exemplars
	for i := range 2 * mostExemplars {
		r := traced(0, 1)
		r.Namespace = ioam.NamespaceID(i)
		e.keep(wayOf(r))
	}
	if n := len(e.drain()); n != mostExemplars || len(e.drain()) != 0 {
		t.Errorf("%d are kept", n)
	}
}

// A hop of which it is not known how long it held the packet has a span of a nanosecond, because others
// take spans without a duration for broken ones.
func TestSpansHaveDurations(t *testing.T) {
	w := wayOf(traced(0))
	for _, m := range []message{w.root(), w.child(0)} {
		var span pbtrace.Span
		if err := proto.Unmarshal(m, &span); err != nil {
			t.Fatal(err)
		}
		if span.EndTimeUnixNano != span.StartTimeUnixNano+1 || attributesOf(span.Attributes)[keyHeld] != nil {
			t.Errorf("%v", &span)
		}
	}
}
