// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// TraceType is the 24-bit IOAM Trace-Type, written as a number such as
// 0xfff002: the RFC's bit i, counted from the most significant, is 1<<(23-i)
// (RFC 9197 §4.4.1).
type TraceType uint32

// Bits of a trace type, in the RFC's numbering (RFC 9197 §4.4.1).
const (
	BitNode               = 0  // hop limit and node id, 4 bytes
	BitInterfaces         = 1  // ingress and egress interface id, 4 bytes
	BitTimestampSeconds   = 2  // 4 bytes
	BitTimestampFraction  = 3  // 4 bytes
	BitTransitDelay       = 4  // nanoseconds, 4 bytes
	BitNamespaceData      = 5  // 4 bytes
	BitQueueDepth         = 6  // 4 bytes
	BitChecksumComplement = 7  // 4 bytes
	BitNodeWide           = 8  // hop limit and node id, 8 bytes
	BitInterfacesWide     = 9  // ingress and egress interface id, 8 bytes
	BitNamespaceDataWide  = 10 // 8 bytes
	BitBufferOccupancy    = 11 // 4 bytes
	BitUndefinedFirst     = 12 // 12…21: undefined, 4 bytes each
	BitUndefinedLast      = 21
	BitSnapshot           = 22 // opaque state snapshot, 4 bytes and its data
	BitReserved           = 23 // for an extension of the bit field; no data
)

// Sets of trace-type bits.
const (
	typeWide      TraceType = 0x00e000 // bits 8–10: 8 bytes each
	typeShort     TraceType = 0xff1ffc // bits 0–7 and 11–21: 4 bytes each
	typeUndefined TraceType = 0x000ffc // bits 12–21
	typeSnapshot  TraceType = 0x000002
	typeReserved  TraceType = 0x000001
	typeMask      TraceType = 0xffffff
)

// TraceTypeSupported has every bit that a node may be configured to insert.
const TraceTypeSupported TraceType = typeMask &^ (typeUndefined | typeReserved)

// DirectExportTypeSupported has every bit that a Direct Export may be
// configured to ask for: the checksum complement "is not relevant for direct
// exporting" (RFC 9326 §3.2).
const DirectExportTypeSupported = TraceTypeSupported &^ (1 << (23 - BitChecksumComplement))

// Has reports whether the RFC's bit 0…23 is set.
func (t TraceType) Has(bit int) bool {
	return bit >= 0 && bit <= 23 && t&(1<<(23-bit)) != 0
}

// NodeLen is the length of one node's data in 4-byte units, without the
// opaque state snapshot: what the NodeLen field must hold (RFC 9197 §4.4.1).
func (t TraceType) NodeLen() int {
	return bits.OnesCount32(uint32(t&typeShort)) + 2*bits.OnesCount32(uint32(t&typeWide))
}

// HasSnapshot reports whether bit 22 is set: each node's data end with an
// opaque state snapshot, whose length NodeLen does not count.
func (t TraceType) HasSnapshot() bool { return t&typeSnapshot != 0 }

// String returns the number as it is configured, such as "0xfff002".
func (t TraceType) String() string { return fmt.Sprintf("0x%06x", uint32(t)) }

// ErrTraceType is the cause of every refusal of a trace type, for errors.Is.
var ErrTraceType = errors.New("trace type not usable")

// Validate reports why a node must not insert a trace of this type: it asks
// for nothing, for undefined bits, which an encapsulating node MUST set to 0,
// or for bit 23, which MUST be 0 (RFC 9197 §4.4.1). What arrives with such bits
// is processed all the same.
func (t TraceType) Validate() error {
	switch {
	case t == 0:
		return fmt.Errorf("%w: 0 asks for no data", ErrTraceType)
	case t > typeMask:
		return fmt.Errorf("%w: 0x%x has more than 24 bits", ErrTraceType, uint32(t))
	case t&typeUndefined != 0:
		return fmt.Errorf("%w: %v has undefined bits (12–21, mask %v)", ErrTraceType, t, typeUndefined)
	case t&typeReserved != 0:
		return fmt.Errorf("%w: %v has the reserved bit 23", ErrTraceType, t)
	}
	return nil
}

// ParseTraceType reads a 24-bit number, such as "0xfff002", or names of fields, such as
// "ids,timestamps,queue". It does not validate: any 24-bit value may appear on the wire.
func ParseTraceType(s string) (TraceType, error) {
	text := strings.TrimSpace(s)
	t, err := parseTraceType(text)
	if meant, ok := MeantTraceType(text); ok && err != nil {
		err = fmt.Errorf("%q lacks 0x before its digits; did you mean %v?", text, meant)
	}
	return t, err
}

func parseTraceType(text string) (TraceType, error) {
	if text != "" && (text[0] < '0' || text[0] > '9') && text[0] != '-' && text[0] != '+' {
		return parseTraceFields(text)
	}
	v, err := strconv.ParseUint(text, 0, 24)
	if err != nil {
		return 0, fmt.Errorf("trace type %q is not a 24-bit number; write it as 0xfff002, or by names such as ids,timestamps,queue", text)
	}
	return TraceType(v), nil
}

// MeantTraceType is a type that nodes may insert, of hexadecimal digits that lack 0x: for the error that they are no
// number, or a decimal number that is no such type.
func MeantTraceType(digits string) (t TraceType, ok bool) {
	v, err := strconv.ParseUint(digits, 16, 24)
	t = TraceType(v)
	return t, err == nil && t.Validate() == nil
}

// MarshalText is [TraceType.String].
func (t TraceType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText is [ParseTraceType].
func (t *TraceType) UnmarshalText(text []byte) error {
	v, err := ParseTraceType(string(text))
	if err == nil {
		*t = v
	}
	return err
}

// fieldWidth is the length in bytes of a bit's field; 0 for bits 22 and 23.
func fieldWidth(bit int) int {
	switch {
	case bit >= BitNodeWide && bit <= BitNamespaceDataWide:
		return 8
	case bit <= BitUndefinedLast:
		return 4
	}
	return 0
}
