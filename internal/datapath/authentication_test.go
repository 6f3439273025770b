// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/craft"
)

// authentication is an Authentication header before UDP, with a sum of 96 bits (RFC 4302 §2).
var authentication = []byte{17, 4, 0, 0, 0, 0, 1, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}

// authenticated puts the Authentication header between the Hop-by-Hop header and UDP.
func authenticated(f []byte) []byte {
	f = slices.Insert(slices.Clone(f), atUDP, authentication...)
	return set(atHBH, craft.Authentication)(set(atLength, 0, byte(len(f)-atHBH))(f))
}

// authenticatedAlone is such a packet without its Hop-by-Hop header.
func authenticatedAlone(f []byte) []byte {
	f = slices.Concat(f[:atHBH], f[atUDP:])
	return set(atLength, 0, byte(len(f)-atHBH), craft.Authentication)(f)
}

// tunnelledAuthenticated is a tunnel with such a packet in it.
func tunnelledAuthenticated(f []byte) []byte {
	inner := craft.IPv6{Next: craft.Authentication, HopLimit: 9, Source: addresses[2], Destination: addresses[0]}
	f = append(f[:atUDP:atUDP], inner.With(authentication, craft.Datagram(0x0102, 0x0304))...)
	return set(atHBH, 41)(set(atLength, 0, byte(len(f)-atHBH))(f))
}

// authenticatedMutations: whatever a node does to IOAM before it, the Authentication header and
// what follows stay as they are.
var authenticatedMutations = []mutation{
	{name: "authenticated", change: authenticated, outcome: model.OutcomeTraceFilled, want: filled},
	{name: "authenticated, no IOAM", change: then(authenticated, authenticatedAlone), outcome: model.OutcomeNoIOAM},
	{name: "authenticated, incremental trace", config: growing, change: then(authenticated, set(atOption+3, 1), set(atTrace+3, 20)), outcome: model.OutcomeIncrementalTrace},
	{name: "authenticated, to be removed", change: then(authenticated, set(atTrace+1, 7)), outcome: model.OutcomeInlineRemoved,
		want: authenticatedAlone, also: model.OutcomeTraceFilled, records: 1},
	{name: "authenticated, to be removed from among others", change: then(authenticated, set(atOption, sharedOptions...), set(atTrace+1, 7)), outcome: model.OutcomeOptionsRemoved,
		want: authenticatedShared, also: model.OutcomeTraceFilled, records: 1},
	{name: "authenticated, in a tunnel that ends here", config: decapsulating, change: tunnelledAuthenticated, outcome: model.OutcomeTunnelDecapsulated,
		want: func(f []byte) []byte { return slices.Concat(f[:atIPv6], f[atInner:]) }, also: model.OutcomeTraceFilled, records: 1},
	{name: "edge, authenticated, strip", on: 3, config: boundary(model.BoundaryStrip), change: authenticated, outcome: model.OutcomeBoundaryStripped, want: authenticatedAlone},
	{name: "edge, authenticated, strip, another option too", on: 3, config: boundary(model.BoundaryStrip), change: then(authenticated, set(atOption, sharedOptions...)),
		outcome: model.OutcomeBoundaryStripped, want: authenticatedShared},
	{name: "edge, authenticated, drop", on: 3, change: authenticated, outcome: model.OutcomeBoundaryDropped, drop: true},
	{name: "edge, authenticated, ignore", on: 3, config: boundary(model.BoundaryIgnore), change: authenticated, outcome: model.OutcomeBoundaryIgnored},
	{name: "edge, authenticated, no IOAM, drop", on: 3, change: then(authenticated, authenticatedAlone), outcome: model.OutcomeNoIOAM},
	{name: "edge, authenticated, a Hop-by-Hop header after it, drop", on: 3, change: then(authenticated, authenticatedAlone, set(atHBH, craft.HopByHop)),
		outcome: model.OutcomeBoundaryUnprovenDropped, drop: true},
}

// authenticatedShared is the packet without the trace, whose header another option shares.
func authenticatedShared(f []byte) []byte {
	header := []byte{craft.Authentication, 1, 1, 4, 0, 0, 0, 0, 0x3e, 6, 1, 2, 3, 4, 5, 6}
	f = slices.Concat(f[:atHBH], header, f[atUDP:])
	return set(atLength, 0, byte(len(f)-atHBH))(f)
}

// Nothing is inserted inline before an Authentication header, or merged into a header before it:
// its sum covers them (RFC 4302 §3.3.3.1.2). A tunnel goes around the packet, which stays the same.
func TestInsertionAndAuthentication(t *testing.T) {
	configured := func(e model.Encapsulation) *programs {
		cfg := rightConfig()
		e.Name, e.Interface = "all", 2
		cfg.Encapsulations = []model.Encapsulation{e}
		return loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
	}
	trace := model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24})
	edge := []model.InsertedOption{{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: 123, Type: 0x4000}}}
	upper := slices.Concat(authentication, craft.Datagram(4242, 9, []byte("waymark.")...))
	others := craft.Options(craft.Authentication, 0, []byte{0x3e, 6, 1, 2, 3, 4, 5, 6})
	destination := craft.Options(craft.Authentication, 0, []byte{0x1e, 4, 1, 2, 3, 4})
	packets := map[string][]byte{
		"alone":                           frameOf(craft.Authentication, upper),
		"after a Hop-by-Hop header":       frameOf(craft.HopByHop, others, upper),
		"after Destination Options":       frameOf(60, destination, upper),
		"only announced, the rest is cut": frameOf(60, destination),
	}
	for kind, options := range map[string][]model.InsertedOption{"trace": trace, "edge to edge": edge} {
		inline := configured(model.Encapsulation{Mode: model.ModeInline, Options: options})
		tunnel := configured(model.Encapsulation{Mode: model.ModeEncap, Options: options,
			TunnelSource: netip.MustParseAddr("2001:db8:aa::1"), TunnelDestination: netip.MustParseAddr("2001:db8:bb::1")})
		for name, frame := range packets {
			t.Run(kind+", "+name, func(t *testing.T) {
				egressed(t, inline, frame, frame, model.OutcomeEncapSkippedAH, false)
				if name == "only announced, the rest is cut" {
					return // a tunnel's end could not read it
				}
				before := tunnel.snapshotCounters(t)
				_, out := run(t, tunnel.tcOut, frame, 1)
				at := bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(model.OutcomeEncapTunneled)
				if got := moved(before, tunnel.snapshotCounters(t))[at]; got != 1 || len(out) <= len(frame) ||
					!bytes.Equal(out[len(out)-len(frame)+atIPv6:], frame[atIPv6:]) {
					t.Errorf("counted %d times; %x in\n%x", got, frame, out)
				}
			})
		}
	}
}

// An incremental trace before an Authentication header does not grow: the header's sum covers its
// length. The overflow flag, which the sum leaves out, says so.
func TestGrowthAndAuthentication(t *testing.T) {
	cfg := rightConfig()
	growing(&cfg)
	p := loadPrograms(t, cfg, 2, fixedTime, hookEgressTC)
	frame := then(authenticated, set(atOption+3, 1), set(atTrace+3, 20))(rightPacket())
	want := slices.Clone(frame)
	want[atTrace+2] |= 4
	before := p.snapshotCounters(t)
	_, out := run(t, p.tcOut, frame, 1)
	at := bpf.ABICounterCOUNTER_EGRESS + bpf.ABICounter(model.OutcomeTraceOverflow)
	if got := moved(before, p.snapshotCounters(t))[at]; got != 1 || !bytes.Equal(out, want) {
		t.Errorf("counted %d times; %x became\n%x", got, frame, out)
	}
}
