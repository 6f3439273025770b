// SPDX-License-Identifier: Apache-2.0

// Package record defines what Waymark reports: every kind of record, and for each kind
// one table of its fields. The records' JSON, their IPFIX templates and encoding, their
// decoding in a collector, and the reference are made from the tables.
package record

import (
	"net/netip"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// Record is what sinks and observers take. It must not change after it was offered,
// except a postcard: see Retain.
type Record interface {
	// Kind is the record's kind, as in JSON.
	Kind() string
	// Text is the record as readable text.
	Text() string
}

// Filter selects records; the zero value selects all.
type Filter struct {
	Namespace   *ioam.NamespaceID
	Source      netip.Prefix // invalid: any
	Destination netip.Prefix // invalid: any
	Kinds       string       // with commas between them; "": any
	Flow        string       // name of a measured flow, of records of its loss and delay; "": any
}

// about is a record about packets of a namespace, whose addresses may be invalid.
type about interface {
	about() (ioam.NamespaceID, *Packet)
}

// Match reports whether the filter selects a record. One that is not about packets
// is not selected by a namespace or an address.
func (f Filter) Match(r Record) bool {
	if f.Kinds != "" && !strings.Contains(","+f.Kinds+",", ","+r.Kind()+",") {
		return false
	}
	if f.Flow != "" {
		of, ok := r.(interface{ measurement() *Measurement })
		if !ok || of.measurement().Flow != f.Flow {
			return false
		}
	}
	if f.Namespace == nil && !f.Source.IsValid() && !f.Destination.IsValid() {
		return true
	}
	of, ok := r.(about)
	if !ok {
		return false
	}
	namespace, packet := of.about()
	return (f.Namespace == nil || *f.Namespace == namespace) &&
		(!f.Source.IsValid() || f.Source.Contains(packet.Source)) &&
		(!f.Destination.IsValid() || f.Destination.Contains(packet.Destination))
}
