// SPDX-License-Identifier: Apache-2.0

// Package rfc6374 reads and writes the Loss Measurement and Delay Measurement messages of
// RFC 6374 as they are over UDP, without an Associated Channel Header (RFC 7876 §4.3). Only
// the port tells the two kinds apart (RFC 7876 §4.1).
package rfc6374

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/waymark-net/waymark/stamp"
)

// Lengths of messages without TLVs, in octets.
const (
	LossLen  = 52 // RFC 6374 §3.1
	DelayLen = 44 // RFC 6374 §3.2
)

// Flags of a message (RFC 6374 §3.1).
const (
	flagResponse = 0x8 // R
	flagClass    = 0x4 // T
)

// Flags of the format of counters (RFC 6374 §3.1).
const (
	dataExtended = 0x8 // X: 64 bits
	dataOctets   = 0x4 // B: octets, not packets
)

// ControlCode is what a query asks for, or how a response came about (RFC 6374 §3.1).
type ControlCode uint8

// Control codes of queries.
const (
	InBandRequested    ControlCode = 0x0
	OutOfBandRequested ControlCode = 0x1
	NoneRequested      ControlCode = 0x2
)

// Control codes of responses. From errorCodes on they are errors.
const (
	Success                ControlCode = 0x1
	DataFormatInvalid      ControlCode = 0x2
	Initializing           ControlCode = 0x3
	DataReset              ControlCode = 0x4 // inconsistent with earlier responses
	TemporarilyUnavailable ControlCode = 0x5
	UnspecifiedError       ControlCode = 0x10
	UnsupportedVersion     ControlCode = 0x11
	UnsupportedControlCode ControlCode = 0x12
	UnsupportedDataFormat  ControlCode = 0x13
	ConnectionMismatch     ControlCode = 0x16
	UnsupportedTLV         ControlCode = 0x17
	ResourceUnavailable    ControlCode = 0x1a
	InvalidMessage         ControlCode = 0x1c

	errorCodes ControlCode = 0x10
)

// IsError reports whether the code of a response ends what the query asked for (RFC 6374
// §4.2.5, §4.3.4).
func (c ControlCode) IsError() bool { return c >= errorCodes }

var responseNames = map[ControlCode]string{
	UnspecifiedError: "unspecified error", UnsupportedVersion: "unsupported version", UnsupportedControlCode: "unsupported control code",
	UnsupportedDataFormat: "unsupported data format", 0x14: "authentication failure", 0x15: "invalid destination node identifier",
	ConnectionMismatch: "connection mismatch", UnsupportedTLV: "unsupported mandatory TLV object", 0x18: "unsupported query interval",
	0x19: "administrative block", ResourceUnavailable: "resource unavailable", 0x1b: "resource released", InvalidMessage: "invalid message", 0x1d: "protocol error",
}

// ErrorName names the code of a response that is an error, as RFC 6374 §3.1 does.
func (c ControlCode) ErrorName() string {
	if name, ok := responseNames[c]; ok {
		return fmt.Sprintf("%s (0x%02x)", name, uint8(c))
	}
	return fmt.Sprintf("error 0x%02x", uint8(c))
}

// TimestampFormat says how to read a timestamp (RFC 6374 §3.4).
type TimestampFormat uint8

// Formats of timestamps.
const (
	FormatNull     TimestampFormat = 0
	FormatSequence TimestampFormat = 1
	FormatNTP      TimestampFormat = 2
	FormatPTP      TimestampFormat = 3 // the default
)

// Stamp is the same format in STAMP; false if it is none of a clock.
func (f TimestampFormat) Stamp() (stamp.TimestampFormat, bool) {
	switch f {
	case FormatNTP:
		return stamp.NTP, true
	case FormatPTP:
		return stamp.PTP, true
	}
	return 0, false
}

// SessionID identifies a measurement, in 26 bits.
type SessionID uint32

// MaxSessionID is the greatest identifier.
const MaxSessionID SessionID = 1<<26 - 1

// Header is what all messages begin with.
type Header struct {
	Version  uint8
	Response bool
	Class    bool // T: the measurement is of the packets with DS
	Control  ControlCode
	Session  SessionID
	DS       uint8
	TLVs     []byte // what follows the message; Decode aliases the packet
}

// Loss is a Loss Measurement message (RFC 6374 §3.1).
type Loss struct {
	Header
	Extended bool // the counters have 64 bits
	Octets   bool // they count octets
	Format   TimestampFormat
	Origin   stamp.Timestamp
	Counters [4]uint64
}

// Delay is a Delay Measurement message (RFC 6374 §3.2).
type Delay struct {
	Header
	Querier, Responder, Preferred TimestampFormat
	Timestamps                    [4]stamp.Timestamp
}

// Errors of a message.
var (
	ErrTruncated = errors.New("the message is cut short")
	ErrLength    = errors.New("the message's length is another one than it says")
	ErrTLV       = errors.New("a TLV is beyond the message")
)

// decode reads the header of a message that has that number of octets without TLVs.
func (h *Header) decode(b []byte, fixed int) error {
	if len(b) < fixed {
		return fmt.Errorf("%w: %d octets, want %d or more (RFC 6374 §3)", ErrTruncated, len(b), fixed)
	}
	length := int(binary.BigEndian.Uint16(b[2:]))
	session := binary.BigEndian.Uint32(b[8:])
	*h = Header{
		Version: b[0] >> 4, Response: b[0]&flagResponse != 0, Class: b[0]&flagClass != 0, Control: ControlCode(b[1]),
		Session: SessionID(session >> 6), DS: uint8(session & 0x3f),
	}
	if length < fixed || length > len(b) {
		return fmt.Errorf("%w: %d of %d octets (RFC 6374 §3.1)", ErrLength, length, len(b))
	}
	h.TLVs = b[fixed:length]
	return nil
}

func (h *Header) append(b []byte, fixed int, word uint32) []byte {
	flags := h.Version << 4
	if h.Response {
		flags |= flagResponse
	}
	if h.Class {
		flags |= flagClass
	}
	b = append(b, flags, byte(h.Control))
	b = binary.BigEndian.AppendUint16(b, uint16(fixed+len(h.TLVs)))
	b = binary.BigEndian.AppendUint32(b, word)
	return binary.BigEndian.AppendUint32(b, uint32(h.Session)<<6|uint32(h.DS&0x3f))
}

// DecodeLoss reads a Loss Measurement message. With ErrLength, the header besides TLVs is
// valid nevertheless.
func DecodeLoss(b []byte) (m Loss, err error) {
	if err = m.decode(b, LossLen); errors.Is(err, ErrTruncated) {
		return m, err
	}
	m.Extended, m.Octets = b[4]>>4&dataExtended != 0, b[4]>>4&dataOctets != 0
	m.Format, m.Origin = TimestampFormat(b[4]&0xf), stamp.Timestamp(binary.BigEndian.Uint64(b[12:]))
	for i := range m.Counters {
		m.Counters[i] = m.wire(binary.BigEndian.Uint64(b[20+8*i:]))
	}
	return m, err
}

// wire is a counter as the message carries it.
func (m *Loss) wire(n uint64) uint64 {
	if m.Extended {
		return n
	}
	return n & 0xffffffff
}

// Append appends the message.
func (m *Loss) Append(b []byte) []byte {
	data := uint32(0)
	if m.Extended {
		data |= dataExtended
	}
	if m.Octets {
		data |= dataOctets
	}
	b = m.append(b, LossLen, data<<28|uint32(m.Format&0xf)<<24)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Origin))
	for _, n := range m.Counters {
		b = binary.BigEndian.AppendUint64(b, m.wire(n))
	}
	return append(b, m.TLVs...)
}

// DecodeDelay reads a Delay Measurement message, as DecodeLoss does.
func DecodeDelay(b []byte) (m Delay, err error) {
	if err = m.decode(b, DelayLen); errors.Is(err, ErrTruncated) {
		return m, err
	}
	m.Querier, m.Responder, m.Preferred = TimestampFormat(b[4]>>4), TimestampFormat(b[4]&0xf), TimestampFormat(b[5]>>4)
	for i := range m.Timestamps {
		m.Timestamps[i] = stamp.Timestamp(binary.BigEndian.Uint64(b[12+8*i:]))
	}
	return m, err
}

// Append appends the message.
func (m *Delay) Append(b []byte) []byte {
	b = m.append(b, DelayLen, uint32(m.Querier&0xf)<<28|uint32(m.Responder&0xf)<<24|uint32(m.Preferred&0xf)<<20)
	for _, t := range m.Timestamps {
		b = binary.BigEndian.AppendUint64(b, uint64(t))
	}
	return append(b, m.TLVs...)
}
