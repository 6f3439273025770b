// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/waymark-net/waymark/internal/edgetoedge"
	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// maxDestinationHeader is the length in bytes of the longest Destination Options header
// that is read.
const maxDestinationHeader = 512

// destination is a Destination Options header with IOAM, the first header or after the
// Hop-by-Hop header (docs/data-plane/edge-to-edge.md). The zero value is none.
type destination struct {
	header   []byte
	options  []edgeOption
	marked   bool // it has an Edge-to-Edge option of a namespace marked remove
	shared   bool // it has something else, too
	known    bool // it has an Edge-to-Edge option of a configured namespace
	discards bool // it has an unknown option that asks nodes to discard the packet
}

// edgeOption is an IOAM option in such a header.
type edgeOption struct {
	ioam.EdgeToEdge
	offset  int           // in the header
	marked  bool          // it is removed
	outcome model.Outcome // if it is removed
}

// readsDestinations reports whether the node may have to remove such headers.
func (n *Node) readsDestinations() bool {
	for _, namespace := range n.namespaces {
		if namespace.Remove {
			return true
		}
	}
	return len(n.decapsulations) > 0
}

// readDestination reads the header if it is there and whole, and has IOAM. It returns the
// error of the first invalid IOAM option, or of the options behind one.
func (n *Node) readDestination(p packet) (d destination, fault model.Outcome, sound bool) {
	if !n.readsDestinations() {
		return destination{}, 0, true
	}
	return n.destinationOf(p)
}

// destinationOf is readDestination at a node that reads such headers.
func (n *Node) destinationOf(p packet) (d destination, fault model.Outcome, sound bool) {
	next, at := p.nextHeader(), ipv6.HeaderLen+len(p.header)
	if p.header != nil {
		next = ioam.NextHeader(p.header[0])
	}
	if next != ioam.NextHeaderDestination {
		return destination{}, 0, true
	}
	header, err := ioam.DecodeExtensionHeader(p.ip[at:])
	if err != nil || len(header.Bytes) > maxDestinationHeader {
		return destination{}, 0, true
	}
	if payload := p.payloadLength(); payload != 0 && payload < len(p.header)+len(header.Bytes) {
		return destination{}, 0, true
	}
	d.header = header.Bytes
	count := 0
	for option, err := range header.Options() {
		fault = model.OutcomeMalformedHeader
		if count == model.MaxOptionsPerHeader {
			err, fault = errors.New("too many options"), model.OutcomeMalformedTooManyOptions
		}
		if err != nil {
			// without IOAM, the header is not this node's business
			return destination{}, fault, len(d.options) == 0
		}
		count++
		switch {
		case option.IsIOAM():
			if fault, sound := n.readOption(&d, option); !sound {
				return destination{}, fault, false
			}
		case !option.Type.IsPadding():
			d.shared = true
			d.discards = d.discards || option.Type.Discards()
		}
	}
	if len(d.options) == 0 {
		return destination{}, 0, true
	}
	return d, 0, true
}

// readOption reads an IOAM option of the header.
func (n *Node) readOption(d *destination, option ioam.Option) (fault model.Outcome, sound bool) {
	switch {
	case len(d.options) == model.MaxOptionsPerPacket:
		return model.OutcomeMalformedTooManyOptions, false
	case option.Offset%4 != 0:
		return model.OutcomeMalformedAlignment, false
	case len(option.Data) < 2:
		return model.OutcomeMalformedOptionLength, false
	}
	if ioam.IOAMType(option.Data[1]) != ioam.IOAMEdgeToEdge {
		d.shared = true
		d.options = append(d.options, edgeOption{offset: option.Offset, outcome: model.OutcomeOptionUnsupported})
		return 0, true
	}
	e, err := ioam.DecodeEdgeToEdge(option.Data[2:])
	switch {
	case errors.Is(err, ioam.ErrSequences):
		return model.OutcomeMalformedSequences, false
	case err != nil:
		return model.OutcomeMalformedOptionLength, false
	}
	namespace, known := n.namespaces[e.Namespace]
	outcome := model.OutcomeOptionUnsupported
	switch {
	case !known:
		outcome = model.OutcomeNamespaceUnknown
	case namespace.EdgeToEdge:
		outcome = model.OutcomeE2EMeasured
	}
	marked := known && namespace.Remove
	d.marked, d.shared = d.marked || marked, d.shared || !marked
	d.known = d.known || known
	d.options = append(d.options, edgeOption{e, option.Offset, marked, outcome})
	return 0, true
}

// measure counts the options of a Destination Options header that the packet, which goes
// on as ip, has lost; outer is the tunnel's header, nil without one. It returns their
// outcomes.
func (n *Node) measure(f Frame, d destination, ip []byte, outer *packet) (outcomes []model.Outcome) {
	p := packet{ip: ip}
	for _, o := range d.options {
		outcomes = append(outcomes, o.outcome)
		if o.outcome != model.OutcomeE2EMeasured {
			continue
		}
		key := edgeKey(o.EdgeToEdge, p, outer)
		flow, ok := n.edges[key]
		if !ok {
			flow = &edgetoedge.Flow{}
			n.edges[key] = flow
		}
		delay, known := edgetoedge.Delay(o.EdgeToEdge, n.config.TimestampFormat, f.Time, n.TAIOffset)
		flow.Add(o.EdgeToEdge, delay, known)
	}
	return outcomes
}

// edgeKey is what the packets have in common with one that share its numbers. Undefined
// bits of the type are ignored (RFC 9197 §4.6).
func edgeKey(o ioam.EdgeToEdge, p packet, outer *packet) edgetoedge.Key {
	const defined = ioam.EdgeToEdgeSequence64 | ioam.EdgeToEdgeSequence32 | ioam.EdgeToEdgeTimestampSeconds | ioam.EdgeToEdgeTimestampFraction
	key := edgetoedge.Key{
		Namespace: o.Namespace, Type: o.Type & defined,
		Source: netip.AddrFrom16(p.source()), Destination: netip.AddrFrom16(p.destination()), FlowLabel: p.flowLabel(),
	}
	if outer != nil {
		key.Tunnel = edgetoedge.TunnelHash(outer.source(), outer.destination())
	}
	return key
}

// Edges are the flows whose Edge-to-Edge options have ended at this node. They belong to
// the node.
func (n *Node) Edges() map[edgetoedge.Key]*edgetoedge.Flow { return n.edges }

// edgeToEdge is the option to insert, with the next number of its flow. In the header of a
// tunnel, outer has its addresses.
func (n *Node) edgeToEdge(o model.EdgeToEdgeOption, v *visit) ioam.EdgeToEdge {
	e := ioam.EdgeToEdge{Namespace: o.Namespace, Type: o.Type}
	key := edgeKey(e, v.packet, v.outer)
	if o.Type&(ioam.EdgeToEdgeSequence64|ioam.EdgeToEdgeSequence32) != 0 {
		e.Sequence = n.edgeNumbers[key]
		n.edgeNumbers[key]++
	}
	e.Seconds, e.Fraction = n.config.TimestampFormat.Fields(v.time, n.TAIOffset)
	return e
}

// outerHeader is the header of a rule's tunnel, as far as its addresses.
func outerHeader(rule *model.Encapsulation) *packet {
	source, destination := rule.TunnelSource.As16(), rule.TunnelDestination.As16()
	ip := make([]byte, 8, ipv6.HeaderLen)
	return &packet{ip: append(append(ip, source[:]...), destination[:]...)}
}

// insertsEdge reports whether the rule inserts an Edge-to-Edge option.
func insertsEdge(e *model.Encapsulation) bool { return e.DestinationLen() > 0 }

// isWrittenEdge reports whether an option is the inserted one, whatever its number and its
// timestamp.
func isWrittenEdge(o model.EdgeToEdgeOption, option ioam.Option) bool {
	if option.Type != ioam.OptionIOAMStatic || len(option.Data) < 2+ioam.EdgeToEdgeLen ||
		ioam.IOAMType(option.Data[1]) != ioam.IOAMEdgeToEdge {
		return false
	}
	return ioam.NamespaceID(binary.BigEndian.Uint16(option.Data[2:])) == o.Namespace &&
		ioam.EdgeToEdgeType(binary.BigEndian.Uint16(option.Data[4:])) == o.Type
}
