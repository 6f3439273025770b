// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/shellword"
)

// Filters go to the agent; what no answer can have is refused, and what nothing configured has is named at once.
func TestTopFilters(t *testing.T) {
	status := `{"node":{"name":"r1"},"records":{},"interfaces":[{"name":"east0"}],"namespaces":[{"id":123}]}`
	flows := `[{"flow":{"name":"red","direction":"out","source":"2001:db8::1","segments":["2001:db8::2"],` +
		`"points":["egress=[2001:db8::3]:862"]}}]`
	f := newFakeAgent(t, map[string]string{
		"GET /v1/status": status, "GET /v1/flows": flows,
		"GET /v1/history": `{"since":"2026-11-21T05:20:00Z","until":"2026-11-21T05:21:00Z","pairs":[]}`, "GET /v1/loss": "[]",
		"GET /v1/events": "",
	})
	for _, tt := range []struct{ args, asks, stderr string }{
		{"top --json --count 1 --node r2", "/v1/history?last=1m0s&live=true&node=r2", ""},
		{"top --json --since 12:03 --interface east9", "interface=east9", ""},
		{"top --json --count 1 --interval 100ms --protocol tcp --port 443", "/v1/history?last=1m0s&live=true&port=443&protocol=6", ""},
		{"top --json --count 1 --flow blue", "flow=blue", "flow blue is not configured here"},
		{"top --json --count 1 --interval 100ms --namespace 7", "namespace=7", "namespace 7 is not configured here, so no record has it; configured: 123"},
		{"top --since 12:03 --port 443", "", "of the past, only --node"},
		{"top --interval 2m --port 443", "", "want at most 1m0s"},
		{"top --where nonsense", "", "column 1: unknown name nonsense"},
		{"events --flow blue", "flow=blue", "flow blue is not configured here"},
		{"events --follow --flow blue", "flow=blue", "flow blue is not configured here"},
		{"events --flow red --node r9", "flow=red", ""},
		{"loss --node egress", "node=egress", ""},
		{"loss --node r1 --kind delay", "kinds=delay&node=r1", ""},
		{"loss --node r9", "node=r9", "node r9 is not configured for the flows here, so no record has it; configured: r1, egress"},
		{"loss --kind trace", "kinds=trace", "no record of the kind trace is made for the flows here; there are loss, delay"},
		{"loss --kind loss --min-delay 1ms", "min-delay", "no record of the kind loss has a delay"},
		{"loss --last 1m --node r9", "node=r9", ""}, // of flows that are measured no longer, too
	} {
		f.mu.Lock()
		f.asked = nil
		f.mu.Unlock()
		var out, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"--socket", f.socket}, strings.Fields(tt.args)...), strings.NewReader(""), &out, &stderr)
		refused := tt.asks == ""
		f.mu.Lock()
		asked := strings.Join(f.asked, "\n")
		f.mu.Unlock()
		named := tt.stderr == "" && !strings.Contains(stderr.String(), "configured") ||
			tt.stderr != "" && strings.Contains(stderr.String(), tt.stderr)
		if refused != (code == 2) || !strings.Contains(asked, tt.asks) || refused && asked != "" || !named {
			t.Errorf("%s: code %d, asked %q, stderr %q", tt.args, code, asked, &stderr)
		}
	}
}

// The first line says since when packets are selected, and the copied command has the filter.
func TestTopSelected(t *testing.T) {
	r := topReport()
	r.Filtered = &insight.Filtered{Since: instant.Of(r.Until.Add(-20 * time.Second)), Undecided: 3, Unexamined: 5}
	s := topScreen{
		flags:  topFlags{sort: sorts[0], selects: []string{"--port 443", "--where " + shellword.Quote(`node == "r1"`)}},
		report: r,
		style:  topStyle{width: 200},
	}
	if head := s.style.head(r); !strings.Contains(head, "selected since 16:12:45Z") || !strings.Contains(head, "3 undecided  5 not examined") {
		t.Error(head)
	}
	if got, want := s.command(), `waymark top --port 443 --where 'node == "r1"'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r.Filtered = nil
	if got := s.command(); !strings.Contains(got, "--since 2026-11-21T16:12:05Z --until 2026-11-21T16:13:05Z --port 443") {
		t.Error(got)
	}
}
