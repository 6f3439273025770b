// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/srv6"
)

// Selections say, for each flow in its order, which packets this node counts in it: equal ones of
// two nodes select the same packets. Names, directions, and what does not select, such as points
// and thresholds, are no part of them; neither is a destination that all of a flow's packets have
// at this node.
func (m Measurement) Selections() []loss.Selection {
	m = m.WithDefaults()
	list, selecting := make([]loss.Selection, len(m.Flows)), make([]selecting, len(m.Flows))
	mark := m.Marking.digest()
	for i := range m.Flows {
		f := &m.Flows[i]
		s := newSelecting(f, m.Marking)
		selecting[i] = s
		list[i] = loss.Selection{
			Block: uint32(
				m.Block / time.Millisecond,
			), Path: s.path(m.Marking), Criteria: loss.NewCriteria(f.class(m.Marking), f.FlowLabel), Marking: mark,
		}
	}
	for _, out := range []bool{true, false} {
		newTakers(selecting, out, m.Marking.Carrier == CarrierOption).setTaken(list)
	}
	return list
}

// digest is a hash of how packets carry the mark.
func (m Marking) digest() uint32 {
	b := []byte{byte(m.Carrier), 0, m.Mask, m.Colours[0], m.Colours[1], 0, 0, 0}
	if m.Carrier == CarrierArgument {
		b[1] = m.Octet
	}
	if m.Delay != nil {
		b[5], b[6], b[7] = 1, m.Delay[0], m.Delay[1]
	}
	return digest(b)
}

// digest is a hash that is neither 0 nor loss.Partial.
func digest(b []byte) uint32 {
	sum := sha256.Sum256(b)
	return min(max(binary.BigEndian.Uint32(sum[:]), 1), loss.Partial-1)
}

// fields are what packets of a flow must have besides the source and the segments. A flow with
// more of them takes packets from others, and with as many, that with the smaller number.
type fields uint8

const (
	byDestination fields = 2
	byClass       fields = 4
	byLabel       fields = 8
	toAnyone      fields = 16  // the last entry of the list is not compared
	byMonitor     fields = 32  // the FlowMonID is compared instead of the list
	byLast        fields = 64  // the last entry alone, of a flow that takes from one that is toAnyone
	byOwn         fields = 128 // the destination is one that all packets of the flow that compares it have
)

// values are those of fields; of others they are zero.
type values struct {
	destination netip.Addr
	class       uint8
	label       uint32
	last        [addressLen]byte
}

// only leaves the values of some fields.
func (v values) only(f fields) (out values) {
	if f&byDestination != 0 {
		out.destination = v.destination
	}
	if f&byClass != 0 {
		out.class = v.class
	}
	if f&byLabel != 0 {
		out.label = v.label
	}
	if f&byLast != 0 {
		out.last = v.last
	}
	return out
}

// selecting is how the data plane looks a flow up.
type selecting struct {
	out      bool
	source   netip.Addr
	forms    []string
	lists    uint32 // a hash of forms
	compared fields // by the data plane
	narrow   fields // those of them that not all packets of the flow have here
	values   values
	fixed    bool   // a destination narrows the flow
	monitor  uint32 // FlowMonID
}

func newSelecting(f *MeasuredFlow, m Marking) selecting {
	s := selecting{
		out:     f.Direction == DirectionOut,
		source:  f.Source,
		forms:   f.forms(m),
		values:  values{destination: f.Destination},
		monitor: f.FlowMonID(),
	}
	var octets []byte
	for _, form := range slices.Sorted(slices.Values(s.forms)) {
		octets = append(append(octets, byte(len(form)/addressLen)), form...)
	}
	s.lists = digest(octets)
	if class := f.class(m); class != nil {
		s.narrow |= byClass
		s.values.class = *class
	}
	if f.FlowLabel != nil {
		s.narrow |= byLabel
		s.values.label = *f.FlowLabel
	}
	s.compared = s.narrow
	if f.Path.Mode != srv6.ModeInline && f.Destination.IsValid() {
		s.compared |= byDestination
		own := f.isOwnDestination(m)
		if s.fixed = !own; !own || f.Direction == DirectionTransit { // at which segment a transit node is, is not known
			s.narrow |= byDestination
		}
	}
	if f.toAny() {
		s.compared |= toAnyone
	}
	if f.SelectedByFlowMonID() {
		s.compared |= byMonitor
	}
	return s
}

// isOwnDestination reports whether all packets of an encapsulated flow have its destination where
// this node counts them: the first segment where they leave the ingress, the last one where they
// arrive at the egress, any between them.
func (f *MeasuredFlow) isOwnDestination(m Marking) bool {
	is := func(sid netip.Addr) bool { return m.withoutMark(sid) == m.withoutMark(f.Destination) }
	all := f.Path.Segments
	if len(all) == 0 {
		return false
	}
	switch f.Direction {
	case DirectionOut:
		return is(all[0])
	case DirectionTransit:
		return slices.ContainsFunc(all, func(sid netip.Addr) bool { return f.shows(sid, is) })
	}
	return f.shows(all[len(all)-1], is)
}

// shows reports whether a destination is a segment, or the rest of its container.
func (f *MeasuredFlow) shows(sid netip.Addr, is func(netip.Addr) bool) bool {
	rests := srv6.Path{Segments: []netip.Addr{sid}, Mode: srv6.ModeReduced, Compression: f.Path.Compression}.Forms()
	return slices.ContainsFunc(rests, func(rest []netip.Addr) bool { return is(rest[0]) })
}

// path is a hash of the source, of the lists that packets show at any node of the way, and of a
// destination that narrows the flow. With carrier: option, the FlowMonID tells flows apart, too.
func (s *selecting) path(m Marking) uint32 {
	b := append([]byte{byte(s.compared & toAnyone)}, s.source.AsSlice()...)
	if s.fixed {
		b = append(b, s.values.destination.AsSlice()...)
	}
	b = append(b, 0)
	if m.Carrier == CarrierOption {
		b = binary.BigEndian.AppendUint32(b, s.monitor)
	}
	return digest(binary.BigEndian.AppendUint32(b, s.lists))
}

// precedes reports whether packets that are of both flows are of the first one.
func (s *selecting) precedes(other *selecting) bool {
	a, b := s.compared, other.compared
	const counted = byDestination | byClass | byLabel
	return cmp.Or(cmp.Compare(bits.OnesCount8(uint8(b&counted)), bits.OnesCount8(uint8(a&counted))), cmp.Compare(a.number(), b.number())) < 0
}

// number is that of the data plane's selection by these fields.
func (f fields) number() uint8 {
	const segments = 1
	if f&byMonitor != 0 {
		return uint8(f)
	}
	return uint8(f) | segments
}
