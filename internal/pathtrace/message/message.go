// SPDX-License-Identifier: Apache-2.0

// Package message encodes and decodes the messages of "waymark trace": the payload of a
// probe, whose IOAM trace has the Active flag (RFC 9322 §5), and the answer with the trace
// as the probe arrived. The RFC leaves both open.
package message

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

// Port is the UDP port of probes unless another is chosen: the one that IANA assigned to
// traceroute.
const Port = 33434

// Lengths in octets.
const (
	// ProbeLen is the length of a probe. The part after the MAC is zero; with it, an answer
	// is never longer than its probe.
	ProbeLen = 64
	// AnswerLen is the length of an answer without its trace.
	AnswerLen = 52

	macAt, macLen = 24, 16
)

const (
	magic   = "WMPT"
	version = 1

	kindProbe  = 1
	kindAnswer = 2
)

// Causes of an error.
var (
	ErrLength = errors.New("wrong length")
	ErrFormat = errors.New("no message of this version")
	ErrKind   = errors.New("the other kind of message")
	ErrMAC    = errors.New("wrong MAC")
)

// ID identifies a probe.
type ID struct {
	Nonce    [8]byte // of the run, random
	Number   uint32
	Flow     uint16
	HopLimit uint8 // with which it was sent
}

// Answer is what the end of the path says about a probe.
type Answer struct {
	ID
	HopLimit uint8     // with which the probe arrived
	Received time.Time // at the destination, by its clock
	Trace    []byte    // from the trace header on (RFC 9197 §4.4.1); empty: the probe had none
}

// appendID appends the header of a message, with room for the MAC.
func appendID(dst []byte, kind byte, id ID) []byte {
	dst = append(dst, magic...)
	dst = append(dst, version, kind, id.HopLimit, 0)
	dst = append(dst, id.Nonce[:]...)
	dst = binary.BigEndian.AppendUint32(dst, id.Number)
	dst = binary.BigEndian.AppendUint16(dst, id.Flow)
	dst = append(dst, 0, 0)
	return append(dst, make([]byte, macLen)...)
}

// AppendProbe appends a probe, with a MAC if there is a key.
func AppendProbe(dst []byte, id ID, key []byte) []byte {
	start := len(dst)
	dst = appendID(dst, kindProbe, id)
	dst = append(dst, make([]byte, ProbeLen-macAt-macLen)...)
	seal(dst[start:], key)
	return dst
}

// AppendAnswer appends an answer, with a MAC if there is a key.
func AppendAnswer(dst []byte, a Answer, key []byte) []byte {
	start := len(dst)
	dst = appendID(dst, kindAnswer, a.ID)
	dst = append(dst, a.HopLimit, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(a.Trace)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.Received.UnixNano()))
	dst = append(dst, a.Trace...)
	seal(dst[start:], key)
	return dst
}

// mac is the HMAC-SHA-256 of a message whose MAC is zero, truncated (RFC 2104 §5).
func mac(message, key []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(message[:macAt])
	h.Write(make([]byte, macLen))
	h.Write(message[macAt+macLen:])
	return h.Sum(nil)[:macLen]
}

func seal(message, key []byte) {
	if len(key) > 0 {
		copy(message[macAt:], mac(message, key))
	}
}

// decodeID reads the header of a message of a kind.
func decodeID(b []byte, kind byte, key []byte) (ID, error) {
	switch {
	case len(b) < macAt+macLen:
		return ID{}, ErrLength
	case string(b[:4]) != magic || b[4] != version:
		return ID{}, ErrFormat
	case b[5] != kind:
		return ID{}, ErrKind
	case len(key) > 0 && !hmac.Equal(b[macAt:macAt+macLen], mac(b, key)):
		return ID{}, ErrMAC
	}
	return ID{Nonce: [8]byte(b[8:16]), Number: binary.BigEndian.Uint32(b[16:]), Flow: binary.BigEndian.Uint16(b[20:]), HopLimit: b[6]}, nil
}

// DecodeProbe reads a probe. With a key, its MAC must be right.
func DecodeProbe(b, key []byte) (ID, error) {
	if len(b) != ProbeLen {
		if _, err := decodeID(b, kindProbe, nil); errors.Is(err, ErrKind) {
			return ID{}, err
		}
		return ID{}, ErrLength
	}
	return decodeID(b, kindProbe, key)
}

// QuotedProbe reads as much of a probe as an ICMPv6 error quotes. Nothing proves it.
func QuotedProbe(b []byte) (ID, error) { return decodeID(b, kindProbe, nil) }

// DecodeAnswer reads an answer, whose trace aliases b. With a key, its MAC must be right.
func DecodeAnswer(b, key []byte) (Answer, error) {
	id, err := decodeID(b, kindAnswer, key)
	switch {
	case err != nil:
		return Answer{}, err
	case len(b) < AnswerLen || len(b) != AnswerLen+int(binary.BigEndian.Uint16(b[42:])):
		return Answer{}, ErrLength
	}
	return Answer{ID: id, HopLimit: b[40], Received: time.Unix(0, int64(binary.BigEndian.Uint64(b[44:]))), Trace: b[AnswerLen:]}, nil
}

// Header makes the Hop-by-Hop header of probes: a pre-allocated trace with the Active flag
// and room for a number of nodes.
func Header(next ioam.NextHeader, namespace ioam.NamespaceID, kind ioam.TraceType, nodes int) ([]byte, error) {
	size := 4 * kind.NodeLen() * nodes
	trace := ioam.Trace{
		Namespace: namespace, NodeLen: uint8(kind.NodeLen()), Flags: ioam.FlagActive, RemainingLen: uint8(size / 4), Type: kind,
		Data: make([]byte, size),
	}
	return ioam.AppendExtensionHeader(nil, next, trace.Option())
}

// TraceOf finds the trace with the Active flag in a Hop-by-Hop header: from the trace
// header on, nil if there is none.
func TraceOf(header []byte) []byte {
	h, err := ioam.DecodeExtensionHeader(header)
	if err != nil {
		return nil
	}
	for option, err := range h.Options() {
		if err != nil {
			return nil
		}
		if option.Type != ioam.OptionIOAM {
			continue
		}
		o, err := option.IOAM()
		if err != nil {
			continue
		}
		if trace, err := o.Trace(); err == nil && !trace.Incremental && trace.Flags&ioam.FlagActive != 0 {
			return slices.Clip(o.Data)
		}
	}
	return nil
}
