// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/delay"
	"github.com/waymark-net/waymark/internal/nodenames"
)

// branch is a hop that several paths may share from the beginning on.
type branch struct {
	hop      Hop
	key      string
	flows    int
	children []*branch
	leaf     *Path
}

// tree joins the paths' common beginnings.
func (r *Report) tree() *branch {
	root := &branch{}
	var last []*branch
	for i := range r.Paths {
		one := &r.Paths[i]
		if len(one.Hops) == 0 { // no hop limit was tried for these flows
			last = append(last, &branch{hop: Hop{Address: &r.Destination}, flows: len(one.Flows), leaf: one})
			continue
		}
		at := root
		for _, h := range one.Hops {
			at = at.child(h)
			at.flows += len(one.Flows)
		}
		at.leaf = one
	}
	root.children = append(root.children, last...)
	return root
}

func (b *branch) child(h Hop) *branch {
	key := keyOfHops([]Hop{h})
	for _, c := range b.children {
		if c.key == key && c.leaf == nil {
			c.hop.since.Merge(&h.since)
			c.hop.held.Merge(&h.held)
			return c
		}
	}
	c := &branch{hop: h, key: key}
	c.hop.since, c.hop.held = delay.Distribution{}, delay.Distribution{} // the path keeps its own
	c.hop.since.Merge(&h.since)
	c.hop.held.Merge(&h.held)
	b.children = append(b.children, c)
	return c
}

// Text is the report as a tree of hops for a screen: a line for each, and what is wrong. Where
// there is no room, there are fewer columns and fewer percentiles.
func (r *Report) Text(s columns.Screen) string {
	return s.Text(columns.Fold(r.text(s), s.Width, "  "))
}

func (r *Report) text(s columns.Screen) string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"%v by %s: %s, %s, %s, %d unanswered\n",
		r.Destination,
		r.Protocol,
		r.ways(),
		count(r.Flows, "flow"),
		count(int(r.Sent), "probe"),
		r.Lost,
	)
	if len(r.Paths) > 0 {
		t := r.table(s, three)
		whole := t.String(columns.Screen{})
		if times := "times: minimum, median, 95th percentile"; s.Width == 0 || widest(whole) <= s.Width {
			b.WriteString(times + "\n\n" + whole)
		} else {
			b.WriteString("times: median, 95th percentile\n\n")
			t = r.table(s, two)
			s.ASCII = false // the whole text becomes so
			b.WriteString(t.String(s))
		}
	}
	for _, text := range r.broken() {
		b.WriteString("\n" + text + "\n")
	}
	for _, remark := range r.notes() {
		b.WriteString("\n" + remark + "\n")
	}
	return b.String()
}

func widest(text string) (most int) {
	for line := range strings.Lines(text) {
		most = max(most, columns.Width(strings.TrimSuffix(line, "\n")))
	}
	return most
}

// table are the hops as a tree, with times as they are summarised.
func (r *Report) table(s columns.Screen, times func(*delay.Summary) string) *columns.Table {
	t := &columns.Table{Columns: []columns.Column{
		{Name: "hop"}, {Name: "in > out", Rank: 2}, {Name: "address", Rank: 3}, {Name: "flows", Rank: 1, AlignRight: true},
		{Name: "since last"}, {Name: "held"}, {Name: "lost", AlignRight: true}, {Name: "round trip"},
	}}
	r.tree().lines(t, s, "", times)
	return t
}

func (b *branch) lines(t *columns.Table, s columns.Screen, indent string, times func(*delay.Summary) string) {
	for i, c := range b.children {
		turn, below := "├─ ", "│  "
		if i == len(b.children)-1 {
			turn, below = "└─ ", "   "
		}
		name := fmt.Sprintf("%d %s", c.hop.Position, c.hop.name())
		if c.hop.Position == 0 {
			name = "not known"
		}
		cells := []string{
			indent + turn + name, c.hop.interfaces(), c.hop.address(), fmt.Sprint(c.flows),
			times(c.hop.since.Summary()), times(c.hop.held.Summary()), " ", " ",
		}
		if one := c.leaf; one != nil {
			cells[6], cells[7] = fmt.Sprintf("%d of %d", one.Lost, one.Sent), times(one.RoundTrip)
			if one.Lost > 0 {
				cells[6] = s.Paint(columns.Red, cells[6])
			}
		}
		t.Add(cells...)
		c.lines(t, s, indent+below, times)
	}
}

// ways counts the paths whose hops are known.
func (r *Report) ways() string {
	known := len(r.Paths)
	for _, one := range r.Paths {
		if len(one.Hops) == 0 {
			known--
		}
	}
	if known == 0 && len(r.Paths) > 0 {
		return "path not known"
	}
	return count(known, "path")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// name is the node's name, else its id, or that it has none.
func (h *Hop) name() string {
	if h.NodeName != "" {
		return nodenames.Printable(h.NodeName)
	}
	return h.idText()
}

// idText is the node's id, or that it has none.
func (h *Hop) idText() string {
	switch {
	case h.NodeID != nil:
		return fmt.Sprintf("node %d", *h.NodeID)
	case h.NodeIDWide != nil:
		return fmt.Sprintf("node %d", *h.NodeIDWide)
	case !h.Silent:
		return "-"
	case h.Address != nil:
		return "no data"
	}
	return "silent"
}

func (h *Hop) interfaces() string {
	if h.Ingress == nil && h.Egress == nil {
		return "-"
	}
	text := func(name string, id *uint32) string {
		switch {
		case name != "":
			return nodenames.Printable(name)
		case id == nil:
			return "-"
		}
		return fmt.Sprint(*id)
	}
	return text(h.IngressName, h.Ingress) + " > " + text(h.EgressName, h.Egress)
}

func (h *Hop) address() string {
	if h.Address == nil {
		return "-"
	}
	return h.Address.String()
}

// three are the minimum, the median and the 95th percentile.
func three(s *delay.Summary) string {
	if s == nil {
		return "-"
	}
	return duration(s.Min) + " " + duration(s.Median) + " " + duration(s.P95)
}

// two are the median and the 95th percentile.
func two(s *delay.Summary) string {
	if s == nil {
		return "-"
	}
	return duration(s.Median) + " " + duration(s.P95)
}

// duration is a time of about three digits.
func duration(ns int64) string { return columns.Duration(time.Duration(ns)) }

// label names a hop in a sentence.
func (h *Hop) label() string {
	switch name := h.name(); {
	case h.Silent && h.Address != nil:
		return h.Address.String() + " (no data)"
	case h.Silent:
		return fmt.Sprintf("hop %d (silent)", h.Position)
	case h.Address != nil && name == "-":
		return h.Address.String()
	case h.Address != nil:
		return fmt.Sprintf("%s (%v)", name, *h.Address)
	default:
		return name
	}
}

// broken says how far flows came of which nothing arrived, those with one end together.
func (r *Report) broken() (list []string) {
	type group struct {
		flows []Flow
		sent  uint64
		early bool // only the probe that asked for copies is known to be lost
	}
	groups := make(map[string]*group)
	for i := range r.Broken {
		one := &r.Broken[i]
		text := one.text(r.Destination)
		g := groups[text]
		if g == nil {
			g = &group{}
			groups[text] = g
			list = append(list, text)
		}
		g.flows = append(g.flows, one.Flow)
		g.sent += one.Sent
		g.early = one.waited > 0
	}
	for i, text := range list {
		g := groups[text]
		who := count(len(g.flows), "flow")
		if len(g.flows) == 1 {
			who = g.flows[0].text()
		}
		if !g.early {
			who += ", " + count(int(g.sent), "probe")
		}
		list[i] = who + ": " + text
	}
	return list
}

// Unanswered says how far flows came whose probes are not answered, a line for those with one
// end.
func (r *Report) Unanswered() string {
	var b strings.Builder
	for _, text := range r.broken() {
		b.WriteString(text + "\n")
	}
	return b.String()
}

// LastSeen is the farthest node that unanswered probes passed, "" if none is known, and what a node
// on the way said about them, "" if none said anything.
func (r *Report) LastSeen() (node, said string) {
	most := 0
	for i := range r.Broken {
		b := &r.Broken[i]
		if n := len(b.Hops); n > most {
			most, node = n, b.Hops[n-1].label()
		}
		if said == "" {
			said = b.Error
		}
	}
	return node, said
}

// text says how far the flow came. A reply may be lost as well as a probe.
func (b *Broken) text(destination netip.Addr) string {
	s := "none was answered; "
	if b.waited > 0 {
		s = "no answer within " + duration(b.waited.Nanoseconds()) + "; "
	}
	n := len(b.Hops)
	if n > 0 && b.Hops[n-1].Address != nil && *b.Hops[n-1].Address == destination {
		s += fmt.Sprintf("probes reached the destination, hop %d, which did not answer them", n)
		if b.Error != "" {
			s += "; " + b.Error
		}
		return s
	}
	if n == 0 {
		s += "no node on the way replied"
	} else {
		s += fmt.Sprintf("last seen at hop %d, %s", n, b.Hops[n-1].label())
	}
	if len(b.Next) > 0 {
		var next []string
		for _, h := range b.Next {
			next = append(next, h.label())
		}
		at := ", and not at "
		if len(b.Hops) == 0 {
			at = ", not even "
		}
		s += at + strings.Join(next, " or ")
	} else if b.waited > 0 && len(b.Hops) > 0 {
		s += fmt.Sprintf(", and not at hop %d", len(b.Hops)+1)
	}
	if b.Error != "" {
		s += "; " + b.Error
	}
	return s
}

func (f *Flow) text() string {
	s := fmt.Sprintf("flow %d (", f.Number)
	if f.SourcePort != 0 {
		s += fmt.Sprintf("port %d, ", f.SourcePort)
	}
	return s + fmt.Sprintf("label 0x%05x)", f.FlowLabel)
}

func copies(n uint64) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// withoutData says what it means that hops wrote nothing: probes passed them, but whether these nodes
// have other namespaces is not known.
func (r *Report) withoutData() string {
	silent, shown, wrote := false, false, false
	look := func(hops []Hop) {
		for i := range hops {
			h := &hops[i]
			silent = silent || h.Silent
			shown = shown || h.Silent && h.Address != nil
			wrote = wrote || !h.Silent && h.node != unknown(h.Position)
		}
	}
	for i := range r.Paths {
		look(r.Paths[i].Hops)
	}
	for i := range r.Broken {
		look(r.Broken[i].Hops)
	}
	switch {
	case silent && !wrote:
		return fmt.Sprintf(
			"no node wrote data of namespace %d, though probes passed: check the number against 'waymark ioam namespace show' at these "+
				"nodes (--namespace), and that their interfaces have both roles; equal paths that differ only in such hops are shown as "+
				"one, with the addresses of one flow",
			r.Namespace,
		)
	case shown:
		return fmt.Sprintf(
			"no data: the hop passed the probes and wrote nothing of namespace %d: it runs no IOAM, does not know the namespace, or "+
				"lacks a role at an interface; equal paths that differ only in such hops are shown as one, with the addresses of one flow",
			r.Namespace,
		)
	}
	return ""
}

// notes say what the report cannot show, and what to do.
func (r *Report) notes() (list []string) {
	overflow, limited, unknown := false, false, 0
	for _, one := range r.Paths {
		if len(one.Hops) == 0 {
			unknown += len(one.Flows)
		}
		overflow = overflow || one.Overflow
		limited = limited || !one.Endpoint && one.Lost > 0
	}
	if remark := r.withoutData(); remark != "" {
		list = append(list, remark)
	}
	if unknown > 0 {
		list = append(
			list,
			fmt.Sprintf(
				"not known: the replies of %s have no trace, and hop limits show no hop of them: they are tried for %d flows at most, and "+
					"with --max-hops 0 for none",
				count(unknown, "flow"),
				MaxWalked,
			),
		)
	}
	if overflow {
		list = append(list, "a trace had no room for all nodes, so the last hops have no data; raise --hops, or ask for less with --type")
	}
	if limited {
		list = append(
			list,
			"from the destination came only ICMPv6 errors, which nodes limit in rate: probes without a reply may have arrived; run "+
				"an agent there whose file has path-trace",
		)
	}
	if r.Copies > 0 {
		list = append(list, fmt.Sprintf("%s came back from nodes on the way, by the Loopback flag", copies(r.Copies)))
	}
	if r.Unkept > 0 {
		list = append(list, fmt.Sprintf("%s took paths beyond the first %d, which are not shown", count(int(r.Unkept), "probe"), maxPaths))
	}
	for _, cause := range slices.Sorted(maps.Keys(r.Ignored)) {
		if n := r.Ignored[cause]; n > 0 {
			list = append(list, fmt.Sprintf("replies that were ignored, %s: %d", cause, n))
		}
	}
	return list
}
