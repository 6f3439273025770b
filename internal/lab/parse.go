// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Lengths of names: a namespace is LAB-NODE, an interface must fit IFNAMSIZ.
const (
	maxNodeName      = 32
	maxLabName       = 32
	maxInterfaceName = 15
)

// Parse reads a topology. The error is a *Faults that names every mistake in
// it; file is only the name to use there.
func Parse(file string, source []byte) (*Topology, error) {
	d := &document{source: source}
	tree, err := parser.ParseBytes(source, 0)
	if err != nil {
		line := 1
		var syntax yaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			line = syntax.GetToken().Position.Line
			d.fault(line, "not YAML: %s", syntax.GetMessage())
		} else {
			d.fault(line, "not YAML: %v", err)
		}
		return nil, d.err(file)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		d.fault(1, "a topology is one YAML document with nodes and links")
		return nil, d.err(file)
	}
	t := &Topology{source: bytes.Clone(source)}
	d.topology(tree.Docs[0].Body, t)
	for i := range t.Nodes {
		if n := &t.Nodes[i]; !n.forwardingSet {
			n.Forwarding = len(t.Ends(n.Name)) > 1
		}
	}
	d.check(t)
	if err := d.err(file); err != nil {
		return nil, err
	}
	return t, nil
}

func (d *document) topology(n ast.Node, t *Topology) {
	d.mapping(n, "the topology", map[string]func(ast.Node){
		"name":                 func(v ast.Node) { t.Name = d.name(v, "name", maxLabName) },
		"description":          func(v ast.Node) { t.Description = d.text(v, "description") },
		"permanent-neighbours": func(v ast.Node) { t.PermanentNeighbours = d.boolean(v, "permanent-neighbours") },
		"nodes": func(v ast.Node) {
			d.sequence(v, "nodes", maxNodes, func(e ast.Node) { t.Nodes = append(t.Nodes, d.node(e)) })
		},
		"links": func(v ast.Node) {
			d.sequence(v, "links", maxLinks, func(e ast.Node) { t.Links = append(t.Links, d.link(e)) })
		},
		"traffic": func(v ast.Node) {
			d.sequence(v, "traffic", maxTraffic, func(e ast.Node) { t.Traffic = append(t.Traffic, d.traffic(e)) })
		},
	})
}

func (d *document) node(n ast.Node) NodeSpec {
	s := NodeSpec{line: lineOf(n)}
	d.mapping(n, "a node", map[string]func(ast.Node){
		"name": func(v ast.Node) { s.Name = d.name(v, "node name", maxNodeName); s.line = lineOf(v) },
		"forwarding": func(v ast.Node) {
			s.Forwarding, s.forwardingSet = d.boolean(v, "forwarding"), true
		},
		"addresses": func(v ast.Node) { s.Addresses = d.prefixes(v, "addresses") },
		"routes": func(v ast.Node) {
			d.sequence(v, "routes", maxRoutes, func(e ast.Node) { s.Routes = append(s.Routes, d.route(e)) })
		},
		"agent": func(v ast.Node) { s.Agent = d.agent(v) },
	})
	return s
}

func (d *document) prefixes(n ast.Node, what string) []netip.Prefix {
	var list []netip.Prefix
	d.oneOrMore(n, what, maxAddresses, func(e ast.Node) {
		p := d.prefix(e, "address")
		if !p.IsValid() {
			return
		}
		if slices.Contains(list, p) {
			d.fault(lineOf(e), "address %v is there twice; remove one", p)
			return
		}
		list = append(list, p)
	})
	return list
}

func (d *document) route(n ast.Node) RouteSpec {
	s := RouteSpec{line: lineOf(n)}
	d.mapping(n, "a route", map[string]func(ast.Node){
		"to": func(v ast.Node) {
			s.To, s.line = d.prefix(v, "to"), lineOf(v)
			if s.To.IsValid() && s.To != s.To.Masked() {
				d.fault(lineOf(v), "route to %v has bits set behind the prefix; write %v", s.To, s.To.Masked())
			}
		},
		"via": func(v ast.Node) {
			d.oneOrMore(v, "via", maxPaths, func(e ast.Node) {
				if a := d.address(e, "next hop"); a.IsValid() {
					s.Via = append(s.Via, a)
				}
			})
		},
	})
	return s
}

func (d *document) link(n ast.Node) LinkSpec {
	s := LinkSpec{MTU: defaultMTU, line: lineOf(n)}
	ends := 0
	d.mapping(n, "a link", map[string]func(ast.Node){
		"mtu": func(v ast.Node) { s.MTU = int(d.integer(v, "mtu", minMTU, maxMTU)) },
		"ends": func(v ast.Node) {
			s.line = lineOf(v)
			d.sequence(v, "ends", len(s.Ends), func(e ast.Node) { s.Ends[ends] = d.end(e); ends++ })
		},
	})
	if ends != len(s.Ends) {
		d.fault(s.line, "a link has two ends; list both under ends")
	}
	return s
}

func (d *document) end(n ast.Node) LinkEnd {
	s := LinkEnd{line: lineOf(n)}
	d.mapping(n, "an end of a link", map[string]func(ast.Node){
		"node":      func(v ast.Node) { s.Node, s.line = d.name(v, "node", maxNodeName), lineOf(v) },
		"interface": func(v ast.Node) { s.Interface = d.name(v, "interface", maxInterfaceName) },
		"addresses": func(v ast.Node) { s.Addresses = d.prefixes(v, "addresses") },
	})
	return s
}

// Bounds of traffic, so that no topology keeps a machine busy for long.
const (
	maxPackets  = 1_000_000
	maxInterval = 10 * time.Second
	maxPayload  = 65_000
	maxTransfer = 64 << 30
)

func (d *document) traffic(n ast.Node) Traffic {
	s := Traffic{Count: 5, Interval: 200 * time.Millisecond, Size: 56, Bytes: 1 << 20, Port: 9000, line: lineOf(n)}
	d.mapping(n, "traffic", map[string]func(ast.Node){
		"name": func(v ast.Node) { s.Name = d.name(v, "traffic name", maxNodeName) },
		"kind": func(v ast.Node) {
			s.Kind = d.text(v, "kind")
			if s.Kind != KindPing && s.Kind != KindUDP && s.Kind != KindTCP {
				d.fault(lineOf(v), "traffic of kind %q is unknown; use ping, udp or tcp", s.Kind)
			}
		},
		"from":     func(v ast.Node) { s.From, s.line = d.name(v, "from", maxNodeName), lineOf(v) },
		"to":       func(v ast.Node) { s.To = d.name(v, "to", maxNodeName) },
		"count":    func(v ast.Node) { s.Count = int(d.integer(v, "count", 1, maxPackets)) },
		"interval": func(v ast.Node) { s.Interval = d.duration(v, "interval", maxInterval) },
		"size":     func(v ast.Node) { s.Size = int(d.integer(v, "size", 0, maxPayload)) },
		"bytes":    func(v ast.Node) { s.Bytes = d.integer(v, "bytes", 1, maxTransfer) },
		"port":     func(v ast.Node) { s.Port = uint16(d.integer(v, "port", 1, 65535)) },
	})
	if s.Name == "" {
		s.Name = s.Kind
	}
	return s
}
