// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"

	"github.com/waymark-net/waymark/ioam"
)

// condition decides whether a record has a field in IPFIX. It is the number of a bit of
// conditions, whose low 24 bits are the trace type; the last of these, which is
// reserved, means always.
type condition uint8

const (
	always         condition = 0
	packetKnown    condition = 23 + iota // addresses
	packetPorts                          // and ports
	lengthKnown                          // the record is about one known packet
	flowIDThere                          // the option has it
	sequenceThere                        // the option has it
	pathDelayKnown                       // in the record of the last node
	ownPrograms                          // the record is not the kernel's
	kernelIOAM                           // the record is of a trace that the kernel filled
	missingKnown                         // of a flow: how many packets are missing
	flowNumbered                         // of a flow: its packets have Sequence Numbers
	sidsKnown                            // of a measured flow: it is an SRv6 flow
	blockNumbered                        // of a measurement: it is of blocks of alternate marking
	onPathDelay                          // a delay since the encapsulating node
	blockTimed                           // of a block: the packets' times were summed
	delaysKnown                          // of a flow from edge to edge: delays of packets
	lossBounded                          // of a loss: duplicates leave only a bound of it
	pointsNamed                          // of a measurement: one of its two nodes is known
)

// bit is the condition that the trace type has a bit.
func bit(n int) condition { return condition(ioam.BitReserved - n) }

// conditionTexts are the texts of the reference for conditions.
var conditionTexts = map[condition]string{
	packetKnown:    "the packet is known",
	packetPorts:    "the packet has ports",
	lengthKnown:    "the packet is known",
	flowIDThere:    "there is a Flow-ID",
	sequenceThere:  "there is a Sequence Number",
	pathDelayKnown: "the last node of a trace whose path delay is known",
	missingKnown:   "there are Sequence Numbers, and it is known how many packets are missing",
	flowNumbered:   "there are Sequence Numbers",
	sidsKnown:      "the flow is an SRv6 flow",
	blockNumbered:  "measured by alternate marking",
	blockTimed:     "times of packets are measured (`mean-delay`)",
	delaysKnown:    "delays of packets are known",
	lossBounded:    "the verdict is `duplicated`",
	pointsNamed:    "the node of one of the points is known",
	onPathDelay:    "one-way, of the whole way, and not negative",
}

// String is the condition's text for the reference, "" for one that is always met.
func (c condition) String() string {
	if c != always && c <= bit(0) {
		return fmt.Sprintf("trace type bit %d", ioam.BitReserved-int(c))
	}
	return conditionTexts[c]
}

// conditions is the set of conditions that a record meets.
type conditions uint64

// allow reports whether a record that meets has has a field with condition c.
func (has conditions) allow(c condition) bool { return c == always || has>>c&1 != 0 }

// with adds a condition, if it is met.
func (has conditions) with(c condition, met bool) conditions {
	if met {
		return has | 1<<c
	}
	return has
}

// Bits of a trace type that have elements.
const (
	typeFixed    ioam.TraceType = 0xfff000 // bits 0 to 11, of a fixed length
	typeSnapshot ioam.TraceType = 1 << (23 - ioam.BitSnapshot)
	typeFields                  = typeFixed | typeSnapshot
)

// bitsOf returns the conditions that a trace type meets: those of bits with elements.
func bitsOf(t ioam.TraceType) conditions { return conditions(t & typeFields) }

// traceType is the inverse of bitsOf.
func (has conditions) traceType() ioam.TraceType { return ioam.TraceType(has) & typeFields }

// elementName is the name in a field specification.
func elementName(spec string) string {
	name, _, _ := strings.Cut(spec, "[")
	return name
}
