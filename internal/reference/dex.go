// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// numberedFlow is the scope of a Sequence Number.
type numberedFlow struct {
	namespace ioam.NamespaceID
	flowID    uint32
}

// directExport is the option to insert into a packet, with the next Sequence
// Number of its flow.
func (n *Node) directExport(o model.DirectExportOption, p packet, hash uint32) ioam.DirectExport {
	d := ioam.DirectExport{Namespace: o.Namespace, ExtensionFlags: o.ExtensionFlags, Type: o.Type}
	flowID := hash
	switch o.FlowID.Kind {
	case model.FlowIDLabel:
		flowID = p.flowLabel()
	case model.FlowIDFixed:
		flowID = o.FlowID.Fixed
	}
	if d.HasFlowID() {
		d.FlowID = flowID
	}
	if d.HasSequence() {
		flow := numberedFlow{o.Namespace, flowID}
		d.Sequence = n.sequences[flow]
		n.sequences[flow]++
	}
	return d
}

// isDirectExport reports whether an IOAM option of at least 2 bytes is a valid
// Direct Export.
func isDirectExport(option ioam.Option) bool {
	if ioam.IOAMType(option.Data[1]) != ioam.IOAMDirectExport {
		return false
	}
	_, err := ioam.DecodeDirectExport(option.Data[2:])
	return err == nil
}

// dexModule is Direct Export (RFC 9326): options are read and left unchanged.
type dexModule struct{}

func (dexModule) check(option ioam.Option) (fault model.Outcome, sound bool) {
	return model.OutcomeMalformedOptionLength, isDirectExport(option)
}

// ingress leaves postcards to egress, which knows the egress interface.
func (dexModule) ingress(n *Node, option ioam.Option, _ *visit) model.Outcome {
	if n.namespaceOf(option) == nil {
		return model.OutcomeNamespaceUnknown
	}
	return model.OutcomeDirectExport
}

func (m dexModule) egress(n *Node, option ioam.Option, v *visit) model.Outcome {
	m.remove(n, option, v)
	return m.ingress(n, option, v)
}

func (dexModule) remove(n *Node, option ioam.Option, v *visit) {
	d, _ := ioam.DecodeDirectExport(option.Data[2:])
	n.postcard(d, v)
}

func (dexModule) insert(n *Node, o model.InsertedOption, v *visit) (ioam.Option, model.Outcome) {
	d := n.directExport(*o.DirectExport, v.packet, v.hash)
	n.postcard(d, v)
	return d.Option(o.DirectExport.OptionType), 0
}

// postcard reports one Direct Export, if its namespace exports (docs/data-plane/direct-export.md#exports).
func (n *Node) postcard(d ioam.DirectExport, v *visit) {
	namespace, ok := n.namespaces[d.Namespace]
	if !ok || namespace.Export == model.ExportNone {
		return
	}
	e := v.postcard
	e.Option = d
	if !d.Type.Has(ioam.BitTransitDelay) {
		e.TransitDelay = ioam.DataUnavailable
	}
	if !d.Type.Has(ioam.BitQueueDepth) {
		e.QueueDepth = ioam.DataUnavailable
	}
	if !d.Type.Has(ioam.BitBufferOccupancy) {
		e.BufferOccupancy = ioam.DataUnavailable
	}
	v.postcards = append(v.postcards, e)
}

// flowOf identifies the flow of an IPv6 packet.
func flowOf(ip []byte) model.Flow {
	s, _ := ipv6.Summarize(ip)
	return model.Flow{
		Source:          s.Source,
		Destination:     s.Destination,
		FlowLabel:       s.FlowLabel,
		NextHeader:      s.NextHeader,
		SourcePort:      s.SourcePort,
		DestinationPort: s.DestinationPort,
	}
}

// tcpEnds is FIN and RST (RFC 9293 §3.1).
const tcpEnds = 0x05

// endsFlow reports whether a TCP packet ends its connection.
func endsFlow(ip []byte) bool {
	upper := ipv6.FindUpperLayer(ip)
	_, _, known := upper.Ports(ip)
	return known && upper.Next == ioam.NextHeaderTCP && len(ip) >= upper.Offset+14 && ip[upper.Offset+13]&tcpEnds != 0
}

// exportsTo reports whether a packet carries exports to a known collector, or is
// a later fragment of one, whose port is unknown.
func (n *Node) exportsTo(p packet, upper ipv6.UpperLayer) bool {
	_, port, known := upper.Ports(p.ip)
	for _, c := range n.config.Collectors {
		if (!known || port == 0 || c.Port == port) && c.Protocol == upper.Next && c.Address.As16() == p.destination() {
			return true
		}
	}
	return false
}

// flowWords is the number of 32-bit words that a flow consists of.
const flowWords = 11

// flowKeys are the multipliers of the flow hash: the first outputs of
// splitmix64.
func flowKeys(seed uint64) (keys [flowWords]uint64) {
	for i := range keys {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		keys[i] = z ^ z>>31
	}
	return keys
}

// hasLabelAsFlowID reports whether the rule's Flow ID is the flow label: then the
// packets with one label are selected all or none.
func hasLabelAsFlowID(e *model.Encapsulation) bool {
	return slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool {
		return o.DirectExport != nil && o.DirectExport.FlowID.Kind == model.FlowIDLabel
	})
}

// flowHash is docs/data-plane/direct-export.md#flow-hash.
func (n *Node) flowHash(p packet, upper ipv6.UpperLayer) uint32 {
	words := make([]byte, 0, 4*flowWords)
	words = append(words, p.ip[8:ipv6.HeaderLen]...)
	if _, _, known := upper.Ports(p.ip); known {
		words = append(words, p.ip[upper.Offset:upper.Offset+4]...)
	} else {
		words = append(words, 0, 0, 0, 0)
	}
	words = append(words, byte(upper.Next), 0, 0, 0)
	return n.hash(append(words, labelWord(p)...))
}

// labelHash is the hash of the flow label alone: the flow hash of a flow whose
// other words are zero.
func (n *Node) labelHash(p packet) uint32 {
	return n.hash(append(make([]byte, 4*(flowWords-1)), labelWord(p)...))
}

func labelWord(p packet) []byte {
	return []byte{0, p.ip[1] & 0xf, p.ip[2], p.ip[3]}
}

// hash hashes the words of a flow.
func (n *Node) hash(words []byte) uint32 {
	var h uint64
	for i, key := range n.flowKeys {
		h += uint64(binary.LittleEndian.Uint32(words[4*i:])) * key
	}
	return uint32(h >> 32)
}
