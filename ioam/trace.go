// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"slices"
)

// TraceFlags is the 4-bit Flags field of a trace; its bit 0 is the most
// significant (RFC 9197 §4.4.1).
type TraceFlags uint8

// Trace flags.
const (
	FlagOverflow TraceFlags = 0x8 // no room was left for a node's data (RFC 9197 §4.4.1)
	FlagLoopback TraceFlags = 0x4 // RFC 9322 §3
	FlagActive   TraceFlags = 0x2 // RFC 9322 §4
)

// TraceHeaderLen is the length of the trace header in bytes.
const TraceHeaderLen = 8

// Trace is a pre-allocated or incremental trace (RFC 9197 §4.4.1).
type Trace struct {
	Incremental  bool // which of the two option-types; both have one format
	Namespace    NamespaceID
	NodeLen      uint8 // 4-byte units, 5 bits
	Flags        TraceFlags
	RemainingLen uint8 // 4-byte units, 7 bits
	Type         TraceType
	Reserved     uint8
	Data         []byte // the node data list with the space that is left, aliasing the packet
}

// DecodeTrace decodes a trace header; the rest of b is its node data list. It accepts
// any values; [Trace.Check] checks them.
func DecodeTrace(b []byte) (Trace, error) {
	if len(b) < TraceHeaderLen {
		return Trace{}, fault(len(b), "RFC 9197 §4.4.1", ErrTruncated)
	}
	// NodeLen(5) | Flags(4) | RemainingLen(7)
	word := binary.BigEndian.Uint16(b[2:])
	return Trace{
		Namespace:    NamespaceID(binary.BigEndian.Uint16(b)),
		NodeLen:      uint8(word >> 11),
		Flags:        TraceFlags(word >> 7 & 0xf),
		RemainingLen: uint8(word & 0x7f),
		Type:         TraceType(binary.BigEndian.Uint32(b[4:]) >> 8),
		Reserved:     b[7],
		Data:         b[TraceHeaderLen:],
	}, nil
}

// AppendHeader appends the 8 bytes of the trace header. Values beyond a
// field's width are cut to it.
func (t Trace) AppendHeader(dst []byte) []byte {
	word := uint16(t.NodeLen)<<11 | uint16(t.Flags&0xf)<<7 | uint16(t.RemainingLen&0x7f)
	dst = binary.BigEndian.AppendUint16(dst, uint16(t.Namespace))
	dst = binary.BigEndian.AppendUint16(dst, word)
	return binary.BigEndian.AppendUint32(dst, uint32(t.Type)<<8|uint32(t.Reserved))
}

// Append appends the trace header and the node data list.
func (t Trace) Append(dst []byte) []byte {
	return append(t.AppendHeader(dst), t.Data...)
}

// Option returns the trace as an option to append to a Hop-by-Hop header.
func (t Trace) Option() Option {
	kind := IOAMPreallocatedTrace
	if t.Incremental {
		kind = IOAMIncrementalTrace
	}
	return Option{Type: OptionIOAM, Data: t.Append([]byte{0, byte(kind)})}
}

// Check reports whether the lengths are consistent: RemainingLen lies within
// the node data list of a pre-allocated trace, and NodeLen is what the trace
// type says. Both MUSTs are in RFC 9197 §4.4.1. Offsets of an error count from
// the trace header.
func (t Trace) Check() error {
	if !t.Incremental && len(t.Data) < 4*int(t.RemainingLen) {
		return fault(3, "RFC 9197 §4.4.1", ErrRemainingLength)
	}
	if int(t.NodeLen) != t.Type.NodeLen() {
		return fault(2, "RFC 9197 §4.4.1", ErrNodeLength)
	}
	return nil
}

// Nodes returns the data of each node in path order, the oldest first. The
// data alias the packet.
//
// On the wire the newest node comes first (RFC 9197 §4.4.1): in a
// pre-allocated trace after the space that remains, in an incremental trace
// after the header. A snapshot's length is known only from its own node's
// data, so the list is read from the newest on. Where it ends within a node's
// data, as in a packet cut short by a capture, Nodes returns the newer ones and
// an error whose offset counts from the trace header.
func (t Trace) Nodes() ([]NodeData, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	at := 0
	if !t.Incremental {
		at = 4 * int(t.RemainingLen)
	}
	var nodes []NodeData
	var err error
	for at < len(t.Data) {
		node, ok := t.nodeAt(at)
		if !ok {
			err = fault(TraceHeaderLen+at, "RFC 9197 §4.4.1", ErrNodeTruncated)
			break
		}
		if len(node.Bytes) == 0 { // a type without data
			break
		}
		nodes = append(nodes, node)
		at += len(node.Bytes)
	}
	slices.Reverse(nodes)
	return nodes, err
}

// nodeAt returns the node data at an offset of the list, unless the list ends
// within them.
func (t Trace) nodeAt(at int) (NodeData, bool) {
	rest := t.Data[at:]
	length := 4 * t.Type.NodeLen()
	if t.Type.HasSnapshot() {
		if len(rest) < length+4 {
			return NodeData{}, false
		}
		// The snapshot's length counts 4-byte units after its own header
		// (RFC 9197 §4.4.2.13).
		length += 4 + 4*int(rest[length])
	}
	if len(rest) < length {
		return NodeData{}, false
	}
	return NodeData{Type: t.Type, Bytes: rest[:length:length]}, true
}
