// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/instant"
)

// The state is shown with all that is wrong, and the exit code says whether something is.
func TestStatus(t *testing.T) {
	h := query.Health{
		OK: true, Warnings: []string{}, Waiting: 1, Sink: map[string]uint64{"written": 4711, "waiting": 12, "dropped": 3, "lost": 4},
		Counts: map[string]uint64{"records": 5000, "messages": 77},
		Store: query.StoreHealth{
			Directory: "/var/lib/w\x1b[2J", Files: 3, Packed: 2, Bytes: 52e6, Free: 900e6, Saved: 7e6, Packets: 1234, Records: 56,
			First: instant.Of(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/health" {
			t.Errorf("%s was asked for", r.URL)
		}
		_ = json.NewEncoder(w).Encode(&h)
	}))
	defer server.Close()
	run := func(args ...string) (code int, out, errs string) {
		t.Helper()
		s := program.Start(t, append([]string{"status", "--collector", server.URL}, args...)...)
		code = s.End(t)
		return code, s.Out.String(), s.Errs.String()
	}
	code, out, errs := run()
	for _, want := range []string{
		`\x1b[2J", 3 files, 52 MB; 900 MB free`, "packed     2 of these files; 7 MB saved", "since      2026-11-21T12:00:00",
		"kept       1234 packets, 56 other records", "received   5000 records in 77 messages", "written    4711; 12 wait, 7 lost",
		"joining    1 packet waits for postcards",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
	if code != 0 || errs != "" || strings.Contains(out, "warning") {
		t.Errorf("code %d, %q %q", code, out, errs)
	}
	h.OK, h.Waiting, h.Warnings = false, 2, []string{"nothing is written: the disk is full\nnow; make room"}
	if code, out, errs = run(); code != 1 || !strings.Contains(errs, "the collector has a problem") ||
		!strings.Contains(out, "warning    nothing is written: the disk is full") || strings.Count(out, "\n") != 8 ||
		!strings.Contains(out, "joining    2 packets wait for postcards") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	var shown query.Health
	if code, out, _ = run("--json"); code != 1 || json.Unmarshal([]byte(out), &shown) != nil || shown.OK || shown.Waiting != 2 {
		t.Errorf("code %d: %s", code, out)
	}
	h.OK = true
	if code, _, _ = run("--json"); code != 0 {
		t.Errorf("code %d", code)
	}
	server.Close()
	if code, _, errs = run(); code != 1 || errs == "" {
		t.Errorf("no collector: code %d, %q", code, errs)
	}
}
