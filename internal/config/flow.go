// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/srv6"
)

// Flow is the packets of one segment routing policy.
type Flow struct {
	Name         string          `key:"name" required:"true"`
	Direction    model.Direction `key:"direction" required:"true"`
	Source       netip.Addr      `key:"source" required:"true"`
	Segments     []netip.Addr    `key:"segments" required:"true"`
	Mode         srv6.Mode       `key:"mode" default:"encap"`
	PSP          bool            `key:"psp" default:"false"`
	Container    Container       `key:"container" default:"none"`
	Destination  netip.Addr      `key:"destination" optional:"any"`
	TrafficClass *TrafficClass   `key:"traffic-class" optional:"any"`
	FlowLabel    *FlowLabel      `key:"flow-label" optional:"any"`
	Session      SessionID       `key:"session" default:"0"`
	Probes       model.Probes    `key:"probes" default:"none"`
	Return       []netip.Addr    `key:"return-segments" optional:"true"`
	MonitorID    *MonitorID      `key:"flow-mon-id" optional:"true"`
	Points       []Point         `key:"points" optional:"true"`
	PointsAfter  []SegmentCount  `key:"points-after" optional:"true"`
	Point        PointNumber     `key:"point" default:"0"`
	LastPoint    PointNumber     `key:"last-point" optional:"true"`
	Selection    *SelectionCheck `key:"selection" optional:"true"`
	Metrics      bool            `key:"metrics" default:"false"`
	MaxLoss      *LossShare      `key:"max-loss" optional:"true"`
	MaxDelay     *DelayLimit     `key:"max-delay" optional:"true"`
	NoDataAfter  *BlockCount     `key:"no-data-after" optional:"true"`
}

// flowTexts say what the keys of flows mean.
var flowTexts = yamlfile.KeyTexts{
	"name": "The flow's name, the same at all nodes of its path.",
	"direction": "What this node is to the flow: out counts and marks packets that leave (the path's ingress), in " +
		"counts packets that arrive (its egress), transit counts packets that arrive at an endpoint between them.",
	"source":   "Source address of the outer header; of mode inline, that of the packet.",
	"segments": "The policy's SIDs, 1 to 16, the first to visit first: the same at all nodes of the path.",
	"mode":     `How packets get their segments, as in "ip -6 route ... encap seg6 mode": encap, encap.red or inline.`,
	"psp": "The last endpoint but one removes the SRH (RFC 8986 §4.16.1): packets with the last SID alone are of the " +
		"flow, too.",
	"container": "The SIDs are containers of compressed SIDs (NEXT-C-SID, RFC 9800): bits of the locator block / bits " +
		"of a SID, such as 32/16.",
	"destination": "Destination address as packets have it when they leave, or arrive, here. Of mode inline: their own " +
		"destination.",
	"traffic-class": "Outer traffic class, of which the DSCP is compared, without bits that carry the mark.",
	"flow-label":    "Outer flow label.",
	"session": "Number by which messages mean this flow that do not carry its name, 1 to 65535, the same at all nodes " +
		"of its path and another one for each flow: the SSID of STAMP packets with a Direct Measurement TLV (RFC " +
		"8972 §4.5), the Session Identifier of RFC 6374, the UDP port from which loss queries of TWAMP Light come. " +
		"0: there is none; but with exchange: twamp-light, or such a responder, the only flow without one has 1206, " +
		"if no other has.",
	"probes": "With points: whether the delay to the last point is measured with test packets, too, and their way: with " +
		"those of STAMP if exchange is stamp, or with Delay Measurement messages if it is rfc6374 and there is a " +
		"delay-port. out-of-band: as they are routed. in-band: through the flow's SIDs, but the last one's place is " +
		"taken by the point's address (mode inline: after all SIDs). in-band-encap: encapsulated as the flow's " +
		"packets, through all SIDs; the routing table in which the last SID looks inner packets up must deliver " +
		"those to the point's address. Questions to the last point travel in the same way; those to other points " +
		"through the SIDs before them (points-after). Their flow label is the flow's flow-label, or 0, which Linux " +
		"gives to packets that it encapsulates. Test packets have the flow's traffic-class, or 0, without a mark; " +
		"questions have 0. None of them is counted in the flow.",
	"return-segments": "SIDs of the way back of answers to in-band packets, the first to visit first, 1 to 16. At the " +
		"ingress, they are asked for by STAMP (Return Path TLV, RFC 9503 §4.1.3), which stamp.return-segments " +
		"permits at the other end; with another exchange, only that answers travel in-band. At other nodes they are " +
		"the way of responses to in-band queries (responders).",
	"return-segments, absent": "answers travel as they are routed",
	"flow-mon-id": "Of carrier: option: the flow's FlowMonID (RFC 9343 §5.3), the same at all nodes of the path. With " +
		"direction: in or transit, packets are then of the flow by their source and this number alone, whatever " +
		"their segments.",
	"flow-mon-id, absent": "a hash of the name",
	"points": "With direction: out, the nodes that count the flow after this one, in the order of its path, the last " +
		"one at its egress, and where they answer: an address, whose port is then 862 (stamp), 1205 with exchange: " +
		"twamp-light, or 6374 with exchange: rfc6374, or [ADDRESS]:PORT. NAME= before it names the node in results " +
		"and warnings, which otherwise have its address. After each block this node asks them what they counted, " +
		"and reports loss and delay as records, in waymark loss, and as metrics.",
	"points, absent": "none: loss is not computed here",
	"points-after": "With probes: in-band or in-band-encap, for each of points but the last: how many of segments " +
		"packets visit before they reach it, its own SID not included. Questions to the point travel through as " +
		"many SIDs.",
	"points-after, absent": "0, 1 and so on, if each endpoint of the path is one of points; else questions to these points " +
		"travel as they are routed",
	"point": "With exchange: ipfix: the number of this node among those that count the flow, in the order of its path, " +
		"1 to 15; the ingress is 0.",
	"last-point":         "With exchange: ipfix: the number of the flow's egress, the same at all nodes.",
	"last-point, absent": "with direction: in, point",
	"selection": "Of a flow with points: whether its result rests on what its nodes say. compared: the loss of a block " +
		"is known only if each point says that it selected the packets that this node selects (source, segments, " +
		"traffic class, flow label, what narrower flows take, mark, and length of blocks), for all of the block. " +
		"assumed: the same, but a point that cannot say it, as a node of another kind, is taken to select them; " +
		"results then have assumed: selection.",
	"selection, absent": "compared",
	"metrics": "The flow has metrics of its own, with its name as the label flow (waymark_flow_…), at most 256 flows of " +
		"a node. Otherwise it is only in the sums of all flows.",
	"max-loss":              "Of a flow with points: its own max-loss; 100% is no threshold.",
	"max-loss, absent":      "that of measurement",
	"max-delay":             "Of a flow with points: its own max-delay.",
	"max-delay, absent":     "that of measurement",
	"no-data-after":         "Of a flow with points: its own no-data-after; 0 is never.",
	"no-data-after, absent": "that of measurement",
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

// MonitorID is a FlowMonID (RFC 9343 §5.3).
type MonitorID uint32

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
		Points: points, PointNames: names, After: after, Point: int(f.Point), LastPoint: int(f.lastPoint()), Session: uint16(session),
		Probes: f.Probes, Return: f.Return, Metrics: f.Metrics,
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

// MarshalJSON writes the flow with the keys of the file, as jsonKey spells them.
func (f Flow) MarshalJSON() ([]byte, error) { return marshalJSON(&f) }

// UnmarshalJSON reads a flow as strictly as the file.
func (f *Flow) UnmarshalJSON(data []byte) error { return decodeFragment(data, f) }
