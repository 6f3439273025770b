// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// Keys of the fields that a filter of nodes, interfaces, flows or delays searches, in all
// kinds of records and at any depth.
var (
	nodeNames      = set("node", "from_node", "to_node", "node_name")
	nodeNumbers    = set("node_id", "node_id_wide")
	interfaceNames = set("interface", "ingress", "egress", "ingress_name", "egress_name")
	interfaceIDs   = set("ingress_id", "egress_id", "ingress_id_wide", "egress_id_wide")
	flowNames      = set("flow")
	flowNumbers    = set("flow_id")
	// delays are of one packet, or have the key max of many.
	delays = set("delay_ns", "path_delay_ns", "since_previous_ns", "transit_delay_ns", "p95_ns")
)

// notYet are keys of another version, which a node with a later one may send.
var notYet = set("node_name", "ingress_name", "egress_name", "path_delay_ns")

func set(keys ...string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, key := range keys {
		m[key] = true
	}
	return m
}

// search looks for values in a record; the zero value of a wanted one is not looked for.
type search struct {
	node, networkInterface, flow wanted
	atLeast                      uint64 // nanoseconds

	slow   bool // a delay of at least so much was found
	inside []bool
	delays int // objects with delays that are not at their end
}

// wanted is a name or a number.
type wanted struct {
	name   string
	number uint64
	is     bool // name is also a number
	found  bool
}

func newWanted(text string) wanted {
	n, ok := number(text)
	return wanted{name: text, number: n, is: ok}
}

// newSearch is nil if there is nothing to look for.
func newSearch(f *Filter) *search {
	if f.Node+f.Interface+f.Flow == "" && f.MinDelay <= 0 {
		return nil
	}
	return &search{node: newWanted(f.Node), networkInterface: newWanted(f.Interface), flow: newWanted(f.Flow), atLeast: uint64(max(f.MinDelay, 0))}
}

func (s *search) match(r record.Record) bool {
	s.node.found, s.networkInterface.found, s.flow.found, s.slow = s.node.name == "", s.networkInterface.name == "", s.flow.name == "", s.atLeast == 0
	s.inside, s.delays = s.inside[:0], 0
	record.Walk(r, s)
	return s.node.found && s.networkInterface.found && s.flow.found && s.slow
}

// Text compares names.
func (s *search) Text(c *record.Column, v string) {
	if c == nil {
		return
	}
	for _, of := range []struct {
		*wanted
		keys map[string]bool
	}{{&s.node, nodeNames}, {&s.networkInterface, interfaceNames}, {&s.flow, flowNames}} {
		if !of.found && of.keys[c.Key] && v == of.name {
			of.found = true
		}
	}
}

// Uint compares numbers and delays.
func (s *search) Uint(c *record.Column, v uint64) {
	if c == nil {
		return
	}
	for _, of := range []struct {
		*wanted
		keys map[string]bool
	}{{&s.node, nodeNumbers}, {&s.networkInterface, interfaceIDs}, {&s.flow, flowNumbers}} {
		if !of.found && of.is && of.keys[c.Key] && v == of.number {
			of.found = true
		}
	}
	switch {
	case s.slow:
	case delays[c.Key], s.delays > 0 && c.Key == "max":
		s.slow = v >= s.atLeast
	case c.Key == "path_delay_us":
		s.slow = v >= (s.atLeast+999)/1000
	}
}

// Int compares delays, which may be negative.
func (s *search) Int(c *record.Column, v int64) {
	if v >= 0 {
		s.Uint(c, uint64(v))
	}
}

// BeginObject notes whether the object has delays.
func (s *search) BeginObject(c *record.Column) {
	of := c != nil && delays[c.Key]
	s.inside = append(s.inside, of)
	if of {
		s.delays++
	}
}

// EndObject ends what BeginObject began.
func (s *search) EndObject() {
	if s.inside[len(s.inside)-1] {
		s.delays--
	}
	s.inside = s.inside[:len(s.inside)-1]
}

// The other values are not looked for.

func (s *search) Null(*record.Column)                {}
func (s *search) Bool(*record.Column, bool)          {}
func (s *search) Float(*record.Column, float64)      {}
func (s *search) Hex(*record.Column, uint64, int)    {}
func (s *search) Time(*record.Column, time.Time)     {}
func (s *search) Address(*record.Column, netip.Addr) {}
func (s *search) Octets(*record.Column, []byte)      {}
func (s *search) BeginList(*record.Column)           {}
func (s *search) EndList()                           {}
