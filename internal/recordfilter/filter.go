// SPDX-License-Identifier: Apache-2.0

// Package recordfilter selects records: by what most people ask for, and by an expression
// over all fields. Programs that print records and the agent's API have the same filters.
package recordfilter

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Filter says which records are wanted; the zero value selects all. A record must pass
// everything that is set. Settings are its parts as text.
type Filter struct {
	Kinds       string // with commas between them
	Namespace   *ioam.NamespaceID
	Source      netip.Prefix // invalid: any
	Destination netip.Prefix // invalid: any
	Port        uint16       // of the source or the destination; 0: any
	Protocol    *ioam.NextHeader
	Node        string // name, or number
	Interface   string // name, or number in IOAM data
	Flow        string // name of a measured flow, or number
	MinDelay    time.Duration
	Incomplete  bool
	Where       string // an expression
}

// Program is a filter that is ready to match. Only one goroutine may use it at a time.
type Program struct {
	kinds   map[string]bool // nil: any
	filter  Filter
	packets bool // a record must be about packets
	search  *search
	where   *expression
}

// Compile makes a filter ready. Its error is about the expression or the kinds.
func (f Filter) Compile() (*Program, error) {
	p := &Program{filter: f, search: newSearch(&f)}
	if f.Kinds != "" {
		p.kinds = map[string]bool{}
		for kind := range strings.SplitSeq(f.Kinds, ",") {
			p.kinds[kind] = true
		}
		if err := checkKinds(f.Kinds); err != nil {
			return nil, err
		}
	}
	p.packets = f.Namespace != nil || f.Source.IsValid() || f.Destination.IsValid() || f.Port != 0 || f.Protocol != nil
	if f.Where == "" {
		return p, nil
	}
	var err error
	p.where, err = compile(f.Where)
	return p, err
}

// Match reports whether the filter selects a record. An error says that the expression has no
// result for it, as when it adds a number to a value that the record lacks; such a record is
// not selected.
func (p *Program) Match(r record.Record) (bool, error) { return p.MatchWith(r, nil) }

// MatchWith is Match for a record of which more fields are known than it has, by their JSON keys.
func (p *Program) MatchWith(r record.Record, more map[string]any) (bool, error) {
	if !p.matchParts(r) {
		return false, nil
	}
	if p.where == nil {
		return true, nil
	}
	return p.where.matchWith(r, more)
}

// Part is a part of a program, which one goroutine may use while another one uses the other part.
type Part func(r record.Record) (bool, error)

// Match reports whether the part selects a record.
func (p Part) Match(r record.Record) (bool, error) { return p(r) }

// Parts divides the program: what is quick for every record, and the expression, which may be costly; nil
// if there is none. A record must pass both.
func (p *Program) Parts() (quick, where Part) {
	quick = func(r record.Record) (bool, error) { return p.matchParts(r), nil }
	if p.where != nil {
		where = p.where.match
	}
	return quick, where
}

// matchParts checks all but the expression.
func (p *Program) matchParts(r record.Record) bool {
	return (p.kinds == nil || p.kinds[r.Kind()]) && (!p.filter.Incomplete || record.Incomplete(r)) &&
		(!p.packets || p.filter.matchPacket(r)) &&
		(p.search == nil || p.search.match(r))
}

// matchPacket checks what is known of the packets that a record is about.
func (f *Filter) matchPacket(r record.Record) bool {
	namespace, packet, ok := record.About(r)
	if !ok {
		return false
	}
	return (f.Namespace == nil || *f.Namespace == namespace) &&
		(!f.Source.IsValid() || f.Source.Contains(packet.Source)) &&
		(!f.Destination.IsValid() || f.Destination.Contains(packet.Destination)) &&
		(f.Port == 0 || isPort(packet.SourcePort, f.Port) || isPort(packet.DestinationPort, f.Port)) &&
		(f.Protocol == nil || packet.Source.IsValid() && packet.NextHeader == *f.Protocol)
}

func isPort(port *uint16, wanted uint16) bool { return port != nil && *port == wanted }

// number is a text as a number, if it is one.
func number(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 0, 64)
	return n, err == nil
}
