// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// hasEdgeToEdge reports whether some namespace is measured, and whether some
// encapsulation numbers packets.
func hasEdgeToEdge(cfg model.NodeConfig) (measures, inserts bool) {
	measures = slices.ContainsFunc(cfg.Namespaces, func(ns model.Namespace) bool { return ns.EdgeToEdge })
	for _, e := range cfg.Encapsulations {
		inserts = inserts || e.DestinationLen() > 0
	}
	return measures, inserts
}

// appendDestinationHeader appends the Destination Options header with a rule's
// Edge-to-Edge options, if it has any, after the Hop-by-Hop header.
func appendDestinationHeader(c *bpf.ABIEncapsulation, header []byte, e model.Encapsulation) []byte {
	if e.DestinationLen() == 0 {
		return header
	}
	start := len(header)
	c.FirstHeader = uint8(ioam.NextHeaderDestination)
	if start > 0 {
		header[0], c.FirstHeader = uint8(ioam.NextHeaderDestination), uint8(ioam.NextHeaderHopByHop)
	}
	c.LastHeader = uint8(start / 8)
	header = append(header, 0, 0, 1, 0)
	for i, o := range e.Options {
		if o.EdgeToEdge != nil {
			header = appendEdgeToEdge(c, header, *o.EdgeToEdge, &c.Patches[i])
			c.E2eOptions++
		}
	}
	c.Whole = uint8(len(header) / 4)
	return closeHeader(header, start)
}

// appendEdgeToEdge appends one option, and lists what differs per packet.
func appendEdgeToEdge(c *bpf.ABIEncapsulation, header []byte, o model.EdgeToEdgeOption, p *bpf.ABIPatch) []byte {
	option := ioam.EdgeToEdge{Namespace: o.Namespace, Type: o.Type}
	header = append(header, uint8(ioam.OptionIOAMStatic), uint8(2+option.Len()), 0, uint8(ioam.IOAMEdgeToEdge))
	p.Kind, p.Proof = uint8(bpf.ABIOptionKindKIND_E2E), uint16(len(header))
	next := len(header) + ioam.EdgeToEdgeLen
	if o.Type&(ioam.EdgeToEdgeSequence64|ioam.EdgeToEdgeSequence32) != 0 {
		p.Sequence = uint16(next)
		next += (o.Type & (ioam.EdgeToEdgeSequence64 | ioam.EdgeToEdgeSequence32)).Len()
	}
	if o.Type.Has(ioam.EdgeToEdgeTimestampSeconds) {
		p.Seconds, c.WantsE2eTime = uint16(next), 1
		next += 4
	}
	if o.Type.Has(ioam.EdgeToEdgeTimestampFraction) {
		p.Fraction, c.WantsE2eTime = uint16(next), 1
	}
	return option.Append(header)
}
