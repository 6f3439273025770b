// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"

	"github.com/waymark-net/waymark/ioam"
)

// The line is that of iproute2: the trace type with the reserved octet, and the newest node first.
func TestMonitorLine(t *testing.T) {
	node := func(octets ...byte) ioam.NodeData { return ioam.NodeData{Type: 0xc00000, Bytes: octets} }
	for _, tt := range []struct {
		trace Trace
		want  string
	}{
		{Trace{Namespace: 123, TraceType: 0xc00000, Raw: []ioam.NodeData{node(0x40, 0, 0, 1, 0, 101, 0, 102),
			node(0x3f, 0, 0, 2, 0, 201, 0, 202)}},
			"[TRACE] Namespace=123 NodeLen=2 Type=0xc0000000 Data=3f00000200c900ca4000000100650066\n"},
		{Trace{Namespace: 0, TraceType: 0x000002}, "[TRACE] Namespace=0 NodeLen=0 Type=0x000200 Data=\n"},
	} {
		if got := tt.trace.MonitorLine(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
