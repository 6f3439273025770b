// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// keepsTraces reports whether a node that removes headers fills traces of a namespace that
// stay in their packets. The configuration does not say where tunnels end.
func keepsTraces(node model.NodeConfig) bool {
	return len(node.Decapsulations) == 0 && slices.ContainsFunc(node.Namespaces, func(ns model.Namespace) bool { return !ns.Remove })
}

// headersDiffer reports whether TCP packets that arrive at an interface may get headers that
// differ within a flow. Those of this node itself do not arrive.
func headersDiffer(node model.NodeConfig, arrival model.IfIndex, isOwn func(netip.Addr) bool) bool {
	return slices.ContainsFunc(node.Encapsulations, func(e model.Encapsulation) bool {
		tcp := e.Match.NextHeader == nil || *e.Match.NextHeader == ioam.NextHeaderTCP
		own := e.Match.Source.IsSingleIP() && isOwn(e.Match.Source.Addr())
		return e.Interface != arrival && tcp && !own && differs(e)
	})
}

// perPacket are the fields of a trace that are another's in each packet.
const perPacket ioam.TraceType = 1<<(23-ioam.BitTimestampSeconds) | 1<<(23-ioam.BitTimestampFraction) | 1<<(23-ioam.BitTransitDelay) |
	1<<(23-ioam.BitQueueDepth) | 1<<(23-ioam.BitChecksumComplement) | 1<<(23-ioam.BitBufferOccupancy)

// differs reports whether packets of one flow may get different headers of a rule.
func differs(e model.Encapsulation) bool {
	if e.Frequency.K < e.Frequency.N || e.Budget != (model.Budget{}) {
		return true
	}
	return slices.ContainsFunc(e.Options, func(o model.InsertedOption) bool {
		switch {
		case o.Trace != nil:
			return o.Trace.Type&perPacket != 0 || o.Trace.Loopback > 1
		case o.DirectExport != nil:
			return o.DirectExport.ExtensionFlags&ioam.ExtensionSequence != 0
		}
		return true // each packet has its number
	})
}
