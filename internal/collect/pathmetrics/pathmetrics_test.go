// SPDX-License-Identifier: Apache-2.0

package pathmetrics

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// packet is one over nodes; each held it for so long, and it took as long to the next one.
func packet(verdict record.PathVerdict, ns int64, nodes ...string) *record.Path {
	p := &record.Path{Verdict: verdict}
	whole := int64(0)
	for i, name := range nodes {
		n := record.PathNode{
			Node:     name,
			NodeData: record.NodeData{TransitDelay: record.NewField(uint32(ns), true), NodeID: record.NewField(ioam.NodeID(i), true)},
		}
		if i > 0 {
			since := ns
			n.SincePrevious, whole = &since, whole+ns
		}
		p.Nodes = append(p.Nodes, n)
	}
	if verdict == record.PathArrived {
		p.Delay = &whole
	}
	return p
}

// scrape reads the metrics as Prometheus' own library does.
func scrape(t *testing.T, c *Counters, accept string) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	metrics.Handler(c.Collect).ServeHTTP(w, r)
	format := expfmt.ResponseFormat(w.Header())
	families := map[string]*dto.MetricFamily{}
	if format.FormatType() == expfmt.TypeTextPlain {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		list, err := parser.TextToMetricFamilies(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for d := expfmt.NewDecoder(w.Body, format); ; {
		var f dto.MetricFamily
		if d.Decode(&f) != nil {
			return families
		}
		families[f.GetName()] = &f
	}
}

// find is the series with these values of labels, in the order of their names.
func find(t *testing.T, f *dto.MetricFamily, values ...string) *dto.Metric {
	t.Helper()
	for _, m := range f.GetMetric() {
		var list []string
		for _, l := range m.GetLabel() {
			list = append(list, l.GetValue())
		}
		if fmt.Sprint(list) == fmt.Sprint(values) {
			return m
		}
	}
	t.Fatalf("%s has no series %v: %v", f.GetName(), values, f.GetMetric())
	return nil
}

// What is counted is what packets had, in both formats.
func TestCounters(t *testing.T) {
	c := New(100)
	for i := range 1000 {
		c.Observe(packet(record.PathArrived, int64(1000*(i+1)), "athos", "porthos", "aramis"))
	}
	c.Observe(packet(record.PathLost, 5000, "athos", "porthos"))
	negative := packet(record.PathArrived, 5000, "athos", "porthos", "aramis")
	*negative.Nodes[1].SincePrevious = -3
	c.Observe(negative)
	c.Observe(&record.Postcard{})
	for _, accept := range []string{"text/plain",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"} {
		f := scrape(t, c, accept)
		h := find(t, f[descSegment.Name], "athos", "porthos").GetHistogram()
		if h.GetSampleCount() != 1001 || h.GetSampleSum() < 0.50050 || h.GetSampleSum() > 0.50052 {
			t.Errorf("%d, %v s", h.GetSampleCount(), h.GetSampleSum())
		}
		for _, b := range h.GetBucket() { // 1001 delays: 1000 from 1 µs to 1 ms in steps of 1 µs, and 5 µs
			want := uint64(min(b.GetUpperBound()*1e6, 1000))
			if b.GetUpperBound() > 5e-6 {
				want++
			}
			if got := b.GetCumulativeCount(); got < want-min(want, 20) || got > want+20 { // buckets are 4.4% wide
				t.Errorf("up to %v s: %d, want about %d", b.GetUpperBound(), got, want)
			}
		}
		if accept != "text/plain" && len(h.GetPositiveSpan()) == 0 {
			t.Error("no native histogram")
		}
		if n := find(t, f[descNegative.Name], "athos", "porthos").GetCounter().GetValue(); n != 1 {
			t.Errorf("%v negative", n)
		}
		for verdict, want := range map[string]float64{"arrived": 0, "lost": 1, "unknown": 0} {
			if got := find(t, f[descPackets.Name], "athos>porthos", verdict).GetCounter().GetValue(); got != want {
				t.Errorf("%s: %v", verdict, got)
			}
		}
		if h := find(t, f[descPath.Name], "athos>porthos>aramis").GetHistogram(); h.GetSampleCount() != 1001 {
			t.Errorf("%d packets on the path", h.GetSampleCount())
		}
		if h := find(t, f[descHeld.Name], "porthos", "none").GetHistogram(); h.GetSampleCount() != 1 {
			t.Errorf("%d packets seen last at porthos", h.GetSampleCount())
		}
	}
}

// The number of series is bounded, the busiest have their own, and the sum of all never falls.
func TestBusiest(t *testing.T) {
	now := time.Unix(0, 0)
	c := New(3)
	c.now = func() time.Time { return now }
	total := func() (own int, whole, others uint64) {
		f := scrape(t, c, "text/plain")
		for _, m := range f[descPath.Name].GetMetric() {
			if own++; m.GetLabel()[0].GetValue() == other {
				others = m.GetHistogram().GetSampleCount()
			}
			whole += m.GetHistogram().GetSampleCount()
		}
		return own - 1, whole, others
	}
	for i := range 10 { // as many of each
		for range 10 {
			c.Observe(packet(record.PathArrived, 1000, "a", fmt.Sprint(i)))
		}
	}
	if own, whole, others := total(); own != 3 || whole != 100 || others != 70 {
		t.Errorf("%d series, %d packets, %d in other", own, whole, others)
	}
	c.Observe(packet(record.PathArrived, 1000, other)) // a node of this name has no series twice
	_, _, before := total()
	for minute := range 3 {
		now = now.Add(rankInterval)
		for range 1000 {
			c.Observe(packet(record.PathArrived, 1000, "a", "9"))
		}
		_, _, others := total()
		if others < before {
			t.Errorf("minute %d: other falls from %d to %d", minute, before, others)
		}
		before = others
	}
	f := scrape(t, c, "text/plain")
	if n := find(t, f[descPath.Name], "a>9").GetHistogram().GetSampleCount(); n < 1000 || n > 3000 {
		t.Errorf("the busiest has %d packets", n)
	}
	if own, _, _ := total(); own != 3 {
		t.Errorf("%d series", own)
	}
	for i := range 20_000 {
		c.Observe(packet(record.PathArrived, 1000, "x", fmt.Sprint(i)))
	}
	if n := len(c.paths.all); n > 8*3+1024 {
		t.Errorf("%d paths are kept", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	c := New(100)
	p := packet(record.PathArrived, 20_000, "athos", "porthos", "aramis", "milady", "treville")
	for b.Loop() {
		c.Observe(p)
	}
}

// Traces of somebody's packets are counted as paths are, and probes and copies are not.
func TestTraces(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	trace := func(change func(*record.Trace)) *record.Trace {
		r := &record.Trace{}
		for i, name := range []string{"athos", "porthos", "aramis"} {
			r.Nodes = append(r.Nodes, record.NodeData{
				NodeName: name, TransitDelay: record.NewField(uint32(2000), true),
				Timestamp: record.NewField(at.Add(time.Duration(i)*time.Millisecond), true),
			})
		}
		change(r)
		return r
	}
	c := New(10)
	c.Observe(trace(func(*record.Trace) {}))
	c.Observe(trace(func(r *record.Trace) { r.OnItsWay = true }))
	c.Observe(trace(func(r *record.Trace) { r.Active = true }))
	c.Observe(trace(func(r *record.Trace) { r.Copy = true }))
	c.Observe(trace(func(r *record.Trace) { r.Nodes = nil }))
	got := scrape(t, c, "")
	const way = "athos>porthos>aramis"
	packets := got["waymark_joined_packets_total"]
	if n := find(t, packets, way, "arrived").GetCounter().GetValue(); n != 1 {
		t.Errorf("%v arrived", n)
	}
	if n := find(t, packets, way, "unknown").GetCounter().GetValue(); n != 1 {
		t.Errorf("%v unknown", n)
	}
	if h := find(t, got["waymark_joined_path_delay_seconds"], way).GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() != 0.004 {
		t.Errorf("%v", h)
	}
	if h := find(t, got["waymark_joined_segment_delay_seconds"], "athos", "porthos").GetHistogram(); h.GetSampleCount() != 2 {
		t.Errorf("%v", h)
	}
	if h := find(t, got["waymark_joined_held_seconds"], "porthos", "aramis").GetHistogram(); h.GetSampleCount() != 2 {
		t.Errorf("%v", h)
	}
}
