// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/srv6"
)

func (c NodeConfig) validateMeasurement(root faults) {
	if len(c.Measurement.Flows) == 0 {
		return
	}
	m, f, earlier := c.Measurement.WithDefaults(), root.in("measurement"), len(*root.list)
	if m.Block < MinBlock || m.Block > MaxBlock {
		f.add("block", "use 100ms to 10m", "%v is no length of a block", m.Block)
	}
	if m.Guard < 0 || m.Guard >= m.Block/2 {
		f.add(
			"guard",
			"use less than half of a block",
			"a guard of %v in blocks of %v leaves no time at which a block's counters are final (RFC 9341 §5)",
			m.Guard,
			m.Block,
		)
	}
	if m.Capacity < 1 || m.Capacity > MaxMeasuredFlows {
		f.add("capacity", fmt.Sprintf("use 1 to %d", MaxMeasuredFlows), "%d flows", m.Capacity)
	} else if len(m.Flows) > m.Capacity {
		f.add("capacity", fmt.Sprintf("set capacity: %d", len(m.Flows)), "there are %d flows, and room for %d", len(m.Flows), m.Capacity)
	}
	m.Marking.validate(f)
	m.validateUnmonitored(f)
	names, selections, monitors := make(map[string]int), make(map[criteria]bool), make(map[monitored]string)
	selectors, marked := make(map[selector]string, len(m.Flows)), len(*root.list) == earlier
	for i, flow := range m.Flows {
		in, before := root.in("flows[%d]", i), len(*root.list)
		if flow.Name == "" {
			in.add("name", "give it a name", "the flow has none")
		} else if j, dup := seen(names, flow.Name, i); dup {
			in.add("name", "give each flow its own name", "%q is also the name of flows[%d]", flow.Name, j)
		}
		flow.validate(in)
		if m.Marking.Carrier == CarrierArgument {
			flow.validateArgument(in)
		}
		flow.validateMonitor(in, m.Marking.Carrier == CarrierOption, monitors)
		if marked && len(*root.list) == before {
			flow.validateSelectors(in, m.Marking, selectors)
		}
		if selections[flow.criteria()] = true; len(selections) > MaxSelections {
			in.add(
				"segments",
				"select flows by the same criteria as others",
				"flows are selected by more than %d combinations of direction, mode inline, destination, traffic-class and flow-label, "+
					"each of which costs every packet a lookup",
				MaxSelections,
			)
			return
		}
	}
}

// criteria are what a flow is selected by besides its source and segments.
type criteria struct{ out, inline, destination, class, label, monitor bool }

func (flow MeasuredFlow) criteria() criteria {
	return criteria{
		flow.Direction == DirectionOut, flow.Path.Mode == srv6.ModeInline, flow.Destination.IsValid(),
		flow.TrafficClass != nil, flow.FlowLabel != nil, flow.SelectedByFlowMonID(),
	}
}

// validateUnmonitored checks that packets of no flow may lose their mark.
func (m Measurement) validateUnmonitored(f faults) {
	switch {
	case !m.Clear:
	case m.Marking.Carrier == CarrierOption:
		f.add(
			"unmonitored",
			"use unmonitored: keep",
			"packets of no flow keep an option that they have: only the node that inserted it may change it (RFC 9343 §2)",
		)
	case m.Marking.Carrier == CarrierArgument:
		f.add(
			"unmonitored",
			"use unmonitored: keep",
			"the last address of a packet of no flow may be no SID: without some of its bits, the packet would go elsewhere",
		)
	}
}

// validateArgument checks that the last SID of a flow's packets has an argument.
func (flow MeasuredFlow) validateArgument(f faults) {
	if flow.Path.Mode == srv6.ModeInline {
		f.add(
			"mode",
			"use encap or encap.red, or carrier: traffic-class",
			"the last address of an inline packet is its receiver's: with a mark in it, the packet would go elsewhere",
		)
	}
	if flow.Path.Compression != (srv6.Compression{}) {
		f.add(
			"container",
			"use carrier: traffic-class or option",
			"nodes of the path move the mark within the container, so the next ones would not find it",
		)
	}
}

// monitored is what must differ in all flows of a node that FlowMonIDs tell apart (RFC
// 9343 §5.3).
type monitored struct {
	source netip.Addr
	out    bool
	id     uint32
}

// validateMonitor checks what packets need to carry the AltMark option.
func (flow MeasuredFlow) validateMonitor(f faults, option bool, taken map[monitored]string) {
	if !option {
		if flow.MonitorID != nil {
			f.add("flow-mon-id", "remove it, or set measurement: {carrier: option}", "packets carry it in the option alone")
		}
		return
	}
	id := flow.FlowMonID()
	if id > MaxFlowMonID {
		f.add("flow-mon-id", "use 0 to 0xfffff", "%#x has more than 20 bits", id)
		return
	}
	if flow.Path.Mode == srv6.ModeInline {
		f.add(
			"mode",
			"use encap or encap.red, or another carrier",
			"nothing would remove the option's header from an inline packet at the end of its segments",
		)
	}
	key := monitored{flow.Source, flow.Direction == DirectionOut, id}
	if other, dup := taken[key]; dup {
		free := key
		for free.id = (id + 1) & MaxFlowMonID; taken[free] != ""; free.id = (free.id + 1) & MaxFlowMonID {
		}
		f.add(
			"flow-mon-id",
			fmt.Sprintf("set flow-mon-id: %#05x at all nodes of the path", free.id),
			"the flow has the FlowMonID %#05x of flow %q, which has the same source",
			id,
			other,
		)
		return
	}
	taken[key] = flow.Name
}

const ecnBits = 0x03

func (m Marking) validate(f faults) {
	switch {
	case m.Carrier == CarrierOption:
		return // has bits of its own
	case m.Carrier > CarrierOption:
		f.add("carrier", "use traffic-class, argument or option", "unknown carrier %d", m.Carrier)
	case m.Mask == 0:
		f.add("mask", "name the bits that carry the mark, such as 0x0c", "no bit carries the mark")
	case m.Carrier == CarrierClass && m.Mask&ecnBits != 0 && !m.ECN:
		f.add(
			"mask",
			"use other bits, or set ecn: true",
			"%#02x has bits of the ECN field: a router that marks congestion would falsify the measurement (RFC 3168 §5)",
			m.Mask,
		)
	case m.Octet > 15:
		f.add("octet", "use 0 to 15", "a SID has no octet %d", m.Octet)
	}
	values := []uint8{m.None, m.Colours[0], m.Colours[1]}
	if m.Delay != nil {
		values = append(values, m.Delay[0], m.Delay[1])
	}
	for i, v := range values {
		if v&^m.Mask != 0 {
			f.add("mask", "use values within the mask", "the value %#02x is not within the mask %#02x", v, m.Mask)
			return
		}
		for _, other := range values[:i] {
			if v == other {
				f.add("odd", "give each meaning its own value", "%#02x has two meanings", v)
				return
			}
		}
	}
}

func (flow MeasuredFlow) validate(f faults) {
	if flow.Direction > DirectionTransit {
		f.add("direction", "use out, in or transit", "unknown direction %d", flow.Direction)
	}
	if !isHostAddress(flow.Source) {
		f.add("source", "use the source address of the outer IPv6 header", "%v is no source of forwarded packets", flow.Source)
	}
	path := flow.Path
	switch n := len(path.Segments); {
	case n == 0 || n > MaxSegments:
		f.add("segments", fmt.Sprintf("list 1 to %d SIDs, the first to visit first", MaxSegments), "%d segments", n)
	default:
		for _, sid := range path.Segments {
			if !isHostAddress(sid) {
				f.add("segments", "use IPv6 addresses that routers forward to", "%v is no SID", sid)
				break
			}
		}
	}
	if path.Mode > srv6.ModeInline {
		f.add("mode", "use encap, encap.red or inline", "unknown mode %d", path.Mode)
	}
	if path.Mode == srv6.ModeInline && path.Popped {
		f.add(
			"psp",
			"measure inline packets before their SRH is removed",
			"a packet whose inline SRH was removed does not show which way it came",
		)
	}
	if err := path.Compression.Validate(); err != nil {
		f.add("container", "use for example 32/16", "%v", err)
	}
	if flow.Destination.IsValid() && !flow.Destination.Is6() {
		f.add("destination", "use an IPv6 address", "%v is none", flow.Destination)
	}
	if flow.FlowLabel != nil && *flow.FlowLabel > 0xfffff {
		f.add("flow-label", "use 0 to 0xfffff", "%#x has more than 20 bits", *flow.FlowLabel)
	}
}

// isHostAddress reports whether routers forward packets from and to an address.
func isHostAddress(a netip.Addr) bool {
	return a.Is6() && !a.Is4In6() && a.Zone() == "" && a.IsGlobalUnicast()
}
