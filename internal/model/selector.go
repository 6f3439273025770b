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
	path := flow.Path
	s := selector{out: flow.Direction == DirectionOut, source: flow.Source, class: -1, label: -1}
	if path.Mode == srv6.ModeInline {
		path.Destination, s.inline = flow.Destination, !flow.Destination.IsValid()
	} else {
		s.destination = flow.Destination
	}
	if flow.TrafficClass != nil {
		s.class = int16(*flow.TrafficClass &^ ecnBits)
		if m.Carrier == CarrierClass {
			s.class &^= int16(m.Mask)
		}
	}
	if flow.FlowLabel != nil {
		s.label = int32(*flow.FlowLabel)
	}
	forms := path.Forms()
	list := make([]selector, 0, len(forms))
	for _, form := range forms {
		octets := make([]byte, 0, 16*len(form))
		for i, sid := range form {
			a := sid.As16()
			if i == 0 && m.Carrier == CarrierArgument { // the last SID
				a[m.Octet] &^= m.Mask
			}
			octets = append(octets, a[:]...)
		}
		s.segments = string(octets)
		list = append(list, s)
	}
	return list
}

// validateSelectors checks that packets are of one flow.
func (flow MeasuredFlow) validateSelectors(f faults, m Marking, taken map[selector]string) {
	for _, s := range flow.selectors(m) {
		if other, dup := taken[s]; dup && other != flow.Name {
			f.add("segments", "give one of them another traffic-class, flow-label or destination, or remove it", "flow %q selects the same packets", other)
			return
		}
		taken[s] = flow.Name
	}
}
