// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

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
