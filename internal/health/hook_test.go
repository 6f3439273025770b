// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"strings"
	"testing"
	"time"
)

func TestCheckHook(t *testing.T) {
	begin := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	later := begin.Add(2 * time.Second)
	for _, tt := range []struct {
		name     string
		hook     Hook
		code     Code
		severity Severity
		text     []string
	}{
		{"as it should be", Hook{}, "", "", nil},
		{"off", Hook{OffSince: begin, Next: later}, HookDetached, Degraded, []string{"being put back", "no trace"}},
		{"off and refused", Hook{OffSince: begin, Next: later, Fault: "add clsact: exists"}, HookDetached, Degraded, []string{"cannot be put back in tcx: add clsact: exists"}},
		{"off and refused, to be tried now", Hook{OffSince: begin, Fault: "add clsact: exists"}, HookDetached, Degraded, []string{"exists; it is tried again;"}},
		{"away, and moved now", Hook{AwaySince: begin}, HookDisplaced, Degraded, []string{"it is being moved"}},
		{"away, and moved later", Hook{AwaySince: begin, Next: later.Add(time.Millisecond)}, HookDisplaced, Degraded, []string{"the next move is at 2026-11-27T12:00:03Z"}},
		{"off at an edge", Hook{Boundary: "drop", OffSince: begin, OffUntil: later, Repairs: 3}, HookDetached, Error, []string{"back in tcx since 2026-11-27T12:00:02Z", "boundary: drop", "3 times"}},
		{"away at an edge", Hook{Boundary: "strip", Place: "first", AwaySince: begin, Before: []string{"cil_to_netdev (tcx, id 7)"}}, HookDisplaced, Error, []string{"(first)", "cil_to_netdev", "boundary: strip"}},
		{"back in its place", Hook{AwaySince: begin, AwayUntil: later}, HookDisplaced, Degraded, []string{"there again"}},
		{"behind XDP", Hook{XDP: []string{"xdp_dispatcher (xdp, id 9)"}}, HookPreceded, Info, []string{"xdp_dispatcher"}},
		{"an edge behind XDP", Hook{Boundary: "drop", XDP: []string{"xdp_dispatcher (xdp, id 9)"}}, HookPreceded, Degraded, []string{"xdp_dispatcher"}},
		{"first, and behind tcx", Hook{Mode: "clsact", Place: "first", Before: []string{"cil (tcx, id 7)"}}, HookPreceded, Info, []string{"cil", "attach: auto"}},
		{"an edge that cannot be first", Hook{Mode: "clsact", Place: "first", Boundary: "drop", Before: []string{"cil (tcx, id 7)"}}, HookPreceded, Error, []string{"attach: auto"}},
		{"an edge that is last", Hook{Place: "last", Boundary: "drop", Before: []string{"cil (tcx, id 7)"}}, HookPreceded, Degraded, []string{"set place: first at eth1"}},
		{"off, the next look not yet known", Hook{OffSince: begin}, HookDetached, Degraded, []string{"it is being put back;"}},
		{"changed", Hook{Changed: begin, ChangedUntil: later}, HookChanged, Info, []string{"2026-11-27T12:00:00Z and 2026-11-27T12:00:02Z"}},
		{"changed at an edge", Hook{Place: "first", Boundary: "drop", Changed: begin, ChangedUntil: later}, HookChanged, Error, []string{"until then the edge of the domain was open"}},
		{"changed where others may come first", Hook{Place: "after x", Boundary: "drop", Changed: begin, ChangedUntil: later}, HookChanged, Info, []string{"may run earlier"}},
		{"bypassed", Hook{Unseen: 123, UnseenSince: begin}, HookBypassed, Degraded, []string{"none of 123 packets"}},
		{"an edge bypassed", Hook{Boundary: "drop", Unseen: 123, UnseenSince: begin}, HookBypassed, Error, []string{"open"}},
	} {
		tt.hook.Interface, tt.hook.Direction, tt.hook.Mode = "eth1", "egress", cmp.Or(tt.hook.Mode, "tcx")
		ws := CheckHook(tt.hook)
		if tt.code == "" {
			if len(ws) != 0 {
				t.Errorf("%s: %+v", tt.name, ws)
			}
			continue
		}
		if len(ws) != 1 || ws[0].Code != tt.code || ws[0].Severity != tt.severity || ws[0].Title == "" || ws[0].Cure == "" {
			t.Errorf("%s: %+v, want %s of severity %s", tt.name, ws, tt.code, tt.severity)
			continue
		}
		for _, part := range append(tt.text, "eth1 egress") {
			if !strings.Contains(ws[0].Text+"; "+ws[0].Cure, part) {
				t.Errorf("%s: %q does not contain %q", tt.name, ws[0].Text, part)
			}
		}
	}
}
