// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Sizes in units of the drawing.
const (
	margin     = 20
	hostWidth  = 120
	nodeWidth  = 180
	nodeHeight = 96
	linkWidth  = 96
	nodesTop   = 104
	height     = 272
	middle     = nodesTop + nodeHeight/2
)

// Colours that are legible on the drawing's own white background.
const (
	ink    = "#1f2933"
	faint  = "#616e7c"
	line   = "#9aa5b1"
	accent = "#0b69a3"
	inside = "#e3f2fb"
)

// drawing is an SVG under construction.
type drawing struct{ strings.Builder }

func (d *drawing) add(format string, arguments ...any) {
	fmt.Fprintf(&d.Builder, format+"\n", arguments...)
}

// text writes one line, whose anchor is start, middle or end.
func (d *drawing) text(x, y, size int, anchor, colour, weight, content string) {
	d.add(`<text x="%d" y="%d" font-size="%d" text-anchor="%s" fill="%s" font-weight="%s">%s</text>`,
		x, y, size, anchor, colour, weight, html.EscapeString(content))
}

// draw returns the path as an SVG.
func draw(p *record.Path) []byte {
	width := 2*(margin+hostWidth+linkWidth) + len(p.Nodes)*nodeWidth + (len(p.Nodes)-1)*linkWidth
	first := margin + hostWidth + linkWidth
	last := width - first
	d := &drawing{}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Helvetica, Arial, sans-serif" role="img">`, width, height)
	d.add(`<title>%s</title>`, html.EscapeString("The path of one packet: "+p.Packet.String()))
	d.add(`<rect width="%d" height="%d" rx="8" fill="#ffffff"/>`, width, height)
	d.text(
		margin,
		34,
		19,
		"start",
		ink,
		"bold",
		"One packet, as the nodes on its path reported it: "+times(*p.Delay)+" from "+p.Nodes[0].Node+" to "+p.Nodes[len(p.Nodes)-1].Node,
	)
	d.text(
		margin,
		58,
		15,
		"start",
		faint,
		"normal",
		fmt.Sprintf("%s, namespace %d, trace type %v, sequence number %d", p.Packet, p.Namespace, p.TraceType, p.Sequence),
	)
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" rx="12" fill="%s"/>`, first-18, nodesTop-26, last-first+36, nodeHeight+52, inside)
	d.text(first-6, nodesTop-8, 13, "start", accent, "normal", "IOAM domain: the packet carries the option only here")

	d.link(margin+hostWidth, first, line, "")
	d.host(margin, "source", p.Packet.Source)
	for i := range p.Nodes {
		x := first + i*(nodeWidth+linkWidth)
		if i > 0 {
			d.link(x-linkWidth, x, accent, "+"+times(*p.Nodes[i].SincePrevious))
		}
		d.node(x, &p.Nodes[i])
	}
	d.link(last, last+linkWidth, line, "")
	d.host(width-margin-hostWidth, "destination", p.Packet.Destination)
	d.text(
		margin,
		height-16,
		13,
		"start",
		faint,
		"normal",
		"+ time since the node before.  held: time in the node until its outgoing queue.  Drawn by make picture from a real run, "+p.Time.UTC().
			Format("2006-01-02")+
			".",
	)
	d.add(`</svg>`)
	return []byte(d.String())
}

// link draws an arrow with a label above it.
func (d *drawing) link(from, to int, colour, label string) {
	const head = 8
	d.add(`<path d="M%d %dH%d" stroke="%s" stroke-width="3"/>`, from, middle, to-head-4, colour)
	d.add(`<path d="M%d %dl-%d -%d v%dz" fill="%s"/>`, to-5, middle, head, head-2, 2*(head-2), colour)
	if label != "" {
		d.text((from+to)/2, middle-12, 14, "middle", accent, "bold", label)
	}
}

func (d *drawing) host(x int, role string, address netip.Addr) {
	const tall = 52
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" rx="26" fill="#f5f7fa" stroke="%s"/>`, x, middle-tall/2, hostWidth, tall, line)
	d.text(x+hostWidth/2, middle-4, 13, "middle", faint, "normal", role)
	d.text(x+hostWidth/2, middle+14, 14, "middle", ink, "normal", address.String())
}

func (d *drawing) node(x int, n *record.PathNode) {
	d.add(
		`<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="#ffffff" stroke="%s" stroke-width="2"/>`,
		x,
		nodesTop,
		nodeWidth,
		nodeHeight,
		accent,
	)
	centre := x + nodeWidth/2
	name := n.Node
	if n.NodeID.Valid {
		name += fmt.Sprintf(" (%d)", n.NodeID.Value)
	}
	d.text(centre, nodesTop+24, 17, "middle", ink, "bold", name)
	d.text(centre, nodesTop+42, 13, "middle", faint, "normal", n.Role.String())
	d.port(x, "start", n.Ingress, n.IngressID)
	d.port(x+nodeWidth, "end", n.Egress, n.EgressID)
	last := ""
	if n.HopLimit.Valid {
		last = fmt.Sprintf("hop limit %d", n.HopLimit.Value)
	}
	if n.TransitDelay.Valid {
		last += ", held " + times(int64(n.TransitDelay.Value))
	}
	d.text(centre, nodesTop+nodeHeight-10, 13, "middle", ink, "normal", last)
}

// port draws an interface at a side of a node; without a name it draws nothing.
func (d *drawing) port(x int, anchor, name string, id record.Field[ioam.InterfaceID]) {
	if name == "" {
		return
	}
	d.add(`<circle cx="%d" cy="%d" r="5" fill="%s"/>`, x, middle, accent)
	if id.Valid {
		name += fmt.Sprintf(" (%d)", id.Value)
	}
	inward := 10
	if anchor == "end" {
		inward = -10
	}
	d.text(x+inward, middle+16, 13, anchor, ink, "normal", name)
}

// times writes nanoseconds as microseconds, to a tenth.
func times(ns int64) string {
	return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
}
