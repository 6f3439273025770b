// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// soundTraces are the traces of a checked packet, each with its namespace, nil if the node
// does not know it. The flags of RFC 9322 are those of both kinds (§3).
func (n *Node) soundTraces(p packet, visit func(t ioam.Trace, incremental bool, namespace *model.Namespace)) {
	for _, option := range p.options {
		incremental := false
		switch soundModuleOf(option).(type) {
		case traceModule:
		case incrementalModule:
			incremental = true
		default:
			continue
		}
		trace, _ := ioam.DecodeTrace(option.Data[2:])
		visit(trace, incremental, n.namespaces[trace.Namespace])
	}
}

// isOwnCopy reports whether a packet is a copy of one that this node sent with the
// Loopback flag: nothing follows its header, and the first node that wrote into a trace is
// this one (RFC 9322 §4.4).
func (n *Node) isOwnCopy(p packet) (is bool) {
	if len(p.options) == 0 || ioam.NextHeader(p.header[0]) != ioam.NextHeaderNone || p.payloadLength() != len(p.header) || n.asksInVain(p) {
		return false
	}
	n.soundTraces(p, func(t ioam.Trace, incremental bool, namespace *model.Namespace) {
		if namespace == nil || !n.config.AsksLoopback(namespace.ID) || t.Type != model.LoopbackType || t.Flags&ioam.FlagLoopback != 0 {
			return
		}
		words, free := len(t.Data)/4, int(t.RemainingLen)
		if incremental {
			free = 0 // the space that is left is not in the packet
		}
		if free < words {
			first := binary.BigEndian.Uint32(t.Data[4*(words-1):])
			is = is || ioam.NodeID(first&0xffffff) == n.config.ID
		}
	})
	return is
}

// asksInVain reports whether a trace has the Loopback flag with a type for which no node
// returns a copy: "MUST NOT loop back a copy" (RFC 9322 §4.1).
func (n *Node) asksInVain(p packet) (vain bool) {
	n.soundTraces(p, func(t ioam.Trace, _ bool, _ *model.Namespace) {
		vain = vain || t.Flags&ioam.FlagLoopback != 0 && t.Type != model.LoopbackType
	})
	return vain
}

// isCopyDue reports whether a copy of a packet is due: a trace with the flag, of a namespace
// with loopback, has room for the node's data. An incremental one may grow here.
func (n *Node) isCopyDue(p packet) (due bool) {
	if isLocal(p.source()) || isLocal(p.destination()) || n.asksInVain(p) {
		return false
	}
	n.soundTraces(p, func(t ioam.Trace, incremental bool, namespace *model.Namespace) {
		due = due ||
			namespace != nil && namespace.Loopback && (namespace.Incremental || !incremental) &&
				t.Flags&(ioam.FlagLoopback|ioam.FlagOverflow) == ioam.FlagLoopback &&
				t.RemainingLen > 0
	})
	return due
}

// arrived is the record of the headers of a packet as it arrived.
func arrived(f Frame, p packet) *Record {
	return &Record{
		Time: f.Time, Interface: f.Interface, Outcome: model.OutcomeLoopbackReceived, Length: len(p.ip),
		Packet: bytes.Clone(p.ip[:ipv6.HeaderLen]), Header: bytes.Clone(p.header),
	}
}

// isProbe reports whether a packet of which something is to be removed is a probe that ends
// here: a trace with the Active flag is among that (RFC 9322 §5).
func (n *Node) isProbe(p packet, remove removal) (is bool) {
	n.soundTraces(p, func(t ioam.Trace, _ bool, namespace *model.Namespace) {
		is = is || namespace != nil && namespace.TerminateActive && (remove == removeTunnel || namespace.Remove) && t.Flags&ioam.FlagActive != 0
	})
	return is
}

// terminate drops a packet whose removal has the given result, if it is a probe. It is
// reported also where nothing could be removed.
func (n *Node) terminate(f Frame, p packet, remove removal, result *Result) {
	if remove == removeNothing || !n.isProbe(p, remove) {
		return
	}
	if result.Outcome == model.OutcomeRemovalPartial {
		n.reportOptions(f, p, func(ioam.Option) bool { return true }, result)
	}
	result.Verdict, result.Removal, result.Outcome = Drop, result.Outcome, model.OutcomeActiveTerminated
}

// asks reports whether the Loopback flag is set on the packet that an encapsulation with
// such a trace takes (docs/data-plane/loopback-and-active.md), and counts it.
func (n *Node) asks(index int, f Frame, p packet, inline bool, into merging) bool {
	nth := uint32(0)
	for _, o := range n.config.Encapsulations[index].Options {
		if o.Trace != nil && o.Trace.Loopback > 0 {
			nth = o.Trace.Loopback
		}
	}
	next := p.nextHeader()
	if next == ioam.NextHeaderDestination && into.destination.header != nil {
		next = ioam.NextHeader(into.destination.header[0])
	}
	if nth == 0 || !n.config.Recognises() || f.GSOSize != 0 || inline && f.Ingress != 0 || next == ioam.NextHeaderHopByHop ||
		next == ioam.NextHeaderIPv6 {
		return false
	}
	n.asked[index]++
	return (n.asked[index]-1)%uint64(nth) == 0
}
