// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/instant"
)

// The table fits 80 columns whatever names, numbers and places there are, and nothing of them
// controls the terminal.
func TestProbesTable(t *testing.T) {
	at := time.Date(2026, 11, 28, 12, 3, 1, 200e6, time.Local)
	times := &api.ProbeTimes{Count: 10, P50: 212_345, P99: 84_912_345}
	p := &api.Probes{
		Configured: true, Interval: int64(100 * time.Millisecond), Flows: 16, Budget: 1000, Sent: 987_654_321_098, Suppressed: 987_654_321_098,
		Own: []string{"r1"}, Unresolved: []string{"r9.example.net"},
		Destinations: []api.ProbedNode{
			{Name: "r3", State: api.ProbedAnswered, Flows: 16, LastMinute: api.ProbeCount{Probes: 9600}, RoundTrip: times, Paths: []api.ProbedPath{{Flows: 16}, {}}},
			{
				Name: "a-very-long-name.of-a-host.example.net", Address: netip.MustParseAddr("2001:db8::4"), State: api.ProbedLost, Flows: 16, FlowsLost: 7,
				LastMinute: api.ProbeCount{Probes: 9600, Lost: 4200}, RoundTrip: times,
				Losses: []api.ProbeLosses{
					{Flows: 7, After: "node 2 (2001:db8:1234:5678:9abc:def0:1234:5678)", AfterHop: 1, Before: "node 4 (2001:db8:1234:5678:9abc:def0:1234:5678)", Evidence: "hop-limit", Since: instant.Of(at)},
				},
				Paths: []api.ProbedPath{
					{Path: "2>3", Nodes: "porthos > a-long-name.of-a-host", Flows: 9, Answered: 12345, Lost: 6, RoundTrip: times},
					{Path: "2>5>3", Nodes: "porthos > d'artagnan > a-very-long-name.of-a-host", Flows: 9, Answered: 12345, RoundTrip: times},
				},
			},
			{Name: "\x1b[2J", State: api.ProbedUnanswered, Flows: 16, FlowsLost: 16, Losses: []api.ProbeLosses{{Flows: 16, NeverAnswered: true, After: "node 2", AfterHop: 1, Since: instant.Of(at)}}},
		},
	}
	for _, paths := range []bool{false, true} {
		var b strings.Builder
		if err := printProbes(&b, p, paths); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > 80 {
				t.Errorf("%d columns: %s", len(line), line)
			}
		}
		for _, want := range []string{
			"a-very-long-name.of...  lost           9/16      2    43.8%     212µs    84.9ms\n  ! 7 of 16 flows vanish after node 2",
			"r3                      answered      16/16      1     0.0%",
			"16 of 16 flows were never answered; seen last at node 2, since 12:03:01.200", "because they are this node: r1\n", "r9.example.net: no address is known",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		for _, path := range []string{"\n  por", "thos > a-long-name.of-a-host  9 ", "\n  2>5>3 "} {
			if strings.Contains(text, path) != paths {
				t.Errorf("%q, paths %v:\n%s", path, paths, text)
			}
		}
		if strings.Contains(text, "\x1b") || strings.Contains(text, "12345") != paths {
			t.Errorf("paths %v:\n%s", paths, text)
		}
		if strings.Index(text, "a-very") > strings.Index(text, "r3 ") {
			t.Errorf("losses do not come first:\n%s", text)
		}
	}
}

// Why probes were not sent: one cause, the other, or both.
func TestUnsentText(t *testing.T) {
	for _, tt := range []struct {
		suppressed, skipped uint64
		want                string
	}{
		{7, 0, "7 probes were not sent: 7 were beyond the budget of 50 packets a second"},
		{7, 7, "7 probes were not sent: the agent was late for 7"},
		{7, 3, "7 probes were not sent: 4 were beyond the budget of 50 packets a second, the agent was late for 3"},
	} {
		if got := unsentText(&api.Probes{Budget: 50, Suppressed: tt.suppressed, Skipped: tt.skipped}); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
