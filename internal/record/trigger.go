// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// Trigger is the Direct Export option of a packet as captured on a link (RFC 9326):
// what nodes are asked to export, not what they exported. Its JSON names are a
// contract: they are added to, never changed.
type Trigger struct {
	Time           instant.Time
	Interface      string // where the packet was seen
	Namespace      ioam.NamespaceID
	Flags          Hex8
	ExtensionFlags Hex8
	TraceType      ioam.TraceType
	FlowID         Field[uint32] // absent when the option has none
	Sequence       Field[uint32] // absent when the option has none
	Packet         Packet
}

// Kind is "direct-export".
func (t *Trigger) Kind() string { return KindTrigger }

// triggers declares the fields of a Direct Export option.
var triggers = table[*Trigger]{
	field("time", "", "When the packet was seen.", func(t *Trigger) *instant.Time { return &t.Time }, moment()),
	field(
		"interface",
		"",
		"Name of the interface at which the packet was seen.",
		func(t *Trigger) *string { return &t.Interface },
		present(textual()),
	),
	field("namespace", "", meaningNamespace, func(t *Trigger) *ioam.NamespaceID { return &t.Namespace }, number[ioam.NamespaceID]()),
	field(
		"flags",
		"",
		"Flags of the option, of which no bit is assigned yet (RFC 9326 §3.1).",
		func(t *Trigger) *Hex8 { return &t.Flags },
		hexadecimal[Hex8](2),
	),
	field("extension_flags", "", "Extension-Flags of the option: `0x80` is Flow-ID, `0x40` Sequence Number.",
		func(t *Trigger) *Hex8 { return &t.ExtensionFlags }, hexadecimal[Hex8](2)),
	field("trace_type", "", meaningTraceType, func(t *Trigger) *ioam.TraceType { return &t.TraceType }, word[ioam.TraceType]()),
	field("flow_id", "", meaningFlowID, func(t *Trigger) *Field[uint32] { return &t.FlowID }, optional(number[uint32]())),
	field("sequence", "", meaningSequence, func(t *Trigger) *Field[uint32] { return &t.Sequence }, optional(number[uint32]())),
	field("packet", "", "The packet.", func(t *Trigger) *Packet { return &t.Packet }, object(packetTable)),
}

// NewTrigger is the record of an option.
func NewTrigger(at time.Time, d ioam.DirectExport, packet Packet) *Trigger {
	t := &Trigger{
		Time: instant.Of(at), Namespace: d.Namespace, Flags: Hex8(d.Flags), ExtensionFlags: Hex8(d.ExtensionFlags),
		TraceType: d.Type, Packet: packet,
	}
	if d.HasFlowID() {
		t.FlowID = NewField(d.FlowID, true)
	}
	if d.HasSequence() {
		t.Sequence = NewField(d.Sequence, true)
	}
	return t
}

// Text is the option as a line of readable text.
func (t *Trigger) Text() string {
	var b strings.Builder
	if !t.Time.IsZero() {
		b.WriteString(t.Time.String() + "  ")
	}
	if t.Interface != "" {
		b.WriteString(Printable(t.Interface) + "  ")
	}
	fmt.Fprintf(&b, "%s, namespace %d, type %v, direct export%s", t.Packet, t.Namespace, t.TraceType, ids(t.FlowID))
	if t.Sequence.Present {
		fmt.Fprintf(&b, ", sequence %s", text(t.Sequence))
	}
	return b.String() + "\n"
}

func (t *Trigger) about() (ioam.NamespaceID, *Packet) { return t.Namespace, &t.Packet }
