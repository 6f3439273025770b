// SPDX-License-Identifier: Apache-2.0

// Package loopback makes the copies that a node returns to the source of a packet with the
// Loopback flag (RFC 9322 §4.2), and reads which nodes a copy passed. It is pure arithmetic.
package loopback

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// HopLimit is the hop limit of copies. It is greater than that of any packet that was
// forwarded, so a reader sees in the trace where the way back begins.
const HopLimit = 255

// Causes why there is no copy.
var (
	ErrPacket = errors.New("no IPv6 header with a Hop-by-Hop header")
	ErrSource = errors.New("the packet's source is no address of a node")
	ErrFlag   = errors.New("no trace with the Loopback flag and room for this node's data")
)

// flagAt and flagBit are where the Loopback flag is, from an option's data on: reserved,
// IOAM option-type, Namespace-ID, then NodeLen, flags and RemainingLen (RFC 9197 §4.4.1).
const flagAt, flagBit = 4, 0x02

// Octets of the data of an option, and of an extension header, at most.
const maxOptionLen, maxHeaderLen = 255, 2048

// Node is the node that returns copies.
type Node struct {
	ID ioam.NodeID
	// Returns reports whether the node returns copies for traces of a namespace, pre-allocated
	// or incremental.
	Returns func(id ioam.NamespaceID, incremental bool) bool
}

// Copy makes the copy of a packet for its source, from an address of this node: the
// packet's IPv6 header, 40 octets, and its Hop-by-Hop header, as they arrived, which it does
// not change. In the copy, nothing follows the options, the traces with the Loopback flag
// have this node's data, and no trace has the flag any more (RFC 9322 §4.2). Incremental
// traces make it grow.
func (n Node) Copy(ip, header []byte, from netip.Addr) ([]byte, error) {
	if len(ip) < ipv6.HeaderLen || ip[0]>>4 != 6 || ioam.NextHeader(ip[6]) != ioam.NextHeaderHopByHop {
		return nil, ErrPacket
	}
	h, err := ioam.DecodeExtensionHeader(header)
	if err != nil || len(h.Bytes) != len(header) {
		return nil, ErrPacket
	}
	to := netip.AddrFrom16([16]byte(ip[8:24]))
	if to.IsMulticast() || to.IsUnspecified() || to.IsLoopback() || to.IsLinkLocalUnicast() || to.Is4In6() || !from.Is6() || to == from {
		return nil, ErrSource
	}
	extension := slices.Clone(header)
	extension[0] = byte(ioam.NextHeaderNone)
	extension, asked := n.fill(extension, ip[7]-1)
	if !asked {
		return nil, ErrFlag
	}
	out := make([]byte, ipv6.HeaderLen, ipv6.HeaderLen+len(extension))
	copy(out, ip[:4])
	binary.BigEndian.PutUint16(out[4:], uint16(len(extension)))
	out[6], out[7] = byte(ioam.NextHeaderHopByHop), HopLimit
	source, destination := from.As16(), to.As16()
	copy(out[8:], source[:])
	copy(out[24:], destination[:])
	return append(out, extension...), nil
}

// fill writes this node's data, with the hop limit as the packet leaves it, into the traces
// that ask for a copy, and clears the Loopback flag of all traces. It may change the header,
// and reports whether there was such a trace.
func (n Node) fill(header []byte, hopLimit uint8) (filled []byte, asked bool) {
	h, err := ioam.DecodeExtensionHeader(header)
	if err != nil {
		return nil, false
	}
	data := binary.BigEndian.AppendUint32(nil, uint32(hopLimit)<<24|uint32(n.ID))
	var growing []int // where the incremental ones begin that ask
	for option, err := range h.Options() {
		if err != nil {
			return nil, false
		}
		if option.Type != ioam.OptionIOAM || len(option.Data) < 2+ioam.TraceHeaderLen || !ioam.IOAMType(option.Data[1]).IsTrace() {
			continue
		}
		t, asks := n.asks(option)
		switch {
		case asks && t.Incremental:
			growing = append(growing, option.Offset)
		case asks:
			t.RemainingLen--
			copy(t.Data[4*int(t.RemainingLen):], data)
			copy(option.Data[2:], t.AppendHeader(nil))
		}
		asked = asked || asks
		option.Data[flagAt] &^= flagBit
	}
	moved := 0 // the traces before are where they were, but for padding
	for _, at := range slices.Backward(growing) {
		var by int
		header, by = grow(header, at+moved, data)
		moved += by
	}
	return header, asked
}

// asks decodes a trace, and reports whether it asks for a copy and has room for this node's
// data.
func (n Node) asks(option ioam.Option) (t ioam.Trace, asks bool) {
	t, err := ioam.DecodeTrace(option.Data[2:])
	t.Incremental = ioam.IOAMType(option.Data[1]) == ioam.IOAMIncrementalTrace
	return t, err == nil && t.Check() == nil && t.Type == model.LoopbackType &&
		t.Flags&(ioam.FlagLoopback|ioam.FlagOverflow) == ioam.FlagLoopback && t.RemainingLen > 0 && n.Returns(t.Namespace, t.Incremental)
}

// grow puts a node's data into an incremental trace, whose option begins at an offset of the
// header: before all others, as where packets leave. The header's length is a multiple of 8, so
// padding at its beginning becomes 4 octets longer or shorter, by which the trace moves.
// Without such padding, or with a full option, the trace gets the overflow flag instead.
func grow(header []byte, at int, data []byte) (grown []byte, moved int) {
	padded := header[2] == byte(ioam.OptionPadN) && (header[3] == 0 || header[3] == 4)
	t, _ := ioam.DecodeTrace(header[at+4:])
	if !padded || int(header[at+1])+len(data) > maxOptionLen || len(header)+8 > maxHeaderLen {
		t.Flags |= ioam.FlagOverflow
		copy(header[at+4:], t.AppendHeader(nil))
		return header, 0
	}
	t.RemainingLen--
	header[at+1] += byte(len(data))
	copy(header[at+4:], t.AppendHeader(nil))
	header = slices.Insert(header, at+4+ioam.TraceHeaderLen, data...)
	if header[3] == 0 {
		header = slices.Insert(header, 4, 0, 0, 0, 0)
		header[3], moved = 4, 4
	} else {
		header = slices.Delete(header, 4, 8)
		header[3], moved = 0, -4
	}
	header[1] = byte(len(header)/8 - 1)
	return header, moved
}

// Way is what a copy says about the way of its packet.
type Way struct {
	There []ioam.NodeData // the node that set the flag first, that which returned the copy last
	Back  []ioam.NodeData
}

// Read divides the nodes of a copy's trace: on each way, hop limits only decrease. The
// data alias the trace.
func Read(t ioam.Trace) (Way, error) {
	nodes, err := t.Nodes()
	if err != nil {
		return Way{}, err
	}
	at := len(nodes)
	last := 256
	for i, n := range nodes {
		hops, ok := n.HopLimit()
		if !ok || t.Type != model.LoopbackType {
			return Way{}, ErrFlag
		}
		// The node that set the flag wrote the hop limit as sent, and the next node one less.
		if int(hops) >= last {
			at = i
			break
		}
		last = int(hops)
	}
	return Way{There: slices.Clip(nodes[:at]), Back: nodes[at:]}, nil
}
