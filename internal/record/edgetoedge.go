// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// EdgeToEdge is the Edge-to-Edge option of a packet as captured on a link (RFC 9197
// §4.6). Its JSON names are a contract: they are added to, never changed.
type EdgeToEdge struct {
	Time              instant.Time
	Interface         string // where the packet was seen
	Namespace         ioam.NamespaceID
	Type              ioam.EdgeToEdgeType
	Sequence          Field[uint64] // absent when the option has none
	Timestamp         Field[time.Time]
	TimestampFraction Field[uint32] // raw, only when the option has no seconds
	Packet            Packet
}

// Kind is "edge-to-edge".
func (e *EdgeToEdge) Kind() string { return KindEdgeToEdge }

// edges declares the fields of an Edge-to-Edge option.
var edges = table[*EdgeToEdge]{
	field("time", "", "When the packet was seen.", func(e *EdgeToEdge) *instant.Time { return &e.Time }, moment()),
	field(
		"interface",
		"",
		"Name of the interface at which the packet was seen.",
		func(e *EdgeToEdge) *string { return &e.Interface },
		present(textual()),
	),
	field("namespace", "", meaningNamespace, func(e *EdgeToEdge) *ioam.NamespaceID { return &e.Namespace }, number[ioam.NamespaceID]()),
	field(
		"e2e_type",
		"",
		"IOAM-E2E-Type: which fields the option has.",
		func(e *EdgeToEdge) *ioam.EdgeToEdgeType { return &e.Type },
		hexadecimal[ioam.EdgeToEdgeType](4),
	),
	field("sequence", "", "Sequence Number of the packet in its group, of 32 or of 64 bits.",
		func(e *EdgeToEdge) *Field[uint64] { return &e.Sequence }, optional(number[uint64]())),
	field("timestamp", "", "When the packet entered the domain, by the clock of its encapsulating node.",
		func(e *EdgeToEdge) *Field[time.Time] { return &e.Timestamp }, timestamp()),
	field("timestamp_fraction", "", "The timestamp's fraction as in the packet, where it has no seconds.",
		func(e *EdgeToEdge) *Field[uint32] { return &e.TimestampFraction }, known(number[uint32](), 1<<32-1)),
	field("packet", "", "The packet.", func(e *EdgeToEdge) *Packet { return &e.Packet }, object(packetTable)),
}

// NewEdgeToEdge is the record of an option, whose times are of a clock.
func NewEdgeToEdge(at time.Time, e ioam.EdgeToEdge, packet Packet, clock Clock) *EdgeToEdge {
	const unknown = 1<<32 - 1 // RFC 9197 §4.6
	r := &EdgeToEdge{Time: instant.Of(at), Namespace: e.Namespace, Type: e.Type, Packet: packet}
	if e.Type&(ioam.EdgeToEdgeSequence32|ioam.EdgeToEdgeSequence64) != 0 {
		r.Sequence = NewField(e.Sequence, true)
	}
	switch {
	case e.Type.Has(ioam.EdgeToEdgeTimestampSeconds):
		fraction := e.Fraction
		if fraction == unknown {
			fraction = 0 // as in traces: the full second
		}
		entered, ok := clock.Format.Time(e.Seconds, fraction, clock.TAIOffset)
		r.Timestamp = NewField(entered, ok && e.Seconds != unknown)
	case e.Type.Has(ioam.EdgeToEdgeTimestampFraction):
		r.TimestampFraction = NewField(e.Fraction, e.Fraction != unknown)
	}
	return r
}

// Text is the option as a line of readable text.
func (e *EdgeToEdge) Text() string {
	var b strings.Builder
	if !e.Time.IsZero() {
		b.WriteString(e.Time.String() + "  ")
	}
	if e.Interface != "" {
		b.WriteString(Printable(e.Interface) + "  ")
	}
	fmt.Fprintf(&b, "%s, namespace %d, edge-to-edge, type %v", e.Packet, e.Namespace, e.Type)
	if e.Sequence.Present {
		fmt.Fprintf(&b, ", sequence %s", text(e.Sequence))
	}
	if e.Timestamp.Present {
		entered := "-"
		if e.Timestamp.Valid {
			entered = instant.Of(e.Timestamp.Value).String()
		}
		fmt.Fprintf(&b, ", entered %s", entered)
	}
	if e.TimestampFraction.Present {
		fmt.Fprintf(&b, ", fraction %s", text(e.TimestampFraction))
	}
	return b.String() + "\n"
}

func (e *EdgeToEdge) about() (ioam.NamespaceID, *Packet) { return e.Namespace, &e.Packet }
