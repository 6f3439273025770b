// SPDX-License-Identifier: Apache-2.0

// Package lossquery reads and writes the loss queries and responses that
// draft-gandhi-spring-twamp-srpm adds to TWAMP Light, and that the PF-PLM system uses. A
// message names a block by one octet, and no flow: the addresses and ports do.
package lossquery

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// UDP ports of the PF-PLM system.
const (
	SenderPort    = 1206
	ReflectorPort = 1205
)

// Lengths of messages in octets. A response has more than a query: senders can pad queries
// with zeros to its length, and ours do.
const (
	QueryLen    = 20
	ResponseLen = 41
)

// Flags of counters.
const (
	flagExtended = 0x80 // X: the counter has 64 bits
	flagOctets   = 0x40 // B: it counts octets
)

// ControlCode is what a query asks for, or how a response came about.
type ControlCode uint8

// Control codes of queries, and the one of a response that has counters.
const (
	OutOfBand ControlCode = 0 // the response travels as routed
	InBand    ControlCode = 1 // the response travels the reverse path

	Success ControlCode = 0
	Failure ControlCode = 1 // the query could not be answered: the counters mean nothing
)

// Count is a counter of a block.
type Count struct {
	Value    uint64
	Extended bool // 64 bits; otherwise 32, and it wraps
	Octets   bool // of octets, not of packets
	Block    uint8
}

// Query asks what was received in a block.
type Query struct {
	Sequence    uint32
	Transmitted Count // of the block
	Control     ControlCode
}

// Response is the answer to a query.
type Response struct {
	Sequence    uint32
	Transmitted Count // of the reverse path
	Received    uint64
	Sender      Query // as it was received, without its control code
	Control     ControlCode
	SenderTTL   uint8
}

// ErrTruncated is the error of a message that is too short.
var ErrTruncated = errors.New("the message is cut short")

// Append appends a query, padded with zeros to the length of its response.
func (q Query) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, q.Sequence)
	b = append(q.Transmitted.append(b), 0, 0, 0, 0, 0, byte(q.Control))
	return append(b, make([]byte, ResponseLen-QueryLen)...)
}

// append appends a counter, its flags and its block.
func (c Count) append(b []byte) []byte {
	flags := byte(0)
	if c.Extended {
		flags |= flagExtended
	}
	if c.Octets {
		flags |= flagOctets
	}
	return append(binary.BigEndian.AppendUint64(b, c.wire()), flags, c.Block)
}

// wire is the value as messages carry it.
func (c Count) wire() uint64 {
	if c.Extended {
		return c.Value
	}
	return c.Value & 0xffffffff
}

func decodeCount(b []byte) Count {
	c := Count{Value: binary.BigEndian.Uint64(b), Extended: b[8]&flagExtended != 0, Octets: b[8]&flagOctets != 0, Block: b[9]}
	c.Value = c.wire()
	return c
}

// DecodeQuery reads a query. What follows it is padding.
func DecodeQuery(b []byte) (Query, error) {
	if len(b) < QueryLen {
		return Query{}, fmt.Errorf("%w: a query has %d octets, not %d", ErrTruncated, QueryLen, len(b))
	}
	return Query{binary.BigEndian.Uint32(b), decodeCount(b[4:]), ControlCode(b[19])}, nil
}

// Append appends a response. Its received counter has the form of the sender's.
func (r Response) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.Sequence)
	b = append(r.Transmitted.append(b), 0, 0)
	received := r.Sender.Transmitted
	received.Value = r.Received
	b = binary.BigEndian.AppendUint64(b, received.wire())
	b = binary.BigEndian.AppendUint32(b, r.Sender.Sequence)
	b = append(r.Sender.Transmitted.append(b), 0, byte(r.Control))
	return append(b, max(r.SenderTTL, 1))
}

// DecodeResponse reads a response. What follows it is padding.
func DecodeResponse(b []byte) (Response, error) {
	if len(b) < ResponseLen {
		return Response{}, fmt.Errorf("%w: a response has %d octets, not %d", ErrTruncated, ResponseLen, len(b))
	}
	r := Response{
		Sequence: binary.BigEndian.Uint32(b), Transmitted: decodeCount(b[4:]),
		Sender:  Query{Sequence: binary.BigEndian.Uint32(b[24:]), Transmitted: decodeCount(b[28:])},
		Control: ControlCode(b[39]), SenderTTL: b[40],
	}
	received := r.Sender.Transmitted
	received.Value = binary.BigEndian.Uint64(b[16:])
	r.Received = received.wire()
	return r, nil
}

// IsResponse reports whether a message may be the response of another node: it has a TTL
// where the padding of a query has zeros. Answered, it would be answered again.
func IsResponse(b []byte) bool { return len(b) >= ResponseLen && b[ResponseLen-1] != 0 }
