// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Measurement is how the flows of the domain are marked and counted (RFC 9341).
type Measurement struct {
	Block         BlockLength    `key:"block" default:"10s"`
	Guard         *BlockLength   `key:"guard" optional:"true"`
	Carrier       model.Carrier  `key:"carrier" default:"traffic-class"`
	Header        OptionHeader   `key:"header" default:"destination"`
	Octet         OctetNumber    `key:"octet" default:"15"`
	Mask          MarkBits       `key:"mask" default:"0x0c"`
	Unmarked      MarkBits       `key:"unmarked" default:"0x00"`
	Even          MarkBits       `key:"even" default:"0x04"`
	Odd           MarkBits       `key:"odd" default:"0x0c"`
	DelayEven     *MarkBits      `key:"delay-even" optional:"true"`
	DelayOdd      *MarkBits      `key:"delay-odd" optional:"true"`
	MeanDelay     bool           `key:"mean-delay" default:"false"`
	ClockError    *DelayLimit    `key:"clock-error" optional:"true"`
	ECN           bool           `key:"ecn" default:"false"`
	Unmonitored   Unmonitored    `key:"unmonitored" default:"keep"`
	MaxLoss       *LossShare     `key:"max-loss" optional:"true"`
	MaxDelay      *DelayLimit    `key:"max-delay" optional:"true"`
	NoDataAfter   BlockCount     `key:"no-data-after" default:"3"`
	Capacity      FlowCapacity   `key:"capacity" default:"65536"`
	Exchange      model.Exchange `key:"exchange" default:"stamp"`
	ProbeEvery    BlockLength    `key:"probe-interval" default:"1s"`
	DelayPort     UDPPort        `key:"delay-port" default:"0"`
	SelectionPort UDPPort        `key:"selection-port" default:"862"`
	ProbeSource   netip.Addr     `key:"probe-source" optional:"true"`
}

// measurementTexts say what the keys of measurement mean.
var measurementTexts = yamlfile.KeyTexts{
	"block": "Length of a block, 100ms to 10m, one value in the whole domain. A packet's block is the time in UTC, " +
		"divided by it.",
	"guard": "How far from its block a packet may arrive: the difference of the nodes' clocks plus the spread of " +
		"delays, less than half of a block (RFC 9341 §5). Packets that arrive farther from it are counted, and make " +
		"the block's result uncertain.",
	"guard, absent": "100ms, or a quarter of a block below 400ms",
	"carrier": "What carries the mark: bits of the outer traffic class, bits of an octet of the last SID's argument, or " +
		"the AltMark option (RFC 9343) in a header that packets get at the ingress. The option has bits of its own: " +
		"it takes no mask, unmarked, even, odd, delay-even, delay-odd and octet, and one packet in a block and CPU " +
		"always has a delay mark.",
	"header": "Of carrier: option: destination inserts a Destination Options header before the SRH, which segment " +
		"endpoints read; hop-by-hop inserts a Hop-by-Hop Options header, which routers between them may read, too.",
	"octet": "Of carrier: argument: the octet of the last SID, 0 to 15. All SIDs that end here must route alike, " +
		"whatever its marked bits.",
	"mask":     "The bits that carry the mark. Bits 0x03 of the traffic class are ECN; see ecn.",
	"unmarked": "Their value in packets without a mark.",
	"even":     "Their value in blocks with an even number.",
	"odd":      "Their value in blocks with an odd number.",
	"delay-even": "Their value in a packet with a delay mark (double marking, RFC 9341 §4.2.2) of an even block; with " +
		"delay-odd.",
	"delay-even, absent": "no delay marks",
	"delay-odd":          "The same of an odd block.",
	"delay-odd, absent":  "no delay marks",
	"mean-delay": "Also measure the mean delay of all packets (RFC 9341 §4.2.3). The clock is then read for each packet " +
		"instead of once in a tick, which may cost as much as the rest of the measurement.",
	"clock-error": "How far this node's clock may be from UTC, such as 10us with PTP. Blocks are uncertain if the clocks of two nodes may " +
		"differ by more than half of guard.",
	"clock-error, absent": "what the kernel says of its clock, if it is synchronized; else not known",
	"ecn":                 "Accept bits of the ECN field in mask: a router that marks congestion then falsifies the measurement.",
	"unmonitored": "What happens to the marked bits of packets that leave with the source of a flow whose direction is " +
		"out, and belong to no flow: keep them, or, with carrier: traffic-class, clear them to unmarked.",
	"max-loss": "At the ingress of flows with points: a flow that loses a larger share of a block's packets between its " +
		"ends has the warning flow_loss_high, until three blocks in a row lost less. Uncertain blocks and those " +
		"without packets say nothing.",
	"max-loss, absent": "no threshold",
	"max-delay": "As max-loss, for the mean delay of a block's packets between its ends (with mean-delay), or, where " +
		"that is not known, for what is certain in spite of losses: the delay of packets with a delay mark " +
		"(delay-even and delay-odd, or always with carrier: option), a lower bound of the mean, the mean of a part " +
		"of the way, or that of in-band test packets: flow_delay_high.",
	"max-delay, absent": "no threshold",
	"no-data-after": "After this many blocks in a row whose loss is not known, a flow with points has the warning " +
		"flow_unmeasured; 0 is never.",
	"capacity": "The most flows. Each costs about 400 bytes for each CPU, once it exists, and 256 more for a second " +
		"form of its list, as with mode: encap.red and psp.",
	"exchange": "How the ingress asks the points of its flows what they counted: stamp asks their STAMP reflectors " +
		"(stamp), for many flows and with all counters in a message; twamp-light and rfc6374 ask the responders " +
		"(responders) of nodes that know no other protocol, for one flow in a message, by its session. These two do " +
		"not say how good the other node's clock is, so they need clock-error, which then holds for all nodes. With " +
		"ipfix, nodes do not ask each other: each exports what it counted (export, kind: ipfix) as a record of each " +
		"flow and block, and waymark collect computes loss and delay; flows have point and last-point instead of " +
		"points.",
	"probe-interval": "How often the delay of a flow with probes is measured, 10ms to 10m.",
	"delay-port": "With exchange: rfc6374: the UDP port at which the last points of flows with probes answer Delay " +
		"Measurement messages (responders, rfc6374-delay), the same at all of them; 0: delay is not measured with " +
		"test packets. It is another one than that of Loss Measurement, because only the port tells these messages " +
		"apart.",
	"selection-port": "With exchange: twamp-light or rfc6374, whose messages cannot say which packets a node selects " +
		"for a flow: the UDP port of the STAMP reflectors (stamp) of the points, which are asked that after each " +
		"block.",
	"probe-source": "The source of in-band test packets: an address of this node that no flow has as source that is of " +
		"mode inline, nor, with probes: in-band-encap, any flow, because nodes would count them in it.",
	"probe-source, absent": "the address from which the kernel would send to the first SID",
}

// OptionHeader is a header that carries the AltMark option.
type OptionHeader string

// The headers (RFC 9343 §4).
const (
	HeaderDestination OptionHeader = "destination"
	HeaderHopByHop    OptionHeader = "hop-by-hop"
)

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
		Exchange: m.Exchange, ProbeEvery: time.Duration(m.ProbeEvery), DelayPort: uint16(m.DelayPort), SelectionPort: uint16(m.SelectionPort),
		ProbeFrom: m.ProbeSource,
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
			add(fmt.Sprintf("flows[%d].points", i), fmt.Sprintf("%q names two points", name),
				"give each node its own name: results and warnings tell them apart by it")
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
	return m.Octet == 15 && uint8(m.Mask) == d.Mask && uint8(m.Unmarked) == d.None && uint8(m.Even) == d.Colours[0] &&
		uint8(m.Odd) == d.Colours[1] &&
		m.DelayEven == nil && m.DelayOdd == nil && !m.ECN
}
