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
	"github.com/waymark-net/waymark/internal/problem"
)

// check finds contradictions between the parts of a topology. It does not report errors
// that may only follow from a known one.
func (d *document) check(t *Topology) {
	names := map[string]bool{}
	for _, n := range t.Nodes {
		if n.Name != "" && names[n.Name] {
			d.problem(n.at, "rename one", "two nodes are called %s", n.Name)
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
		d.problem(at, "add it under nodes", "no node is called %s", name)
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
				d.problem(at, "use another", "address %v of %s already belongs to %s", p.Addr(), owner, first)
			}
			owners[p.Addr()] = owner
		}
	}
	for _, n := range t.Nodes {
		claim(n.at, n.Name, n.Addresses)
	}
	for _, l := range t.Links {
		if a, b := l.Ends[0], l.Ends[1]; a.Node != "" && a.Node == b.Node {
			d.problem(l.at, fmt.Sprintf("both ends are at %s", a.Node), "a link joins two nodes")
			d.linksDoubtful = true
			continue
		}
		for _, e := range l.Ends {
			if d.unknownNode(t, e.at, e.Node) {
				d.linksDoubtful = true
				continue
			}
			if e.Interface != "" && (e.Interface == "lo" || ports[port{e.Node, e.Interface}]) {
				d.problem(e.at, "use another name", "%s already has an interface %s", e.Node, e.Interface)
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
				d.problem(r.at, "list the next hops of equal paths under one via", "%s has two routes to %v", n.Name, r.To)
			}
			seen[to] = true
		}
		for _, via := range r.Via {
			if _, ok := t.outgoing(n.Name, via); !ok && !d.linksDoubtful {
				d.problem(r.at, "use a neighbour's address", "next hop %v is on no link of %s", via, n.Name)
			}
		}
		if r.Encap.local() && len(t.Ends(n.Name)) == 0 && !d.linksDoubtful {
			d.problem(r.at, "add one under links", "%s has a SID, but no link by which packets reach it", n.Name)
		}
	}
}

func (d *document) checkTunnelSource(t *Topology, n *NodeSpec) {
	if n.TunnelSource.IsValid() && !t.owns(n.Name, n.TunnelSource) && !n.doubtful && !d.linksDoubtful {
		d.problem(n.at, "add it under addresses", "tunnel-source %v is no address of %s", n.TunnelSource, n.Name)
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
			d.refused(at, "agent: ", problem.New(f.Problem, f.Cure))
		}
	case err != nil:
		d.refused(s.at, "agent: ", err)
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
		d.problem(
			place,
			fmt.Sprintf("name an interface of %s", n.Name),
			"the agent of %s serves interface %s, which no link has",
			n.Name,
			served.Name,
		)
	}
}

func (d *document) checkTraffic(t *Topology, s Traffic) {
	for _, name := range []string{s.From, s.To} {
		if name == "" || d.unknownNode(t, s.at, name) {
			continue
		}
		if _, ok := t.Address(name); !ok && !d.linksDoubtful && !t.Node(name).doubtful {
			d.problem(s.at, "add one under the link's end", "traffic needs an address of %s", name)
		}
	}
	if to := t.Node(s.To); to != nil && s.Address.IsValid() && !t.owns(s.To, s.Address) && !to.doubtful && !d.linksDoubtful {
		d.problem(s.at, "use one of its links or its loopback interface", "%v is no address of %s", s.Address, s.To)
	}
	if s.From != "" && s.From == s.To {
		d.problem(s.at, fmt.Sprintf("both are %s", s.From), "traffic goes from one node to another")
	}
	if s.Kind == KindUDP && s.Size < udpHeaderSize {
		d.problem(s.at, fmt.Sprintf("size must be at least %d", udpHeaderSize), "udp traffic numbers its datagrams")
	}
}
