// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

const (
	ethernetHeader = "0200000000010200000000 0286dd"
	addresses      = "20010db8000100000000000000000002 20010db8000200000000000000000002"
	innerUDP       = "6000000000081140" + addresses + "0fa0000900080000"
	// 16 bytes of header: PadN, a trace option of namespace 123 and type
	// 0x800000 with 4 bytes of node data; then PadN of 4.
	traceHeader = "02 0100 310e0000 007b0800 80000000 3f000002 01020000"
)

func TestIOAMBytes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame []byte
		want  int
	}{
		{"plain UDP", craft.Hex(t, ethernetHeader, innerUDP), 0},
		{"ARP", craft.Hex(t, "ffffffffffff0200000000010806", "0001"), 0},
		{"too short", craft.Hex(t, "0200"), 0},
		{"MLD report: router alert", craft.Hex(t, ethernetHeader, "6000000000100001", addresses, "3a00050200000100", "8f00000000000000"), 0},
		{"inline trace", craft.Hex(t, ethernetHeader, "6000000000200040", addresses, "11", traceHeader, "0fa0000900080000"), 16},
		{"tunnel", craft.Hex(t, ethernetHeader, "6000000000480040", addresses, "29", traceHeader, innerUDP), 16},
		{"trace inside a tunnel", craft.Hex(t, ethernetHeader, "6000000000482940", addresses, "6000000000200040", addresses, "11", traceHeader, "0fa0000900080000"), 16},
		{"E2E in destination options", craft.Hex(t, ethernetHeader, "6000000000103c40", addresses, "3b01", "1106 0003 007b0001", "010400000000"), 8},
		{"after a routing header", craft.Hex(t, ethernetHeader, "6000000000302b40", addresses, "0002040000000000", addresses[:32], "3b", traceHeader), 16},
		{"after a fragment header", craft.Hex(t, ethernetHeader, "6000000000182c40", addresses, "3c00000000000001", "3b01", "1106 0003 007b0001", "010400000000"), 8},
		{"cut in the option", craft.Hex(t, ethernetHeader, "6000000000200040", addresses, "1102 0100 310e0000 007b"), 6},
	} {
		if got := IOAMBytes(tt.frame); got != tt.want {
			t.Errorf("%s: %d bytes of IOAM, want %d", tt.name, got, tt.want)
		}
	}
}

func TestTraceRemains(t *testing.T) {
	// The header's length has been destroyed: no parser finds the option.
	broken := craft.Hex(t, ethernetHeader, "6000000000201140", addresses, "11", traceHeader)
	if IOAMBytes(broken) != 0 {
		t.Fatal("the parser finds the option; the case is pointless")
	}
	if !TraceRemains(broken, 123, 0x800000) {
		t.Error("the trace was not found")
	}
	if TraceRemains(broken, 124, 0x800000) || TraceRemains(broken, 123, 0x400000) {
		t.Error("a trace was found that is not there")
	}
	if TraceRemains(craft.Hex(t, ethernetHeader, innerUDP), 123, 0x800000) {
		t.Error("a plain packet has a trace")
	}
}
