// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/waymark-net/waymark/internal/exponential"
)

// What a Prometheus asks for that scrapes native histograms, and one that does not.
const (
	askProtobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," +
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	askText = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

// scrape decodes an answer by Prometheus' own library, whatever its format is.
func scrape(t *testing.T, h http.Handler, accept string) (families map[string]*dto.MetricFamily, format expfmt.FormatType, body []byte) {
	t.Helper()
	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Header.Set("Accept", accept)
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	body = bytes.Clone(answer.Body.Bytes())
	f := expfmt.ResponseFormat(answer.Header())
	families = make(map[string]*dto.MetricFamily)
	if f.FormatType() == expfmt.TypeTextPlain {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(answer.Body)
		if err != nil {
			t.Fatalf("%v:\n%s", err, body)
		}
		return families, f.FormatType(), body
	}
	for decoder := expfmt.NewDecoder(answer.Body, f); ; {
		var one dto.MetricFamily
		switch err := decoder.Decode(&one); {
		case errors.Is(err, io.EOF):
			return families, f.FormatType(), body
		case err != nil:
			t.Fatal(err)
		}
		families[one.GetName()] = &one
	}
}

// native are the buckets of a native histogram, by Prometheus' indexes.
func native(h *dto.Histogram) map[int]int64 {
	list := make(map[int]int64)
	index, next, count := 0, 0, int64(0)
	for _, span := range h.PositiveSpan {
		index += int(span.GetOffset())
		for range span.GetLength() {
			count += h.PositiveDelta[next]
			list[index] = count
			index, next = index+1, next+1
		}
	}
	if next != len(h.PositiveDelta) {
		list[math.MaxInt] = int64(len(h.PositiveDelta) - next) // too many
	}
	maps.DeleteFunc(list, func(_ int, n int64) bool { return n == 0 }) // those that the library fills gaps with
	return list
}

// classic are the cumulative counts of a histogram by bound, without +Inf.
func classic(h *dto.Histogram) map[float64]uint64 {
	list := make(map[float64]uint64)
	for _, b := range h.Bucket {
		if !math.IsInf(b.GetUpperBound(), 1) {
			list[b.GetUpperBound()] = b.GetCumulativeCount()
		}
	}
	return list
}

var delays = &Desc{Name: "x_delay_ns", Help: "Delays.", Labels: []string{"flow"}, Bounds: exponential.Powers(0, 16, 4)}

// ofMap is a histogram as the data plane counts it: scale 4, gaps, an empty bucket, not in order.
var ofMap = Histogram{Sum: 123456, Native: &exponential.Histogram{Scale: 4, Zero: 5, Buckets: []exponential.Bucket{
	{Index: 63, Count: 7}, {Index: 64, Count: 1}, {Index: -3, Count: 2}, {Index: 100, Count: 0}, {Index: 191, Count: 40},
	{Index: 256, Count: 3}, {Index: 65, Count: 9},
}}}

// A histogram of a kernel's map is classic to who asks for text, in cumulative buckets with le, and
// native with schema 4 and the same counts to who asks for protobuf, as Prometheus' own library says.
func TestConstantHistogram(t *testing.T) {
	ours := Handler(func(g *Gatherer) { g.AddHistogram(delays, ofMap, "a \"b\"\n"); g.Add(queued, 42) }, Process)
	desc := prometheus.NewDesc(delays.Name, delays.Help, delays.Labels, nil)
	buckets := map[int]int64{64: 7, 65: 1, -2: 2, 192: 40, 257: 3, 66: 9}
	theirs := prometheus.NewRegistry()
	theirs.MustRegister(constant{desc, []prometheus.Metric{
		prometheus.MustNewConstNativeHistogram(desc, 67, 123456, buckets, nil, 5, 4, 0, time.Time{}, "a \"b\"\n")}})
	want, _, _ := scrape(t, promhttp.HandlerFor(theirs, promhttp.HandlerOpts{}), askProtobuf)

	const family = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"
	for _, accept := range []string{
		askProtobuf, askText, "", "*/*", "text/plain, " + family + ";encoding=delimited", family + ";encoding=text",
		family + ";encoding=delimited;q=0, text/plain;q=0.1",
	} {
		got, format, body := scrape(t, ours, accept)
		if protobuf := format == expfmt.TypeProtoDelim; protobuf != (accept == askProtobuf) {
			t.Errorf("the answer to %q is %v", accept, format)
		}
		f := got[delays.Name]
		if f.GetType() != dto.MetricType_HISTOGRAM || f.GetHelp() != delays.Help || len(f.Metric) != 1 ||
			f.Metric[0].Label[0].GetValue() != "a \"b\"\n" {
			t.Fatalf("%v", f)
		}
		h := f.Metric[0].Histogram
		if h.GetSampleCount() != 67 || h.GetSampleSum() != 123456 {
			t.Errorf("%d values, %v in all", h.GetSampleCount(), h.GetSampleSum())
		}
		// 2^0: those at zero and in bucket -3. 2^4: and up to it, in bucket 63. 2^8, 2^12: up to bucket 191. 2^16: up to 255.
		if difference := cmp.Diff(map[float64]uint64{1: 7, 16: 14, 256: 24, 4096: 64, 65536: 64}, classic(h)); difference != "" {
			t.Errorf("classic buckets: %s\n%s", difference, body)
		}
		if got["x_queued"].Metric[0].Gauge.GetValue() != 42 || got["process_cpu_seconds_total"].GetType() != dto.MetricType_COUNTER {
			t.Errorf("other metrics are wrong: %v", got["x_queued"])
		}
		if format != expfmt.TypeProtoDelim {
			continue
		}
		other := want[delays.Name].Metric[0].Histogram
		if h.GetSchema() != 4 || h.GetZeroCount() != 5 || h.GetZeroThreshold() != 0 ||
			!maps.Equal(native(h), buckets) || !maps.Equal(native(other), buckets) {
			t.Errorf("native: %v; the library's: %v", h, other)
		}
	}
}

type constant struct {
	desc *prometheus.Desc
	list []prometheus.Metric
}

func (c constant) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }
func (c constant) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.list {
		ch <- m
	}
}

// The text of classic buckets equals that of Prometheus' own library, byte for byte.
func TestTextOfHistogram(t *testing.T) {
	d := &Desc{Name: "x_size", Help: "Sizes.", Labels: []string{"z", "a"}, Bounds: []float64{0.25, 1, 1e9}}
	desc := prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	registry := prometheus.NewRegistry()
	registry.MustRegister(constant{desc, []prometheus.Metric{
		prometheus.MustNewConstHistogram(desc, 10, 7.5, map[float64]uint64{0.25: 1, 1: 3, 1e9: 9}, "2", "1"),
		prometheus.MustNewConstHistogram(desc, 0, 0, map[float64]uint64{0.25: 0, 1: 0, 1e9: 0}, "1", "\"")}})
	want := serve(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "")
	got := serve(t, Handler(func(g *Gatherer) {
		g.AddHistogram(d, Histogram{Sum: 7.5, Classic: []uint64{1, 2, 6, 1}}, "2", "1")
		g.AddHistogram(d, Histogram{}, "1", "\"")
	}), "")
	if difference := cmp.Diff(want, got); difference != "" {
		t.Error(difference)
	}
}

// Observed values are in the buckets in which Prometheus' own library has them, at each scale, powers
// of two and bounds of buckets included; classic buckets are exact, whatever their bounds.
func TestObserved(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := []float64{0, 1, 0.5, 2, 1024, math.Nextafter(1, 2), math.Nextafter(1, 0), 1e-9, 3}
	for range 60 {
		values = append(values, math.Exp(8*random.NormFloat64()), math.Exp2(float64(random.IntN(64)-32)))
	}
	for scale, factor := range map[int]float64{0: 2, 3: 1.1, 4: 1.05, 5: 1.025} {
		d := &Desc{Name: "x_seconds", Help: "Times.", Bounds: []float64{0.3, 1, 7, 1000}}
		library := prometheus.NewHistogram(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Bounds,
			NativeHistogramBucketFactor: factor, NativeHistogramZeroThreshold: prometheus.NativeHistogramZeroThresholdZero})
		registry := prometheus.NewRegistry()
		registry.MustRegister(library)
		own := NewObserved(d, scale)
		for _, v := range values {
			own.Observe(v)
			library.Observe(v)
		}
		own.Observe(math.NaN())
		own.Observe(math.Inf(1))
		want, _, _ := scrape(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), askProtobuf)
		got, _, _ := scrape(t, Handler(func(g *Gatherer) { g.AddHistogram(d, own.Histogram()) }), askProtobuf)
		a, b := got[d.Name].Metric[0].Histogram, want[d.Name].Metric[0].Histogram
		if a.GetSchema() != b.GetSchema() || a.GetSchema() != int32(scale) ||
			!maps.Equal(native(a), native(b)) || a.GetZeroCount() != b.GetZeroCount() {
			t.Errorf("scale %d: native: %s", scale, cmp.Diff(native(b), native(a)))
		}
		if !maps.Equal(classic(a), classic(b)) || a.GetSampleCount() != b.GetSampleCount() || a.GetSampleSum() != b.GetSampleSum() {
			t.Errorf("scale %d: classic: %s", scale, cmp.Diff(classic(b), classic(a)))
		}
	}
}

// A histogram whose values are far apart gets coarser instead of larger, and counts each value.
func TestObservedIsBounded(t *testing.T) {
	own := NewObserved(&Desc{Name: "x", Bounds: []float64{1}}, 8)
	const values = 5000
	for i := range values {
		own.Observe(math.Exp2(float64(i%600)/10 - 30))
	}
	h := own.Histogram()
	if n := len(h.Native.Buckets); n > mostBuckets || n < mostBuckets/4 || h.Native.Total() != values || h.Native.Scale > 2 {
		t.Errorf("%d buckets of scale %d, %d values", n, h.Native.Scale, h.Native.Total())
	}
	if !slices.IsSortedFunc(h.Native.Buckets, func(a, b exponential.Bucket) int { return a.Index - b.Index }) {
		t.Error("they are not in order")
	}
}

// The series of a histogram are bounded: those beyond are one, with the sum of their buckets,
// of constant and of observed ones.
func TestSeriesAreBounded(t *testing.T) {
	d := &Desc{Name: "x_delay", Labels: []string{"flow", "way"}, Bounds: exponential.Powers(0, 4, 1), Most: 3}
	observed := NewObservations(d, 4)
	for i := range 10 {
		observed.Of(fmt.Sprint("f", i), "out").Observe(float64(i))
	}
	if observed.Of("f9", "out") != observed.Of("f8", "out") || observed.Of("f1", "out") == observed.Of("f2", "out") {
		t.Error("histograms beyond the bound differ, or those below do not")
	}
	constants := func(g *Gatherer) {
		for i := range 10 {
			scale := 4 - i%2 // the sum has the smaller one
			one := []exponential.Bucket{{Index: exponential.IndexOf(float64(max(i, 1)), scale), Count: 1}}
			g.AddHistogram(d, Histogram{Sum: float64(i), Native: &exponential.Histogram{Scale: scale, Buckets: one}}, fmt.Sprint("f", i), "out")
		}
		g.AddHistogram(d, Histogram{}, "other", "other")
	}
	for name, source := range map[string]func(*Gatherer){"observed": observed.Collect, "constant": constants} {
		got, _, body := scrape(t, Handler(source), askProtobuf)
		list := got[d.Name].Metric
		if len(list) != d.Most+1 {
			t.Fatalf("%s: %d series: %q", name, len(list), body)
		}
		rest := list[3]
		// 3 to 9: 3 and 4 up to 4, 5 to 8 up to 8, 9 beyond.
		if rest.Label[0].GetValue() != "other" || rest.Label[1].GetValue() != "other" ||
			rest.Histogram.GetSampleCount() != 7 || rest.Histogram.GetSampleSum() != 42 ||
			!maps.Equal(classic(rest.Histogram), map[float64]uint64{1: 0, 2: 0, 4: 2, 8: 6, 16: 7}) {
			t.Errorf("%s: the rest is %v", name, rest)
		}
		if name == "observed" && rest.Histogram.GetSchema() != 4 {
			t.Errorf("%s: schema %d", name, rest.Histogram.GetSchema())
		}
	}
}

// The metrics of the process say the same in both formats.
func TestProcessInProtobuf(t *testing.T) {
	text, _, _ := scrape(t, Handler(Process), askText)
	protobuf, format, _ := scrape(t, Handler(Process), askProtobuf)
	if len(protobuf) != len(text) || len(text) < 40 || format != expfmt.TypeProtoDelim {
		t.Errorf("%d metrics in protobuf, %d in text", len(protobuf), len(text))
	}
	for name, want := range text {
		got := protobuf[name]
		if got == nil || got.GetType() != want.GetType() || len(got.Metric) != len(want.Metric) {
			t.Errorf("%s: %v; want %v", name, got, want)
			continue
		}
		for i, m := range got.Metric {
			if len(m.Label) != len(want.Metric[i].Label) || strings.HasPrefix(name, "go_info") && m.String() != want.Metric[i].String() {
				t.Errorf("%s: %v; want %v", name, m, want.Metric[i])
			}
			if m.Histogram != nil {
				a, b := classic(m.Histogram), classic(want.Metric[i].Histogram)
				if len(a) != len(b) || len(a) < 10 || m.Histogram.Schema != nil {
					t.Errorf("%s: %d buckets; want %d", name, len(a), len(b))
				}
			}
			if m.Summary != nil && len(m.Summary.Quantile) != len(want.Metric[i].Summary.Quantile) {
				t.Errorf("%s: %v; want %v", name, m.Summary, want.Metric[i].Summary)
			}
		}
	}
}

// A histogram without any value is native nevertheless.
func TestEmptyHistogram(t *testing.T) {
	got, _, _ := scrape(
		t,
		Handler(func(g *Gatherer) { g.AddHistogram(delays, Histogram{Native: &exponential.Histogram{Scale: 4}}, "a") }),
		askProtobuf,
	)
	h := got[delays.Name].Metric[0].Histogram
	if h.GetSchema() != 4 || len(h.PositiveSpan) != 1 || h.GetSampleCount() != 0 || len(h.Bucket) != len(delays.Bounds) {
		t.Errorf("%v", h)
	}
}
