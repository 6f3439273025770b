// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/commandline"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/instant"
)

// If an agent runs, it says whether the clock must be synchronised: in a lab it need
// not be.
func TestDoctorHeedsOneClock(t *testing.T) {
	const warning = `[{"code":"clock_unsynchronised","severity":"warning","title":"x","text":"y","cure":"z"}]`
	for _, tt := range []struct {
		name, answer string // of the agent; "" is none
		synchronised bool
		state        string
	}{
		{"no agent", "", false, "warning"},
		{"an agent that warns", warning, false, "warning"},
		{"an agent with --one-clock", "[]", false, "ok"},
		{"a synchronised clock", "[]", true, "ok"},
	} {
		socket := filepath.Join(t.TempDir(), "none")
		if tt.answer != "" {
			socket = newFakeAgent(t, map[string]string{"GET /v1/warnings": tt.answer}).socket
		}
		clock := func() (health.Clock, error) { return health.Clock{Synchronised: tt.synchronised}, nil }
		d := diagnose(t.Context(), health.Kernel{}, clock, api.NewClient(socket), &options{})
		i := slices.IndexFunc(d.Checks, func(c health.Check) bool { return c.Name == "clock" })
		if i < 0 || d.Checks[i].State != tt.state {
			t.Errorf("%s: checks %+v, want the clock's to be %s", tt.name, d.Checks, tt.state)
			continue
		}
		warnings := 0
		for _, w := range d.Warnings {
			if w.Code == health.ClockUnsynced {
				warnings++
			}
		}
		if want := map[string]int{"warning": 1}[tt.state]; warnings != want {
			t.Errorf("%s: %d warnings of the clock, want %d", tt.name, warnings, want)
		}
		if one := strings.Contains(d.Checks[i].Detail, "--one-clock"); one != (tt.name == "an agent with --one-clock") {
			t.Errorf("%s: %s", tt.name, d.Checks[i].Detail)
		}
	}
}

// Warnings fail only with --strict, hints never.
func TestDoctorStrict(t *testing.T) {
	for _, tt := range []struct {
		severity    health.Severity
		bad, strict bool
	}{{"", false, false}, {health.Hint, false, false}, {health.Info, false, false}, {health.Degraded, false, true},
		{health.Error, true, true}} {
		var ws []health.Warning
		if tt.severity != "" {
			ws = append(ws, health.Warning{Severity: health.Hint}, health.Warning{Severity: tt.severity})
		}
		if isTooSevere(ws, false) != tt.bad || isTooSevere(ws, true) != tt.strict {
			t.Errorf("%q: %v, with --strict %v", tt.severity, isTooSevere(ws, false), isTooSevere(ws, true))
		}
	}
	f := newFakeAgent(
		t,
		map[string]string{"GET /v1/warnings": `[{"code":"jit_disabled","severity":"warning","title":"x","text":"y","cure":"z"}]`},
	)
	if code, _, _ := runCLI(t, "", "--socket", f.socket, "doctor", "--strict"); code != commandline.ExitFailure {
		t.Errorf("code %d with a warning and --strict", code)
	}
}

// A problem with several places is shown once, with --verbose each place; JSON has all.
func TestDoctorGroups(t *testing.T) {
	var list []health.Warning
	for i := range 8 {
		list = append(list, health.New(health.MTUTooSmall, fmt.Sprintf("eth%d", i), fmt.Sprintf("text %d", i), "raise it"))
	}
	list[2].Since = instant.Of(time.Date(2026, 11, 27, 12, 3, 0, 0, time.UTC))
	list[5].Since = instant.Of(list[2].Since.Add(time.Minute))
	list = append(list, health.New(health.KernelIOAM6, "eth9", "twice", "off"), health.New(health.NamespaceUnknown, "eth9", "fifty", "add it"))
	answer, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeAgent(t, map[string]string{"GET /v1/warnings": string(answer)})
	_, folded, _ := runCLI(t, "", "--socket", f.socket, "doctor")
	for line := range strings.SplitSeq(folded, "\n") {
		if columns.Width(line) > columns.DefaultWidth {
			t.Errorf("wider than a screen: %q", line)
		}
	}
	_, short, _ := runCLI(t, "", "--socket", f.socket, "doctor", "--wide")
	if !slices.Equal(strings.Fields(folded), strings.Fields(short)) {
		t.Errorf("folded:\n%s\nwide:\n%s", folded, short)
	}
	const mtu = "warning: mtu_too_small (8 times, on eth0, eth1, eth2, eth3 and 4 more), " +
		"since 2026-11-27T12:03Z: the MTU is too small for full-size packets and the insertion\n  such as: text 0\n  cure: raise it\n"
	if strings.Count(short, "mtu_too_small") != 1 || !strings.Contains(short, mtu) ||
		!strings.Contains(short, "each with its text and cure: waymark doctor --verbose") ||
		strings.Index(short, "kernel_ioam6_enabled (eth9)") > strings.Index(short, "mtu_too_small") ||
		strings.Index(short, "mtu_too_small") > strings.Index(short, "namespace_unknown") {
		t.Errorf("%s", short)
	}
	_, long, _ := runCLI(t, "", "--socket", f.socket, "doctor", "--verbose", "--wide")
	if strings.Count(long, "mtu_too_small") != 8 || !strings.Contains(long, "text 7") || strings.Contains(long, "such as") {
		t.Errorf("%s", long)
	}
	if !strings.Contains(long, "mtu_too_small (eth5), since 2026-11-27T12:04Z: ") || !strings.Contains(long, "mtu_too_small (eth1): ") {
		t.Errorf("%s", long)
	}
	_, asJSON, _ := runCLI(t, "", "--json", "--socket", f.socket, "doctor")
	if strings.Count(asJSON, `"mtu_too_small"`) != 8 {
		t.Errorf("%s", asJSON)
	}
}
