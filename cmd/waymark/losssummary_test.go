// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// summaryOf is a summary of lossLines, and of ten minutes in which the flow red lost more and more.
func summaryOf(t *testing.T) *lossSummary {
	t.Helper()
	s := &lossSummary{now: time.Date(2026, 11, 23, 12, 0, 7, 0, time.UTC)}
	for _, line := range append([]string{lossLines[4], lossLines[2]}, lossLines...) {
		if err := s.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	for minute := range 12 {
		at := s.now.Add(-time.Duration(minute) * time.Minute)
		line := strings.NewReplacer("2026-11-23T12:00:05.000000000Z", at.Format(time.RFC3339Nano), `"lost":10`,
			fmt.Sprintf(`"lost":%d`, 12-minute)).
			Replace(lossLines[0])
		if minute == 4 {
			line = strings.Replace(line, `"received":990,"lost":8`, `"received":null,"lost":null`, 1) // not known
		}
		if err := s.addPast([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// The worst comes first, with its loss of the last minutes, in 80 columns.
func TestLossSummary(t *testing.T) {
	for _, tt := range []struct {
		screen columns.Screen
		want   string
	}{
		{columns.Screen{Width: 80}, `
last block 12:00:05 UTC, 1s; trend: loss of the last 10 minutes

FLOW   FROM     TO              LOST  SHARE   DELAY  TREND       NOTE
red    ingress  2001:db8:ff::3    10     1%  18.4µs  ▃▄▄▅▆·▇▇██  flow_loss_high…
blue   0        1                  -      -       -  -           uncertain, mis…
north  ingress  egress             -      -       -  -           uncertain, oth…
north  middle   egress             0     0%       -  -           selection_assu…
flow_loss_high, flow_delay_high: red (ingress to 2001:db8:ff::3)
uncertain, missing: blue (0 to 1)
uncertain, other_selection: north (ingress to egress)
selection_assumed: north (middle to egress)
other_selection of flow north at egress: traffic class 0x00 instead of any
`},
		{columns.Screen{Width: 110}, `
last block 12:00:05 UTC, 1s; trend: loss of the last 10 minutes

FLOW   FROM     TO              LOST  SHARE   DELAY  PACKETS/S  TREND       NOTE
red    ingress  2001:db8:ff::3    10     1%  18.4µs       1000  ▃▄▄▅▆·▇▇██  flow_loss_high, flow_delay_high
blue   0        1                  -      -       -          7  -           uncertain, missing
north  ingress  egress             -      -       -          7  -           uncertain, other_selection
north  middle   egress             0     0%       -          7  -           selection_assumed
other_selection of flow north at egress: traffic class 0x00 instead of any
`},
	} {
		var b bytes.Buffer
		if err := summaryOf(t).write(&b, tt.screen); err != nil || "\n"+b.String() != tt.want {
			t.Errorf("%+v: %v\n%s\nwant%s", tt.screen, err, b.String(), tt.want)
		}
	}
	var b bytes.Buffer
	if err := summaryOf(t).write(&b, columns.Screen{Width: 110, ASCII: true, Colour: true}); err != nil ||
		!strings.Contains(b.String(), "18.4us") ||
		!strings.Contains(b.String(), ":--=+.**##") ||
		!strings.Contains(b.String(), "\x1b[31m10\x1b[0m") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Notes for which the table has no room are below it: each once, with some of its flows.
func TestCutNotes(t *testing.T) {
	s := &lossSummary{}
	for i := range 7 {
		l := &record.Loss{Verdict: loss.Uncertain, ToReasons: loss.Missing | loss.OtherSelection}
		l.Flow = fmt.Sprintf("flow-%d", i)
		s.of(&l.Measurement).last = l
	}
	var b strings.Builder
	if err := s.write(&b, columns.Screen{Width: 60}); err != nil {
		t.Fatal(err)
	}
	const want = `
uncertain, missing, other_selection: flow-0 (0 to 0), flow-1
  (0 to 0), flow-2 (0 to 0), flow-3 (0 to 0), 3 more
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("%swant at its end%s", b.String(), want)
	}
	b.Reset()
	if err := s.write(&b, columns.Screen{}); err != nil || strings.Contains(b.String(), "more") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// A flow that sent nothing is no reason to look: it comes after those that are not known, and after those that lost nothing.
func TestIdleFlowsComeLast(t *testing.T) {
	s := &lossSummary{}
	add := func(flow string, change func(*record.Loss)) {
		l := &record.Loss{Verdict: loss.Measured, Sent: record.NewField(uint64(100), true), Lost: record.NewField(uint64(0), true)}
		l.Ratio, l.Flow = record.NewField(0.0, true), flow
		change(l)
		s.of(&l.Measurement).last = l
	}
	idle := func(l *record.Loss) {
		l.Verdict, l.Sent, l.Ratio = loss.Idle, record.NewField(uint64(0), true), record.Field[float64]{Present: true}
	}
	add("idle", idle)
	add("whole", func(*record.Loss) {})
	add("warned", func(l *record.Loss) { idle(l); l.Warning = "flow_delay_high" })
	add("uncertain", func(l *record.Loss) {
		idle(l)
		l.Verdict, l.Lost = loss.Uncertain, record.Field[uint64]{Present: true}
	})
	add("loses", func(l *record.Loss) { l.Lost.Value, l.Ratio.Value = 1, 0.01 })
	var b strings.Builder
	if err := s.write(&b, columns.Screen{Width: 80}); err != nil {
		t.Fatal(err)
	}
	var order []string
	for line := range strings.Lines(b.String()) {
		if words := strings.Fields(line); len(words) > 3 && words[1] == "0" {
			order = append(order, words[0])
		}
	}
	if got := strings.Join(order, " "); got != "warned loses uncertain whole idle" {
		t.Errorf("%s\n%s", got, b.String())
	}
}

// The command asks for the last block and for the last minutes, of all flows or of one.
func TestLossCommand(t *testing.T) {
	f := newFakeAgent(
		t,
		map[string]string{
			"GET /v1/loss":         "[" + strings.Join(lossLines[:5], ",") + "]",
			"GET /v1/loss/history": "",
			"GET /v1/flows":        `[{"flow":{"name":"red","direction":"out","source":"2001:db8::1","segments":["fc00::1"]}}]`,
		},
	)
	code, stdout, stderr := runCLI(t, "", "--socket", f.socket, "loss")
	if code != 0 || strings.Count(stdout, "\n") != 12 || stderr != "" {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, _ = runCLI(t, "", "--socket", f.socket, "loss", "--flow", "red"); code != 0 || strings.Count(stdout, "\n") != 5 ||
		!strings.Contains(stdout, "\nred ") {
		t.Errorf("code %d\n%s", code, stdout)
	}
	for _, args := range [][]string{{"loss", "--verbose"}, {"loss", "--verbose", "--wide"}} {
		code, stdout, _ := runCLI(t, "", append([]string{"--socket", f.socket}, args...)...)
		wide := false
		for line := range strings.Lines(stdout) {
			wide = wide || columns.Width(strings.TrimSuffix(line, "\n")) > 80
		}
		if code != 0 || strings.Count(stdout, "\n") != 7 || wide != (len(args) == 3) {
			t.Errorf("%s: code %d\n%s", args, code, stdout)
		}
	}
}
