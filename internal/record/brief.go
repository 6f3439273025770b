// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// indent is before the lines of a record below its first one.
const indent = "    "

// Brief is a record for a screen: what is most often asked for, times of a few digits, and no line
// wider than the screen. For one without a limit, it is all of [Record.Text].
func Brief(r Record, s columns.Screen) string {
	if s.Width == 0 {
		return s.Text(r.Text())
	}
	switch r := r.(type) {
	case *Trace:
		return s.Text(r.brief(s))
	case *Path:
		return s.Text(r.brief(s))
	}
	return s.Text(columns.Fold(r.Text(), s.Width, indent))
}

// clock is the time of a day in UTC.
const clock = "15:04:05.000000"

// start is the first line of a record about a packet, or two: then the second one has the packet's
// ends. The time has the date of another day.
func start(width int, at instant.Time, where string, packet *Packet, more ...string) string {
	var parts []string
	switch {
	case at.IsZero():
	case at.UTC().Format(time.DateOnly) == time.Now().UTC().Format(time.DateOnly):
		parts = append(parts, at.UTC().Format(clock))
	default:
		parts = append(parts, at.UTC().Format(time.DateOnly+" "+clock))
	}
	if where != "" {
		parts = append(parts, where)
	}
	parts = append(parts, more...)
	if !packet.Source.IsValid() {
		return columns.Fold(strings.Join(parts, "  ")+"\n", width, indent)
	}
	line, ends := strings.Join(append(parts, packet.protocol()), "  "), packet.Ends()
	if columns.Width(line+"  "+ends) <= width {
		return line + "  " + ends + "\n"
	}
	return columns.Fold(line+"\n"+indent+ends+"\n", width, indent)
}

// brief are a line for the packet and an aligned line for each node.
func (r *Trace) brief(s columns.Screen) string {
	var more []string
	if total, over, ok := r.Elapsed(); ok {
		more = append(more, s.Paint(columns.Cyan, columns.Duration(total)+" "+string(over)))
	}
	if r.Option != ioam.IOAMPreallocatedTrace.String() {
		more = append(more, r.Option+" trace")
	}
	if r.Source != 0 {
		more = append(more, fmt.Sprintf("reported by the %v", r.Source))
	}
	where := strings.TrimSpace(Printable(r.Node) + " " + Printable(r.Interface))
	text := start(s.Width, r.Time, where, &r.Packet, more...)
	var rows [][]cell
	for _, h := range r.hops() {
		rows = append(rows, h.ranked(columns.Duration, clock))
	}
	return text + aligned(rows, s) + columns.Fold(r.remarks(), s.Width, indent)
}

// aligned are rows of which usually all have the same columns.
func aligned(rows [][]cell, s columns.Screen) string {
	t := columns.Table{Indent: indent, Unnamed: true}
	for _, row := range rows {
		for _, c := range row[min(len(t.Columns), len(row)):] {
			t.Columns = append(t.Columns, columns.Column{Rank: c.rank})
		}
	}
	for _, row := range rows {
		texts := make([]string, len(row))
		for i, c := range row {
			texts[i] = c.text
		}
		t.Add(texts...)
	}
	s.ASCII = false // the whole text becomes so
	return t.String(s)
}

// brief are a line for the packet, an aligned line for each node, and what is missing.
func (r *Path) brief(s columns.Screen) string {
	var more []string
	if r.Delay != nil {
		more = append(more, s.Paint(columns.Cyan, columns.Duration(time.Duration(*r.Delay))+" end to end"))
	}
	if !r.Packet.Source.IsValid() {
		more = append(more, fmt.Sprintf("flow 0x%08x, sequence %d", r.FlowID, r.Sequence))
	}
	text := start(s.Width, r.Time, "", &r.Packet, more...)
	var rows [][]cell
	for i := range r.Nodes {
		rows = append(rows, r.Nodes[i].ranked())
	}
	text += aligned(rows, s)
	if !r.Complete {
		text += columns.Fold(indent+s.Paint(columns.Red, "incomplete")+": "+r.explain()+"\n", s.Width, indent)
	}
	return text
}

// ranked are the columns of the node's line.
func (n *PathNode) ranked() []cell {
	since, held, queue := none, "held -", "queue -"
	switch {
	case n.SincePrevious != nil && *n.SincePrevious < 0: // the clocks differ
		since = columns.Duration(time.Duration(*n.SincePrevious))
	case n.SincePrevious != nil:
		since = "+" + columns.Duration(time.Duration(*n.SincePrevious))
	case n.Timestamp.Valid:
		since = "at " + n.Timestamp.Value.UTC().Format(clock)
	}
	switch {
	case n.TransitDelayOverflow:
		held = "held over " + columns.Duration(delayOverflow)
	case n.TransitDelay.Valid:
		held = "held " + columns.Duration(time.Duration(n.TransitDelay.Value))
	}
	if n.QueueDepth.Valid {
		queue = fmt.Sprintf("queue %d", n.QueueDepth.Value)
	}
	return []cell{
		{n.name(), 0}, {n.Role.String(), 2}, {link(n.Ingress, n.IngressIfIndex) + " > " + link(n.Egress, n.EgressIfIndex), 0},
		{"hop limit " + text(n.HopLimit), 3}, {since, 0}, {held, 0}, {queue, 1},
	}
}
