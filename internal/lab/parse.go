// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"errors"
	"fmt"
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

// Parse reads a topology. The error is a *Faults, which lists every mistake; file is only the
// name to use in it.
func Parse(file string, source []byte) (*Topology, error) {
	d := &document{source: source}
	tree, err := parser.ParseBytes(source, 0)
	if err != nil {
		var syntax yaml.Error
		if errors.As(err, &syntax) {
			d.fault(placeOfToken(syntax.GetToken()), "not YAML: %s", syntax.GetMessage())
		} else {
			d.fault(position{1, 1}, "not YAML: %v", err)
		}
		return nil, d.err(file)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		d.fault(position{1, 1}, "a topology is one YAML document with nodes and links")
		return nil, d.err(file)
	}
	body := tree.Docs[0].Body
	if isAgentConfiguration(body) {
		d.problem(
			placeOf(body),
			fmt.Sprintf("check it with 'waymark config check %[1]s', run it with 'waymark agent run --config %[1]s'", file),
			"this is an agent's configuration, not a topology",
		)
		return nil, d.err(file)
	}
	t := &Topology{source: bytes.Clone(source)}
	d.topology(body, t)
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

// isAgentConfiguration reports whether a file has keys of an agent's configuration and
// none of a topology.
func isAgentConfiguration(n ast.Node) bool {
	agents := false
	pairs, _ := entries(n)
	for _, v := range pairs {
		switch v.Key.GetToken().Value {
		case "nodes", "links", "traffic":
			return false
		case "node", "interfaces", "namespaces", "encapsulations", "decapsulations":
			agents = true
		}
	}
	return agents
}

func (d *document) topology(n ast.Node, t *Topology) {
	found := d.mapping(n, "the topology", map[string]func(ast.Node){
		"name":                 func(v ast.Node) { t.Name = d.name(v, "name", maxLabName) },
		"description":          func(v ast.Node) { t.Description, _ = d.text(v, "description") },
		"permanent-neighbours": func(v ast.Node) { t.PermanentNeighbours = d.boolean(v, "permanent-neighbours") },
		"nodes": func(v ast.Node) {
			whole := d.sequence(v, "nodes", maxNodes, func(e ast.Node) { t.Nodes = append(t.Nodes, d.node(e)) })
			if whole && len(t.Nodes) == 0 {
				d.problem(placeOf(v), "list them under nodes", "the topology has no nodes")
			}
			d.nodesDoubtful = d.nodesDoubtful || !whole
		},
		"links": func(v ast.Node) {
			whole := d.sequence(v, "links", maxLinks, func(e ast.Node) { t.Links = append(t.Links, d.link(e)) })
			d.linksDoubtful = d.linksDoubtful || !whole
		},
		"traffic": func(v ast.Node) {
			d.sequence(v, "traffic", maxTraffic, func(e ast.Node) { t.Traffic = append(t.Traffic, d.traffic(e)) })
		},
	})
	if !found.sound {
		d.nodesDoubtful, d.linksDoubtful = true, true
	}
	if found.lacks("name") {
		d.problem(placeOf(n), "add name: NAME", "the topology has no name")
	}
	if found.lacks("nodes") {
		d.problem(placeOf(n), "list them under nodes", "the topology has no nodes")
	}
}

func (d *document) node(n ast.Node) NodeSpec {
	s := NodeSpec{at: placeOf(n)}
	before := len(d.faults)
	found := d.mapping(n, "a node", map[string]func(ast.Node){
		"name":       func(v ast.Node) { s.Name, s.at = d.name(v, "node name", maxNodeName), placeOf(v) },
		"forwarding": func(v ast.Node) { s.Forwarding, s.forwardingSet = d.boolean(v, "forwarding"), true },
		"addresses":  func(v ast.Node) { s.Addresses = d.prefixes(v, "addresses") },
		"routes": func(v ast.Node) {
			d.sequence(v, "routes", maxRoutes, func(e ast.Node) { s.Routes = append(s.Routes, d.route(e)) })
		},
		"segment-routing": func(v ast.Node) { s.SegmentRouting = d.boolean(v, "segment-routing") },
		"tunnel-source":   func(v ast.Node) { s.TunnelSource = d.address(v, "tunnel-source") },
		"agent":           func(v ast.Node) { s.Agent = d.agent(v) },
	})
	if found.lacks("name") {
		d.problem(s.at, "add name: NAME", "a node has no name")
	}
	s.doubtful = len(d.faults) > before
	d.nodesDoubtful = d.nodesDoubtful || checkName(s.Name, maxNodeName) != nil
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
			d.problem(placeOf(e), "remove one", "address %v is listed twice", p)
			return
		}
		list = append(list, p)
	})
	return list
}

func (d *document) route(n ast.Node) RouteSpec {
	s, doubtful := RouteSpec{at: placeOf(n)}, false
	found := d.mapping(n, "a route", map[string]func(ast.Node){
		"to": func(v ast.Node) {
			s.To, s.at = d.prefix(v, "to"), placeOf(v)
			if s.To.IsValid() && s.To != s.To.Masked() {
				d.problem(placeOf(v), fmt.Sprintf("write %v", s.To.Masked()), "route to %v has bits set after the prefix", s.To)
			}
		},
		"via": func(v ast.Node) {
			before := len(d.faults)
			d.oneOrMore(v, "via", maxPaths, func(e ast.Node) {
				if a := d.address(e, "next hop"); a.IsValid() {
					s.Via = append(s.Via, a)
				}
			})
			if len(s.Via) == 0 && len(d.faults) == before {
				d.problem(placeOf(v), "add via: ADDRESS", "a route has no next hop")
			}
		},
		"encap": func(v ast.Node) {
			text, ok := d.text(v, "encap")
			if !ok {
				return
			}
			var err error
			if s.Encap, err = parseEncap(text); err != nil {
				d.refused(placeOf(v), "encap: ", err)
				doubtful = true
			}
		},
	})
	if found.lacks("to") {
		d.problem(s.at, "add to: PREFIX", "a route has no destination")
	}
	switch {
	case s.Encap.local() && found.has["via"]:
		d.problem(s.at, "remove via", "seg6local forwards packets by their next segment")
	case found.lacks("via") && !s.Encap.local() && !doubtful:
		d.problem(s.at, "add via: ADDRESS", "a route has no next hop")
	}
	return s
}

func (d *document) link(n ast.Node) LinkSpec {
	s := LinkSpec{MTU: defaultMTU, at: placeOf(n)}
	before := len(d.faults)
	found := d.mapping(n, "a link", map[string]func(ast.Node){
		"mtu": func(v ast.Node) { s.MTU = int(d.integer(v, "mtu", minMTU, maxMTU, defaultMTU)) },
		"ends": func(v ast.Node) {
			s.at = placeOf(v)
			ends := 0
			whole := d.sequence(v, "ends", len(s.Ends), func(e ast.Node) { s.Ends[ends] = d.end(e); ends++ })
			if whole && ends != len(s.Ends) {
				d.problem(s.at, "list both under ends", "a link has two ends")
			}
		},
	})
	if found.lacks("ends") {
		d.problem(s.at, "list both under ends", "a link has two ends")
	}
	d.linksDoubtful = d.linksDoubtful || len(d.faults) > before
	return s
}

func (d *document) end(n ast.Node) LinkEnd {
	s := LinkEnd{at: placeOf(n)}
	found := d.mapping(n, "an end of a link", map[string]func(ast.Node){
		"node":      func(v ast.Node) { s.Node, _ = d.text(v, "node"); s.at = placeOf(v) },
		"interface": func(v ast.Node) { s.Interface = d.name(v, "interface", maxInterfaceName) },
		"addresses": func(v ast.Node) { s.Addresses = d.prefixes(v, "addresses") },
	})
	if found.lacks("node") || found.lacks("interface") {
		d.fault(s.at, "an end of a link needs a node and an interface")
	}
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
	s := Traffic{Count: 5, Interval: 200 * time.Millisecond, Size: 56, Bytes: 1 << 20, Port: 9000, at: placeOf(n)}
	found := d.mapping(n, "traffic", map[string]func(ast.Node){
		"name": func(v ast.Node) { s.Name = d.name(v, "traffic name", maxNodeName) },
		"kind": func(v ast.Node) {
			kind, ok := d.text(v, "kind")
			if s.Kind = kind; ok && kind != KindPing && kind != KindUDP && kind != KindTCP {
				d.problem(placeOf(v), "use ping, udp or tcp", "traffic of kind %q is unknown", kind)
			}
		},
		"from":     func(v ast.Node) { s.From, _ = d.text(v, "from"); s.at = placeOf(v) },
		"to":       func(v ast.Node) { s.To, _ = d.text(v, "to") },
		"count":    func(v ast.Node) { s.Count = int(d.integer(v, "count", 1, maxPackets, 1)) },
		"interval": func(v ast.Node) { s.Interval = d.duration(v, "interval", maxInterval) },
		"size":     func(v ast.Node) { s.Size = int(d.integer(v, "size", 0, maxPayload, maxPayload)) },
		"bytes":    func(v ast.Node) { s.Bytes = d.integer(v, "bytes", 1, maxTransfer, 1) },
		"port":     func(v ast.Node) { s.Port = uint16(d.integer(v, "port", 1, 65535, 1)) },
		"address":  func(v ast.Node) { s.Address = d.address(v, "address") },
	})
	if found.lacks("kind") {
		d.problem(s.at, "add kind: ping, udp or tcp", "traffic has no kind")
	}
	if found.lacks("from") || found.lacks("to") {
		d.fault(s.at, "traffic needs from: NODE and to: NODE")
	}
	if s.Name == "" {
		s.Name = s.Kind
	}
	return s
}
