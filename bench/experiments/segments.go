// SPDX-License-Identifier: Apache-2.0

package experiments

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/waymark-net/waymark/bench/harness"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// SIDs of all packets, in the order of travel, and a number in the last 16 bits of one
// of them where flows differ by it. Every list has three.
const (
	sidPrefix     = "2001:db8:5::"
	everySID      = "2001:db8:5::/48"
	outerClass    = 0x04 // of packets that arrive: one of the colours
	outerHeaders  = harness.IPv6Header + 8 + 3*16
	atOuterClass  = harness.EthernetHeader
	atFlowLabel   = harness.EthernetHeader + 2 // its last 16 bits
	atSRH         = harness.EthernetHeader + harness.IPv6Header
	atLastSID     = atSRH + 8 + 14  // the last 16 bits of the SRH's first entry
	atMiddleSID   = atLastSID + 16  // and of its second one
	nextRouting   = 43              // the next header of an IPv6 header before an SRH
	endpointRoute = "dev n1"        // the kernel wants a device, and looks the way up itself
	linkNext      = "2001:db8:f::2" // the gateway of all nodes
	routeToSIDs   = "route add " + everySID + " via " + linkNext + " dev n1"
	tunnelSource  = "sr tunsrc set " + "2001:db8:a::1" // harness.TunnelStart
)

// sid is the SID of a node on the path, the first being 1, with a number.
func sid(node byte, number int) netip.Addr {
	a := netip.MustParseAddr(sidPrefix).As16()
	a[7], a[14], a[15] = node, byte(number>>8), byte(number)
	return netip.AddrFrom16(a)
}

// segmentNode is a node that packets with a list of three segments cross, and the flows
// among them.
type segmentNode struct {
	name      string
	direction model.Direction
	commands  func(flows int) []string
	// packets are those of a size, of which flows take turns.
	packets func(size, flows int) harness.Stream
	// numbered is the list that a flow's packets have, and its flow label; nil where
	// they do not differ by it.
	numbered func(number int) (list []netip.Addr, label *uint32)
	arrives  func(colours ...byte) harness.Arrival
	reduced  bool          // the list lacks its first segment
	marking  model.Marking // zero: the default
}

// Names of nodes.
const (
	atHeadEnd         = "head end, flows by flow label"
	atHeadEndInTunnel = "head end of packets in a tunnel, flows by its segments"
	atPolicies        = "head end, flows by segments"
	atEndpoint        = "End, flows by segments"
	atDecap           = "End.DT6, flows by segments"
)

// headEnd encapsulates by one route. The kernel copies the flow label, by which flows
// differ: so its own work is the same for any number of them.
var headEnd = segmentNode{
	name: atHeadEnd, direction: model.DirectionOut,
	commands: func(int) []string {
		return []string{
			tunnelSource,
			routeToSIDs,
			fmt.Sprintf("route add %s/128 encap seg6 mode encap segs %s,%s,%s dev n1", harness.Destination, sid(1, 0), sid(2, 0), sid(3, 0)),
		}
	},
	packets: func(size, flows int) harness.Stream {
		return harness.Stream{Frame: harness.Plain(harness.Destination, size)}.Varied(flows, 0, atFlowLabel)
	},
	numbered: func(n int) ([]netip.Addr, *uint32) {
		label := uint32(n)
		return []netip.Addr{sid(1, 0), sid(2, 0), sid(3, 0)}, &label
	},
	arrives: encapsulated,
}

// headEndInTunnel encapsulates packets of a tunnel, on their way to its second segment. It
// can only count its flows: Waymark counts without colouring where packets arrive.
var headEndInTunnel = segmentNode{
	name: atHeadEndInTunnel, direction: model.DirectionTransit,
	commands: func(int) []string {
		return []string{
			tunnelSource,
			routeToSIDs,
			fmt.Sprintf("route add %s/128 encap seg6 mode encap segs %s,%s,%s dev n1", sid(2, 0), sid(4, 0), sid(5, 0), sid(6, 0)),
		}
	},
	packets:  endpoint.packets,
	numbered: endpoint.numbered,
	arrives: func(...byte) harness.Arrival {
		return func(sent, arrived []byte) error {
			if at := atLastSID + outerHeaders; len(arrived) >= at+2 {
				sent = harness.With(sent, atLastSID, arrived[at:at+2]...)
			}
			return encapsulated(outerClass)(sent, arrived)
		}
	},
}

// policies is a head end with a route for each segment list.
var policies = segmentNode{
	name: atPolicies, direction: model.DirectionOut,
	commands: func(flows int) []string {
		list := []string{tunnelSource, routeToSIDs}
		for i := range flows {
			list = append(
				list,
				fmt.Sprintf(
					"route add %s%x:0:0:0:2/128 encap seg6 mode encap segs %s,%s,%s dev n1",
					"2001:db8:2:",
					firstSubnet+i,
					sid(1, 0),
					sid(2, 0),
					sid(3, i),
				),
			)
		}
		return list
	},
	packets: func(size, flows int) harness.Stream {
		return harness.Stream{Frame: harness.Plain(netip.MustParseAddr(prefixOfSubnets+"2"), size)}.Varied(flows, firstSubnet, atSubnet)
	},
	numbered: func(n int) ([]netip.Addr, *uint32) { return []netip.Addr{sid(1, 0), sid(2, 0), sid(3, n)}, nil },
	arrives:  encapsulated,
}

// endpoint is at the second of three segments; flows differ by the last one.
var endpoint = segmentNode{
	name: atEndpoint, direction: model.DirectionTransit,
	commands: func(int) []string {
		return []string{routeToSIDs, fmt.Sprintf("route add %s/128 encap seg6local action End %s", sid(2, 0), endpointRoute)}
	},
	packets: func(size, flows int) harness.Stream {
		return harness.Stream{Frame: routedFrame(size, 1)}.Varied(flows, 0, atLastSID)
	},
	numbered: func(n int) ([]netip.Addr, *uint32) { return []netip.Addr{sid(1, 0), sid(2, 0), sid(3, n)}, nil },
	arrives:  func(...byte) harness.Arrival { return advanced },
}

// decapsulator is at the last segment, and forwards what the tunnel holds; flows differ
// by the second segment.
var decapsulator = segmentNode{
	name: atDecap, direction: model.DirectionIn,
	commands: func(int) []string {
		return []string{fmt.Sprintf("route add %s/128 encap seg6local action End.DT6 table 254 %s", sid(3, 0), endpointRoute)}
	},
	packets: func(size, flows int) harness.Stream {
		return harness.Stream{Frame: routedFrame(size, 0)}.Varied(flows, 0, atMiddleSID)
	},
	numbered: func(n int) ([]netip.Addr, *uint32) { return []netip.Addr{sid(1, 0), sid(2, n), sid(3, 0)}, nil },
	arrives:  func(...byte) harness.Arrival { return decapsulated },
}

// routedFrame is a plain frame of a size in a tunnel of three segments, of which some
// are left.
func routedFrame(size int, left uint8) []byte {
	list := []netip.Addr{sid(3, 0), sid(2, 0), sid(1, 0)}
	body := []byte{harness.NextIPv6, 6, 4, left, 2, 0, 0, 0} // an SRH (RFC 8754 §2)
	for _, segment := range list {
		body = append(body, segment.AsSlice()...)
	}
	body = append(body, harness.Plain(harness.Destination, size)[harness.EthernetHeader:]...)
	outer := harness.IPv6(harness.TunnelStart, list[left], nextRouting, body)
	outer[0], outer[1] = 6<<4|outerClass>>4, outerClass<<4&0xf0
	return harness.Ethernet(outer)
}

// kernel is the node without programs.
func (s segmentNode) kernel(flows int) harness.Treatment {
	commands := s.commands(flows)
	return harness.Treatment{Name: fmt.Sprintf("%s, %d commands", s.name, len(commands)), Commands: commands}
}

// hook is where packets are measured.
func (s segmentNode) hook(mode datapath.AttachMode) (name string, hook harness.EmptyHook, at datapath.Hook) {
	if s.direction == model.DirectionOut {
		return atDeparture, harness.EmptyHook{Out: true, Egress: true}, datapath.HookEgressTC
	}
	return string(mode), harness.EmptyHook{}, datapath.HookIngressXDP
}

// empty is the node with a program that does nothing in the hook.
func (s segmentNode) empty(mode datapath.AttachMode, flows int) harness.Treatment {
	name, hook, _ := s.hook(mode)
	t := s.kernel(flows)
	t.Name, t.Hooks, t.Attach = fmt.Sprintf("%s, empty program at %s", t.Name, name), []harness.EmptyHook{hook}, mode
	return t
}

// measuring is the node with our programs, which measure so many flows or none. Only
// the interface is served where packets are measured.
func (s segmentNode) measuring(mode datapath.AttachMode, flows, measured int) harness.Treatment {
	name, hook, _ := s.hook(mode)
	t := s.kernel(flows)
	t.Name, t.Attach = fmt.Sprintf("%s, %d flows measured at %s", t.Name, measured, name), mode
	t.Config = func(in, out model.IfIndex) model.NodeConfig {
		c := place(measuringConfig(), in, out)
		c.Measurement = s.measurement(measured)
		if hook.Out {
			c.Interfaces = c.Interfaces[1:]
		} else {
			c.Interfaces = c.Interfaces[:1]
		}
		return c
	}
	return t
}

// measuringConfig is a node without IOAM.
func measuringConfig() model.NodeConfig {
	c := nodeConfig()
	c.Namespaces = nil
	for i := range c.Interfaces {
		c.Interfaces[i].Roles, c.Interfaces[i].Boundary = 0, model.BoundaryIgnore
	}
	return c
}

// measurement has this number of flows. Packets arrive with one colour, in blocks of the other
// one, too: with such a guard, none is noted as late or early, as few of a real ingress are.
func (s segmentNode) measurement(flows int) model.Measurement {
	return model.Measurement{Guard: model.DefaultBlock/2 - 1, Marking: s.marking, Flows: s.flows(flows)}
}

// colours are those of packets that the node has coloured.
func (s segmentNode) colours() []byte {
	colours := model.Measurement{Marking: s.marking}.WithDefaults().Marking.Colours
	return colours[:]
}

// scatter has no factor in common with a number of flows.
const scatter = 40_507

// flows are measured flows in no order: packets that follow each other count in places
// that do not, so the processor fetches none ahead.
func (s segmentNode) flows(n int) []model.MeasuredFlow {
	list, mode := make([]model.MeasuredFlow, n), srv6.ModeEncap
	if s.reduced {
		mode = srv6.ModeReduced
	}
	for i := range list {
		segments, label := s.numbered(i * scatter % n)
		list[i] = model.MeasuredFlow{
			Name: fmt.Sprint(i), Direction: s.direction, Source: harness.TunnelStart,
			Path: srv6.Path{Segments: segments, Mode: mode}, FlowLabel: label,
		}
	}
	return list
}

// linear is the node with a program that compares the lists one by one, and gives packets a
// colour; 0: none.
func (s segmentNode) linear(flows int, colour uint8) harness.Treatment {
	t := s.kernel(flows)
	t.Name = fmt.Sprintf("%s, linear search in %d lists, colour %d", t.Name, flows, colour)
	t.Search = &harness.Search{Leaving: s.direction == model.DirectionOut, Colour: colour}
	for i := range flows {
		segments, _ := s.numbered(i)
		t.Search.Lists = append(t.Search.Lists, []netip.Addr{segments[2], segments[1], segments[0]})
	}
	return t
}

// class is the traffic class of a frame.
func class(frame []byte) byte {
	return frame[atOuterClass]<<4 | frame[atOuterClass+1]>>4
}

// encapsulated checks that a packet left in a tunnel of three segments, with one of the
// colours. The bits by which flows differ are not compared.
func encapsulated(colours ...byte) harness.Arrival {
	return func(sent, arrived []byte) error {
		if len(arrived) != len(sent)+outerHeaders {
			return fmt.Errorf("a packet of %d bytes arrived with %d instead of %d", len(sent), len(arrived), len(sent)+outerHeaders)
		}
		inner, source := arrived[harness.EthernetHeader+outerHeaders:], sent[harness.EthernetHeader:]
		n := min(len(inner), harness.Rewritten-outerHeaders)
		if !bytes.Equal(inner[8:24], source[8:24]) || !bytes.Equal(inner[harness.IPv6Header:n], source[harness.IPv6Header:n]) {
			return fmt.Errorf("the packet was changed:\n%x became\n%x", sent, arrived)
		}
		return hasColour(arrived, colours)
	}
}

// hasColour checks that a packet left with one of the colours.
func hasColour(arrived, colours []byte) error {
	if !bytes.Contains(colours, []byte{class(arrived)}) {
		return fmt.Errorf("the packet left with the traffic class %#02x, not one of %#02x", class(arrived), colours)
	}
	return nil
}

// advanced checks that a packet goes on to its last segment.
func advanced(sent, arrived []byte) error {
	const atDestination, behindSegmentsLeft = harness.EthernetHeader + 24, atSRH + 4
	if len(arrived) != len(sent) {
		return longer(0)(sent, arrived)
	}
	n, last := min(len(sent), harness.Rewritten), arrived[atSRH+8:atSRH+24]
	if !bytes.Equal(arrived[behindSegmentsLeft:n], sent[behindSegmentsLeft:n]) ||
		arrived[atSRH+3] != 0 || !bytes.Equal(arrived[atDestination:atDestination+16], last) {
		return fmt.Errorf("the packet does not go on to its last segment:\n%x became\n%x", sent, arrived)
	}
	return nil
}

// recoloured checks that a packet goes on to its last segment with one of the colours.
func recoloured(colours ...byte) harness.Arrival {
	return func(sent, arrived []byte) error {
		if err := hasColour(arrived, colours); err != nil {
			return err
		}
		return advanced(sent, arrived)
	}
}

// decapsulated checks that a packet left its tunnel.
func decapsulated(sent, arrived []byte) error {
	if err := longer(-outerHeaders)(sent, arrived); err != nil {
		return err
	}
	inner := append(bytes.Clone(sent[:harness.EthernetHeader]), sent[harness.EthernetHeader+outerHeaders:]...)
	n := min(len(inner), harness.Rewritten-outerHeaders)
	return unchanged(inner[:n], arrived[:n])
}
