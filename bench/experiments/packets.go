// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// hopByHop is a Hop-by-Hop header and the body after it. The options are
// 4n-aligned, and each is a multiple of 4 bytes long (RFC 8200 §4.3).
func hopByHop(next byte, body []byte, options ...[]byte) []byte {
	h := []byte{next, 0, 1, 0}
	for _, o := range options {
		h = append(h, o...)
	}
	if len(h)%8 != 0 {
		h = append(h, 1, 2, 0, 0)
	}
	h[1] = byte(len(h)/8 - 1)
	return append(h, body...)
}

// trace is a pre-allocated trace option with room for one node's data.
func trace(id ioam.NamespaceID, kind ioam.TraceType) []byte {
	return traceOption(model.TraceOption{Namespace: id, Type: kind, Size: dataSize(kind)}, 0)
}

// traceOption is a pre-allocated trace option into which some nodes have
// written their data.
func traceOption(t model.TraceOption, written int) []byte {
	free := t.Size - written*dataSize(t.Type)
	o := []byte{0x31, byte(10 + t.Size), 0, 0}
	o = binary.BigEndian.AppendUint16(o, uint16(t.Namespace))
	o = binary.BigEndian.AppendUint16(o, uint16(t.Type.NodeLen())<<11|uint16(free/4))
	o = binary.BigEndian.AppendUint32(o, uint32(t.Type)<<8)
	return append(o, make([]byte, t.Size)...)
}

// repeat is n copies of an option.
func repeat(option []byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = option
	}
	return out
}

// traced is a frame whose Hop-by-Hop header carries the options.
func traced(options ...[]byte) []byte {
	return harness.Ethernet(harness.IPv6(harness.Source, harness.Destination, harness.NextHBH, hopByHop(harness.NextNone, nil, options...)))
}

// padded lengthens a frame with a UDP datagram after its Hop-by-Hop header.
func padded(length int, options ...[]byte) []byte {
	header := len(hopByHop(harness.NextUDP, nil, options...))
	body := harness.UDP(max(length-harness.EthernetHeader-harness.IPv6Header-header, 8))
	return harness.Ethernet(harness.IPv6(harness.Source, harness.Destination, harness.NextHBH, hopByHop(harness.NextUDP, body, options...)))
}

// tunnelled is an IPv6 packet in IPv6, with the options in the outer packet.
func tunnelled(inner []byte, options ...[]byte) []byte {
	if len(options) == 0 {
		return harness.Ethernet(harness.IPv6(harness.TunnelStart, harness.TunnelEnd, harness.NextIPv6, inner))
	}
	return harness.Ethernet(
		harness.IPv6(harness.TunnelStart, harness.TunnelEnd, harness.NextHBH, hopByHop(harness.NextIPv6, inner, options...)),
	)
}
