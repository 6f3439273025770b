// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"slices"
)

// numberedFlow is what Sequence Numbers count within.
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

// triggers are the validated Direct Exports of a packet.
func (p *packet) triggers() []ioam.DirectExport {
	var list []ioam.DirectExport
	for _, option := range p.options {
		if isDirectExport(option) {
			d, _ := ioam.DecodeDirectExport(option.Data[2:])
			list = append(list, d)
		}
	}
	return list
}

// exports completes what is to be told about a packet for each of its options
// whose namespace has an export (data-plane.md, "Direct Export").
func (n *Node) exports(triggers []ioam.DirectExport, packet model.Export) []model.Export {
	var list []model.Export
	for _, d := range triggers {
		namespace, ok := n.namespaces[d.Namespace]
		if !ok || namespace.Export == model.ExportNone {
			continue
		}
		e := packet
		e.Option = d
		if !d.Type.Has(ioam.BitTransitDelay) {
			e.TransitDelay = ioam.DataUnavailable
		}
		if !d.Type.Has(ioam.BitQueueDepth) {
			e.QueueDepth = ioam.DataUnavailable
		}
		list = append(list, e)
	}
	return list
}

// flowOf names the flow of an IPv6 packet.
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

// endsFlow reports whether TCP says that no more is to come.
func endsFlow(ip []byte) bool {
	upper := ipv6.FindUpperLayer(ip)
	_, _, known := upper.Ports(ip)
	return known && upper.Next == ioam.NextHeaderTCP && len(ip) >= upper.Offset+14 && ip[upper.Offset+13]&tcpEnds != 0
}

// exportsTo reports whether a packet carries this node's exports, or a later
// fragment of them, whose port nobody knows.
func (n *Node) exportsTo(p packet, upper ipv6.UpperLayer) bool {
	_, port, known := upper.Ports(p.ip)
	for _, c := range n.config.Collectors {
		if (!known || port == 0 || c.Port == port) && c.Protocol == upper.Next && c.Address.As16() == p.destination() {
			return true
		}
	}
	return false
}

// flowKeys are the multipliers of the flow hash: the first outputs of
// splitmix64, made odd.
func flowKeys(seed uint64) (keys [7]uint64) {
	for i := range keys {
		seed += 0x9e3779b97f4a7c15
		z := seed
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		keys[i] = z ^ z>>31 | 1
	}
	return keys
}

// hasLabelAsFlowID tells that all packets with one flow label, which share a
// Flow ID, are selected or none.
func hasLabelAsFlowID(e *model.Encapsulation) bool {
	return slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool {
		return o.DirectExport != nil && o.DirectExport.FlowID.Kind == model.FlowIDLabel
	})
}

// flowHash is data-plane.md, "Flow hash".
func (n *Node) flowHash(p packet, upper ipv6.UpperLayer) uint32 {
	words := make([]byte, 0, 6*8)
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
	return n.hash(append(make([]byte, 5*8), labelWord(p)...))
}

func labelWord(p packet) []byte {
	return []byte{0, p.ip[1] & 0xf, p.ip[2], p.ip[3], 0, 0, 0, 0}
}

// hash is of six words.
func (n *Node) hash(words []byte) uint32 {
	var h uint64
	for i := range 6 {
		h += binary.LittleEndian.Uint64(words[8*i:]) * n.flowKeys[i]
	}
	h ^= h >> 32
	h *= n.flowKeys[6]
	return uint32(h >> 32)
}
