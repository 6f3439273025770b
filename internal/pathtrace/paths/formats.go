// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/delay"
)

var csvColumns = []string{
	"path", "flows", "sent", "lost", "round_trip_min_ns", "round_trip_median_ns", "round_trip_p95_ns",
	"hop", "node_id", "node_id_wide", "ingress_id", "egress_id", "address", "silent",
	"since_previous_min_ns", "since_previous_median_ns", "since_previous_p95_ns", "transit_delay_min_ns", "transit_delay_median_ns", "transit_delay_p95_ns",
	"node_name", "ingress_name", "egress_name",
}

// WriteCSV writes a line for each hop of each path (RFC 4180). A path without a known hop has
// one line. An unknown value is an empty cell. The paths are followed by the flows of which no
// probe arrived: each is a path that lost all that was sent.
func (r *Report) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{csvColumns}
	add := func(number, flows int, sent, lost uint64, roundTrip *delay.Summary, hops []Hop) {
		path := append(
			[]string{strconv.Itoa(number), strconv.Itoa(flows), strconv.FormatUint(sent, 10), strconv.FormatUint(lost, 10)},
			nanoseconds(roundTrip)...)
		if len(hops) == 0 {
			lines = append(lines, append(path, make([]string, len(csvColumns)-len(path))...))
		}
		for i := range hops {
			h := &hops[i]
			line := append(
				append([]string{}, path...),
				strconv.Itoa(h.Position),
				field(h.NodeID),
				field(h.NodeIDWide),
				field(h.Ingress),
				field(h.Egress),
				field(h.Address),
				strconv.FormatBool(h.Silent),
			)
			lines = append(
				lines,
				append(append(append(line, nanoseconds(h.Since)...), nanoseconds(h.Held)...), h.NodeName, h.IngressName, h.EgressName),
			)
		}
	}
	for i := range r.Paths {
		one := &r.Paths[i]
		add(i+1, len(one.Flows), one.Sent, one.Lost, one.RoundTrip, one.Hops)
	}
	for i := range r.Broken {
		one := &r.Broken[i]
		add(len(r.Paths)+i+1, 1, one.Sent, one.Sent, nil, one.Hops)
	}
	return out.WriteAll(lines)
}

func field[T any](v *T) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(*v)
}

func nanoseconds(s *delay.Summary) []string {
	if s == nil {
		return []string{"", "", ""}
	}
	return []string{strconv.FormatInt(s.Min, 10), strconv.FormatInt(s.Median, 10), strconv.FormatInt(s.P95, 10)}
}

// DOT is the report as a graph for Graphviz: nodes of several paths with one id are one,
// and edges say how many flows take them and the median time between the two.
func (r *Report) DOT() string {
	g := graph{nodes: make(map[string]int), edges: make(map[[2]int]*edge)}
	start := g.node("start", "this machine", "box")
	for i := range r.Paths {
		one := &r.Paths[i]
		at := start
		if len(one.Hops) == 0 {
			e := g.edge(start, g.node(r.Destination.String(), r.Destination.String(), "box"))
			e.flows, e.unknown = e.flows+len(one.Flows), true
		}
		for j := range one.Hops {
			next := g.hop(&one.Hops[j], j == len(one.Hops)-1)
			e := g.edge(at, next)
			e.flows += len(one.Flows)
			e.since.Merge(&one.Hops[j].since)
			at = next
		}
	}
	for i := range r.Broken {
		one := &r.Broken[i]
		at := start
		for j := range one.Hops {
			next := g.hop(&one.Hops[j], false)
			g.edge(at, next).flows++
			at = next
		}
		g.edge(at, g.node(fmt.Sprintf("unanswered %d", at), "unanswered", "octagon")).flows++
	}
	return g.text()
}

type graph struct {
	nodes map[string]int
	lines []string
	order [][2]int
	edges map[[2]int]*edge
}

type edge struct {
	flows   int
	unknown bool // what is between the two
	since   delay.Distribution
}

func (g *graph) node(key, label, shape string) int {
	n, ok := g.nodes[key]
	if !ok {
		n = len(g.nodes)
		g.nodes[key] = n
		g.lines = append(g.lines, fmt.Sprintf("  n%d [label=%q, shape=%s];", n, label, shape))
	}
	return n
}

// hop is the node of a hop. Silent hops without an address are one for each position.
func (g *graph) hop(h *Hop, last bool) int {
	shape := "ellipse"
	if last {
		shape = "box"
	}
	key := fmt.Sprintf("%s at %d", h.idText(), h.Position)
	switch {
	case h.named:
		key = h.idText()
	case h.Address != nil:
		key = h.Address.String()
	}
	return g.node(key, strings.TrimSuffix(h.name()+"\n"+h.address(), "\n-"), shape)
}

func (g *graph) edge(from, to int) *edge {
	at := [2]int{from, to}
	e, ok := g.edges[at]
	if !ok {
		e = &edge{}
		g.edges[at] = e
		g.order = append(g.order, at)
	}
	return e
}

func (g *graph) text() string {
	var b strings.Builder
	b.WriteString("digraph trace {\n  rankdir=LR;\n" + strings.Join(g.lines, "\n") + "\n")
	for _, at := range g.order {
		e := g.edges[at]
		label := count(e.flows, "flow")
		if s := e.since.Summary(); s != nil {
			label += "\n" + duration(s.Median)
		}
		style := ""
		if e.unknown {
			label, style = label+"\npath not known", ", style=dashed"
		}
		fmt.Fprintf(&b, "  n%d -> n%d [label=%q%s];\n", at[0], at[1], label, style)
	}
	b.WriteString("}\n")
	return b.String()
}
