// SPDX-License-Identifier: Apache-2.0

package recordfilter

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// role is what a field is to a search.
type role uint8

const (
	nodeName role = 1 + iota
	nodeNumber
	interfaceName
	interfaceNumber
	flowName
	flowNumber
	delay // of one packet, or with the key max of several
	microseconds
	maximum // of delays, within an object of them
)

// roles are those of the fields that a filter of nodes, interfaces, flows or delays searches, in
// all kinds of records and at any depth.
var roles = map[string]role{
	"node": nodeName, "from_node": nodeName, "to_node": nodeName, "node_name": nodeName,
	"node_id": nodeNumber, "node_id_wide": nodeNumber,
	"interface": interfaceName, "ingress": interfaceName, "egress": interfaceName, "ingress_name": interfaceName, "egress_name": interfaceName,
	"ingress_id": interfaceNumber, "egress_id": interfaceNumber, "ingress_id_wide": interfaceNumber, "egress_id_wide": interfaceNumber,
	"flow": flowName, "flow_id": flowNumber,
	"delay_ns": delay, "path_delay_ns": delay, "since_previous_ns": delay, "transit_delay_ns": delay, "p95_ns": delay,
	"path_delay_us": microseconds, "max": maximum,
}

// notYet are keys that only records of other versions have.
var notYet = map[string]bool{"node_name": true, "ingress_name": true, "egress_name": true}

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
	return &search{
		node:             newWanted(f.Node),
		networkInterface: newWanted(f.Interface),
		flow:             newWanted(f.Flow),
		atLeast:          uint64(max(f.MinDelay, 0)),
	}
}

func (s *search) match(r record.Record) bool {
	s.node.found, s.networkInterface.found, s.flow.found, s.slow = s.node.name == "", s.networkInterface.name == "", s.flow.name == "",
		s.atLeast == 0
	s.inside, s.delays = s.inside[:0], 0
	record.Walk(r, s)
	return s.node.found && s.networkInterface.found && s.flow.found && s.slow
}

// find compares a value with what is wanted of its role.
func (w *wanted) find(name string) { w.found = w.found || name == w.name }

func (w *wanted) findNumber(n uint64) { w.found = w.found || w.is && n == w.number }

// Text compares names.
func (s *search) Text(c *record.Column, v string) {
	if c == nil {
		return
	}
	switch roles[c.Key] {
	case nodeName:
		s.node.find(v)
	case interfaceName:
		s.networkInterface.find(v)
	case flowName:
		s.flow.find(v)
	}
}

// Uint compares numbers and delays.
func (s *search) Uint(c *record.Column, v uint64) {
	if c == nil {
		return
	}
	switch roles[c.Key] {
	case nodeNumber:
		s.node.findNumber(v)
	case interfaceNumber:
		s.networkInterface.findNumber(v)
	case flowNumber:
		s.flow.findNumber(v)
	case delay:
		s.slow = s.slow || v >= s.atLeast
	case maximum:
		s.slow = s.slow || s.delays > 0 && v >= s.atLeast
	case microseconds:
		s.slow = s.slow || v >= (s.atLeast+999)/1000
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
	of := c != nil && roles[c.Key] == delay
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
