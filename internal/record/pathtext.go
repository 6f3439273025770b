// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/nodenames"
)

// Text is the path as readable text: a line for the packet, an aligned line for each
// node, and what is missing.
func (r *Path) Text() string {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.String() + "  ")
	}
	if r.Packet.Source.IsValid() {
		b.WriteString(r.Packet.String() + ", ")
	}
	fmt.Fprintf(&b, "namespace %d, flow 0x%08x, sequence %d", r.Namespace, r.FlowID, r.Sequence)
	if r.Delay != nil {
		fmt.Fprintf(&b, ", %s end to end", Duration(time.Duration(*r.Delay)))
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i := range r.Nodes {
		fmt.Fprintln(t, "    "+strings.Join(r.Nodes[i].cells(), "\t"))
	}
	t.Flush() // cannot fail: to memory
	if !r.Complete {
		b.WriteString("    incomplete: " + r.explain() + "\n")
	}
	return b.String()
}

// explain says why the path is incomplete.
func (r *Path) explain() string {
	text := r.Reason.Meaning()
	last := ""
	if len(r.Nodes) > 0 {
		last = r.Nodes[len(r.Nodes)-1].name()
	}
	switch {
	case r.Verdict == PathLost:
		where := "lost after " + last
		if r.Silent > 0 {
			where += fmt.Sprintf(", perhaps in or after nodes that report nothing (hops without a report: %d)", r.Silent)
		}
		text = where + "; " + text
	case r.Verdict == PathUnknown:
		text = "not known after " + last
		for i := range r.Unknown {
			if why := r.Unknown[i].text(); why != "" {
				text += "; " + why
			}
		}
		if r.Reason != PathNotSeenFurther {
			text += "; " + r.Reason.Meaning()
		}
	case r.LastSeen != nil:
		text = "not seen after " + last + "; " + text
	}
	if len(r.Missing) > 0 {
		text += fmt.Sprintf("; no node reported hop limit %s", strings.Trim(fmt.Sprint(r.Missing), "[]"))
	}
	return text
}

// name is the node's name, else its id, else its exporter.
func (n *PathNode) name() string {
	switch name := cmp.Or(n.Node, n.NodeName); {
	case name != "":
		return nodenames.Printable(name)
	case n.NodeID.Valid:
		return nodenames.Label("", n.NodeID.Value)
	case n.NodeIDWide.Valid:
		return nodenames.Label("", n.NodeIDWide.Value)
	}
	return n.Exporter.String()
}

// cells are the columns of the node's line; "-" is "not available".
func (n *PathNode) cells() []string {
	cells := []string{n.name(), n.Role.String(), link(n.Ingress, n.IngressIfIndex) + " > " + link(n.Egress, n.EgressIfIndex)}
	if n.HopLimit.Valid {
		cells = append(cells, fmt.Sprintf("hop limit %d", n.HopLimit.Value))
	} else {
		cells = append(cells, "hop limit -")
	}
	switch {
	case n.SincePrevious != nil:
		since := Duration(time.Duration(*n.SincePrevious))
		if *n.SincePrevious >= 0 {
			since = "+" + since
		}
		cells = append(cells, since)
	case n.Timestamp.Valid:
		cells = append(cells, "at "+n.Timestamp.Value.UTC().Format("15:04:05.000000000"))
	default:
		cells = append(cells, "-")
	}
	switch {
	case n.TransitDelayOverflow:
		cells = append(cells, "held over "+Duration(delayOverflow))
	case n.TransitDelay.Valid:
		cells = append(cells, "held "+Duration(time.Duration(n.TransitDelay.Value)))
	}
	if n.QueueDepth.Valid {
		cells = append(cells, fmt.Sprintf("queue %d", n.QueueDepth.Value))
	}
	return cells
}

// link is an interface's name, else its index.
func link(name string, index model.IfIndex) string {
	switch {
	case name != "":
		return Printable(name)
	case index != 0:
		return fmt.Sprintf("if%d", index)
	}
	return "-"
}
