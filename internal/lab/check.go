// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/waymark-net/waymark/internal/config"
)

// check finds contradictions between the parts of a topology. It does not report errors
// that may only follow from a known one.
func (d *document) check(t *Topology) {
	names := map[string]bool{}
	for _, n := range t.Nodes {
		if n.Name != "" && names[n.Name] {
			d.fault(n.at, "two nodes are called %s; rename one", n.Name)
			d.nodesDoubtful = true // one node lacks its intended name
		}
		names[n.Name] = true
	}
	d.checkLinks(t)
	for i := range t.Nodes {
		d.checkRoutes(t, &t.Nodes[i])
		d.checkTunnelSource(t, &t.Nodes[i])
		d.checkAgent(t, &t.Nodes[i])
	}
	for _, s := range t.Traffic {
		d.checkTraffic(t, s)
	}
}

// unknownNode reports a name that no node has.
func (d *document) unknownNode(t *Topology, at position, name string) bool {
	if name == "" || t.Node(name) != nil {
		return false
	}
	if !d.nodesDoubtful {
		d.fault(at, "no node is called %s; add it under nodes", name)
	}
	return true
}

func (d *document) checkLinks(t *Topology) {
	type port struct{ node, name string }
	ports := map[port]bool{}
	owners := map[netip.Addr]string{}
	claim := func(at position, owner string, prefixes []netip.Prefix) {
		for _, p := range prefixes {
			if first, taken := owners[p.Addr()]; taken {
				d.fault(at, "address %v of %s already belongs to %s; use another", p.Addr(), owner, first)
			}
			owners[p.Addr()] = owner
		}
	}
	for _, n := range t.Nodes {
		claim(n.at, n.Name, n.Addresses)
	}
	for _, l := range t.Links {
		if a, b := l.Ends[0], l.Ends[1]; a.Node != "" && a.Node == b.Node {
			d.fault(l.at, "a link joins two nodes; both ends are at %s", a.Node)
			d.linksDoubtful = true
			continue
		}
		for _, e := range l.Ends {
			if d.unknownNode(t, e.at, e.Node) {
				d.linksDoubtful = true
				continue
			}
			if e.Interface != "" && (e.Interface == "lo" || ports[port{e.Node, e.Interface}]) {
				d.fault(e.at, "%s already has an interface %s; use another name", e.Node, e.Interface)
				d.linksDoubtful = true
			}
			ports[port{e.Node, e.Interface}] = true
			claim(e.at, e.Node, e.Addresses)
		}
	}
}

func (d *document) checkRoutes(t *Topology, n *NodeSpec) {
	seen := map[netip.Prefix]bool{}
	for _, r := range n.Routes {
		if to := r.To.Masked(); to.IsValid() {
			if seen[to] {
				d.fault(r.at, "%s has two routes to %v; list the next hops of equal paths under one via", n.Name, r.To)
			}
			seen[to] = true
		}
		for _, via := range r.Via {
			if _, ok := t.outgoing(n.Name, via); !ok && !d.linksDoubtful {
				d.fault(r.at, "next hop %v is on no link of %s; use a neighbour's address", via, n.Name)
			}
		}
		if r.Encap.local() && len(t.Ends(n.Name)) == 0 && !d.linksDoubtful {
			d.fault(r.at, "%s has a SID, but no link by which packets reach it; add one under links", n.Name)
		}
	}
}

func (d *document) checkTunnelSource(t *Topology, n *NodeSpec) {
	if n.TunnelSource.IsValid() && !t.owns(n.Name, n.TunnelSource) && !n.doubtful && !d.linksDoubtful {
		d.fault(n.at, "tunnel-source %v is no address of %s; add it under addresses", n.TunnelSource, n.Name)
	}
}

// agent cuts the agent's configuration out of the topology and parses it like the
// agent; its errors keep their places.
func (d *document) agent(n ast.Node) *AgentSpec {
	s := &AgentSpec{at: placeOf(n), tree: n}
	pairs, ok := entries(n)
	if !ok || len(pairs) == 0 {
		d.fault(s.at, "agent must be a mapping: the agent's configuration")
		return nil
	}
	// Blank lines replace the part before, so that errors have the file's line numbers.
	padding, indent := strings.Repeat("\n", s.at.line-1), 0
	if m, ok := n.(*ast.MappingNode); ok && m.IsFlowStyle {
		s.Config = cutFlow(d.source, s.at, placeOfToken(m.End))
		padding += strings.Repeat(" ", s.at.column-1)
	} else {
		indent = s.at.column - 1
		s.Config = cutBlock(d.source, s.at.line, indent)
	}
	settings, err := config.Parse("", append([]byte(padding), s.Config...))
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			at := s.at
			if f.Line >= s.at.line {
				at = position{f.Line, f.Column + indent}
			}
			d.fault(at, "agent: %s", (&config.Fault{Problem: f.Problem, Cure: f.Cure}).Error())
		}
	case err != nil:
		d.fault(s.at, "agent: %v", err)
	}
	s.Settings = settings
	return s
}

// cutFlow takes the text in braces, from the first brace to the last.
func cutFlow(source []byte, from, to position) []byte {
	lines := strings.SplitAfter(string(source), "\n")[from.line-1 : to.line]
	last := len(lines) - 1
	lines[last] = string([]rune(lines[last])[:to.column])
	lines[0] = string([]rune(lines[0])[from.column-1:])
	return []byte(strings.Join(lines, "") + "\n")
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
	if n.Agent == nil || n.Agent.Settings == nil || d.linksDoubtful {
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
		place := n.Agent.at
		if path, err := yaml.PathString(fmt.Sprintf("$.interfaces[%d].name", i)); err == nil {
			if at, err := path.FilterNode(n.Agent.tree); err == nil {
				place = placeOf(at)
			}
		}
		d.fault(place, "the agent of %s serves interface %s, which no link has; name an interface of %s", n.Name, served.Name, n.Name)
	}
}

func (d *document) checkTraffic(t *Topology, s Traffic) {
	for _, name := range []string{s.From, s.To} {
		if name == "" || d.unknownNode(t, s.at, name) {
			continue
		}
		if _, ok := t.Address(name); !ok && !d.linksDoubtful && !t.Node(name).doubtful {
			d.fault(s.at, "traffic needs an address of %s; add one under the link's end", name)
		}
	}
	if to := t.Node(s.To); to != nil && s.Address.IsValid() && !t.owns(s.To, s.Address) && !to.doubtful && !d.linksDoubtful {
		d.fault(s.at, "%v is no address of %s; use one of its links or its loopback interface", s.Address, s.To)
	}
	if s.From != "" && s.From == s.To {
		d.fault(s.at, "traffic goes from one node to another; both are %s", s.From)
	}
	if s.Kind == KindUDP && s.Size < udpHeaderSize {
		d.fault(s.at, "udp traffic numbers its datagrams; size must be at least %d", udpHeaderSize)
	}
}
