// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// A collector that received nothing reports that.
func TestStatisticsOfNothing(t *testing.T) {
	if text := new(Stats).Record().Text(); text != "statistics: nothing has arrived\n" {
		t.Errorf("%q", text)
	}
}

// Every counter is in the statistics' JSON and among the metrics, by one name.
func TestStatistics(t *testing.T) {
	c, _, send := offline(t, Config{}, ipfix.UDP)
	x := newExporter(t, ipfix.UDP, 1)
	send(x.message(start, 0, packet(0)...))
	send(x.message(start, 0, packet(1)[0], packet(1)[0], packet(2)[0].without("ioamNamespaceId")))
	send([]byte{0, 9})
	stats := c.Stats()
	b := record.AppendJSON(nil, stats.Record())
	for _, want := range []string{
		`"kind":"statistics"`, `"messages":2`, `"records":6`, `"postcards":5`, `"postcards_joined":3`, `"postcards_duplicate":1`,
		`"complete":1`, `"version":1`, `"namespace_missing":1`, `"waiting":1`, `"not_seen_further":0`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s\nlacks %s", b, want)
		}
	}
	text := stats.Record().Text()
	for _, want := range []string{"           5  postcards: ", "           1  path complete: ", "           1  malformed version: ",
		"           1  impossible namespace_missing: "} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", text, want)
		}
	}
	if strings.Contains(text, " 0  ") {
		t.Errorf("%s\nhas counters that are 0", text)
	}

	answer := httptest.NewRecorder()
	metrics.Handler(c.Collect).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	lines := map[string]bool{}
	for s := bufio.NewScanner(answer.Body); s.Scan(); {
		lines[s.Text()] = true
	}
	for _, want := range []string{
		"waymark_collect_messages_total 2", "waymark_collect_postcards_total 5", `waymark_collect_paths_total{reason="complete"} 1`,
		`waymark_collect_malformed_total{cause="version"} 1`, `waymark_collect_malformed_total{cause="sequence_gap"} 0`,
		`waymark_collect_impossible_total{cause="namespace_missing"} 1`, "waymark_collect_waiting_packets 1", "waymark_collect_sessions 1", "waymark_collect_templates 2",
	} {
		if !lines[want] {
			t.Errorf("metrics lack %s", want)
		}
	}
	series := 0
	for m := range lines {
		if !strings.HasPrefix(m, "#") {
			series++
		}
	}
	kinds := int(record.NumPathReasons) + int(ipfix.NumCauses) + int(record.NumFaults) - 1
	if want := len(stats.Counts()) + kinds + len(thresholds) + 3 + 5; series != want {
		t.Errorf("%d series, want %d: every one from the start", series, want)
	}
}

// Metrics are served from Open until the end of Run, or Close.
func TestMetricsAreServed(t *testing.T) {
	for name, end := range map[string]func(*Collector) error{
		"run":   func(c *Collector) error { ctx, cancel := context.WithCancel(t.Context()); cancel(); return c.Run(ctx) },
		"close": (*Collector).Close,
	} {
		c, err := New(Config{Enterprise: ipfix.EnterpriseExample, Metrics: "127.0.0.1:0", Sinks: []sink.Sink{&memory{}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Open(); err != nil {
			t.Fatal(err)
		}
		url := "http://" + c.metrics.Address() + "/metrics"
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !strings.Contains(string(body), "waymark_collect_messages_total 0\n") {
			t.Errorf("%s: %v, %s", name, err, body)
		}
		if err := end(c); err != nil {
			t.Error(err)
		}
		if _, err := http.Get(url); err == nil {
			t.Errorf("%s: metrics are served after the end", name)
		}
	}
}

// keeping is a sink that keeps what it is offered until it ends.
type keeping struct {
	sink.Sink
	kept atomic.Uint64
	done atomic.Bool
}

func (k *keeping) Name() string      { return "kept" }
func (k *keeping) Stats() sink.Stats { return sink.Stats{} }
func (k *keeping) Run(ctx context.Context) {
	<-ctx.Done()
	k.done.Store(true)
}

func (k *keeping) Offer(list ...record.Record) {
	if !k.done.Load() {
		k.kept.Add(uint64(len(list)))
	}
}

// telling is one that has something to tell when it ends.
type telling struct {
	keeping
	to []sink.Sink
}

func (s *telling) Tell(to ...sink.Sink) { s.to = to }

func (s *telling) Run(ctx context.Context) {
	<-ctx.Done()
	time.Sleep(20 * time.Millisecond)
	for _, other := range s.to {
		other.Offer(&record.Event{})
	}
}

// What a sink tells others when it ends, they still take: they end after it.
func TestTellersEndFirst(t *testing.T) {
	kept, tells := &keeping{}, &telling{}
	tells.Tell(kept)
	o := &output{sinks: []sink.Sink{kept, tells}, reportToOperator: func(slog.Level, string) {}}
	o.start()
	if err := o.end(); err != nil || kept.kept.Load() != 1 {
		t.Errorf("%d records, %v", kept.kept.Load(), err)
	}
}
