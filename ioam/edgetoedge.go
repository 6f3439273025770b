// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// EdgeToEdgeType is the IOAM-E2E-Type: which fields an Edge-to-Edge option has. The
// RFC's bit i, counted from the most significant, is 1<<(15-i) (RFC 9197 §4.6).
type EdgeToEdgeType uint16

// Bits of an EdgeToEdgeType (RFC 9197 §4.6).
const (
	EdgeToEdgeSequence64        EdgeToEdgeType = 0x8000
	EdgeToEdgeSequence32        EdgeToEdgeType = 0x4000
	EdgeToEdgeTimestampSeconds  EdgeToEdgeType = 0x2000
	EdgeToEdgeTimestampFraction EdgeToEdgeType = 0x1000
)

// Has reports whether the type has all the given bits.
func (t EdgeToEdgeType) Has(bits EdgeToEdgeType) bool { return t&bits == bits }

// String returns the number as it is configured, such as "0x7000".
func (t EdgeToEdgeType) String() string { return fmt.Sprintf("0x%04x", uint16(t)) }

// Len is the length in bytes of the fields that the type asks for; undefined bits,
// which a receiver ignores, ask for none.
func (t EdgeToEdgeType) Len() int {
	n := 0
	for _, field := range [...]struct {
		bit EdgeToEdgeType
		len int
	}{{EdgeToEdgeSequence64, 8}, {EdgeToEdgeSequence32, 4}, {EdgeToEdgeTimestampSeconds, 4}, {EdgeToEdgeTimestampFraction, 4}} {
		if t.Has(field.bit) {
			n += field.len
		}
	}
	return n
}

// EdgeToEdgeLen is the length in bytes of an Edge-to-Edge option without fields, after
// the IOAM Option-Type.
const EdgeToEdgeLen = 4

// EdgeToEdge is an Edge-to-Edge option (RFC 9197 §4.6), which the encapsulating node
// writes for the decapsulating node.
type EdgeToEdge struct {
	Namespace NamespaceID
	Type      EdgeToEdgeType
	Sequence  uint64 // of the packet's group; 32 bits with EdgeToEdgeSequence32, 0 without either
	Seconds   uint32 // when the packet entered the domain, all-ones if unknown; 0 unless asked for
	Fraction  uint32 // in the unit of the node's timestamp format; 0 unless asked for
}

// Len is the length in bytes of what follows the IOAM Option-Type.
func (e EdgeToEdge) Len() int { return EdgeToEdgeLen + e.Type.Len() }

// DecodeEdgeToEdge decodes what follows the IOAM Option-Type. Anything after the option
// is ignored. The causes of an error are ErrTruncated, and ErrSequences where the type
// asks for both Sequence Numbers.
func DecodeEdgeToEdge(b []byte) (EdgeToEdge, error) {
	if len(b) < EdgeToEdgeLen {
		return EdgeToEdge{}, fault(len(b), "RFC 9197 §4.6", ErrTruncated)
	}
	e := EdgeToEdge{Namespace: NamespaceID(binary.BigEndian.Uint16(b)), Type: EdgeToEdgeType(binary.BigEndian.Uint16(b[2:]))}
	if e.Type.Has(EdgeToEdgeSequence64 | EdgeToEdgeSequence32) {
		return EdgeToEdge{}, fault(2, "RFC 9197 §4.6", ErrSequences)
	}
	if len(b) < e.Len() {
		return EdgeToEdge{}, fault(len(b), "RFC 9197 §4.6", ErrTruncated)
	}
	b = b[EdgeToEdgeLen:]
	next := func() uint32 {
		v := binary.BigEndian.Uint32(b)
		b = b[4:]
		return v
	}
	if e.Type.Has(EdgeToEdgeSequence64) {
		e.Sequence = uint64(next()) << 32
	}
	if e.Type&(EdgeToEdgeSequence64|EdgeToEdgeSequence32) != 0 {
		e.Sequence |= uint64(next())
	}
	if e.Type.Has(EdgeToEdgeTimestampSeconds) {
		e.Seconds = next()
	}
	if e.Type.Has(EdgeToEdgeTimestampFraction) {
		e.Fraction = next()
	}
	return e, nil
}

// Append appends the option's data. Of a type with both Sequence Numbers, which no
// node may send, both are written.
func (e EdgeToEdge) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.Namespace))
	dst = binary.BigEndian.AppendUint16(dst, uint16(e.Type))
	if e.Type.Has(EdgeToEdgeSequence64) {
		dst = binary.BigEndian.AppendUint64(dst, e.Sequence)
	}
	if e.Type.Has(EdgeToEdgeSequence32) {
		dst = binary.BigEndian.AppendUint32(dst, uint32(e.Sequence))
	}
	if e.Type.Has(EdgeToEdgeTimestampSeconds) {
		dst = binary.BigEndian.AppendUint32(dst, e.Seconds)
	}
	if e.Type.Has(EdgeToEdgeTimestampFraction) {
		dst = binary.BigEndian.AppendUint32(dst, e.Fraction)
	}
	return dst
}

// Option returns the option to append to a Destination Options header, as
// OptionIOAMStatic: only the destination processes it (RFC 9486 §3).
func (e EdgeToEdge) Option() Option {
	return Option{Type: OptionIOAMStatic, Data: e.Append([]byte{0, byte(IOAMEdgeToEdge)})}
}

// EdgeToEdge decodes the option's Edge-to-Edge data. Offsets of an error count from the
// start of the extension header.
func (o IOAMOption) EdgeToEdge() (EdgeToEdge, error) {
	if o.Type != IOAMEdgeToEdge {
		return EdgeToEdge{}, fault(o.Offset+3, "RFC 9197 §4.6", ErrNotEdgeToEdge)
	}
	e, err := DecodeEdgeToEdge(o.Data)
	switch {
	case errors.Is(err, ErrSequences):
		return EdgeToEdge{}, fault(o.Offset+6, "RFC 9197 §4.6", ErrSequences)
	case err != nil:
		return EdgeToEdge{}, fault(o.Offset+1, "RFC 9197 §4.6", ErrOptionLength)
	}
	return e, nil
}
