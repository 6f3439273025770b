// SPDX-License-Identifier: Apache-2.0

// Package record defines what Waymark reports: every kind of record, and for each kind
// one table of its fields. The records' JSON, their IPFIX templates and encoding, their
// decoding in a collector, and the reference are made from the tables.
package record

import (
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

// about is a record about packets of a namespace, whose addresses may be invalid.
type about interface {
	about() (ioam.NamespaceID, *Packet)
}

// About is the namespace and the packet that a record is about, if it is about one. The
// packet's addresses may be invalid.
func About(r Record) (ioam.NamespaceID, *Packet, bool) {
	of, ok := r.(about)
	if !ok {
		return 0, nil, false
	}
	namespace, packet := of.about()
	return namespace, packet, true
}

// Incomplete reports whether a record says of itself that something is missing: a path without
// all its nodes, a trace in which a node found no room, a loss that is not known.
func Incomplete(r Record) bool {
	of, ok := r.(interface{ incomplete() bool })
	return ok && of.incomplete()
}
