// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ipfix"
)

// line is a record whose JSON has a text.
func line(s string) record.Record { return &record.Warning{Code: s} }

func lineOf(s string) string { return string(record.AppendLine(nil, line(s))) }

// A file that was renamed or removed is made again; where that is not possible, writes
// continue to the open one.
func TestWriterFollowsRotation(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "paths")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "paths.jsonl")
	w, err := OpenWriter(path, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		t.Helper()
		if err := w.Write(line(s)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	rename(path, path+".1")
	write("two")
	rename(dir, dir+".away")
	write("three")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"paths.jsonl.1": lineOf("one"), "paths.jsonl": lineOf("two") + lineOf("three")} {
		if got, err := os.ReadFile(filepath.Join(dir+".away", name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := OpenWriter(filepath.Join(dir, "missing", "x"), true, func(string) {}); err == nil || !strings.HasPrefix(err.Error(), "write records: open ") || !strings.Contains(err.Error(), "name a file in a directory that exists") {
		t.Errorf("a directory that is missing: %v", err)
	}
}

// A collector that received nothing reports that.
func TestStatisticsOfNothing(t *testing.T) {
	if text := new(Stats).Record().Text(); text != "statistics: nothing has arrived\n" {
		t.Errorf("%q", text)
	}
}

// Every counter is in the statistics' JSON and among the metrics, by one name.
// However much waits, a file that was rotated ends with a whole line, and the next
// one begins with one.
func TestWriterKeepsLinesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "paths.jsonl")
	w, err := OpenWriter(path, true, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	const count = 4 * writeAt / 1000
	text := strings.Repeat("x", 1000)
	event := line(text)
	for n := range count {
		if err := w.Write(event); err != nil {
			t.Fatal(err)
		}
		if n == count/2 {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Flush(), w.Close()); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, p := range []string{path + ".1", path} {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(b)) {
			if lines++; l != lineOf(text) {
				t.Fatalf("line %d, in %s, has %d bytes", lines, filepath.Base(p), len(l))
			}
		}
	}
	if lines != count {
		t.Errorf("%d lines, want %d", lines, count)
	}
}

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
	for _, want := range []string{"           5  postcards: ", "           1  path complete: ", "           1  malformed version: ", "           1  impossible namespace_missing: "} {
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
	if want := len(stats.Counts()) + int(record.NumPathReasons) + int(ipfix.NumCauses) + int(record.NumFaults) - 1 + len(thresholds) + 3; series != want {
		t.Errorf("%d series, want %d: every one from the start", series, want)
	}
}

// Metrics are served from Open until the end of Run, or Close.
func TestMetricsAreServed(t *testing.T) {
	for name, end := range map[string]func(*Collector) error{
		"run":   func(c *Collector) error { ctx, cancel := context.WithCancel(t.Context()); cancel(); return c.Run(ctx) },
		"close": (*Collector).Close,
	} {
		c, err := New(Config{Enterprise: ipfix.EnterpriseExample, Metrics: "127.0.0.1:0", Output: NewWriter(io.Discard, false)})
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
