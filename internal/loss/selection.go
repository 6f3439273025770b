// SPDX-License-Identifier: Apache-2.0

package loss

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// Selection says which packets a point counts in a flow, and how: points with equal ones select
// the same packets. The zero value is that of a point that does not say it. Its parts are apart,
// so that a difference can be named.
type Selection struct {
	Block    uint32 // the length of its blocks, ms
	Path     uint32 // a hash of the source and the segment lists
	Criteria uint32 // what else it compares, see NewCriteria
	Takers   uint32 // a hash of what other flows of the point take from it; 0: nothing; see Partial
	Marking  uint32 // a hash of the mark; never 0
}

// Partial are the takers of a flow that shares packets with another one at some points of its
// way only: its counters cannot be compared.
const Partial = 1<<32 - 1

// SelectionLen is the octets of a Selection without its block.
const SelectionLen = 16

const (
	hasClass = 1 << 31
	hasLabel = 1 << 30
	classAt  = 20
	labels   = 1<<classAt - 1
)

// NewCriteria are a traffic class and a flow label that packets must have; nil: any.
func NewCriteria(class *uint8, label *uint32) (c uint32) {
	if class != nil {
		c |= hasClass | uint32(*class)<<classAt
	}
	if label != nil {
		c |= hasLabel | *label&labels
	}
	return c
}

// Known reports whether the point says what it selects.
func (s Selection) Known() bool { return s.Marking != 0 }

// Append appends it without the block.
func (s Selection) Append(b []byte) []byte {
	for _, n := range [...]uint32{s.Path, s.Criteria, s.Takers, s.Marking} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// DecodeSelection is the inverse of Append, for octets of SelectionLen. Without a marking, it is
// not known.
func DecodeSelection(b []byte, block time.Duration) (s Selection) {
	part := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	if part(3) == 0 {
		return s
	}
	return Selection{Block: uint32(block / time.Millisecond), Path: part(0), Criteria: part(1), Takers: part(2), Marking: part(3)}
}

// agrees reports whether two points are known to count the same packets.
func (s Selection) agrees(other Selection) bool {
	return s.Known() && s == other && s.Takers != Partial
}

// Unlike says in words how what a point selects differs from what another one does. It is ""
// exactly if the two agree.
func (s Selection) Unlike(other Selection) string {
	var list []string
	add := func(differs bool, format string, a ...any) {
		if differs {
			list = append(list, fmt.Sprintf(format, a...))
		}
	}
	switch {
	case !s.Known():
		return "it does not say which packets it selects"
	case !other.Known():
		return "the other nodes do not say which packets they select"
	}
	add(s.Block != other.Block, "blocks of %v instead of %v", s.block(), other.block())
	add(s.Path != other.Path, "another source, segment list (segments, mode, psp, container) or destination")
	add(s.class() != other.class(), "traffic class %s instead of %s", s.class(), other.class())
	add(s.label() != other.label(), "flow label %s instead of %s", s.label(), other.label())
	switch {
	case s.Takers == Partial:
		add(true, "another flow there has some of its packets at a part of the nodes only")
	case other.Takers == Partial:
		add(true, "at the node it is compared with, another flow has some of its packets at a part of the nodes only")
	case s.Takers == other.Takers:
	case s.Takers == 0:
		add(true, "no narrower flow there takes packets from it")
	case other.Takers == 0:
		add(true, "a narrower flow there takes packets from it")
	default:
		add(true, "other narrower flows there take packets from it")
	}
	add(s.Marking != other.Marking, "another mark (carrier, octet, mask, even, odd, delay marks)")
	// What a later version compares has no words here.
	add(len(list) == 0 && s != other, "it selects other packets")
	return strings.Join(list, ", ")
}

func (s Selection) block() time.Duration { return time.Duration(s.Block) * time.Millisecond }

const anyValue = "any"

func (s Selection) class() string {
	if s.Criteria&hasClass == 0 {
		return anyValue
	}
	return fmt.Sprintf("%#02x", s.Criteria>>classAt&0xff)
}

func (s Selection) label() string {
	if s.Criteria&hasLabel == 0 {
		return anyValue
	}
	return fmt.Sprintf("%#05x", s.Criteria&labels)
}

// compareSelections notes the points that do not select the packets of the flow. The packets of the
// flow are those that its first point selects; if that does not say which, the next point that does.
func compareSelections(all []judged, assumed bool) {
	reference := 0
	for reference < len(all)-1 && !all[reference].Selection.Known() {
		reference++
	}
	flow := all[reference].Selection
	for i := range all {
		r := &all[i]
		switch {
		case r.Selection.agrees(flow), !r.Present && !r.Selection.Known():
		case !r.Selection.Known() && assumed:
			r.assumed = true
		default:
			r.unlike = r.Selection.Unlike(flow)
		}
	}
}

// IsStale reports whether a block's result comes after that of a later block, of which all points
// had reported earlier. waiting is how many blocks an assembler keeps: one farther back is no late
// one, but the clock was set.
func IsStale(block, latest, waiting int64) bool {
	return block < latest && latest-block <= waiting
}

// Selecting passes the points of which a block says whether they select the packets that the
// first point selects, with the difference in words, "" if there is none. A point that did not
// report says nothing, and without the first one, no point does.
func (r *Result) Selecting(yield func(p PointID, difference string) bool) {
	if r.Whole.From.Reasons&Missing != 0 {
		return
	}
	for s := range r.parts {
		for _, e := range []*End{&s.From, &s.To} {
			if known := e.Difference != "" || e.Reasons&Missing == 0; known && !yield(e.Point, e.Difference) {
				return
			}
		}
	}
}

// Assumptions are what was not checked, because the configuration says that it is so.
type Assumptions uint8

// AssumedSelection is that a point which does not say it selects the same packets.
const AssumedSelection Assumptions = 1

var assumptionNames = [...]string{"selection"}

// Names are the assumptions in words.
func (a Assumptions) Names() []string { return namesOf(uint16(a), assumptionNames[:]) }

// AssumptionsNamed is the inverse of Names.
func AssumptionsNamed(names []string) Assumptions {
	return Assumptions(bitsNamed(names, assumptionNames[:]))
}
