// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// Responder answers other nodes in protocols other than STAMP.
type Responder struct {
	Protocol ResponderProtocol `key:"protocol" required:"true" doc:"twamp-light: loss queries of draft-gandhi-spring-twamp-srpm. rfc6374-loss and rfc6374-delay: Loss and Delay Measurement messages of RFC 6374 over UDP, whose responses go where a UDP Return Object says (RFC 7876), if that is the query's source. They have no assigned port, and each needs its own."`
	Listen   ListenAddress     `key:"listen" absent:"with protocol: twamp-light, [::]:1205; else it is required" doc:"Address and UDP port, such as [::]:1205."`
	Allow    []netip.Prefix    `key:"allow" required:"true" doc:"Prefixes of nodes that are answered, 1 to 64. These protocols have no authentication."`
	Rate     PacketRate        `key:"rate" default:"10000" doc:"The most queries per second that are answered."`
	Short    bool              `key:"short-queries" default:"false" doc:"With protocol: twamp-light: also answer loss queries that are shorter than their response of 41 octets; the shortest have 20. A sender with a forged source could then have twice the octets sent to another node. Queries of agents are padded to 41 octets; set it for other senders that do not pad theirs."`
}

// ResponderProtocol is what a responder speaks.
type ResponderProtocol string

// Protocols of responders.
const (
	ResponderTWAMPLight   ResponderProtocol = "twamp-light"
	ResponderRFC6374Loss  ResponderProtocol = "rfc6374-loss"
	ResponderRFC6374Delay ResponderProtocol = "rfc6374-delay"
)

// At is where the responder listens; the zero AddrPort if nothing says it.
func (r *Responder) At() netip.AddrPort {
	at := netip.AddrPort(r.Listen)
	if !at.IsValid() && r.Protocol == ResponderTWAMPLight {
		at = netip.AddrPortFrom(netip.IPv6Unspecified(), lossquery.ReflectorPort)
	}
	return at
}

// ListenAddress is an address with a port.
type ListenAddress netip.AddrPort

func parseListenAddress(s string) (ListenAddress, error) {
	at, err := netip.ParseAddrPort(s)
	if err != nil || at.Port() == 0 {
		return ListenAddress{}, fmt.Errorf("%q has no port", s)
	}
	_, err = parseAddr(at.Addr().String())
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
		if interval = time.Duration(m.ProbeEvery); interval < minProbeInterval {
			add("measurement.probe-interval", fmt.Sprintf("%v is too short", interval), fmt.Sprintf("use %v or more", minProbeInterval))
			interval = minProbeInterval
		}
		if (exchange == model.ExchangeTWAMPLight || exchange == model.ExchangeRFC6374) && m.ClockError == nil {
			add("measurement.clock-error", fmt.Sprintf("messages of exchange: %v do not say how good a clock is", exchange), "set how far the clocks of all nodes may be from UTC, or use exchange: stamp")
		}
	}
	asked, probed, sessions := 0, 0, make(map[SessionID]int)
	for i, f := range c.Flows {
		at := fmt.Sprintf("flows[%d].", i)
		session := c.sessionOf(&f)
		if j, dup := sessions[session]; dup && session != 0 {
			add(at+"session", fmt.Sprintf("%d is also the session of flows[%d]", session, j), "give each flow its own number")
		}
		sessions[session] = i
		if encapsulated := slices.ContainsFunc(c.Flows, func(f Flow) bool { return f.Probes == model.ProbesInBandEncap }); f.Source == from && (encapsulated || f.Mode == srv6.ModeInline) {
			add("measurement.probe-source", fmt.Sprintf("%v is the source of flows[%d], in which test packets would count", from, i), "use another address of this node")
		}
		c.probeRules(&f, at, exchange, add)
		f.pointRules(at, exchange, add)
		if f.Probes != model.ProbesNone {
			probed++
		}
		if len(f.Points) > 0 {
			asked++
			if exchange != model.ExchangeStamp && c.sessionOf(&f) == 0 {
				add(at+"session", fmt.Sprintf("messages of exchange: %v carry no name of a flow", exchange), "give the flow a number here and at its points")
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
	c.responderRules(add)
}

// sessionOf is the session of a flow. Queries of TWAMP Light come from its port: without
// another one, the only flow of a node has that of the published senders.
func (c *Config) sessionOf(f *Flow) SessionID {
	speaks := c.Measurement != nil && c.Measurement.Exchange == model.ExchangeTWAMPLight ||
		slices.ContainsFunc(c.Responders, func(r Responder) bool { return r.Protocol == ResponderTWAMPLight })
	if f.Session == 0 && speaks && len(c.Flows) == 1 {
		return lossquery.SenderPort
	}
	return f.Session
}

// pointPort is the port of points that are given without one.
func (c *Config) pointPort() uint16 {
	if c.Measurement != nil && c.Measurement.Exchange == model.ExchangeTWAMPLight {
		return lossquery.ReflectorPort
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
			add(at+"point", fmt.Sprintf("with exchange: %v, nodes are asked and not numbered", exchange), "remove point and last-point, or set exchange: ipfix")
		}
		return
	}
	if len(f.Points) > 0 {
		add(at+"points", "with exchange: ipfix, no nodes are asked", "use last-point, or set exchange: stamp")
	}
	last := f.lastPoint()
	switch {
	case f.Direction == model.DirectionOut && (f.Point != 0 || last == 0):
		add(at+"last-point", "the collector must know how many nodes count the flow", fmt.Sprintf("give the number of its egress, 1 to %d; the ingress is point 0", maxPoints))
	case f.Direction == model.DirectionIn && (f.Point == 0 || last != f.Point):
		add(at+"point", "the egress is the last point", fmt.Sprintf("give its number as point, 1 to %d, and as last-point at the other nodes", maxPoints))
	case f.Direction == model.DirectionTransit && (f.Point == 0 || f.Point >= last):
		add(at+"point", fmt.Sprintf("%d is not between the ingress, 0, and the egress, %d", f.Point, last), fmt.Sprintf("give point and last-point, at most %d", maxPoints))
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
	if byMessages && f.Probes != model.ProbesNone && len(f.Points) > 0 && f.Points[len(f.Points)-1].at(c.pointPort()).Port() == uint16(c.Measurement.DelayPort) {
		add("measurement.delay-port", fmt.Sprintf("the last of %spoints answers Loss Measurement there", at), "give each of the two messages its own port: only the port tells them apart")
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
		add(at+"points-after", fmt.Sprintf("%v does not follow the path", after), fmt.Sprintf("give numbers from 0 to %d, none smaller than the one before", max(most, 0)))
	}
}

func (c *Config) responderRules(add func(path, problem, cure string)) {
	for i, r := range c.Responders {
		if r.Short && r.Protocol != ResponderTWAMPLight {
			add(fmt.Sprintf("responders[%d].short-queries", i), fmt.Sprintf("no response of protocol: %s is longer than its query", r.Protocol), "remove it")
		}
		if n := len(r.Allow); n == 0 || n > 64 {
			add(fmt.Sprintf("responders[%d].allow", i), fmt.Sprintf("%d prefixes", n), "list 1 to 64 prefixes of the nodes that may ask")
		}
		if !r.At().IsValid() {
			add(fmt.Sprintf("responders[%d].listen", i), fmt.Sprintf("protocol: %s has no assigned port", r.Protocol), "give an address and a port, such as [::]:6374")
			continue
		}
		for j, other := range c.Responders[:i] {
			if r.At().Port() == other.At().Port() {
				add(fmt.Sprintf("responders[%d].listen", i), fmt.Sprintf("responders[%d] has the same port", j), "give each its own port: only the port tells their messages apart")
			}
		}
	}
}
