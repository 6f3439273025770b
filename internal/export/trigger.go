// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
)

// Trigger is the Direct Export option of a packet as it was captured on a link
// (RFC 9326): what nodes were asked to export, not what they did. Its JSON names
// are a contract: they are added to, never changed.
type Trigger struct {
	Kind           string           `json:"kind"` // KindTrigger
	Time           instant.Time     `json:"time,omitzero"`
	Interface      string           `json:"interface,omitempty"` // where the packet was seen
	Namespace      ioam.NamespaceID `json:"namespace"`
	Flags          Hex8             `json:"flags"`
	ExtensionFlags Hex8             `json:"extension_flags"`
	TraceType      ioam.TraceType   `json:"trace_type"`
	FlowID         Field[uint32]    `json:"flow_id,omitzero"`  // absent when the option has none
	Sequence       Field[uint32]    `json:"sequence,omitzero"` // absent when the option has none
	Packet         Packet           `json:"packet"`
}

// KindTrigger is the kind of a [Trigger], as JSON names it.
const KindTrigger = "direct-export"

// NewTrigger is the record of an option.
func NewTrigger(at time.Time, d ioam.DirectExport, packet Packet) *Trigger {
	t := &Trigger{
		Kind: KindTrigger, Time: instant.Of(at), Namespace: d.Namespace, Flags: Hex8(d.Flags), ExtensionFlags: Hex8(d.ExtensionFlags),
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

func (t *Trigger) about() (ioam.NamespaceID, *Packet) { return t.Namespace, &t.Packet }

// Text is the option for people, in a line.
func (t *Trigger) Text() string {
	var b strings.Builder
	if !t.Time.IsZero() {
		b.WriteString(t.Time.String() + "  ")
	}
	if t.Interface != "" {
		b.WriteString(t.Interface + "  ")
	}
	fmt.Fprintf(&b, "%s, namespace %d, type %v, direct export%s", t.Packet, t.Namespace, t.TraceType, ids(t.FlowID))
	if t.Sequence.Present {
		fmt.Fprintf(&b, ", sequence %s", text(t.Sequence))
	}
	return b.String() + "\n"
}
