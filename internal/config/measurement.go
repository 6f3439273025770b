// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/srv6"
)

// Measurement is how the flows of the domain are marked and counted (RFC 9341).
type Measurement struct {
	Block         BlockLength    `key:"block" default:"10s" doc:"Length of a block, 100ms to 10m, one value in the whole domain. A packet's block is the time in UTC, divided by it."`
	Guard         *BlockLength   `key:"guard" absent:"100ms, or a quarter of a block below 400ms" doc:"How far from its block a packet may arrive: the difference of the nodes' clocks plus the spread of delays, less than half of a block (RFC 9341 §5). Packets that arrive farther from it are counted, and make the block's result uncertain."`
	Carrier       model.Carrier  `key:"carrier" default:"traffic-class" doc:"What carries the mark: bits of the outer traffic class, bits of an octet of the last SID's argument, or the AltMark option (RFC 9343) in a header that packets get at the ingress. The option has bits of its own: it takes no mask, unmarked, even, odd, delay-even, delay-odd and octet, and one packet in a block and CPU always has a delay mark."`
	Header        OptionHeader   `key:"header" default:"destination" doc:"Of carrier: option: destination inserts a Destination Options header before the SRH, which segment endpoints read; hop-by-hop inserts a Hop-by-Hop Options header, which routers between them may read, too."`
	Octet         OctetNumber    `key:"octet" default:"15" doc:"Of carrier: argument: the octet of the last SID, 0 to 15. All SIDs that end here must route alike, whatever its marked bits."`
	Mask          MarkBits       `key:"mask" default:"0x0c" doc:"The bits that carry the mark. Bits 0x03 of the traffic class are ECN; see ecn."`
	Unmarked      MarkBits       `key:"unmarked" default:"0x00" doc:"Their value in packets without a mark."`
	Even          MarkBits       `key:"even" default:"0x04" doc:"Their value in blocks with an even number."`
	Odd           MarkBits       `key:"odd" default:"0x0c" doc:"Their value in blocks with an odd number."`
	DelayEven     *MarkBits      `key:"delay-even" absent:"no delay marks" doc:"Their value in a packet with a delay mark (double marking, RFC 9341 §4.2.2) of an even block; with delay-odd."`
	DelayOdd      *MarkBits      `key:"delay-odd" absent:"no delay marks" doc:"The same of an odd block."`
	MeanDelay     bool           `key:"mean-delay" default:"false" doc:"Also measure the mean delay of all packets (RFC 9341 §4.2.3). The clock is then read for each packet instead of once in a tick, which may cost as much as the rest of the measurement."`
	ClockError    *BlockLength   `key:"clock-error" absent:"what the kernel says of its clock, if it is synchronized; else not known" doc:"How far this node's clock may be from UTC. Blocks are uncertain if the clocks of two nodes may differ by more than half of guard."`
	ECN           bool           `key:"ecn" default:"false" doc:"Accept bits of the ECN field in mask: a router that marks congestion then falsifies the measurement."`
	Unmonitored   Unmonitored    `key:"unmonitored" default:"keep" doc:"What happens to the marked bits of packets that leave with the source of a flow whose direction is out, and belong to no flow: keep them, or, with carrier: traffic-class, clear them to unmarked."`
	MaxLoss       *LossShare     `key:"max-loss" absent:"no threshold" doc:"At the ingress of flows with points: a flow that loses a larger share of a block's packets between its ends has the warning flow_loss_high, until three blocks in a row lost less. Uncertain blocks and those without packets say nothing."`
	MaxDelay      *DelayLimit    `key:"max-delay" absent:"no threshold" doc:"As max-loss, for the mean delay of a block's packets between its ends (with mean-delay), or, where that is not known, for what is certain in spite of losses: the delay of packets with a delay mark (delay-even and delay-odd, or always with carrier: option), a lower bound of the mean, the mean of a part of the way, or that of in-band test packets: flow_delay_high."`
	NoDataAfter   BlockCount     `key:"no-data-after" default:"3" doc:"After this many blocks in a row whose loss is not known, a flow with points has the warning flow_unmeasured; 0 is never."`
	Capacity      FlowCapacity   `key:"capacity" default:"65536" doc:"The most flows. Each costs about 400 bytes for each CPU, once it exists, and 256 more for a second form of its list, as with mode: encap.red and psp."`
	Exchange      model.Exchange `key:"exchange" default:"stamp" doc:"How the ingress asks the points of its flows what they counted: stamp asks their STAMP reflectors (stamp), for many flows and with all counters in a message; twamp-light and rfc6374 ask the responders (responders) of nodes that know no other protocol, for one flow in a message, by its session. These two do not say how good the other node's clock is, so they need clock-error, which then holds for all nodes. With ipfix, nodes do not ask each other: each exports what it counted (export, kind: ipfix) as a record of each flow and block, and waymark collect computes loss and delay; flows have point and last-point instead of points."`
	ProbeEvery    BlockLength    `key:"probe-interval" default:"1s" doc:"How often the delay of a flow with probes is measured, 10ms to 10m."`
	DelayPort     UDPPort        `key:"delay-port" default:"0" doc:"With exchange: rfc6374: the UDP port at which the last points of flows with probes answer Delay Measurement messages (responders, rfc6374-delay), the same at all of them; 0: delay is not measured with test packets. It is another one than that of Loss Measurement, because only the port tells these messages apart."`
	SelectionPort UDPPort        `key:"selection-port" default:"862" doc:"With exchange: twamp-light or rfc6374, whose messages cannot say which packets a node selects for a flow: the UDP port of the STAMP reflectors (stamp) of the points, which are asked that after each block."`
	ProbeSource   netip.Addr     `key:"probe-source" absent:"the address from which the kernel would send to the first SID" doc:"The source of in-band test packets: an address of this node that no flow has as source that is of mode inline, nor, with probes: in-band-encap, any flow, because nodes would count them in it."`
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
	Session      SessionID       `key:"session" default:"0" doc:"Number by which messages mean this flow that do not carry its name, 1 to 65535, the same at all nodes of its path and another one for each flow: the SSID of STAMP packets with a Direct Measurement TLV (RFC 8972 §4.5), the Session Identifier of RFC 6374, the UDP port from which loss queries of TWAMP Light come. 0: there is none; but with exchange: twamp-light, or such a responder, the only flow without one has 1206, if no other has."`
	Probes       model.Probes    `key:"probes" default:"none" doc:"With points: whether the delay to the last point is measured with test packets, too, and their way: with those of STAMP if exchange is stamp, or with Delay Measurement messages if it is rfc6374 and there is a delay-port. out-of-band: as they are routed. in-band: through the flow's SIDs, but the last one's place is taken by the point's address (mode inline: after all SIDs). in-band-encap: encapsulated as the flow's packets, through all SIDs; the routing table in which the last SID looks inner packets up must deliver those to the point's address. Questions to the last point travel in the same way; those to other points through the SIDs before them (points-after). Their flow label is the flow's flow-label, or 0, which Linux gives to packets that it encapsulates. Test packets have the flow's traffic-class, or 0, without a mark; questions have 0. None of them is counted in the flow."`
	Return       []netip.Addr    `key:"return-segments" absent:"answers travel as they are routed" doc:"SIDs of the way back of answers to in-band packets, the first to visit first, 1 to 16. At the ingress, they are asked for by STAMP (Return Path TLV, RFC 9503 §4.1.3), which stamp.return-segments permits at the other end; with another exchange, only that answers travel in-band. At other nodes they are the way of responses to in-band queries (responders)."`
	MonitorID    *MonitorID      `key:"flow-mon-id" absent:"a hash of the name" doc:"Of carrier: option: the flow's FlowMonID (RFC 9343 §5.3), the same at all nodes of the path. With direction: in or transit, packets are then of the flow by their source and this number alone, whatever their segments."`
	Points       []Point         `key:"points" absent:"none: loss is not computed here" doc:"With direction: out, the nodes that count the flow after this one, in the order of its path, the last one at its egress, and where they answer: an address, whose port is then 862 (stamp), 1205 with exchange: twamp-light, or 6374 with exchange: rfc6374, or [ADDRESS]:PORT. NAME= before it names the node in results and warnings, which otherwise have its address. After each block this node asks them what they counted, and reports loss and delay as records, in waymark loss, and as metrics."`
	PointsAfter  []SegmentCount  `key:"points-after" absent:"0, 1 and so on, if each endpoint of the path is one of points; else questions to these points travel as they are routed" doc:"With probes: in-band or in-band-encap, for each of points but the last: how many of segments packets visit before they reach it, its own SID not included. Questions to the point travel through as many SIDs."`
	Point        PointNumber     `key:"point" default:"0" doc:"With exchange: ipfix: the number of this node among those that count the flow, in the order of its path, 1 to 15; the ingress is 0."`
	LastPoint    PointNumber     `key:"last-point" absent:"with direction: in, point" doc:"With exchange: ipfix: the number of the flow's egress, the same at all nodes."`
	Selection    *SelectionCheck `key:"selection" absent:"compared" doc:"Of a flow with points: whether its result rests on what its nodes say. compared: the loss of a block is known only if each point says that it selected the packets that this node selects (source, segments, traffic class, flow label, what narrower flows take, mark, and length of blocks), for all of the block. assumed: the same, but a point that cannot say it, as a node of another kind, is taken to select them; results then have assumed: selection."`
	Metrics      bool            `key:"metrics" default:"false" doc:"The flow has metrics of its own, with its name as the label flow (waymark_flow_…), at most 256 flows of a node. Otherwise it is only in the sums of all flows."`
	MaxLoss      *LossShare      `key:"max-loss" absent:"that of measurement" doc:"Of a flow with points: its own max-loss; 100% is no threshold."`
	MaxDelay     *DelayLimit     `key:"max-delay" absent:"that of measurement" doc:"Of a flow with points: its own max-delay."`
	NoDataAfter  *BlockCount     `key:"no-data-after" absent:"that of measurement" doc:"Of a flow with points: its own no-data-after; 0 is never."`
}

// Stamp is a reflector.
type Stamp struct {
	Listen  Reflector  `key:"listen" default:"[::]:862" doc:"Address and UDP port."`
	Allow   []Allowed  `key:"allow" required:"true" doc:"Prefixes of senders that are answered, 1 to 64, or any: nodes that measure with this one."`
	KeyFile string     `key:"key-file" absent:"packets are not authenticated" doc:"File with the key of the HMACs in hexadecimal digits, the same at all nodes that measure together, mode 0600 or stricter. With it, this node also authenticates its questions to other nodes."`
	Rate    PacketRate `key:"rate" default:"100000" doc:"The most packets per second that are answered."`
	Return  bool       `key:"return-segments" default:"false" doc:"Whether replies go through the SRv6 segments that a packet asks for (RFC 9503 §4.1.3)."`
}

// Reflector is where a reflector listens.
type Reflector netip.AddrPort

// PacketRate is a number of packets per second.
type PacketRate int

const stampPort = 862

func parseReflector(s string) (Reflector, error) {
	if at, err := netip.ParseAddrPort(s); err == nil && at.Port() > 0 {
		_, err := parseListenAddr(at.Addr().String())
		return Reflector(at), err
	}
	a, err := parseListenAddr(s)
	return Reflector(netip.AddrPortFrom(a, stampPort)), err
}

func formatReflector(r Reflector) string {
	at := netip.AddrPort(r)
	if at.Port() == stampPort && !at.Addr().IsUnspecified() {
		return at.Addr().String()
	}
	return at.String()
}

// Point is a node that counts a flow, and where it answers questions about it. Port 0 is that
// of the exchange.
type Point struct {
	Name    string // "" without one
	Address netip.AddrPort
}

// maxPointName is the most octets of a point's name.
const maxPointName = 64

func parsePoint(s string) (Point, error) {
	name, address, named := strings.Cut(s, "=")
	if !named {
		name, address = "", s
	} else if err := checkPointName(name); err != nil {
		return Point{}, err
	}
	if at, err := netip.ParseAddrPort(address); err == nil && at.Port() > 0 {
		_, err := parseNodeAddr(at.Addr().String())
		return Point{name, at}, err
	}
	a, err := parseNodeAddr(address)
	return Point{name, netip.AddrPortFrom(a, 0)}, err
}

// checkPointName refuses names that would not be one word in a table or a command.
func checkPointName(name string) error {
	word := func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != ',' }
	if name == "" || len(name) > maxPointName || strings.ContainsFunc(name, func(r rune) bool { return !word(r) }) {
		return fmt.Errorf("%q is not a name of 1 to %d octets without spaces and commas", name, maxPointName)
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return fmt.Errorf("%q is an address, and no name of a node", name) // results would show it as that of a node without a name
	}
	return nil
}

// sharedName is a name that two points of the flow have, "" without one.
func (f *Flow) sharedName() string {
	for i, p := range f.Points {
		if p.Name != "" && slices.ContainsFunc(f.Points[:i], func(other Point) bool { return other.Name == p.Name }) {
			return p.Name
		}
	}
	return ""
}

func formatPoint(p Point) string {
	text := p.Address.String()
	if p.Address.Port() == 0 {
		text = p.Address.Addr().String()
	}
	if p.Name != "" {
		text = p.Name + "=" + text
	}
	return text
}

// at is the address with its port, or with a default one.
func (p Point) at(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(p.Address.Addr(), cmp.Or(p.Address.Port(), port))
}

// OptionHeader is a header that carries the AltMark option.
type OptionHeader string

// The headers (RFC 9343 §4).
const (
	HeaderDestination OptionHeader = "destination"
	HeaderHopByHop    OptionHeader = "hop-by-hop"
)

// MonitorID is a FlowMonID (RFC 9343 §5.3).
type MonitorID uint32

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

// SelectionCheck is whether it must be known that nodes select the same packets.
type SelectionCheck uint8

// The ways to treat a node that does not say which packets it selects.
const (
	SelectionCompared SelectionCheck = iota // as one that selects others
	SelectionAssumed                        // as one that selects the same
)

func (f *Flow) assumesSelection() bool { return f.Selection != nil && *f.Selection == SelectionAssumed }

// SegmentCount is a number of SIDs.
type SegmentCount uint16

// PointNumber is the number of a node among those that count a flow.
type PointNumber uint8

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

func formatBlockLength(l BlockLength) string { return yamlfile.FormatPeriod(l) }

const noContainer = "none"

func parseContainer(s string) (Container, error) {
	if s == noContainer {
		return Container{}, nil
	}
	first, second, _ := strings.Cut(s, "/")
	block, errBlock := yamlfile.ParseUint(first, 7)
	sid, errSID := yamlfile.ParseUint(second, 7)
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
	out := model.Measurement{Marking: model.DefaultMarking()}
	if c.Measurement != nil {
		out = c.Measurement.node()
	}
	unnamed := c.unnamedSession()
	out.Flows = make([]model.MeasuredFlow, 0, len(c.Flows))
	for _, f := range c.Flows {
		flow := f.node(c.pointPort(), cmp.Or(f.Session, unnamed))
		if len(f.Points) > 0 {
			flow.Thresholds = f.thresholds(c.Measurement)
		}
		out.Flows = append(out.Flows, flow)
	}
	return out
}

func (m *Measurement) node() model.Measurement {
	out := model.Measurement{
		Block: time.Duration(m.Block), Clear: m.Unmonitored == UnmonitoredClear, MeanDelay: m.MeanDelay, Capacity: int(m.Capacity),
		Exchange: m.Exchange, ProbeEvery: time.Duration(m.ProbeEvery), DelayPort: uint16(m.DelayPort), SelectionPort: uint16(m.SelectionPort), ProbeFrom: m.ProbeSource,
		Marking: model.Marking{
			Carrier: m.Carrier, Octet: uint8(m.Octet), Mask: uint8(m.Mask), None: uint8(m.Unmarked),
			Colours: [2]uint8{uint8(m.Even), uint8(m.Odd)}, ECN: m.ECN,
		},
	}
	if m.Carrier == model.CarrierOption {
		out.Marking = model.OptionMarking(m.Header == HeaderHopByHop)
	}
	if m.ClockError != nil {
		out.ClockError = (*time.Duration)(m.ClockError)
	}
	if m.Guard != nil {
		out.Guard = time.Duration(*m.Guard)
	}
	if m.DelayEven != nil && m.DelayOdd != nil && m.Carrier != model.CarrierOption {
		out.Marking.Delay = &[2]uint8{uint8(*m.DelayEven), uint8(*m.DelayOdd)}
	}
	return out
}

// maxFlowMetrics is how many flows may have metrics of their own.
const maxFlowMetrics = 256

// maxPoints is how many nodes may count a flow after its ingress.
const maxPoints = 15

// measurementRules are the rules of measured flows that are clearest in the words of
// the file.
func (c *Config) measurementRules(add func(path, problem, cure string)) {
	if m := c.Measurement; m != nil && (m.DelayEven == nil) != (m.DelayOdd == nil) {
		add("measurement.delay-even", "delay marks need a value for even and for odd blocks", "give delay-even and delay-odd, or neither")
	}
	c.thresholdRules(add)
	if m := c.Measurement; m != nil && m.Carrier == model.CarrierOption && !m.usesOptionBits() {
		add(
			"measurement.carrier",
			"the option has bits of its own for the mark",
			"remove mask, unmarked, even, odd, delay-even, delay-odd, octet and ecn, or use another carrier",
		)
	}
	if s := c.Stamp; s != nil && (len(s.Allow) == 0 || len(s.Allow) > 64) {
		add("stamp.allow", fmt.Sprintf("%d prefixes", len(s.Allow)), "list 1 to 64 prefixes of the nodes that may ask, or [any]")
	}
	c.exchangeRules(add)
	named := 0
	c.traceRules(add)
	for i, f := range c.Flows {
		if f.Metrics {
			if named++; named == maxFlowMetrics+1 {
				add(
					fmt.Sprintf("flows[%d].metrics", i),
					fmt.Sprintf("%d other flows have metrics of their own", maxFlowMetrics),
					"remove it here or there: each flow has a dozen series",
				)
			}
		}
		if len(f.Points) > 0 && f.Direction != model.DirectionOut {
			add(fmt.Sprintf("flows[%d].points", i), "only the ingress of a path asks the others", "remove points, or set direction: out")
		}
		if f.assumesSelection() && len(f.Points) == 0 {
			add(
				fmt.Sprintf("flows[%d].selection", i),
				"only the ingress of a path that asks others compares what they select",
				"remove selection, or list points; with exchange: ipfix, the collector has --assume-selection",
			)
		}
		if len(f.Points) > maxPoints {
			add(fmt.Sprintf("flows[%d].points", i), fmt.Sprintf("%d points", len(f.Points)), fmt.Sprintf("list at most %d", maxPoints))
		} else if name := f.sharedName(); name != "" {
			add(fmt.Sprintf("flows[%d].points", i), fmt.Sprintf("%q names two points", name), "give each node its own name: results and warnings tell them apart by it")
		}
		if strings.ContainsFunc(f.Name, unicode.IsControl) {
			add(
				fmt.Sprintf("flows[%d].name", i),
				fmt.Sprintf("%q has control characters", f.Name),
				"remove them: the name appears in records and metrics",
			)
		}
	}
}

// usesOptionBits reports that no other bits are named for the mark.
func (m *Measurement) usesOptionBits() bool {
	d := model.DefaultMarking()
	return m.Octet == 15 && uint8(m.Mask) == d.Mask && uint8(m.Unmarked) == d.None && uint8(m.Even) == d.Colours[0] && uint8(m.Odd) == d.Colours[1] &&
		m.DelayEven == nil && m.DelayOdd == nil && !m.ECN
}

func (f Flow) node(port uint16, session SessionID) model.MeasuredFlow {
	var points []netip.AddrPort
	var names []string
	for _, p := range f.Points {
		points, names = append(points, p.at(port)), append(names, p.Name)
	}
	var after []int
	for _, n := range f.PointsAfter {
		after = append(after, int(n))
	}
	return model.MeasuredFlow{
		Points: points, PointNames: names, After: after, Point: int(f.Point), LastPoint: int(f.lastPoint()), Session: uint16(session), Probes: f.Probes, Return: f.Return, Metrics: f.Metrics,
		AssumeSelection: f.assumesSelection(),
		Name:            f.Name, Direction: f.Direction, Source: f.Source, Destination: f.Destination,
		TrafficClass: (*uint8)(f.TrafficClass), FlowLabel: (*uint32)(f.FlowLabel), MonitorID: (*uint32)(f.MonitorID),
		Path: srv6.Path{Segments: f.Segments, Mode: f.Mode, Popped: f.PSP, Compression: srv6.Compression(f.Container)},
	}
}

// AddFlow adds a measured flow.
func (c *Config) AddFlow(f Flow) (*Config, error) {
	if c.flow(f.Name) >= 0 {
		return nil, refuse("flows", fmt.Sprintf("flow %q exists already", f.Name),
			fmt.Sprintf("remove it first with: waymark flow del %s, or give the new one another name", f.Name))
	}
	if err := c.checkSession(&f); err != nil {
		return nil, err
	}
	return c.edit(func(next *Config) { next.Flows = append(next.Flows, f) })
}

// RemoveFlow ends the measurement of a flow.
func (c *Config) RemoveFlow(name string) (*Config, error) {
	i := c.flow(name)
	if i < 0 {
		return nil, refuse("flows", fmt.Sprintf("there is no flow %q", name), "list them with: waymark flow show")
	}
	next, err := c.edit(func(next *Config) { next.Flows = slices.Delete(next.Flows, i, i+1) })
	if err == nil {
		err = c.keepsSession(i, next)
	}
	if err != nil {
		return nil, err
	}
	return next, nil
}

func (c *Config) flow(name string) int {
	return slices.IndexFunc(c.Flows, func(f Flow) bool { return f.Name == name })
}
