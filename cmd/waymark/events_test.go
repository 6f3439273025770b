// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// An event is folded to the screen, with a mark while it lasts, and nothing of the network controls a terminal.
func TestEventLine(t *testing.T) {
	e := &record.Event{
		Time: instant.Of(time.Date(2026, 11, 21, 5, 21, 0, 0, time.UTC)), Name: record.EventSegmentSlow, Severity: record.SeverityWarning,
		Facts: "r2\x1b[2J east0 > r3 west0 takes long: p95 84.7ms, usual 31µs (2001:db8:1:2::/64 > customer-with-a-long-name)",
	}
	got := eventLine(e, true, columns.Screen{Width: 80, ASCII: true})
	want := "* 2026-11-21 05:21:00Z  segment_slow: r2?[2J east0 > r3 west0 takes long: p95\n" +
		"    84.7ms, usual 31us (2001:db8:1:2::/64 > customer-with-a-long-name)\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	e.Time = instant.Of(time.Now().UTC())
	got = eventLine(e, false, columns.Screen{Width: 80, Colour: true})
	if !strings.HasPrefix(got, "  "+e.Time.UTC().Format("15:04:05Z")+"  \x1b[31msegment_slow\x1b[0m: r2?[2J") ||
		!strings.Contains(got, "31µs") {
		t.Errorf("%q", got)
	}
	if got := eventLine(e, false, columns.Screen{}); strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
}

// eventLineJSON is an event as an agent sends it.
const eventLineJSON = `{"kind":"event","time":"2026-11-21T05:21:00Z","node":"r3","event":"segment_slow","id":"5f0c2d1e9a7b",` +
	`"severity":"warning","subject":"2 0>202 > 3 301>0",` +
	`"text":"r2 east0 > r3 takes long: p95 84.7ms, usual 31µs","labels":{"from_node":"r2","egress":"east0"},` +
	`"values":{"p95_ns":84700000,"usual_p95_ns":31000}}`

// The command asks for what the flags say, marks what lasts, and gives JSON as it came.
func TestEventsCommand(t *testing.T) {
	f := newFakeAgent(t, map[string]string{"GET /v1/events": eventLineJSON + "\n"})
	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "events", "--node", "r2", "--event", "segment_slow", "--last", "10m")
	if want := "* 2026-11-21 05:21:00Z  segment_slow: r2 east0 > r3 takes long: p95 84.7ms,\n    usual 31µs\n"; code != 0 || stdout != want ||
		stderr != "" {
		t.Errorf("code %d, %q, want %q, %q", code, stdout, want, stderr)
	}
	if got := f.last(); got != "GET /v1/events?event=segment_slow&last=10m0s&node=r2" {
		t.Error(got)
	}
	if code, stdout, _ := runCLI(t, "", "--socket", f.socket, "--json", "events", "--count", "1"); code != 0 || stdout != eventLineJSON+"\n" {
		t.Errorf("code %d, %q", code, stdout)
	}
	none := newFakeAgent(t, map[string]string{"GET /v1/events": ""})
	if code, stdout, stderr := runCLI(t, "", "--socket", none.socket, "events"); code != 0 || stdout != "" ||
		!strings.Contains(stderr, "history.rate") {
		t.Errorf("code %d, %q, %q", code, stdout, stderr)
	}
}
