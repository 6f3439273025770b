// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"slices"
	"strings"
)

// MonitorLine is a trace as "ip ioam monitor" of iproute2 prints the kernel's events: the data of
// all nodes, the newest first, as they are in the packet. The kernel's type has the reserved octet, too.
func (t *Trace) MonitorLine() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[TRACE] Namespace=%d NodeLen=%d Type=0x%06x Data=", t.Namespace, t.TraceType.NodeLen(), uint32(t.TraceType)<<8)
	for _, node := range slices.Backward(t.Raw) {
		fmt.Fprintf(&b, "%x", node.Bytes)
	}
	b.WriteByte('\n')
	return b.String()
}
