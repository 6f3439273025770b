// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"
)

func TestDroppedAtEdge(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    EdgeDrops
		says string // of both directions; "" is no warning
	}{
		{"nothing", EdgeDrops{}, ""},
		{"a few", EdgeDrops{IOAM: 5, Unproven: 2, Tunnel: 2}, ""},
		{"IOAM", EdgeDrops{IOAM: 50}, ": 50 with IOAM (boundary_dropped)"},
		{"a few of each", EdgeDrops{IOAM: 4, Unproven: 4, Tunnel: 4}, ": 4 with IOAM (boundary_dropped), 4 that may hold IOAM (boundary_unproven_dropped), 4 to tunnel destinations of the domain (boundary_tunnel_dropped)"},
	} {
		for direction, ws := range map[string][]Warning{"ingress": DroppedOnArrival("eth0", tt.d), "egress": DroppedOnDeparture("eth0", tt.d)} {
			checkLength(t, ws)
			if tt.says == "" {
				if len(ws) != 0 {
					t.Errorf("%s: %+v", tt.name, ws)
				}
				continue
			}
			if len(ws) != 1 || ws[0].Code != DroppedAtEdge || ws[0].Severity != Degraded || ws[0].Interface != "eth0" ||
				!strings.HasSuffix(
					ws[0].Text,
					"no "+direction+" role"+tt.says,
				) || !strings.Contains(ws[0].Cure, "waymark interface set eth0 role ingress,egress") {
				t.Errorf("%s, %s: %+v", tt.name, direction, ws)
			}
		}
	}
}

func TestRejectedProofs(t *testing.T) {
	for _, tt := range []struct {
		name       string
		p          Proofs
		says, cure string // "" is no warning
	}{
		{"nothing", Proofs{}, "", ""},
		{"all right", Proofs{Accepted: 500}, "", ""},
		{"a few", Proofs{Rejected: 9}, "", ""},
		{"some of many", Proofs{Accepted: 1000, Rejected: 20, Dropped: 20}, "", ""},
		{"not dropped yet", Proofs{Rejected: 20}, "eth0 refused 20 proofs of transit in the last minute (pot_rejected 20) and accepted 0: packets skipped or repeated a node", "waymark pot generate"},
		{"not dropped yet, the fate", Proofs{Rejected: 20}, "their packets went on", "pot_updated"},
		{"dropped", Proofs{Accepted: 100, Rejected: 15, Invalid: 5, Dropped: 20}, "20 packets were dropped (pot_dropped)", "drop-rejected: false"},
		{"replayed", Proofs{Accepted: 20, Replayed: 15, TooOld: 5}, "(pot_replayed 15, pot_too_old 5) and accepted 20: their numbers came before", "replays"},
		{"ahead", Proofs{Accepted: 20, Replayed: 15, Ahead: 25}, "(pot_replayed 15, pot_ahead 25) and accepted 20: their numbers are ahead", "synchronise the clocks"},
	} {
		ws := RejectedProofs("eth0", tt.p)
		checkLength(t, ws)
		if tt.says == "" {
			if len(ws) != 0 {
				t.Errorf("%s: %+v", tt.name, ws)
			}
			continue
		}
		if len(ws) != 1 || ws[0].Code != ProofsRejected || ws[0].Severity != Degraded || ws[0].Interface != "eth0" ||
			!strings.Contains(ws[0].Text, tt.says) || !strings.Contains(ws[0].Cure, tt.cure) {
			t.Errorf("%s: %+v", tt.name, ws)
		}
	}
}

func TestFailedRemovals(t *testing.T) {
	if ws := FailedRemovals("eth0", 0); len(ws) != 0 {
		t.Errorf("%+v", ws)
	}
	ws := FailedRemovals("eth0", 3)
	checkLength(t, ws)
	if len(ws) != 1 || ws[0].Code != RemovalFailed || ws[0].Severity != Degraded || ws[0].Interface != "eth0" ||
		!strings.Contains(ws[0].Text, "3 packets at eth0 in the last minute (decap_failed)") || !strings.Contains(ws[0].Cure, "boundary: drop") {
		t.Errorf("%+v", ws)
	}
}

func TestSkippedOffloaded(t *testing.T) {
	if ws := SkippedOffloaded("eth0", "a", worthWarning-1); len(ws) != 0 {
		t.Errorf("%+v", ws)
	}
	ws := SkippedOffloaded("eth0", "a", worthWarning)
	checkLength(t, ws)
	if len(ws) != 1 || ws[0].Code != OffloadUnnumbered || ws[0].Severity != Hint || ws[0].Interface != "eth0" ||
		!strings.Contains(ws[0].Text, "(encap_skipped_gso)") || !strings.Contains(ws[0].Cure, "gro off") {
		t.Errorf("%+v", ws)
	}
}
