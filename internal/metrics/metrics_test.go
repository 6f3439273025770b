// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// serve returns the answer to a request.
func serve(t *testing.T, h http.Handler, encoding string) string {
	t.Helper()
	request := httptest.NewRequest("GET", "/metrics", nil)
	if encoding != "" {
		request.Header.Set("Accept-Encoding", encoding)
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK || !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d, %v", answer.Code, answer.Header())
	}
	var body io.Reader = answer.Body
	if answer.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			t.Fatal(err)
		}
		body = z
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// collector gives the same series to Prometheus' own library.
type collector struct{}

func (collector) Describe(ch chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(collector{}, ch)
}

var (
	packets = &Desc{Name: "x_packets_total", Help: "Packets \\ by\nwhat they are.", Labels: []string{"outcome", "interface"}}
	queued  = &Desc{Name: "x_queued", Help: "Records on their way."}
)

var odd = []float64{0, 1, -1, 0.25, 1e21, 123456789, math.Inf(1), math.NaN()}

func (collector) Collect(ch chan<- prometheus.Metric) {
	d := prometheus.NewDesc(packets.Name, packets.Help, packets.Labels, nil)
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, 7, "9", "zeth1")
	for i, v := range odd {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, strconv.Itoa(i), "eth\"\\\n0")
	}
	ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(queued.Name, queued.Help, nil, nil), prometheus.GaugeValue, 42)
}

// The text equals that of Prometheus' own library, byte for byte.
func TestText(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{})
	want := serve(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "")
	ours := Handler(
		func(g *Gatherer) { g.Add(queued, 42); g.Add(packets, 7, "9", "zeth1") },
		func(g *Gatherer) {
			for i, v := range odd {
				g.Add(packets, v, strconv.Itoa(i), "eth\"\\\n0")
			}
		})
	for _, encoding := range []string{"", "gzip", "br, gzip;q=0.5", "gzip;q=0"} {
		if difference := cmp.Diff(want, serve(t, ours, encoding)); difference != "" {
			t.Errorf("with %q: %s", encoding, difference)
		}
	}
}

// seriesOf returns the names and types, and the first value of each metric.
func seriesOf(text string) (kinds map[string]string, values map[string]float64) {
	kinds, values = make(map[string]string), make(map[string]float64)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)\n\S+ (\S+)$`).FindAllStringSubmatch(text, -1) {
		kinds[m[1]] = m[2]
		values[m[1]], _ = strconv.ParseFloat(m[3], 64)
	}
	return kinds, values
}

// The process metrics that dashboards use have the types, and about the values,
// that Prometheus' own library gives them.
func TestProcess(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	library := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	// The process grows while it answers, so the library's value lies between two of ours.
	kinds, before := seriesOf(serve(t, Handler(Process), ""))
	wantKinds, want := seriesOf(serve(t, library, ""))
	_, after := seriesOf(serve(t, Handler(Process), ""))
	moving := map[string]bool{"process_cpu_seconds_total": true, "go_goroutines": true}
	for _, name := range []string{
		"go_goroutines", "go_threads", "go_memstats_sys_bytes", "go_memstats_mcache_sys_bytes", "process_cpu_seconds_total", "process_open_fds",
		"process_max_fds", "process_virtual_memory_bytes", "process_resident_memory_bytes", "process_start_time_seconds",
	} {
		if kinds[name] != wantKinds[name] || kinds[name] == "" {
			t.Errorf("%s is a %q, and a %q in the library", name, kinds[name], wantKinds[name])
		}
		least, most := min(before[name], after[name]), max(before[name], after[name])
		// Reading the descriptors opens one, and a thread may come in between.
		if !moving[name] && (want[name] < 0.95*least-1 || want[name] > 1.05*most+1) {
			t.Errorf("%s is %v and then %v, and %v in the library", name, before[name], after[name], want[name])
		}
	}
	if since := time.Since(time.Unix(int64(before["process_start_time_seconds"]), 0)); since < -2*time.Second || since > time.Hour {
		t.Errorf("the process started %v ago", since)
	}
}

// More requests than may be answered at a time are refused.
func TestRequestLimit(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	h := Handler(func(*Gatherer) { begun <- struct{}{}; <-end })
	for range mostRequests {
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
		<-begun
	}
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	close(end)
	if answer.Code != http.StatusServiceUnavailable {
		t.Errorf("%d: %s", answer.Code, answer.Body)
	}
}
