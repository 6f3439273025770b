// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/ioam"
)

// NodeNames are the names of another node and of its interfaces.
type NodeNames struct {
	ID         *ioam.NodeID     `key:"id" optional:"true"`
	IDWide     *ioam.NodeIDWide `key:"id-wide" optional:"true"`
	Name       string           `key:"name" required:"true"`
	Interfaces []InterfaceNames `key:"interfaces" optional:"true"`
}

// InterfaceNames are the name of an interface of another node, and what it is for.
type InterfaceNames struct {
	ID          *ioam.InterfaceID     `key:"id" optional:"true"`
	IDWide      *ioam.InterfaceIDWide `key:"id-wide" optional:"true"`
	Name        string                `key:"name" required:"true"`
	Description string                `key:"description" optional:"true"`
}

// nameTexts say what the keys of names mean.
var nameTexts = yamlfile.KeyTexts{
	"id":                               "Node id of trace field 0.",
	"id, absent":                       "id-wide instead",
	"id-wide":                          "Node id of trace field 8.",
	"id-wide, absent":                  "id instead",
	"name":                             "The node's name.",
	"interfaces":                       "The names of its interfaces, at most 16384 of all nodes.",
	"interfaces, absent":               "none",
	"interfaces[].id":                  "Interface id of trace field 1.",
	"interfaces[].id, absent":          "id-wide instead",
	"interfaces[].id-wide":             "Interface id of trace field 9.",
	"interfaces[].id-wide, absent":     "id instead",
	"interfaces[].name":                "The interface's name.",
	"interfaces[].description":         "What the interface is for.",
	"interfaces[].description, absent": "none",
}

// Node is the node's names by its ids.
func (n *NodeNames) Node() nodenames.Node {
	out := nodenames.Node{ID: valueOr(n.ID, ioam.NodeIDUnavailable), IDWide: valueOr(n.IDWide, ioam.NodeIDWideUnavailable), Name: n.Name}
	for i := range n.Interfaces {
		in := &n.Interfaces[i]
		out.Interfaces = append(out.Interfaces, nodenames.Interface{
			ID: valueOr(
				in.ID,
				ioam.InterfaceIDUnavailable,
			), IDWide: valueOr(in.IDWide, ioam.InterfaceIDWideUnavailable), Name: in.Name, Description: in.Description,
		})
	}
	return out
}

// KnownNames are the names in the file: of other nodes, and of this one as far as the file has its ids.
func (c *Config) KnownNames() *nodenames.Names {
	names := nodenames.New()
	for i := range c.Names {
		names.Add(c.Names[i].Node())
	}
	own := NodeNames{ID: c.Node.ID, IDWide: c.Node.IDWide, Name: c.Node.Name}
	for _, in := range c.Interfaces {
		own.Interfaces = append(own.Interfaces, InterfaceNames{ID: in.ID, IDWide: in.IDWide, Name: in.Name, Description: in.Description})
	}
	names.Add(own.Node())
	return names
}

func valueOr[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}

// nameRules refuses names that are not safe to show, and ids with two names.
func (c *Config) nameRules(add func(path, problem, cure string)) {
	check := func(path, name string) {
		switch {
		case len(name) > nodenames.MaxLength:
			add(path, fmt.Sprintf("the name has %d octets", len(name)), fmt.Sprintf("write at most %d", nodenames.MaxLength))
		case nodenames.Printable(name) != name:
			add(
				path,
				fmt.Sprintf("%s has characters that a terminal cannot show safely", nodenames.Printable(name)),
				"write letters, digits and signs, from left to right",
			)
		}
	}
	check("node.name", c.Node.Name)
	for i := range c.Interfaces {
		check(fmt.Sprintf("interfaces[%d].description", i), c.Interfaces[i].Description)
	}
	ids, wide, links := map[ioam.NodeID]int{}, map[ioam.NodeIDWide]int{}, 0
	for i := range c.Names {
		n, path := &c.Names[i], fmt.Sprintf("names[%d]", i)
		check(path+".name", n.Name)
		if n.ID == nil && n.IDWide == nil {
			add(path, "the node has no id", "add the id or the id-wide that it writes into packets")
		}
		refuseTwice(add, path+".id", ids, n.ID, i, "names")
		refuseTwice(add, path+".id-wide", wide, n.IDWide, i, "names")
		short, long := map[ioam.InterfaceID]int{}, map[ioam.InterfaceIDWide]int{}
		links += len(n.Interfaces)
		for j := range n.Interfaces {
			in, at := &n.Interfaces[j], fmt.Sprintf("%s.interfaces[%d]", path, j)
			check(at+".name", in.Name)
			check(at+".description", in.Description)
			if in.ID == nil && in.IDWide == nil {
				add(at, "the interface has no id", "add the id or the id-wide that the node writes into packets")
			}
			refuseTwice(add, at+".id", short, in.ID, j, path+".interfaces")
			refuseTwice(add, at+".id-wide", long, in.IDWide, j, path+".interfaces")
		}
	}
	if links > nodenames.MaxInterfaces {
		add(
			"names",
			fmt.Sprintf("there are %d interfaces", links),
			fmt.Sprintf("keep at most %d, of the nodes whose paths are seen here", nodenames.MaxInterfaces),
		)
	}
}

// refuseTwice refuses an id that an earlier entry of the list has.
func refuseTwice[T comparable](add func(path, problem, cure string), path string, seen map[T]int, id *T, index int, list string) {
	if id == nil {
		return
	}
	if before, known := seen[*id]; known {
		add(path, fmt.Sprintf("%v is the id of %s[%d], too", *id, list, before), "keep one of both names")
		return
	}
	seen[*id] = index
}
