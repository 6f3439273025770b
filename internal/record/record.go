// SPDX-License-Identifier: Apache-2.0

// Package record defines what Waymark reports: every kind of record, and for each kind
// one table of its fields. The records' JSON, their IPFIX templates and encoding, their
// decoding in a collector, and the reference are made from the tables.
package record

import (
	"fmt"

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

// Field is a value that a record may lack. The zero Field is absent: the trace type
// lacks it. A Field that is present without a value is "not available", null in JSON.
type Field[T any] struct {
	Value   T
	Present bool
	Valid   bool // there is a value
}

// NewField makes a field that is present; ok reports whether it has a value.
func NewField[T any](v T, ok bool) Field[T] {
	return Field[T]{Value: v, Present: true, Valid: ok}
}

// Numbers that are written in hexadecimal.
type (
	Hex8  uint8
	Hex32 uint32
	Hex64 uint64
)

func (v Hex8) String() string  { return fmt.Sprintf("0x%02x", uint8(v)) }
func (v Hex32) String() string { return fmt.Sprintf("0x%08x", uint32(v)) }
func (v Hex64) String() string { return fmt.Sprintf("0x%016x", uint64(v)) }

// Meanings of fields that several kinds of records share.
const (
	meaningNode    = "Name of the reporting node; at a collector, absent until its exporter has sent it."
	meaningRole    = "`encapsulating`, `transit` or `decapsulating`."
	meaningIngress = "Name of the interface of arrival; absent if the packets came from no link."
	meaningEgress  = "Name of the interface of departure; absent if it is not known, as always at the decapsulating node."
	meaningIfIndex = "Index of the interface at the node; absent when its name is. `ingress_id` and `egress_id` of node data " +
		"are those of the configuration."
	meaningNamespace = "IOAM Namespace-ID."
	meaningTraceType = "IOAM-Trace-Type, such as `\"0xf80000\"`."
	meaningFlowID    = "Flow-ID of the option (RFC 9326 §3.2), absent when it has none."
	meaningSequence  = "Sequence Number of the option (RFC 9326 §3.2), absent when it has none."
)

// observationTimes are elements of other exporters for the time of an observation.
var observationTimes = []string{"observationTimeSeconds", "observationTimeMilliseconds", "observationTimeMicroseconds"}
