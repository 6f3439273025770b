// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"

	"github.com/waymark-net/waymark/srv6"
)

// selector is what packets of a measured flow have in common, as the data plane looks it up: no
// two flows of a node may share one.
type selector struct {
	out, inline         bool
	source, destination netip.Addr
	class               int16 // -1: any
	label               int32 // -1: any
	segments            string
}

// selectors are those of a valid flow, one for each form of its segment list; none if its
// FlowMonID selects it.
func (flow MeasuredFlow) selectors(m Marking) []selector {
	if flow.SelectedByFlowMonID() {
		return nil
	}
	s := selector{out: flow.Direction == DirectionOut, source: flow.Source, class: -1, label: -1, inline: flow.toAny()}
	if flow.Path.Mode != srv6.ModeInline {
		s.destination = flow.Destination
	}
	if class := flow.class(m); class != nil {
		s.class = int16(*class)
	}
	if flow.FlowLabel != nil {
		s.label = int32(*flow.FlowLabel)
	}
	forms := flow.forms(m)
	list := make([]selector, 0, len(forms))
	for _, form := range forms {
		s.segments = form
		list = append(list, s)
	}
	return list
}

// toAny reports whether packets of mode inline are of the flow whatever their own destination.
func (flow MeasuredFlow) toAny() bool {
	return flow.Path.Mode == srv6.ModeInline && !flow.Destination.IsValid()
}

// class is the traffic class that packets must have, without the bits that may differ; nil: any.
func (flow MeasuredFlow) class(m Marking) *uint8 {
	if flow.TrafficClass == nil {
		return nil
	}
	class := *flow.TrafficClass &^ ecnBits
	if m.Carrier == CarrierClass {
		class &^= m.Mask
	}
	return &class
}

// forms are the segment lists that packets of the flow show at some node of its way, in the order
// of the SRH, without the bits of the last SID that carry the mark.
func (flow MeasuredFlow) forms(m Marking) (list []string) {
	path := flow.Path
	if path.Mode == srv6.ModeInline {
		path.Destination = flow.Destination
	}
	for _, form := range path.Forms() {
		octets := make([]byte, 0, addressLen*len(form))
		for i, sid := range form {
			if i == 0 { // the last SID
				sid = m.withoutMark(sid)
			}
			octets = append(octets, sid.AsSlice()...)
		}
		list = append(list, string(octets))
	}
	return list
}

const addressLen = 16

// withoutMark is the last SID without the bits that carry the mark.
func (m Marking) withoutMark(sid netip.Addr) netip.Addr {
	if m.Carrier != CarrierArgument {
		return sid
	}
	a := sid.As16()
	a[m.Octet] &^= m.Mask
	return netip.AddrFrom16(a)
}

// validateSelectors checks that packets are of one flow.
func (flow MeasuredFlow) validateSelectors(f faults, m Marking, taken map[selector]string) {
	for _, s := range flow.selectors(m) {
		if other, dup := taken[s]; dup && other != flow.Name {
			f.add(
				"segments",
				"give one of them another traffic-class, flow-label or destination, or remove it",
				"flow %q selects the same packets",
				other,
			)
			return
		}
		taken[s] = flow.Name
	}
}
