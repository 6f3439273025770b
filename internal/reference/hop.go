// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// hop is what a node knows about a packet at a hook.
type hop struct {
	hopLimit  uint8
	ingress   *model.Interface // nil: not available
	egress    *model.Interface // nil: not available
	time      int64            // nanoseconds of TAI
	timeKnown bool
	delay     uint32 // field 4 as written
	queue     uint32 // field 6 as written
	buffer    uint32 // field 11 as written

	// complement is field 7 as written first: 0, unless it stays not available. When all
	// else is written, neutralize knows the value.
	complement uint32

	// unproven: the newest node data may be another node's, or already complete,
	// because the packet arrived on an interface that is not served, or in a tunnel.
	unproven bool
}

// appendNodeData appends a node's data: the fields in the order of their bits,
// then the snapshot (RFC 9197 §4.4.2).
func (n *Node) appendNodeData(dst []byte, t ioam.TraceType, namespace *model.Namespace, h hop) []byte {
	for bit := range ioam.BitReserved {
		if t.Has(bit) {
			dst = n.appendField(dst, bit, namespace, h)
		}
	}
	return dst
}

func (n *Node) appendField(dst []byte, bit int, namespace *model.Namespace, h hop) []byte {
	u32, u64 := binary.BigEndian.AppendUint32, binary.BigEndian.AppendUint64
	switch bit {
	case ioam.BitNode:
		return u32(dst, uint32(h.hopLimit)<<24|uint32(n.config.ID))
	case ioam.BitNodeWide:
		return u64(dst, uint64(h.hopLimit)<<56|uint64(n.config.IDWide))
	case ioam.BitInterfaces:
		ingress, egress := ioam.InterfaceIDUnavailable, ioam.InterfaceIDUnavailable
		if h.ingress != nil {
			ingress = h.ingress.ID
		}
		if h.egress != nil {
			egress = h.egress.ID
		}
		return u32(dst, uint32(ingress)<<16|uint32(egress))
	case ioam.BitInterfacesWide:
		ingress, egress := ioam.InterfaceIDWideUnavailable, ioam.InterfaceIDWideUnavailable
		if h.ingress != nil {
			ingress = h.ingress.IDWide
		}
		if h.egress != nil {
			egress = h.egress.IDWide
		}
		return u64(dst, uint64(ingress)<<32|uint64(egress))
	case ioam.BitTimestampSeconds, ioam.BitTimestampFraction:
		if !h.timeKnown {
			return u32(dst, ioam.DataUnavailable)
		}
		seconds, fraction := n.config.TimestampFormat.Fields(h.time, n.TAIOffset)
		if bit == ioam.BitTimestampSeconds {
			return u32(dst, seconds)
		}
		return u32(dst, fraction)
	case ioam.BitTransitDelay:
		return u32(dst, h.delay)
	case ioam.BitNamespaceData:
		return u32(dst, namespace.Data)
	case ioam.BitNamespaceDataWide:
		return u64(dst, namespace.DataWide)
	case ioam.BitQueueDepth:
		return u32(dst, h.queue)
	case ioam.BitBufferOccupancy:
		return u32(dst, h.buffer)
	case ioam.BitChecksumComplement:
		return u32(dst, h.complement)
	case ioam.BitSnapshot:
		return namespace.Schema.Append(dst)
	}
	// Undefined bits have fields of 4 bytes of all-ones (RFC 9197 §4.4.1).
	return u32(dst, ioam.DataUnavailable)
}

// complement is what field 7 has until the other fields are written. Linux writes none.
func (n *Node) complement() uint32 {
	if n.config.Compatibility == model.CompatibilityMainline {
		return ioam.DataUnavailable
	}
	return 0
}

// bufferOccupancy is the value of field 11, in bytes, as RFC 9197 §4.4.2.12 recommends.
// Linux writes none.
func (n *Node) bufferOccupancy(f Frame) uint32 {
	if !f.BufferKnown || n.config.Compatibility == model.CompatibilityMainline {
		return ioam.DataUnavailable
	}
	return f.BufferBytes
}

// queueDepth is the value of field 6: Linux writes bytes, RFC 9197 §4.4.2.7 asks
// for buffers.
func (n *Node) queueDepth(f Frame) uint32 {
	switch {
	case !f.QueueKnown:
		return ioam.DataUnavailable
	case n.config.Compatibility == model.CompatibilityMainline:
		return f.QueueBytes
	}
	return f.QueuePackets
}
