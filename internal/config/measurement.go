// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// Measurement is how the flows of the domain are marked and counted (RFC 9341).
type Measurement struct {
	Block       BlockLength   `key:"block" default:"10s" doc:"Length of a block, 100ms to 10m, one value in the whole domain. A packet's block is the time in UTC, divided by it."`
	Guard       *BlockLength  `key:"guard" absent:"100ms, or a quarter of a block below 400ms" doc:"How far from its block a packet may arrive: the difference of the nodes' clocks plus the spread of delays, less than half of a block (RFC 9341 §5). Packets that arrive farther from it are counted, and make the block's result uncertain."`
	Carrier     model.Carrier `key:"carrier" default:"traffic-class" doc:"What carries the mark: bits of the outer traffic class, or of an octet of the last SID's argument."`
	Octet       OctetNumber   `key:"octet" default:"15" doc:"Of carrier: argument: the octet of the last SID, 0 to 15. All SIDs that end here must route alike, whatever its marked bits."`
	Mask        MarkBits      `key:"mask" default:"0x0c" doc:"The bits that carry the mark. Bits 0x03 of the traffic class are ECN; see ecn."`
	Unmarked    MarkBits      `key:"unmarked" default:"0x00" doc:"Their value in packets without a mark."`
	Even        MarkBits      `key:"even" default:"0x04" doc:"Their value in blocks with an even number."`
	Odd         MarkBits      `key:"odd" default:"0x0c" doc:"Their value in blocks with an odd number."`
	DelayEven   *MarkBits     `key:"delay-even" absent:"no delay marks" doc:"Their value in a packet with a delay mark (double marking, RFC 9341 §4.2.2) of an even block; with delay-odd."`
	DelayOdd    *MarkBits     `key:"delay-odd" absent:"no delay marks" doc:"The same of an odd block."`
	MeanDelay   bool          `key:"mean-delay" default:"false" doc:"Also measure the mean delay of all packets (RFC 9341 §4.2.3). The clock is then read for each packet instead of once in a tick, which may cost as much as the rest of the measurement."`
	ClockError  *BlockLength  `key:"clock-error" absent:"what the kernel says of its clock, if it is synchronized; else not known" doc:"How far this node's clock may be from UTC. Blocks are uncertain if the clocks of two nodes may differ by more than half of guard."`
	ECN         bool          `key:"ecn" default:"false" doc:"Accept bits of the ECN field in mask: a router that marks congestion then falsifies the measurement."`
	Unmonitored Unmonitored   `key:"unmonitored" default:"keep" doc:"What happens to the marked bits of packets that leave with the source of a flow whose direction is out, and belong to no flow: keep them, or clear them to unmarked."`
	Capacity    FlowCapacity  `key:"capacity" default:"65536" doc:"The most flows. Each costs about 256 bytes for each CPU, once it exists."`
}

// Flow is the packets of one segment routing policy.
type Flow struct {
	Name         string          `key:"name" required:"true" doc:"The flow's name, the same at all nodes of its path."`
	Direction    model.Direction `key:"direction" required:"true" doc:"What this node is to the flow: out counts and marks packets that leave (the path's ingress), in counts packets that arrive (its egress), transit counts packets that arrive at an endpoint between them."`
	Source       netip.Addr      `key:"source" required:"true" doc:"Source address of the outer header; of mode inline, that of the packet."`
	Segments     []netip.Addr    `key:"segments" required:"true" doc:"The policy's SIDs, 1 to 16, the first to visit first: the same at all nodes of the path."`
	Mode         srv6.Mode       `key:"mode" default:"encap" doc:"How packets get their segments, as in \"ip -6 route ... encap seg6 mode\": encap, encap.red or inline."`
	PSP          bool            `key:"psp" default:"false" doc:"The last endpoint but one removes the SRH (RFC 8986 §4.16.1): packets with the last SID alone are of the flow, too."`
	Container    Container       `key:"container" default:"none" doc:"The SIDs are containers of compressed SIDs (NEXT-C-SID, RFC 9800): bits of the locator block / bits of a SID, such as 32/16."`
	Destination  netip.Addr      `key:"destination" absent:"any" doc:"Destination address as packets have it when they leave, or arrive, here. Of mode inline: their own destination."`
	TrafficClass *TrafficClass   `key:"traffic-class" absent:"any" doc:"Outer traffic class, of which the DSCP is compared, without bits that carry the mark."`
	FlowLabel    *FlowLabel      `key:"flow-label" absent:"any" doc:"Outer flow label."`
	Points       []Reflector     `key:"points" absent:"none: loss is not computed here" doc:"With direction: out, the reflectors (stamp) of the nodes that count the flow after this one, in the order of its path, the last one at its egress: an address, with port 862, or [ADDRESS]:PORT. After each block this node asks them what they counted, and reports loss and delay as records, in waymark loss, and as metrics."`
}

// Stamp is a reflector.
type Stamp struct {
	Listen  Reflector      `key:"listen" default:"[::]:862" doc:"Address and UDP port."`
	Allow   []netip.Prefix `key:"allow" required:"true" doc:"Prefixes of senders that are answered, 1 to 64: nodes that measure with this one."`
	KeyFile string         `key:"key-file" absent:"packets are not authenticated" doc:"File with the key of the HMACs in hexadecimal digits, the same at all nodes that measure together, mode 0600 or stricter. With it, this node also authenticates its questions to other nodes."`
	Rate    PacketRate     `key:"rate" default:"100000" doc:"The most packets per second that are answered."`
}

// Reflector is where a reflector listens.
type Reflector netip.AddrPort

// PacketRate is a number of packets per second.
type PacketRate int

const stampPort = 862

func parseReflector(s string) (Reflector, error) {
	if at, err := netip.ParseAddrPort(s); err == nil && at.Port() > 0 {
		_, err := parseAddr(at.Addr().String())
		return Reflector(at), err
	}
	a, err := parseAddr(s)
	return Reflector(netip.AddrPortFrom(a, stampPort)), err
}

func formatReflector(r Reflector) string {
	at := netip.AddrPort(r)
	if at.Port() == stampPort && !at.Addr().IsUnspecified() {
		return at.Addr().String()
	}
	return at.String()
}

// BlockLength is a time of whole milliseconds.
type BlockLength time.Duration

// OctetNumber is the number of an octet of a SID.
type OctetNumber uint8

// MarkBits is a value of bits within an octet.
type MarkBits uint8

// FlowCapacity is a number of measured flows.
type FlowCapacity int

// Unmonitored is what happens to the mark of packets of no flow.
type Unmonitored string

// The ways to treat such packets.
const (
	UnmonitoredKeep  Unmonitored = "keep"
	UnmonitoredClear Unmonitored = "clear"
)

// Container is how a SID holds compressed SIDs; zero is not at all.
type Container srv6.Compression

func parseBlockLength(s string) (BlockLength, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with a unit", s)
	case d < time.Millisecond || d > model.MaxBlock:
		return 0, fmt.Errorf("%s is not from 1ms to %v", s, model.MaxBlock)
	case d%time.Millisecond != 0:
		return 0, fmt.Errorf("%s is not whole milliseconds", s)
	}
	return BlockLength(d), nil
}

func formatBlockLength(l BlockLength) string { return formatPeriod(Period(l)) }

const noContainer = "none"

func parseContainer(s string) (Container, error) {
	if s == noContainer {
		return Container{}, nil
	}
	first, second, _ := strings.Cut(s, "/")
	block, errBlock := parseUint(first, 7)
	sid, errSID := parseUint(second, 7)
	if errBlock != nil || errSID != nil {
		return Container{}, fmt.Errorf("%q is not BLOCK/SID in bits", s)
	}
	c := Container{Block: uint8(block), SID: uint8(sid)}
	return c, srv6.Compression(c).Validate()
}

func formatContainer(c Container) string {
	if c == (Container{}) {
		return noContainer
	}
	return fmt.Sprintf("%d/%d", c.Block, c.SID)
}

// measurement is the data plane's form of the measured flows.
func (c *Config) measurement() model.Measurement {
	if len(c.Flows) == 0 {
		return model.Measurement{}
	}
	m := c.Measurement
	if m == nil {
		out := model.Measurement{Marking: model.DefaultMarking()}
		return withFlows(out, c.Flows)
	}
	out := model.Measurement{
		Block: time.Duration(m.Block), Clear: m.Unmonitored == UnmonitoredClear, MeanDelay: m.MeanDelay, Capacity: int(m.Capacity),
		Marking: model.Marking{
			Carrier: m.Carrier, Octet: uint8(m.Octet), Mask: uint8(m.Mask), None: uint8(m.Unmarked),
			Colours: [2]uint8{uint8(m.Even), uint8(m.Odd)}, ECN: m.ECN,
		},
	}
	if m.ClockError != nil {
		out.ClockError = (*time.Duration)(m.ClockError)
	}
	if m.Guard != nil {
		out.Guard = time.Duration(*m.Guard)
	}
	if m.DelayEven != nil && m.DelayOdd != nil {
		out.Marking.Delay = &[2]uint8{uint8(*m.DelayEven), uint8(*m.DelayOdd)}
	}
	return withFlows(out, c.Flows)
}

func withFlows(m model.Measurement, flows []Flow) model.Measurement {
	for _, f := range flows {
		m.Flows = append(m.Flows, f.node())
	}
	return m
}

// maxPoints is how many nodes may count a flow after its ingress.
const maxPoints = 15

// measurementRules are the rules of measured flows that are clearest in the words of
// the file.
func (c *Config) measurementRules(add func(path, problem, cure string)) {
	if m := c.Measurement; m != nil && (m.DelayEven == nil) != (m.DelayOdd == nil) {
		add("measurement.delay-even", "delay marks need a value for even and for odd blocks", "give delay-even and delay-odd, or neither")
	}
	if s := c.Stamp; s != nil && (len(s.Allow) == 0 || len(s.Allow) > 64) {
		add("stamp.allow", fmt.Sprintf("%d prefixes", len(s.Allow)), "list 1 to 64 prefixes of the nodes that may ask; ::/0 is any")
	}
	for i, f := range c.Flows {
		if len(f.Points) > 0 && f.Direction != model.DirectionOut {
			add(fmt.Sprintf("flows[%d].points", i), "only the ingress of a path asks the others", "remove points, or set direction: out")
		}
		if len(f.Points) > maxPoints {
			add(fmt.Sprintf("flows[%d].points", i), fmt.Sprintf("%d points", len(f.Points)), fmt.Sprintf("list at most %d", maxPoints))
		}
		if strings.ContainsFunc(f.Name, unicode.IsControl) {
			add(fmt.Sprintf("flows[%d].name", i), fmt.Sprintf("%q has control characters", f.Name), "remove them: the name appears in records and metrics")
		}
	}
}

func (f Flow) node() model.MeasuredFlow {
	var points []netip.AddrPort
	for _, p := range f.Points {
		points = append(points, netip.AddrPort(p))
	}
	return model.MeasuredFlow{
		Points: points,
		Name:   f.Name, Direction: f.Direction, Source: f.Source, Destination: f.Destination,
		TrafficClass: (*uint8)(f.TrafficClass), FlowLabel: (*uint32)(f.FlowLabel),
		Path: srv6.Path{Segments: f.Segments, Mode: f.Mode, Popped: f.PSP, Compression: srv6.Compression(f.Container)},
	}
}

// AddFlow adds a measured flow.
func (c *Config) AddFlow(f Flow) (*Config, error) {
	if c.flow(f.Name) >= 0 {
		return nil, refuse("flows", fmt.Sprintf("flow %q exists already", f.Name),
			fmt.Sprintf("remove it first with: waymark flow del %s, or give the new one another name", f.Name))
	}
	return c.edit(func(next *Config) { next.Flows = append(next.Flows, f) })
}

// RemoveFlow ends the measurement of a flow.
func (c *Config) RemoveFlow(name string) (*Config, error) {
	i := c.flow(name)
	if i < 0 {
		return nil, refuse("flows", fmt.Sprintf("there is no flow %q", name), "list them with: waymark flow show")
	}
	return c.edit(func(next *Config) { next.Flows = slices.Delete(next.Flows, i, i+1) })
}

func (c *Config) flow(name string) int {
	return slices.IndexFunc(c.Flows, func(f Flow) bool { return f.Name == name })
}
