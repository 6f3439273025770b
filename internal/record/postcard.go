// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// Postcard is one node's export for one packet with a Direct Export option (RFC 9326).
// Its JSON names are a contract: they are added to, never changed.
type Postcard struct {
	Time           instant.Time
	Node           string // the exporting node
	Role           NodeRole
	Ingress        string // interface; absent where the packet came from no link
	Egress         string // interface; absent where it is not known
	IngressIfIndex model.IfIndex
	EgressIfIndex  model.IfIndex
	Option         string // IOAM option-type
	Namespace      ioam.NamespaceID
	TraceType      ioam.TraceType
	Flags          Hex8
	ExtensionFlags Hex8
	FlowID         Field[uint32] // absent when the option has none
	Sequence       Field[uint32] // absent when the option has none
	Packet         Packet
	Data           NodeData // the fields of the trace type

	// Raw has the fields of Data as they would be in a packet, and Clock says how to
	// read its times; a received postcard has neither. IPFIX exports these octets
	// unchanged, so Data is read from them only on request: see Measured.
	Raw   ioam.NodeData
	Clock Clock
}

// Kind is "postcard".
func (p *Postcard) Kind() string { return KindPostcard }

// released are postcards that may be used again.
var released = sync.Pool{New: func() any { return new(Postcard) }}

func emptyPostcard() *Postcard {
	p := released.Get().(*Postcard)
	p.Option = directExport
	return p
}

var directExport = ioam.IOAMDirectExport.String()

// Release lets the memory of a postcard that was read be used for another one. Nothing may use the postcard any more.
func (p *Postcard) Release() {
	*p = Postcard{}
	released.Put(p)
}

// Retain is a record for later: a copy of a postcard, because who offers one may use
// its memory for the next.
func Retain(r Record) Record {
	p, ok := r.(*Postcard)
	if !ok {
		return r
	}
	kept := *p
	kept.Raw.Bytes = bytes.Clone(p.Raw.Bytes)
	for _, port := range []**uint16{&kept.Packet.SourcePort, &kept.Packet.DestinationPort} {
		if *port != nil {
			value := **port
			*port = &value
		}
	}
	return &kept
}

// Measured is the node's data about the packet: Data, or read from Raw.
func (p *Postcard) Measured() NodeData { return *p.measured() }

func (p *Postcard) measured() *NodeData {
	if p.Raw.Bytes == nil {
		return &p.Data
	}
	n := ReadNodeData(p.Raw, p.Clock)
	return &n
}

// postcards declares the fields of a postcard.
var postcards = table[*Postcard]{
	field("time", "", "When the packet left the node; at the decapsulating node, when it arrived. Always present, in nanoseconds.",
		func(p *Postcard) *instant.Time { return &p.Time }, moment()).
		ipfix(sectionTime, "observationTimeNanoseconds", "flowStartMilliseconds", "flowEndMilliseconds").firstRead().also(observationTimes...),
	field("node", "", meaningNode, func(p *Postcard) *string { return &p.Node }, present(textual())),
	field("role", "", meaningRole, func(p *Postcard) *NodeRole { return &p.Role }, word[NodeRole]()).
		ipfix(sectionHeader, "ioamNodeRole").lasting(),
	field("ingress", "", meaningIngress, func(p *Postcard) *string { return &p.Ingress }, present(textual())),
	field("egress", "", meaningEgress, func(p *Postcard) *string { return &p.Egress }, present(textual())),
	hidden((*Postcard).point, number[model.IfIndex]()).ipfix(sectionPlace, "observationPointId[4]").unread().lasting(),
	field(
		"ingress_ifindex",
		"",
		meaningIfIndex,
		func(p *Postcard) *model.IfIndex { return &p.IngressIfIndex },
		present(number[model.IfIndex]()),
	).
		ipfix(sectionPlace, "ingressInterface").
		lasting(),
	field(
		"egress_ifindex",
		"",
		meaningIfIndex,
		func(p *Postcard) *model.IfIndex { return &p.EgressIfIndex },
		present(number[model.IfIndex]()),
	).
		ipfix(sectionPlace, "egressInterface").
		lasting(),
	field(
		"option",
		"",
		"IOAM option-type: `direct-export`.",
		func(p *Postcard) *string { return &p.Option },
		optionType(ioam.IOAMDirectExport),
	).
		ipfix(sectionHeader, "ioamOptionType").
		lasting(),
	field("namespace", "", meaningNamespace, func(p *Postcard) *ioam.NamespaceID { return &p.Namespace }, number[ioam.NamespaceID]()).
		ipfix(sectionHeader, "ioamNamespaceId").lasting(),
	field("trace_type", "", meaningTraceType, func(p *Postcard) *ioam.TraceType { return &p.TraceType }, word[ioam.TraceType]()).
		ipfix(sectionHeader, "ioamTraceType").lasting(),
	field("flags", "", "Flags of the option, of which no bit is assigned yet (RFC 9326 §3.1).",
		func(p *Postcard) *Hex8 { return &p.Flags }, hexadecimal[Hex8](2)).
		ipfix(sectionHeader, "ioamDirectExportFlags").lasting(),
	field("extension_flags", "", "Extension-Flags of the option: `0x80` is Flow-ID, `0x40` Sequence Number.",
		func(p *Postcard) *Hex8 { return &p.ExtensionFlags }, hexadecimal[Hex8](2)).
		ipfix(sectionHeader, "ioamExtensionFlags").lasting(),
	field("flow_id", "", meaningFlowID, func(p *Postcard) *Field[uint32] { return &p.FlowID }, optionalNumber[uint32]()).
		ipfix(sectionHeader, "ioamDexFlowId").when(flowIDThere),
	field("sequence", "", meaningSequence, func(p *Postcard) *Field[uint32] { return &p.Sequence }, optionalNumber[uint32]()).
		ipfix(sectionHeader, "ioamDexSequenceNumber").when(sequenceThere),
	packetField((*Postcard).packet, present(object(packetTable))),
	withData(
		field("data", "", "The fields of the trace type: [node data](#node-data).", (*Postcard).measured, object(nodeTable)),
		sectionHeader,
		func(p *Postcard) *NodeData { return &p.Data },
		func(p *Postcard) (*ioam.NodeData, time.Time) { return &p.Raw, p.Time.Time },
	),
}

func (p *Postcard) packet() *Packet { return &p.Packet }

// origin is what the lasting fields of a postcard are made from.
type origin struct {
	role              NodeRole
	ingress, egress   model.IfIndex
	option            string
	namespace         ioam.NamespaceID
	kind              ioam.TraceType
	flags, extensions Hex8
}

// lasts reports whether the lasting fields are made from an origin, and sets it.
func (p *Postcard) lasts(of *origin) bool {
	if p.Role == of.role && p.IngressIfIndex == of.ingress && p.EgressIfIndex == of.egress && p.Namespace == of.namespace &&
		p.TraceType == of.kind && p.Flags == of.flags && p.ExtensionFlags == of.extensions && p.Option == of.option {
		return true
	}
	*of = origin{p.Role, p.IngressIfIndex, p.EgressIfIndex, p.Option, p.Namespace, p.TraceType, p.Flags, p.ExtensionFlags}
	return false
}

// point is the interface at which packets are observed: at an encapsulating node, the
// one where they leave.
func (p *Postcard) point() *model.IfIndex {
	if p.Role == Encapsulating || p.IngressIfIndex == 0 {
		return &p.EgressIfIndex
	}
	return &p.IngressIfIndex
}

func (p *Postcard) conditions() conditions {
	packet := packetConditions(&p.Packet)
	return (bitsOf(p.TraceType)|packet).with(lengthKnown, packet != 0).
		with(flowIDThere, p.FlowID.Present).
		with(sequenceThere, p.Sequence.Present)
}

// encodable reports why the postcard cannot be encoded in IPFIX.
func (p *Postcard) encodable() error {
	if p.Raw.Type != p.TraceType || !hasAllFields(&p.Raw) {
		return errData
	}
	return nil
}

func (p *Postcard) about() (ioam.NamespaceID, *Packet) { return p.Namespace, &p.Packet }

func (p *Postcard) weight(int) Weight { return Weight{1, uint64(p.Packet.Length)} }

// Extension-Flags (RFC 9326 §3.2).
const (
	extensionFlowID   = 0x80
	extensionSequence = 0x40
)

// deriveFields makes fields absent if the flags say that the option did not have them: a template
// may have room for more.
func (p *Postcard) deriveFields(in *Reading) {
	if in.extensions && p.ExtensionFlags&extensionFlowID == 0 {
		p.FlowID = Field[uint32]{}
	}
	if in.extensions && p.ExtensionFlags&extensionSequence == 0 {
		p.Sequence = Field[uint32]{}
	}
	in.deriveNodeFields(&p.Data, p.TraceType)
}

func (p *Postcard) complete(by Sender) {
	p.Time, p.Node = instant.Of(p.Time.Time), by.Node()
	p.Ingress, p.Egress = by.Interface(p.IngressIfIndex), by.Interface(p.EgressIfIndex)
}
