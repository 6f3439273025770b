// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"strings"
	"testing"
)

func TestParseTraceType(t *testing.T) {
	for text, want := range map[string]TraceType{
		"0xf80000": 0xf80000, " 16252928": 0xf80000, "0": 0, "0xffffff": 0xffffff,
		"ids": 0xc00000, "ids,timestamps,queue": 0xf20000, "ids, timestamps, delay": 0xf80000, "timestamps,timestamps": 0x300000,
		"node-id,interface-ids,timestamp-seconds,timestamp-fraction,delay,namespace-data,queue,checksum-complement": 0xff0000,
		"node-id-wide,interface-ids-wide,namespace-data-wide,buffer,snapshot":                                       0x00f002,
		"ids-wide": 0x00c000,
	} {
		if got, err := ParseTraceType(text); got != want || err != nil {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"0x1000000": "write it as 0xfff002, or by names", "": "write it as", "-1": "write it as", "ids,": `"" is no field of a trace`,
		"ids,times": `"times" is no field of a trace; want one of ids, timestamps`, "ids timestamps": "is no field", "IDS": "is no field",
		"0xc00000,queue": "write it as",
		"f80000":         `"f80000" lacks 0x before its digits; did you mean 0xf80000?`, "8E0000": "did you mean 0x8e0000?",
		"f8": `"f8" is no field of a trace`, "fade": `"fade" is no field of a trace`, // whose bits are undefined
	} {
		if got, err := ParseTraceType(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// Together, the names mean all bits that may be configured.
func TestTraceFields(t *testing.T) {
	all, err := ParseTraceType(strings.Join(TraceFieldNames(), ","))
	if all != TraceTypeSupported || err != nil {
		t.Errorf("%v, %v; want %v", all, err, TraceTypeSupported)
	}
}
