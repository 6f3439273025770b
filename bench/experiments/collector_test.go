// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/bench/report"
)

// The collector keeps all postcards of a short run, and every figure is there.
func TestCollectorBenchmark(t *testing.T) {
	made := os.Getenv("WAYMARK_PROGRAM")
	if made == "" {
		t.Skip("the collector takes minutes to build; run: make build, and set WAYMARK_PROGRAM=bin/waymark")
	}
	r, err := runCollector(context.Background(), harness.Options{Duration: 2 * time.Second, Rounds: 1, Program: made})
	if err != nil {
		t.Fatal(err)
	}
	_, beside := findGoflow2(made)
	skipped := slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "goflow2 was skipped") })
	if skipped == beside {
		t.Errorf("goflow2 is there: %v; notes: %q", beside, r.Notes)
	}
	seen := map[string]report.Point{}
	for _, p := range r.Points {
		seen[p.Variant] = p
	}
	kept := seen["postcards kept, waymark-collector"]
	if kept.Exports == nil || kept.Exports.Lost > 0 || kept.Exports.Written < 1000 || kept.Ratio != 1 || *kept.PPS <= 0 {
		t.Errorf("%+v, %+v", kept, kept.Exports)
	}
	for _, name := range []string{"processor time of a postcard", "until a packet is found", "question: segments", "question: one packet"} {
		if p, ok := seen[name]; !ok || p.NS == nil || *p.NS <= 0 || p.Ratio <= 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	for _, name := range []string{"resident memory", "octets on disk of a packet"} {
		if p, ok := seen[name]; !ok || p.Bytes == nil || *p.Bytes <= 0 || p.Aim == 0 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if want := 1 + 3 + 1 + len(questions); len(r.Points) != want && !beside {
		t.Errorf("%d points, want %d", len(r.Points), want)
	}
}

// What did not come is lost, in the figures; and 95% of answers took no longer than their 95th percentile.
func TestCollectorPoints(t *testing.T) {
	took := map[string][]float64{}
	for _, q := range questions {
		for n := range 100 {
			took[q.name] = append(took[q.name], float64(100-n))
		}
	}
	ours := []collectorRun{
		{asked: 1000, offered: 1000, sent: 1000, kept: 900, processor: 2000, resident: 1e8, octets: 50, visible: 1e9, took: took},
	}
	theirs := []collectorRun{{asked: 1000, offered: 1000, sent: 1000, kept: 1000, processor: 4000, resident: 5e7, octets: 500}}
	for _, p := range collectorPoints(ours, theirs, 1000) {
		switch {
		case p.Variant == "postcards kept, waymark-collector" && (p.Met() || *p.PPS != 900 || p.Exports.Lost != 100),
			p.Variant == "postcards kept, goflow2" && (p.Ratio != 1 || p.Exports.Processor != 4000),
			p.Variant == "processor time of a postcard" && (*p.NS != 2000 || p.Ratio != 0.5 || p.Reference != 4000),
			p.Variant == "octets on disk of a packet" && (*p.Bytes != 50 || p.Ratio != 0.1 || !p.Met()),
			strings.HasPrefix(p.Variant, "question: ") && *p.NS != 95:
			t.Errorf("%+v, %+v", p, p.Exports)
		}
	}
}

// Lines are counted as a file grows, and those of no file are none.
func TestLineCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lines")
	var l lineCount
	for _, step := range []struct {
		add   string
		lines uint64
	}{{"", 0}, {"{}\n{", 1}, {"}\n", 2}} {
		if step.add != "" {
			f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(step.add); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		if err := l.read(file); err != nil || l.lines != step.lines {
			t.Errorf("%d lines, %v; want %d", l.lines, err, step.lines)
		}
	}
}
