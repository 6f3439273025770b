// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/address"
	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/yamlfile"
	"github.com/waymark-net/waymark/srv6"
)

// Responder answers other nodes in protocols other than STAMP.
type Responder struct {
	Protocol ResponderProtocol `key:"protocol" required:"true"`
	Listen   ListenAddress     `key:"listen" optional:"true"`
	Allow    []Allowed         `key:"allow" required:"true"`
	Rate     PacketRate        `key:"rate" default:"10000"`
	Short    bool              `key:"short-queries" default:"false"`
}

// responderTexts say what the keys of responders mean.
var responderTexts = yamlfile.KeyTexts{
	"protocol": "twamp-light: loss queries of draft-gandhi-spring-twamp-srpm. rfc6374-loss and rfc6374-delay: Loss and " +
		"Delay Measurement messages of RFC 6374 over UDP, whose responses go where a UDP Return Object says (RFC " +
		"7876), if that is the query's source. Each needs its own port.",
	"listen": "Address and UDP port, such as [::]:1205. No port is assigned to the messages of RFC 6374; 6374 and 6375 " +
		"are agreed among agents alone.",
	"listen, absent": "[::]:1205 with protocol: twamp-light, [::]:6374 with rfc6374-loss, [::]:6375 with rfc6374-delay",
	"allow":          "Prefixes of nodes that are answered, 1 to 64, or any. These protocols have no authentication.",
	"rate":           "The most queries per second that are answered.",
	"short-queries": "With protocol: twamp-light: also answer loss queries that are shorter than their response of 41 " +
		"octets; the shortest have 20. A sender with a forged source could then have twice the octets sent to " +
		"another node. Queries of agents are padded to 41 octets; set it for other senders that do not pad theirs.",
}

// ResponderProtocol is what a responder speaks.
type ResponderProtocol string

// Protocols of responders.
const (
	ResponderTWAMPLight   ResponderProtocol = "twamp-light"
	ResponderRFC6374Loss  ResponderProtocol = "rfc6374-loss"
	ResponderRFC6374Delay ResponderProtocol = "rfc6374-delay"
)

// Ports of RFC 6374 messages between agents: none are assigned, and only the port tells the
// two apart (RFC 7876 §4.1).
const (
	lossPort  = 6374
	delayPort = 6375
)

// responderPorts are where responders listen by default.
var responderPorts = map[ResponderProtocol]uint16{
	ResponderTWAMPLight: lossquery.ReflectorPort, ResponderRFC6374Loss: lossPort, ResponderRFC6374Delay: delayPort,
}

// At is where the responder listens.
func (r *Responder) At() netip.AddrPort {
	if at := netip.AddrPort(r.Listen); at.IsValid() {
		return at
	}
	return netip.AddrPortFrom(netip.IPv6Unspecified(), responderPorts[r.Protocol])
}

// ListenAddress is an address with a port.
type ListenAddress netip.AddrPort

func parseListenAddress(s string) (ListenAddress, error) {
	at, err := netip.ParseAddrPort(s)
	if err != nil || at.Port() == 0 {
		return ListenAddress{}, fmt.Errorf("%q has no port", s)
	}
	_, err = parseListenAddr(at.Addr().String())
	return ListenAddress(at), err
}

// SessionID is the number of a flow in messages that do not carry its name.
type SessionID uint16

// UDPPort is a UDP port.
type UDPPort uint16

const (
	minProbeInterval = 10 * time.Millisecond
	// maxPorts bounds the flows of which each needs a socket of its own.
	maxPorts = 256
	// maxProbes is the most test packets that a node sends in a second.
	maxProbes = 10_000
	// maxReturn is the most SIDs that a packet is sent through.
	maxReturn = 16
)

// exchangeRules are the rules of how nodes ask each other.
func (c *Config) exchangeRules(add func(path, problem, cure string)) {
	exchange, from, interval := model.ExchangeStamp, netip.Addr{}, model.DefaultProbeInterval
	if m := c.Measurement; m != nil {
		exchange, from = m.Exchange, m.ProbeSource
		if from.IsValid() {
			addAddress(add, "measurement.probe-source", address.Check(from, address.Node, address.BeyondLink))
		}
		if interval = time.Duration(m.ProbeEvery); interval < minProbeInterval {
			add("measurement.probe-interval", fmt.Sprintf("%v is too short", interval), fmt.Sprintf("use %v or more", minProbeInterval))
			interval = minProbeInterval
		}
		if (exchange == model.ExchangeTWAMPLight || exchange == model.ExchangeRFC6374) && m.ClockError == nil {
			add(
				"measurement.clock-error",
				fmt.Sprintf("messages of exchange: %v do not say how good a clock is", exchange),
				"set how far the clocks of all nodes may be from UTC, or use exchange: stamp",
			)
		}
	}
	asked, probed, sessions, unnamed := 0, 0, make(map[SessionID]int), c.unnamedSession()
	encapsulated := slices.ContainsFunc(c.Flows, func(f Flow) bool { return f.Probes == model.ProbesInBandEncap })
	for i, f := range c.Flows {
		at := fmt.Sprintf("flows[%d].", i)
		session := cmp.Or(f.Session, unnamed)
		if j, dup := sessions[session]; dup && session != 0 {
			add(at+"session", fmt.Sprintf("%d is also the session of flows[%d]", session, j), "give each flow its own number")
		}
		sessions[session] = i
		if f.Source == from && (encapsulated || f.Mode == srv6.ModeInline) {
			add(
				"measurement.probe-source",
				fmt.Sprintf("%v is the source of flows[%d], in which test packets would count", from, i),
				"use another address of this node",
			)
		}
		c.probeRules(&f, at, exchange, add)
		f.pointRules(at, exchange, add)
		if f.Probes != model.ProbesNone {
			probed++
		}
		if len(f.Points) > 0 {
			asked++
			if exchange != model.ExchangeStamp && session == 0 {
				add(
					at+"session",
					fmt.Sprintf("messages of exchange: %v carry no name of a flow", exchange),
					"give the flow a number here and at its points",
				)
			}
		}
	}
	if most := int(maxProbes * interval / time.Second); probed > most {
		add("measurement.probe-interval", fmt.Sprintf("test packets of %d flows every %v are more than %d a second", probed, interval, maxProbes),
			"use a longer one, or probe fewer flows")
	}
	if exchange == model.ExchangeTWAMPLight && asked > maxPorts {
		add("measurement.exchange", fmt.Sprintf("%d flows need a port each, at most %d", asked, maxPorts), "use exchange: stamp or rfc6374")
	}
	if exchange == model.ExchangeIPFIX && !slices.ContainsFunc(c.Sinks, func(s Sink) bool { return s.Kind == SinkIPFIX }) {
		add("measurement.exchange", "nothing exports the counters", "add a collector under export, with kind: ipfix, or use exchange: stamp")
	}
	if m := c.Measurement; m != nil && m.DelayPort != 0 && exchange != model.ExchangeRFC6374 {
		add("measurement.delay-port", fmt.Sprintf("with exchange: %v, nothing is sent there", exchange), "remove it, or set exchange: rfc6374")
	}
	if m := c.Measurement; m != nil && m.SelectionPort != stampPort && exchange != model.ExchangeTWAMPLight &&
		exchange != model.ExchangeRFC6374 {
		add(
			"measurement.selection-port",
			fmt.Sprintf("with exchange: %v, nothing is asked there", exchange),
			"remove it: points say what they select where they say what they counted",
		)
	}
	c.responderRules(add)
}

// unnamedSession is the session of flows without one. Queries of TWAMP Light come from its
// port: the only such flow of a node has that of the published senders, unless another has it.
func (c *Config) unnamedSession() SessionID {
	speaks := c.Measurement != nil && c.Measurement.Exchange == model.ExchangeTWAMPLight || c.answersTWAMPLight()
	without := 0
	for i := range c.Flows {
		switch c.Flows[i].Session {
		case 0:
			without++
		case lossquery.SenderPort:
			return 0
		}
	}
	if speaks && without == 1 {
		return lossquery.SenderPort
	}
	return 0
}

func (c *Config) answersTWAMPLight() bool {
	return slices.ContainsFunc(c.Responders, func(r Responder) bool { return r.Protocol == ResponderTWAMPLight })
}

// IndistinctFlows are the flows of a node that answers loss queries of TWAMP Light, if none
// has a session that such a query could mean.
func (c *Config) IndistinctFlows() (names []string) {
	if len(c.Flows) < 2 || !c.answersTWAMPLight() || slices.ContainsFunc(c.Flows, func(f Flow) bool { return f.Session != 0 }) {
		return nil
	}
	for i := range c.Flows {
		names = append(names, c.Flows[i].Name)
	}
	return names
}

// checkSession refuses a flow that would take the session of the published senders from the only flow
// without a session: one that has none, either, or one that is given this number.
func (c *Config) checkSession(f *Flow) error {
	const sender = lossquery.SenderPort
	if f.Session != 0 && f.Session != sender || !c.answersTWAMPLight() || c.unnamedSession() == 0 {
		return nil
	}
	other := c.Flows[slices.IndexFunc(c.Flows, func(f Flow) bool { return f.Session == 0 })].Name
	if f.Session == sender {
		return refuse(
			"flows",
			fmt.Sprintf("session %d is that of flow %q, which has no other", sender, other),
			"give the new flow another number, or the other flow its own in the file",
		)
	}
	return refuse(
		"flows",
		fmt.Sprintf(
			"flow %q has no session, and neither has flow %q: nothing would say which of them loss queries from port %d mean",
			f.Name,
			other,
			sender,
		),
		fmt.Sprintf("add it with: session N; or give session: %d in the file to the flow that they mean", sender),
	)
}

// keepsSession refuses to remove the flow that queries from the port of the published senders
// mean, if they would then mean another one, whose counters its ingress would take for its own.
func (c *Config) keepsSession(removed int, next *Config) error {
	const sender = lossquery.SenderPort
	if c.Flows[removed].Session != sender || !c.answersTWAMPLight() || next.unnamedSession() == 0 {
		return nil
	}
	other := next.Flows[slices.IndexFunc(next.Flows, func(f Flow) bool { return f.Session == 0 })].Name
	return refuse(
		"flows",
		fmt.Sprintf(
			"loss queries from port %d, which mean flow %q, would then mean flow %q, which has no session",
			sender,
			c.Flows[removed].Name,
			other,
		),
		fmt.Sprintf("give flow %q a session in the file, and load it with: waymark agent reload", other),
	)
}

// pointPort is the port of points that are given without one.
func (c *Config) pointPort() uint16 {
	if c.Measurement != nil {
		switch c.Measurement.Exchange {
		case model.ExchangeTWAMPLight:
			return lossquery.ReflectorPort
		case model.ExchangeRFC6374:
			return lossPort
		}
	}
	return stampPort
}

// lastPoint is the number of the flow's egress.
func (f *Flow) lastPoint() PointNumber {
	if f.LastPoint == 0 && f.Direction == model.DirectionIn {
		return f.Point
	}
	return f.LastPoint
}

// pointRules are the rules of the numbers of nodes whose counters a collector compares.
func (f *Flow) pointRules(at string, exchange model.Exchange, add func(path, problem, cure string)) {
	if exchange != model.ExchangeIPFIX {
		if f.Point != 0 || f.LastPoint != 0 {
			add(
				at+"point",
				fmt.Sprintf("with exchange: %v, nodes are asked and not numbered", exchange),
				"remove point and last-point, or set exchange: ipfix",
			)
		}
		return
	}
	if len(f.Points) > 0 {
		add(at+"points", "with exchange: ipfix, no nodes are asked", "use last-point, or set exchange: stamp")
	}
	last := f.lastPoint()
	switch {
	case f.Direction == model.DirectionOut && (f.Point != 0 || last == 0):
		add(
			at+"last-point",
			"the collector must know how many nodes count the flow",
			fmt.Sprintf("give the number of its egress, 1 to %d; the ingress is point 0", maxPoints),
		)
	case f.Direction == model.DirectionIn && (f.Point == 0 || last != f.Point):
		add(
			at+"point",
			"the egress is the last point",
			fmt.Sprintf("give its number as point, 1 to %d, and as last-point at the other nodes", maxPoints),
		)
	case f.Direction == model.DirectionTransit && (f.Point == 0 || f.Point >= last):
		add(
			at+"point",
			fmt.Sprintf("%d is not between the ingress, 0, and the egress, %d", f.Point, last),
			fmt.Sprintf("give point and last-point, at most %d", maxPoints),
		)
	}
}

func (c *Config) probeRules(f *Flow, at string, exchange model.Exchange, add func(path, problem, cure string)) {
	if f.Probes != model.ProbesNone && len(f.Points) == 0 {
		add(at+"probes", "test packets go to the last point, and there are no points", "list the points, or remove probes")
	}
	byMessages := exchange == model.ExchangeRFC6374 && c.Measurement.DelayPort != 0
	if f.Probes == model.ProbesOutOfBand && exchange != model.ExchangeStamp && !byMessages {
		cure := "use exchange: stamp, or remove probes"
		if exchange == model.ExchangeRFC6374 {
			cure = "give the port of Delay Measurement as measurement.delay-port, use exchange: stamp, or remove probes"
		}
		add(at+"probes", fmt.Sprintf("test packets are STAMP's, and the points are asked by %v", exchange), cure)
	}
	if byMessages && f.Probes != model.ProbesNone && len(f.Points) > 0 &&
		f.Points[len(f.Points)-1].at(c.pointPort()).Port() == uint16(c.Measurement.DelayPort) {
		add(
			"measurement.delay-port",
			fmt.Sprintf("the last of %spoints answers Loss Measurement there", at),
			"give each of the two messages its own port: only the port tells them apart",
		)
	}
	switch {
	case f.Probes == model.ProbesInBandEncap && f.Mode == srv6.ModeInline:
		add(at+"probes", "packets of mode inline are not encapsulated", "use probes: in-band")
	case f.Probes == model.ProbesInBand && f.Container != (Container{}):
		add(at+"probes", "the point's address would take the place of the last container, and of the way in it", "use probes: in-band-encap")
	}
	c.placeRules(f, at, add)
	if n := len(f.Return); n > maxReturn {
		add(at+"return-segments", fmt.Sprintf("%d segments", n), fmt.Sprintf("list at most %d", maxReturn))
	}
	if slices.ContainsFunc(f.Return, func(a netip.Addr) bool { return !a.Is6() || !a.IsGlobalUnicast() }) {
		add(at+"return-segments", "not all are SIDs", "use IPv6 addresses that routers forward to")
	}
	if len(f.Return) > 0 && f.Direction == model.DirectionOut && !f.Probes.InBand() {
		add(at+"return-segments", "only in-band packets ask for a way back", "set probes: in-band, or remove return-segments")
	}
}

// placeRules are the rules of where points are on the path.
func (c *Config) placeRules(f *Flow, at string, add func(path, problem, cure string)) {
	after := f.PointsAfter
	if len(after) == 0 {
		return
	}
	most := len(f.Segments)
	if f.Mode != srv6.ModeInline {
		most-- // the last point's address takes the place of the last SID
	}
	switch {
	case !f.Probes.InBand():
		add(at+"points-after", "only in-band questions travel through segments", "set probes: in-band, or remove points-after")
	case len(after) != len(f.Points)-1:
		add(at+"points-after", fmt.Sprintf("%d numbers for %d points", len(after), len(f.Points)), "give a number for each point but the last")
	case !slices.IsSorted(after) || int(after[len(after)-1]) > most:
		add(
			at+"points-after",
			fmt.Sprintf("%v does not follow the path", after),
			fmt.Sprintf("give numbers from 0 to %d, none smaller than the one before", max(most, 0)),
		)
	}
}

func (c *Config) responderRules(add func(path, problem, cure string)) {
	for i, r := range c.Responders {
		if r.Short && r.Protocol != ResponderTWAMPLight {
			add(
				fmt.Sprintf("responders[%d].short-queries", i),
				fmt.Sprintf("no response of protocol: %s is longer than its query", r.Protocol),
				"remove it",
			)
		}
		if n := len(r.Allow); n == 0 || n > 64 {
			add(fmt.Sprintf("responders[%d].allow", i), fmt.Sprintf("%d prefixes", n), "list 1 to 64 prefixes of the nodes that may ask, or [any]")
		}
		for j, other := range c.Responders[:i] {
			if port := r.At().Port(); port != 0 && port == other.At().Port() { // 0: the protocol is none
				add(
					fmt.Sprintf("responders[%d].listen", i),
					fmt.Sprintf("responders[%d] has the same port", j),
					"give each its own port: only the port tells their messages apart",
				)
			}
		}
	}
}
