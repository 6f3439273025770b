// SPDX-License-Identifier: Apache-2.0

// Package blocks is the form in which two nodes exchange the counters of alternate
// marking (RFC 9341): a TLV for private use (RFC 8972 §4) of STAMP's test packets. The
// sender asks for one block of several flows, and leaves room for the answers; the
// reflector fills them in place.
package blocks

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"github.com/waymark-net/waymark/stamp"
)

// Type is the TLV's type.
const Type stamp.Type = 252

// enterprise marks our TLV among those for private use: RFC 5612's number for
// documentation, because there is none of our own; the magic number tells it apart.
const (
	enterprise = 32473
	magic      = 0x57424c31 // "WBL1"

	headerLen = 4 + 4 + 4 + 8 + 8 // enterprise, magic, length of a block, block, error of the clock
	entryLen  = 80
)

// MostFlows is how many flows one packet may ask for: it then fits 1280 octets with its
// IPv6, UDP and STAMP headers and an HMAC, if it has no other TLV.
const MostFlows = 13

// FlowKey is a flow's name, as nodes exchange it.
type FlowKey uint64

// KeyOf is the key of a name.
func KeyOf(name string) FlowKey {
	sum := sha256.Sum256([]byte(name))
	return FlowKey(binary.BigEndian.Uint64(sum[:]))
}

// State is what the reflector says of a flow's block.
type State uint16

// States of an answer.
const (
	Unanswered State = iota
	Answered         // the counters are final
	NotYet           // the block is not closed, or its counters are not read yet
	Gone             // the counters are no longer there
	UnknownFlow
	OtherLength // the node's blocks have another length

	// NumStates is the number of states.
	NumStates
)

// String is the state's name in metrics.
func (s State) String() string {
	if s >= NumStates {
		return "unknown"
	}
	return [NumStates]string{"unanswered", "answered", "not_yet", "gone", "unknown_flow", "other_length"}[s]
}

// Counters are what a node counted of a flow in a block; datapath.BlockCounts says what
// the numbers are.
type Counters struct {
	Packets, Octets, TimeSum, DelayTimeSum uint64
	DelayPackets, Late, Early, Unmarked    uint32
	Unsized                                uint32
	Complete, Timed                        bool // counted from the block's start; TimeSum is exact
	// Uncovered is why packets may have passed an interface uncounted. The counters are not
	// Complete then, so that nodes that do not know the bits do not trust them.
	Uncovered Reasons
}

// Reasons say why some interface of a node was not counted.
type Reasons uint8

// Reasons, as bits.
const (
	InterfacesChanged Reasons = 1 << iota // interfaces were added, removed or attached again, or one is missing
	UnservedInterface                     // packets of the flow passed an interface that is not counted
	NotExecuted                           // a program that counts did not run for all packets
)

// Entry is one flow of a message.
type Entry struct {
	Flow            FlowKey
	Sent, SentBytes uint64 // what the asking node counted, for others to read along
	State           State
	Counters        Counters // of the answer
}

// Message is the TLV's content.
type Message struct {
	Length     time.Duration // of a block, whole milliseconds
	Block      uint64
	ClockError int64 // of the answering node, ns; -1: not known
	Entries    []Entry
}

// ErrMalformed is the error of a value that is no message.
var ErrMalformed = errors.New("not a message with counters of blocks")

// Append appends the TLV's value.
func (m *Message) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, enterprise)
	b = binary.BigEndian.AppendUint32(b, magic)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Length/time.Millisecond))
	b = binary.BigEndian.AppendUint64(b, m.Block)
	b = binary.BigEndian.AppendUint64(b, uint64(m.ClockError))
	for i := range m.Entries {
		b = m.Entries[i].append(b)
	}
	return b
}

const (
	flagComplete = 1 << 15
	flagTimed    = 1 << 14
	stateMask    = 0xff
)

func (e *Entry) append(b []byte) []byte {
	c := &e.Counters
	for _, n := range []uint64{uint64(e.Flow), e.Sent, e.SentBytes, c.Packets, c.Octets, c.TimeSum, c.DelayTimeSum} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	for _, n := range []uint32{c.DelayPackets, c.Late, c.Early, c.Unmarked, c.Unsized} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	state := uint16(e.State) & stateMask
	if c.Complete {
		state |= flagComplete
	}
	if c.Timed {
		state |= flagTimed
	}
	return append(binary.BigEndian.AppendUint16(b, state), uint8(c.Uncovered), 0)
}

// Decode reads a TLV's value.
func Decode(b []byte) (m Message, err error) {
	if len(b) < headerLen || (len(b)-headerLen)%entryLen != 0 || len(b) > headerLen+MostFlows*entryLen ||
		binary.BigEndian.Uint32(b) != enterprise || binary.BigEndian.Uint32(b[4:]) != magic {
		return m, ErrMalformed
	}
	m.Length = time.Duration(binary.BigEndian.Uint32(b[8:])) * time.Millisecond
	m.Block, m.ClockError = binary.BigEndian.Uint64(b[12:]), int64(binary.BigEndian.Uint64(b[20:]))
	m.Entries = make([]Entry, 0, (len(b)-headerLen)/entryLen)
	for b = b[headerLen:]; len(b) > 0; b = b[entryLen:] {
		m.Entries = append(m.Entries, decodeEntry(b[:entryLen]))
	}
	return m, nil
}

func decodeEntry(b []byte) (e Entry) {
	wide := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	narrow := func(i int) uint32 { return binary.BigEndian.Uint32(b[56+4*i:]) }
	state := binary.BigEndian.Uint16(b[76:])
	return Entry{
		Flow: FlowKey(wide(0)), Sent: wide(1), SentBytes: wide(2), State: State(state & stateMask),
		Counters: Counters{
			Packets: wide(3), Octets: wide(4), TimeSum: wide(5), DelayTimeSum: wide(6),
			DelayPackets: narrow(0), Late: narrow(1), Early: narrow(2), Unmarked: narrow(3), Unsized: narrow(4),
			Complete: state&flagComplete != 0, Timed: state&flagTimed != 0, Uncovered: Reasons(b[78]),
		},
	}
}
