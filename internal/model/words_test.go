// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding"
	"fmt"
	"regexp"
	"testing"
)

type text interface {
	comparable
	fmt.Stringer
	encoding.TextMarshaler
}

func roundTrip[T text, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, v T, want string) {
	t.Helper()
	b, err := v.MarshalText()
	if err != nil || string(b) != want || v.String() != want {
		t.Errorf("%v: text %q, string %q, want %q; %v", v, b, v.String(), want, err)
	}
	var back T
	if err := P(&back).UnmarshalText([]byte(want)); err != nil || back != v {
		t.Errorf("%q became %v; %v", want, back, err)
	}
	before := back
	if err := P(&back).UnmarshalText([]byte("nonsense")); err == nil || back != before {
		t.Errorf("%T accepts nonsense: %v", v, err)
	}
}

func refused(t *testing.T, v encoding.TextMarshaler) {
	t.Helper()
	if b, err := v.MarshalText(); err == nil {
		t.Errorf("%T %v has the text %q", v, v, b)
	}
}

func TestWords(t *testing.T) {
	roundTrip(t, CompatibilityDefault, "default")
	roundTrip(t, CompatibilityMainline, "mainline")
	roundTrip(t, BoundaryDrop, "drop")
	roundTrip(t, BoundaryStrip, "strip")
	roundTrip(t, BoundaryIgnore, "ignore")
	roundTrip(t, ModeInline, "inline")
	roundTrip(t, ModeEncap, "encap")
	roundTrip(t, ModeAuto, "auto")
	roundTrip(t, Role(0), "none")
	roundTrip(t, RoleIngress, "ingress")
	roundTrip(t, RoleEgress, "egress")
	roundTrip(t, RoleIngress|RoleEgress, "ingress,egress")
	roundTrip(t, ExportNone, "none")
	roundTrip(t, ExportEvery, "every")
	roundTrip(t, ExportAggregate, "aggregate")
	roundTrip(t, ExportSample, "sample")
	roundTrip(t, OutcomeMalformedRemainingLength, "malformed_remaining_length")
	refused(t, Compatibility(2))
	refused(t, Boundary(3))
	refused(t, Mode(3))
	refused(t, ExportMode(4))
	refused(t, Role(4))
	refused(t, NumOutcomes)
	for want, v := range map[string]fmt.Stringer{
		"2": Compatibility(2), "4": Role(4),
		"encapsulating": RoleEncapsulating, "transit": RoleTransit, "decapsulating": RoleDecapsulating,
	} {
		if v.String() != want {
			t.Errorf("%T: %q, want %q", v, v, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	names := map[string]bool{}
	snake := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	for i, outcome := range Outcomes() {
		if int(outcome) != i || !snake.MatchString(outcome.String()) || outcome.Meaning() == "" || names[outcome.String()] {
			t.Errorf("outcome %d: %v, %q, %q", i, int(outcome), outcome, outcome.Meaning())
		}
		names[outcome.String()] = true
		if malformed := len(outcome.String()) > 10 && outcome.String()[:10] == "malformed_"; outcome.Malformed() != malformed {
			t.Errorf("%v: malformed %v", outcome, outcome.Malformed())
		}
		roundTrip(t, outcome, outcome.String())
	}
	if len(names) != int(NumOutcomes) || NumOutcomes.String() != fmt.Sprintf("outcome_%d", len(names)) || NumOutcomes.Malformed() {
		t.Errorf("%d names, %v", len(names), NumOutcomes)
	}
	for want, outcome := range map[string]Outcome{
		"not_ipv6": OutcomeNotIPv6, "no_ioam": OutcomeNoIOAM, "trace_filled": OutcomeTraceFilled, "direct_export": OutcomeDirectExport,
		"encap_skipped_mtu": OutcomeEncapSkippedMTU, "tunnel_decapsulated": OutcomeTunnelDecapsulated,
		"malformed_node_length": OutcomeMalformedNodeLength, "malformed_ipv6": OutcomeMalformedIPv6,
	} {
		if outcome.String() != want {
			t.Errorf("%d is %q, want %q", outcome, outcome, want)
		}
	}
}
