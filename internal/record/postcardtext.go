// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// Text is the postcard as readable text: a line for the packet, then one for the node's
// data.
func (p *Postcard) Text() string {
	var b strings.Builder
	writeStart(&b, p.Time.Time, p.Node, p.Ingress, p.Egress)
	fmt.Fprintf(&b, "postcard of %s node, %s, namespace %d, type %v%s", article(p.Role), p.Packet, p.Namespace, p.TraceType, ids(p.FlowID))
	if p.Sequence.Present {
		fmt.Fprintf(&b, ", sequence %s", text(p.Sequence))
	}
	if cells := (hop{NodeData: p.Measured()}).cells(); p.TraceType != 0 {
		b.WriteString("\n    " + strings.Join(cells, "  "))
	}
	return b.String() + "\n"
}

// Text is the flow as readable text: a line for the flow, then one for its counts and
// delays.
func (f *Flow) Text() string {
	var b strings.Builder
	writeStart(&b, f.Time.Time, f.Node, f.Ingress, f.Egress)
	fmt.Fprintf(&b, "flow at %s node, %s, namespace %d, type %v%s\n", article(f.Role), f.Packet, f.Namespace, f.TraceType, ids(f.FlowID))
	fmt.Fprintf(&b, "    %d packets, %d bytes in %s", f.Packets, f.Bytes, Duration(f.Last.Sub(f.First.Time)))
	if d := f.TransitDelay; d != nil && d.Count > 0 {
		fmt.Fprintf(
			&b,
			"  held %s (%s to %s)",
			Duration(time.Duration(d.Sum/d.Count)),
			Duration(time.Duration(d.Min)),
			Duration(time.Duration(d.Max)),
		)
	}
	switch {
	case f.SequenceGaps.Value > 0:
		fmt.Fprintf(&b, "  %d missing", f.SequenceGaps.Value)
	case f.SequenceGaps.Present && !f.SequenceGaps.Valid:
		b.WriteString("  missing unknown")
	}
	if f.Reordered.Value > 0 {
		fmt.Fprintf(&b, "  %d reordered", f.Reordered.Value)
	}
	fmt.Fprintf(&b, "  hop limit %d", f.HopLimit.Min)
	if f.HopLimit.Max != f.HopLimit.Min {
		fmt.Fprintf(&b, " to %d", f.HopLimit.Max)
	}
	return b.String() + "  " + f.EndReason.String() + "\n"
}

// writeStart writes when and where a packet was seen.
func writeStart(b *strings.Builder, at time.Time, node, ingress, egress string) {
	if !at.IsZero() {
		b.WriteString(instant.Format(at) + "  ")
	}
	if node != "" {
		b.WriteString(Printable(node) + " ")
	}
	fmt.Fprintf(b, "%s > %s  ", orNone(ingress), orNone(egress))
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return Printable(s)
}

func article(r NodeRole) string {
	if r == Encapsulating {
		return "an " + r.String()
	}
	return "a " + r.String()
}

// ids is the Flow-ID, where there is one.
func ids(id Field[uint32]) string {
	if !id.Valid {
		return ""
	}
	return fmt.Sprintf(", flow 0x%08x", id.Value)
}
