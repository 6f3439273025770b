// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/collector/internal/store"
)

// Flows selects packets by what they have in common with others of their flow. Zero fields select all.
type Flows struct {
	Namespace           *uint16
	Source, Destination netip.Prefix
	NextHeader          *uint8
	SourcePort          *uint16
	DestinationPort     *uint16
	Port                *uint16 // of one of both
}

// all reports whether all packets are selected.
func (f *Flows) all() bool { return *f == Flows{} }

// of is a reading whose rollups are of the packets that are selected. It adds its parameters to those of the query.
func (f *Flows) of(r *store.Reading, p *parameters) *store.Reading {
	if f.all() {
		return r
	}
	return r.Of(f.where(p))
}

// recorded are the conditions on records that have the addresses as text.
func (f *Flows) recorded(p *parameters) string {
	conditions := f.addresses(p, store.OctetsOf("source"), store.OctetsOf("destination"))
	if f.Namespace != nil {
		conditions = append(conditions, "namespace = "+p.add(*f.Namespace))
	}
	return strings.Join(conditions, " AND ")
}

// addresses are the conditions on two columns that have the octets of addresses.
func (f *Flows) addresses(p *parameters, source, destination string) (conditions []string) {
	for _, c := range []struct {
		column string
		prefix netip.Prefix
	}{{source, f.Source}, {destination, f.Destination}} {
		if c.prefix.IsValid() {
			low, high := store.Bounds(c.prefix)
			conditions = append(conditions, fmt.Sprintf("%s BETWEEN %s AND %s", c.column, p.add(low), p.add(high)))
		}
	}
	return conditions
}

// where is the condition on packets p; "" if all are selected.
func (f *Flows) where(p *parameters) string {
	conditions := f.addresses(p, "source", "destination")
	if f.NextHeader != nil {
		conditions = append(conditions, "next_header = "+p.add(*f.NextHeader))
	}
	if f.SourcePort != nil {
		conditions = append(conditions, "source_port = "+p.add(*f.SourcePort))
	}
	if f.DestinationPort != nil {
		conditions = append(conditions, "destination_port = "+p.add(*f.DestinationPort))
	}
	if f.Port != nil {
		port := p.add(*f.Port)
		conditions = append(conditions, "(source_port = "+port+" OR destination_port = "+port+")")
	}
	text := strings.Join(conditions, " AND ")
	if text != "" {
		text = "p.key IN (SELECT number FROM FILE(keys) WHERE " + text + ")"
	}
	if f.Namespace != nil {
		if text != "" {
			text += " AND "
		}
		text += "p.namespace = " + p.add(*f.Namespace)
	}
	return text
}
