// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"testing"
)

func TestTimestampFormatWords(t *testing.T) {
	for want, f := range map[string]TimestampFormat{"posix": TimestampPOSIX, "ptp": TimestampPTP, "ntp": TimestampNTP} {
		text, err := f.MarshalText()
		if err != nil || string(text) != want || f.String() != want {
			t.Errorf("%d: text %q, string %q, want %q; %v", f, text, f, want, err)
		}
		back := TimestampFormat(99)
		if err := back.UnmarshalText([]byte(want)); err != nil || back != f {
			t.Errorf("%q became %v; %v", want, back, err)
		}
	}
	f := TimestampPTP
	if err := f.UnmarshalText([]byte("nonsense")); err == nil || f != TimestampPTP {
		t.Errorf("nonsense became %v; %v", f, err)
	}
	if text, err := TimestampFormat(3).MarshalText(); err == nil || TimestampFormat(3).String() != "3" {
		t.Errorf("format 3 has the text %q and the string %q", text, TimestampFormat(3))
	}
}

func TestTraceTypeWords(t *testing.T) {
	for want, k := range map[string]TraceType{"0xfff002": 0xfff002, "0x000001": 1} {
		text, err := k.MarshalText()
		if err != nil || string(text) != want {
			t.Errorf("%v: %q, want %q; %v", k, text, want, err)
		}
		var back TraceType
		if err := back.UnmarshalText(text); err != nil || back != k {
			t.Errorf("%q became %v; %v", text, back, err)
		}
	}
	for _, bad := range []string{"", "0x1000000", "-1", "fff002"} {
		if v, err := ParseTraceType(bad); err == nil {
			t.Errorf("%q is the trace type %v", bad, v)
		}
	}
}

func TestIOAMTypeNames(t *testing.T) {
	for want, v := range map[string]IOAMType{
		"pre-allocated": 0, "incremental": 1, "proof-of-transit": 2, "edge-to-edge": 3, "direct-export": 4, "option-type-64": 64,
	} {
		if v.String() != want {
			t.Errorf("%d is %q, want %q", v, v, want)
		}
	}
}
