// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/waymark-net/waymark/internal/config"
)

// check finds what is wrong between the parts of a topology.
func (d *document) check(t *Topology) {
	if t.Name == "" {
		d.fault(1, "the topology has no name; add name: NAME")
	}
	if len(t.Nodes) == 0 {
		d.fault(1, "the topology has no nodes; list them under nodes")
	}
	names := map[string]bool{}
	for _, n := range t.Nodes {
		switch {
		case n.Name == "":
			d.fault(n.line, "a node has no name; add name: NAME")
		case names[n.Name]:
			d.fault(n.line, "two nodes are called %s; rename one", n.Name)
		}
		names[n.Name] = true
	}
	d.checkLinks(t)
	for i := range t.Nodes {
		d.checkRoutes(t, &t.Nodes[i])
		d.checkAgent(t, &t.Nodes[i])
	}
	for _, s := range t.Traffic {
		d.checkTraffic(t, s)
	}
}

func (d *document) checkLinks(t *Topology) {
	type port struct{ node, name string }
	ports := map[port]bool{}
	owners := map[netip.Addr]string{}
	claim := func(line int, owner string, prefixes []netip.Prefix) {
		for _, p := range prefixes {
			if first, taken := owners[p.Addr()]; taken {
				d.fault(line, "address %v of %s belongs to %s already; give another", p.Addr(), owner, first)
			}
			owners[p.Addr()] = owner
		}
	}
	for _, n := range t.Nodes {
		claim(n.line, n.Name, n.Addresses)
	}
	for _, l := range t.Links {
		for _, e := range l.Ends {
			if e.Node == "" || e.Interface == "" {
				if e.line > 0 {
					d.fault(e.line, "an end of a link needs a node and an interface")
				}
				continue
			}
			if t.Node(e.Node) == nil {
				d.fault(e.line, "no node is called %s; add it under nodes", e.Node)
			}
			if e.Interface == "lo" || ports[port{e.Node, e.Interface}] {
				d.fault(e.line, "%s has an interface %s already; give another name", e.Node, e.Interface)
			}
			ports[port{e.Node, e.Interface}] = true
			claim(e.line, e.Node, e.Addresses)
		}
		if a, b := l.Ends[0], l.Ends[1]; a.Node != "" && a.Node == b.Node {
			d.fault(l.line, "a link joins two nodes; both ends are at %s", a.Node)
		}
	}
}

func (d *document) checkRoutes(t *Topology, n *NodeSpec) {
	seen := map[netip.Prefix]bool{}
	for _, r := range n.Routes {
		if !r.To.IsValid() {
			d.fault(r.line, "a route of %s has no destination; add to: PREFIX", n.Name)
			continue
		}
		if seen[r.To.Masked()] {
			d.fault(r.line, "%s has two routes to %v; list the next hops of equal paths under one via", n.Name, r.To)
		}
		seen[r.To.Masked()] = true
		if len(r.Via) == 0 {
			d.fault(r.line, "route to %v of %s has no next hop; add via: [ADDRESS]", r.To, n.Name)
		}
		for _, via := range r.Via {
			if _, ok := t.outgoing(n.Name, via); !ok {
				d.fault(r.line, "next hop %v is on no link of %s; use a neighbour's address", via, n.Name)
			}
		}
	}
}

// agent cuts the agent's configuration out of the topology and reads it as the
// agent will; its faults keep their lines.
func (d *document) agent(n ast.Node) *AgentSpec {
	s := &AgentSpec{line: lineOf(n)}
	m, ok := n.(*ast.MappingNode)
	if !ok || len(m.Values) == 0 {
		d.fault(s.line, "agent must be a mapping: the agent's configuration")
		return nil
	}
	first := m.Values[0].Key.GetToken().Position
	s.line, s.tree = first.Line, m
	if m.IsFlowStyle {
		s.Config = []byte(m.String() + "\n")
	} else {
		s.Config = cutBlock(d.source, first.Line, first.Column-1)
	}
	padding := bytes.Repeat([]byte("\n"), s.line-1)
	settings, err := config.Parse("", append(padding, s.Config...))
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			text := f.Problem
			if f.Cure != "" {
				text += "; " + f.Cure
			}
			d.fault(max(f.Line, s.line), "agent: %s", text)
		}
	case err != nil:
		d.fault(s.line, "agent: %v", err)
	}
	s.Settings = settings
	return s
}

// cutBlock takes the lines of a block of YAML that begins at a line, without
// its indentation.
func cutBlock(source []byte, line, indent int) []byte {
	var out []byte
	for _, l := range bytes.Split(source, []byte("\n"))[line-1:] {
		body := bytes.TrimLeft(l, " ")
		outside := len(l)-len(body) < indent
		if outside && len(body) > 0 && body[0] != '#' {
			break
		}
		if !outside {
			body = l[indent:]
		}
		out = append(append(out, body...), '\n')
	}
	return append(bytes.TrimRight(out, " \n"), '\n')
}

func (d *document) checkAgent(t *Topology, n *NodeSpec) {
	if n.Agent == nil || n.Agent.Settings == nil {
		return
	}
	for i, served := range n.Agent.Settings.Interfaces {
		found := served.Name == "lo"
		for _, e := range t.Ends(n.Name) {
			found = found || e.Interface == served.Name
		}
		if found {
			continue
		}
		line := n.Agent.line
		if path, err := yaml.PathString(fmt.Sprintf("$.interfaces[%d].name", i)); err == nil {
			if at, err := path.FilterNode(n.Agent.tree); err == nil {
				line = lineOf(at)
			}
		}
		d.fault(line, "the agent of %s serves interface %s, which no link has; name an interface of %s", n.Name, served.Name, n.Name)
	}
}

func (d *document) checkTraffic(t *Topology, s Traffic) {
	if s.Kind == "" {
		d.fault(s.line, "traffic has no kind; add kind: ping, udp or tcp")
	}
	for _, name := range []string{s.From, s.To} {
		if name == "" {
			d.fault(s.line, "traffic needs from: NODE and to: NODE")
			continue
		}
		if t.Node(name) == nil {
			d.fault(s.line, "traffic names the node %s, which is not there; add it under nodes", name)
		} else if _, ok := t.Address(name); !ok {
			d.fault(s.line, "traffic needs an address of %s; add one under the link's end", name)
		}
	}
	if s.From != "" && s.From == s.To {
		d.fault(s.line, "traffic goes from one node to another; both are %s", s.From)
	}
	if s.Kind == KindUDP && s.Size < udpHeaderSize {
		d.fault(s.line, "udp traffic numbers its datagrams; size must be at least %d", udpHeaderSize)
	}
}
