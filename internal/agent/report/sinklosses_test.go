// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/sink"
)

// The log says once that a sink loses records, and once how many it lost.
func TestLossesOfSinksAreLogged(t *testing.T) {
	const full = "write /var/log/waymark/x: no space left on device"
	var log bytes.Buffer
	x := &Sinks{d: Dependencies{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	for i, tt := range []struct {
		lost, dropped uint64
		fault         string
		want          string // in the one line of the look; "": none
	}{
		{0, 0, "", ""},
		{3, 0, full, "level=WARN msg=\"jsonl:x loses records, 3 so far: " + full + "\" warning=exporter_failing cure="},
		{9, 0, full, ""},
		{9, 0, full, ""}, // no records, and still no space
		{11, 0, full, ""},
		{11, 0, "", "level=INFO msg=\"an exporter loses no records any more\" warning=exporter_failing exporter=jsonl:x lost=11"},
		{11, 0, "", ""},
		{11, 4, "", "jsonl:x loses records, 4 so far\""},
		{11, 4, "", "exporter=jsonl:x lost=4"},
		{12, 4, full, "1 so far: "},
		{0, 0, "", "exporter=jsonl:x lost=1"}, // a reload: the sink counts anew
		{0, 0, "", ""},
		{1, 0, full, "1 so far: "},
	} {
		log.Reset()
		x.logLosses([]sinkStats{{"jsonl:x", sink.Stats{Lost: tt.lost, Dropped: tt.dropped, Error: tt.fault}}, {name: "jsonl:y"}})
		if got := log.String(); strings.Count(got, "\n") != min(1, len(tt.want)) || !strings.Contains(got, tt.want) {
			t.Errorf("look %d: %q, want %q", i, got, tt.want)
		}
	}
	log.Reset()
	x.logLosses(nil)
	if got := log.String(); !strings.Contains(got, "lost=1") {
		t.Errorf("the sink has ended: %q", got)
	}
}

// A sink that says what to do is not told to check the disk.
func TestCureOfLosingSink(t *testing.T) {
	const cure = "run: chmod 600 /etc/waymark/headers"
	var log bytes.Buffer
	x := &Sinks{d: Dependencies{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	x.logLosses([]sinkStats{{"https://x", sink.Stats{Error: "others can access the key", Cure: cure}}})
	x.logLosses([]sinkStats{{"https://x", sink.Stats{Lost: 1, Error: "others can access the key", Cure: cure}}})
	if got := log.String(); !strings.Contains(got, "cure=\""+cure+"\"") {
		t.Error(got)
	}
	failing := &cured{error: "others can access the key", cure: cure}
	x.running = []*running{{Sink: failing}, {Sink: failing}}
	x.missed.Add(time.Now(), 0)
	failing.lost = 3
	ws := x.Warnings(nil)
	if len(ws) != 1 || ws[0].Code != health.ExporterFailing || ws[0].Cure != cure {
		t.Errorf("%+v", ws)
	}
}

// cured is a sink that loses records, and says what to do.
type cured struct {
	sink.Sink
	error, cure string
	lost        uint64
}

func (c *cured) Name() string { return "x" }

func (c *cured) Stats() sink.Stats { return sink.Stats{Lost: c.lost, Error: c.error, Cure: c.cure} }
