// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

func ns(d time.Duration) *int64 { v := int64(d); return &v }

// topReport is what an agent may answer: two paths of a pair, and one with hostile names.
func topReport() *insight.Report {
	at := time.Date(2026, 11, 21, 16, 13, 5, 0, time.UTC)
	q := func(a, b, c, d time.Duration) *insight.Quantiles {
		return &insight.Quantiles{Count: 100, P50: ns(a), P95: ns(b), P99: ns(c), Max: ns(d)}
	}
	hops := []insight.HopReport{
		{Place: insight.Place{NodeID: 1, EgressID: 101}, Packets: 118, ToNext: q(14*time.Microsecond, 20*time.Microsecond, 31*time.Microsecond, time.Millisecond), Series: []int64{14000, 15000}},
		{Place: insight.Place{NodeID: 2, IngressID: 201, EgressID: 202}, Packets: 118, Held: q(8*time.Microsecond, 9*time.Microsecond, 12*time.Microsecond, 15*time.Microsecond),
			ToNext: q(20*time.Microsecond, 80*time.Millisecond, 84700*time.Microsecond, 1230*time.Millisecond), Queue: &insight.Depth{Count: 118, Max: 83}, Loss: insight.Loss{Sent: 1000, Lost: 81},
			Verdicts: []insight.Verdict{insight.Slow, insight.Loses}, Series: []int64{-1, 20000, 20000, 900000, 80000000}, Baseline: &insight.Baseline{ToNext: ns(25 * time.Microsecond)}},
		{Place: insight.Place{NodeID: 3, IngressID: 301}, Packets: 118, Series: []int64{}},
	}
	vague := []insight.HopReport{
		{Place: insight.Place{NodeID: 1, EgressID: 102}, Packets: 96, ToNext: &insight.Quantiles{Count: 96, Negative: 96}, HeldIncluded: true},
		{Place: insight.Place{NodeID: 3, IngressID: 302}, Packets: 96},
	}
	hostile := "r\x1b[2J\x1b]52;c;cm0gLXJm\x07\u202eevil\n"
	return &insight.Report{
		Since: instant.Of(at.Add(-time.Minute)), Until: instant.Of(at), Watched: int64(30 * time.Second), Records: 214, LeftOut: 7,
		Pairs: []insight.PairReport{
			{Source: "2001:db8:1::/64", Destination: "cust7", Packets: 214, Loss: insight.Loss{Sent: 1000, Lost: 3}, Paths: []insight.PathReport{
				{ID: "0000000a", Packets: 118, Share: 0.55, Delay: q(40*time.Microsecond, 80*time.Millisecond, 84900*time.Microsecond,
					1300*time.Millisecond), Loss: &insight.Loss{Sent: 1000, Lost: 81}, Hops: hops},
				{ID: "0000000b", Packets: 96, Share: 0.45, Hops: vague},
			}},
			{Source: hostile, Destination: "other", Packets: 3,
				Paths: []insight.PathReport{{ID: "flow", Flow: hostile + strings.Repeat("x", 300), Packets: 3, Share: 1,
					Hops: []insight.HopReport{{Place: insight.Place{Node: hostile}, Packets: 3, Verdicts: []insight.Verdict{insight.Loses},
						Loss: insight.Loss{Sent: 3, Lost: 3}}, {Place: insight.Place{Node: "日本語のとても長い名前のルーター"}}}}}},
		},
	}
}

const topWanted = `waymark top  1m to 16:13:05Z  214 records  sampled 50%  7 left out  clocks: err…
2001:db8:1::/64 > cust7   214 packets   0.30% lost between the ends
  PATH  SHARE             PACKETS     p50     p95     p99    max  LOST
  A       55%  1 > 2 > 3      118  40.0µs  80.0ms  84.9ms  1.30s  8.1%
    HOP        HELD p99  QUEUE  NEXT p50     p99  LOST  TREND  VERDICT
    1 >101            -      -    14.0µs  31.0µs     -  ▂▂
    2 201>202    12.0µs     83    20.0µs  84.7ms  8.1%   ▁▁▄█  SLOW, LOSES
    3 301>            -      -         -       -     -
  B       45%  1 > 3           96       -       -       -      -     -
`

// The table at 80 columns, and at every other width: no line is longer, the answers are always there, and
// nothing of the network reaches the terminal raw.
func TestTopTable(t *testing.T) {
	r := topReport()
	events := []*record.Event{{Name: record.EventPathsMoved, Facts: "a > b: 38% from r1 to r\x1b[2J\u202e\u009b, p99 +2.1µs"}}
	var b strings.Builder
	if err := writeTop(&b, topStyle{width: 80}, r, events, false); err != nil || !strings.HasPrefix(b.String(), topWanted) {
		t.Errorf("%v\n%s\nwant\n%s", err, b.String(), topWanted)
	}
	for width := leastTopWidth; width < 220; width++ {
		for _, ascii := range []bool{false, true} {
			b.Reset()
			if err := writeTop(&b, topStyle{width: width, ascii: ascii}, r, events, false); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n") {
				if columns.Width(line) > width {
					t.Errorf("width %d: %q", width, line)
				}
				for _, c := range line {
					if c < ' ' || c == 0x7f || ascii && c >= 0x80 || c == 0x202e {
						t.Errorf("width %d: %q", width, line)
					}
				}
			}
			if !strings.Contains(b.String(), "SLOW, LOSES") && width >= 60 || !strings.Contains(b.String(), "84.7ms") && width >= 60 {
				t.Errorf("width %d lacks the answer:\n%s", width, b.String())
			}
		}
	}
	b.Reset()
	if err := writeTop(&b, topStyle{width: 200}, r, events, false); err != nil || !strings.Contains(b.String(), "USUAL p95") ||
		!strings.Contains(b.String(), "INCOMPLETE") ||
		!strings.Contains(b.String(), "25.0µs") ||
		!strings.HasSuffix(b.String(), "Z paths_moved: a > b: 38% from r1 to r?[2J??, p99 +2.1µs\n") {
		t.Errorf("wide: %v\n%s", err, b.String())
	}
	if strings.Contains(b.String(), "QUEUES HERE") || !strings.Contains(b.String(), "QUEUED p99") {
		t.Errorf("queues that are not measured: %s", b.String())
	}
	wait := func(d time.Duration) *int64 { ns := int64(d); return &ns }
	r.Pairs[0].Paths[0].Hops[1].Queued = &insight.Quantiles{Count: 118, P99: wait(84600 * time.Microsecond)}
	r.Queues = &insight.Queues{Interfaces: []insight.InterfaceQueue{
		{Interface: "east0\x1b[2J", Waits: r.Pairs[0].Paths[0].Hops[1].Queued, Dropped: 81}, {Interface: "idle0"},
		{Interface: "full0", Dropped: 7}}}
	r.Queues.Interfaces[0].Waits.P50, r.Queues.Interfaces[0].Waits.P95, r.Queues.Interfaces[0].Waits.Max = wait(1000), wait(2000), wait(1e9)
	b.Reset()
	if err := writeTop(&b, topStyle{width: 80, ascii: true}, r, nil, false); err != nil || !strings.Contains(b.String(), "QUEUED p99") ||
		strings.Count(b.String(), "84.6ms") != 2 ||
		!strings.Contains(b.String(), "full0") || strings.Contains(b.String(), "idle0") || strings.Contains(b.String(), "\x1b") {
		t.Errorf("queues: %v\n%s", err, b.String())
	}
	for line := range strings.SplitSeq(b.String(), "\n") {
		if columns.Width(line) > 80 {
			t.Errorf("queues: %q", line)
		}
	}
	if all := (topStyle{width: 80}).lines(r, func(string, bool) bool { return true }); !strings.Contains(
		all[8].text+all[9].text+all[10].text,
		"+~",
	) {
		t.Errorf("paths whose delays cannot be compared: %v", all)
	}
}

// A table that does not have the hops of all paths says so; a screen, where they are shown on demand, does not.
func TestTopSaysWhoseHopsItShows(t *testing.T) {
	text := func(r *insight.Report, expanded func(string, bool) bool) string {
		var b strings.Builder
		for _, line := range (topStyle{width: 80}).lines(r, expanded) {
			b.WriteString(line.text + "\n")
		}
		return b.String()
	}
	r := topReport()
	if got := text(r, nil); strings.Count(got, hopsNote+"\n") != 1 {
		t.Errorf("%s\nlacks %q", got, hopsNote)
	}
	if got := text(r, func(string, bool) bool { return false }); strings.Contains(got, hopsNote) {
		t.Errorf("on a screen:\n%s", got)
	}
	r.Pairs = r.Pairs[:1]
	r.Pairs[0].Paths = r.Pairs[0].Paths[:1]
	if got := text(r, nil); strings.Contains(got, hopsNote) {
		t.Errorf("nothing is missing:\n%s", got)
	}
}

// Without a verdict, the hops are those of the busiest path that has delays, in a table and on a screen.
func TestTopShowsWhereDelaysAre(t *testing.T) {
	r := topReport()
	r.Pairs = r.Pairs[:1]
	pair, q := &r.Pairs[0], r.Pairs[0].Paths[0].Delay
	pair.Paths = nil
	for i, p := range []insight.PathReport{{Packets: 900}, {Packets: 5, Delay: q}, {Packets: 80, Delay: q}, {Packets: 70, Delay: q}} {
		first, last := insight.Place{Node: fmt.Sprint("node", i)}, insight.Place{Node: "end"}
		p.ID, p.Hops = fmt.Sprint(i), []insight.HopReport{{Place: first}, {Place: last}}
		pair.Paths = append(pair.Paths, p)
	}
	shown := func(expanded func(string, bool) bool) string {
		var b strings.Builder
		for _, line := range (topStyle{width: 80}).lines(r, expanded) {
			if strings.HasPrefix(line.text, "    node") {
				b.WriteString(strings.Fields(line.text)[0])
			}
		}
		return b.String()
	}
	byDefault := func(_ string, byDefault bool) bool { return byDefault }
	if table, screen := shown(nil), shown(byDefault); table != "node2" || screen != "node2" {
		t.Errorf("hops of %q and %q, want those of node2", table, screen)
	}
	s := topScreen{report: r, expanded: map[string]bool{}}
	for i := range pair.Paths {
		if got := s.isExpanded(pathKey(pair, &pair.Paths[i])); got != (i == 2) {
			t.Errorf("path %d on a screen: %v", i, got)
		}
	}
	for i := range pair.Paths {
		pair.Paths[i].Delay = nil
	}
	pair.Paths[3].Hops[0].Held = q
	if got := shown(nil); got != "node3" {
		t.Errorf("with delays of a hop alone: hops of %q", got)
	}
	pair.Paths[3].Hops[0].Held = nil
	if got := shown(nil); got != "node0" {
		t.Errorf("without delays: hops of %q, want those of the first", got)
	}
}

func TestTopDelays(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ns", 1: "1ns", 999: "999ns", 1000: "1.00µs", 9994: "9.99µs", 9996: "10.0µs", 99960: "100µs", 999499: "999µs", 999500: "1.00ms",
		84_700_000:  "84.7ms",
		999_600_000: "1.00s", 12 * time.Second: "12.0s", time.Hour: "3600s",
	} {
		if got := (topStyle{}).delay(int64(d)); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
	for l, want := range map[insight.Loss]string{{}: "-", {Sent: 10}: "0.0%", {Sent: 1000, Lost: 81}: "8.1%", {Sent: 1e6, Lost: 1}: "<0.01%",
		{Sent: 1e4, Lost: 20}: "0.20%", {Sent: 1, Lost: 5}: "100.0%"} {
		if got := lossShare(l); got != want {
			t.Errorf("%+v: %s, want %s", l, got, want)
		}
	}
}

// A path of which one hop is not known has no loss, not even one of zero, and comes before those that lose nothing.
func TestTopUncertain(t *testing.T) {
	hop := func(node string, l insight.Loss, uncertain uint64) insight.HopReport {
		h := insight.HopReport{Place: insight.Place{Node: node}, Packets: l.Sent, Loss: l, Uncertain: uncertain}
		if uncertain > 0 {
			h.Verdicts = []insight.Verdict{insight.Uncertain}
		}
		return h
	}
	r := &insight.Report{Pairs: []insight.PairReport{{Source: "a", Destination: "b", Packets: 3000, Paths: []insight.PathReport{
		{ID: "flow", Flow: "idle", Packets: 2000, Share: 0.6, Loss: &insight.Loss{Sent: 2000}, Hops: []insight.HopReport{hop("r1", insight.Loss{Sent: 2000}, 0), hop("r4", insight.Loss{}, 0)}},
		{ID: "flow", Flow: "south", Packets: 1000, Share: 0.3, Hops: []insight.HopReport{
			hop("r1", insight.Loss{Sent: 1000}, 0), hop("r2", insight.Loss{Sent: 900}, 3), hop("r3", insight.Loss{}, 0)}},
		{ID: "flow", Flow: "north", Packets: 100, Share: 0.1, Hops: []insight.HopReport{
			hop("r1", insight.Loss{Sent: 100, Lost: 3}, 1), hop("r5", insight.Loss{}, 0)}},
	}}}}
	filterAndSort(r, "loss", "", nil)
	var b strings.Builder
	if err := writeTop(&b, topStyle{width: 80}, r, nil, false); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		if words := strings.Fields(line); len(words) > 3 && (strings.Contains(line, "flow ") || words[0][0] == 'r') {
			rows = append(rows, strings.Join(words, " "))
		}
	}
	got := strings.Join(rows, "\n")
	const want = `A 10% flow north: r1 > r5 100 - - - - -
r1 - - - - - - 3.0% UNCERTAIN
r5 - - - - - - -
B 30% flow south: r1 > r2 > r3 1000 - - - - -
r1 - - - - - - 0.0%
r2 - - - - - - - UNCERTAIN
r3 - - - - - - -
C 60% flow idle: r1 > r4 2000 - - - - 0.0%`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// topHarness presses keys at a live table, whose agent counts how often it is asked.
type topHarness struct {
	t     *testing.T
	s     tea.Model
	then  tea.Cmd
	asked int
}

func newTopHarness(t *testing.T) *topHarness {
	h := &topHarness{t: t}
	h.s = topScreen{flags: topFlags{sort: "packets"}, report: topReport(), style: topStyle{colour: true}, expanded: map[string]bool{},
		ask: func() topAnswer { h.asked++; return topAnswer{report: topReport()} }}
	h.update(tea.WindowSizeMsg{Width: 80, Height: 24})
	return h
}

func (h *topHarness) update(m tea.Msg)             { h.s, h.then = h.s.Update(m) }
func (h *topHarness) press(code rune, text string) { h.update(tea.KeyPressMsg{Code: code, Text: text}) }
func (h *topHarness) screen() topScreen            { return h.s.(topScreen) }

func (h *topHarness) check(what string, has bool, text string) {
	h.t.Helper()
	shown := h.screen().content()
	lines := strings.Split(shown, "\n")
	if strings.Contains(shown, text) != has || len(lines) != h.screen().height {
		h.t.Errorf("%s: want %q %v in %d lines:\n%s", what, text, has, h.screen().height, shown)
	}
	for _, line := range lines {
		for _, code := range []string{reverse, bold, normal} {
			line = strings.ReplaceAll(line, code, "")
		}
		if columns.Width(line) > h.screen().style.width || strings.Contains(line, "\x1b") {
			h.t.Errorf("%s: %q", what, line)
		}
	}
}

// Keys of the live table: choose, expand, order, filter, copy.
func TestTopKeys(t *testing.T) {
	h := newTopHarness(t)
	h.check("at first", true, "q quit  space freeze  s sort: packets")
	h.check("at first", true, bold+"    2 201>202")
	h.press(tea.KeyDown, "")
	h.check("chosen", true, reverse+"> A ")
	h.press(tea.KeyDown, "")
	h.check("the next one", true, reverse+"> B ")
	h.check("its hops", false, "1 >102")
	h.press(tea.KeyEnter, "")
	h.check("its hops", true, "1 >102")
	h.press(tea.KeyEnter, "")
	h.check("hidden again", false, "1 >102")
	h.press('s', "s")
	h.check("order", true, "s sort: delay")
	h.press('/', "/")
	for _, c := range "CUSTx" {
		h.press(c, string(c))
	}
	h.press(tea.KeyBackspace, "")
	h.press(tea.KeyEscape, "")
	h.check("no filter", true, "other")
	h.press('/', "/")
	for _, c := range "cust" {
		h.press(c, string(c))
	}
	h.press(tea.KeyEnter, "")
	h.check("filter", false, "> other")
	h.check("filter", true, "/ filter: cust")
	h.press('c', "c")
	h.check("copy", true, "copied: waymark top --since 2026-11-21T16:12:05Z --until 2026-11-21T16:13:0")
	if got := fmt.Sprint(h.then()); got != "waymark top --since 2026-11-21T16:12:05Z --until 2026-11-21T16:13:05Z --sort delay --filter cust" {
		t.Errorf("copied: %q", got)
	}
}

// Freeze, help, an agent that does not answer, sizes, and the end.
func TestTopScreen(t *testing.T) {
	h := newTopHarness(t)
	h.press('?', "?")
	h.check("help", true, "two clocks cannot tell")
	h.press('?', "?")
	h.press('p', "p")
	h.check("frozen", true, "FROZEN")
	if h.update(topTick{}); h.asked != 0 || h.screen().waiting {
		t.Error("it asks although it is frozen")
	}
	h.press('p', "p")
	h.update(topTick{})
	if !h.screen().waiting {
		t.Error("it does not ask")
	}
	h.update(topAnswer{err: fmt.Errorf("the agent \x1b[2J ended")})
	h.check("no answer", true, "no answer since")
	h.update(
		topAnswer{report: &insight.Report{Records: 4321}, events: []*record.Event{{Name: record.EventLoss, Facts: "packets are lost \x1b[2J"}}},
	)
	h.check("the newest event", true, "Z loss_began: packets are lost ?[2J\n")
	if n := strings.Count(h.screen().content(), "\n"); n != 23 {
		t.Errorf("%d lines", n+1)
	}
	h.check("the newest", true, "4321 records")
	h.check("nothing there", true, "no packets")
	h.press(tea.KeyDown, "")
	h.press(tea.KeyEnter, "")
	h.update(tea.WindowSizeMsg{Width: 40, Height: 3})
	h.check("small", true, "waymark top")
	if h.press('q', "q"); fmt.Sprintf("%T", h.then()) != "tea.QuitMsg" {
		t.Errorf("q: %T", h.then())
	}
}

// The command asks the agent for what its flags say.
func TestTopCommand(t *testing.T) {
	answer, err := json.Marshal(topReport())
	if err != nil {
		t.Fatal(err)
	}
	agent := newFakeAgent(t, map[string]string{"GET /v1/history": string(answer)})
	run := func(args ...string) (out, errs string, code int) {
		code, out, errs = runCLI(t, "", append(args, "--socket", agent.socket)...)
		return out, errs, code
	}
	out, errs, code := run("top", "--count", "1", "--prefix", "cust7=2001:db8:7::/48", "--sort", "loss")
	if code != 0 || !strings.Contains(out, "cust7") || strings.Contains(out, "other") ||
		agent.last() != "GET /v1/history?last=1m0s&live=true&prefix=cust7%3D2001%3Adb8%3A7%3A%3A%2F48" {
		t.Errorf("%d %s\n%s\n%s", code, agent.last(), out, errs)
	}
	out, _, code = run("top", "--json", "--since", "2026-11-21T12:03:00Z", "--until", "2026-11-21T12:05:00Z")
	var read insight.Report
	if err := json.Unmarshal([]byte(out), &read); err != nil || code != 0 || len(read.Pairs) != 2 ||
		agent.last() != "GET /v1/history?since=2026-11-21T12%3A03%3A00Z&until=2026-11-21T12%3A05%3A00Z" {
		t.Errorf("%d %s %v\n%s", code, agent.last(), err, out)
	}
	for _, args := range []string{"--sort x", "--last 5ms", "--interval 1ms", "--count -1", "--since noon", "--last 1m --since 12:00"} {
		if _, errs, code := run(append([]string{"top"}, strings.Fields(args)...)...); code != commandline.ExitUsage {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"11:59": "2026-11-21T11:59:00Z", "12:03": "2026-11-20T12:03:00Z",
		"00:00:01Z": "2026-11-21T00:00:01Z"} {
		if at, err := parseMoment("since", text, now); err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v", text, at, err)
		}
	}
}

// A table of very many flows lists the first ones, and all with a verdict; a screen lists all.
func TestTopOfManyFlows(t *testing.T) {
	r := topReport()
	r.Pairs = r.Pairs[:1]
	paths := r.Pairs[0].Paths[1:]
	for i := range 100 {
		hops := []insight.HopReport{{Place: insight.Place{NodeID: 1}}, {Place: insight.Place{NodeID: 3}}}
		if i == 90 {
			hops[0].Verdicts = []insight.Verdict{insight.Loses}
		}
		paths = append(paths, insight.PathReport{ID: "flow", Flow: fmt.Sprintf("flow%d.", i), FlowID: uint32(i), Hops: hops})
	}
	r.Pairs[0].Paths = paths
	for _, screen := range []bool{false, true} {
		var expanded func(string, bool) bool
		if screen {
			expanded = func(string, bool) bool { return false }
		}
		var b strings.Builder
		for _, line := range (topStyle{width: 80}).lines(r, expanded) {
			b.WriteString(line.text + "\n")
		}
		text := b.String()
		for flow, want := range map[int]bool{0: true, 14: true, 15: screen, 89: screen, 90: true, 99: screen} {
			if strings.Contains(text, fmt.Sprintf("flow%d.", flow)) != want {
				t.Errorf("screen %v, flow %d:\n%s", screen, flow, text)
			}
		}
		if strings.Contains(text, "  and 84 more without a verdict; --json has all\n") == screen {
			t.Errorf("screen %v:\n%s", screen, text)
		}
	}
}
