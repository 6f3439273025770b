// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// source makes choices, from a random generator or from the bytes of a fuzz
// input.
type source interface{ below(n int) int }

type randomSource struct{ *rand.Rand }

func (r randomSource) below(n int) int { return r.IntN(n) }

func oneOf[T any](s source, values ...T) T { return values[s.below(len(values))] }

// randomConfig is a valid configuration of the test node.
func randomConfig(s source) model.NodeConfig {
	config := testConfig()
	config.Compatibility = oneOf(s, model.CompatibilityDefault, model.CompatibilityMainline)
	if config.Compatibility == model.CompatibilityDefault {
		config.TimestampFormat = oneOf(s, ioam.TimestampPOSIX, ioam.TimestampPTP, ioam.TimestampNTP)
	}
	config.Interfaces[2].Boundary = oneOf(s, model.BoundaryDrop, model.BoundaryStrip, model.BoundaryIgnore)
	for i := range config.Namespaces {
		ns := &config.Namespaces[i]
		if ns.Export = oneOf(s, model.ExportNone, model.ExportEvery, model.ExportAggregate, model.ExportSample); ns.Export == model.ExportSample {
			ns.Sample = 3
		}
		ns.Proof = randomProving(s, i)
		ns.Incremental = s.below(2) == 0
	}
	if s.below(4) == 0 {
		config.Collectors = []model.Collector{
			{Address: netip.MustParseAddr("2001:db8:2::2"), Port: 9, Protocol: oneOf(s, ioam.NextHeaderUDP, ioam.NextHeaderTCP)},
		}
	}
	for i := range s.below(4) {
		e := model.Encapsulation{
			Flows:     uint32(oneOf(s, 0, 0, 0, 2)),
			Name:      string(rune('a' + i)),
			Interface: ifEgress,
			Frequency: oneOf(s, model.Frequency{}, model.Frequency{K: 1, N: 1}, model.Frequency{K: 1, N: 2}),
			Mode:      oneOf(s, model.ModeInline, model.ModeEncap, model.ModeAuto),
		}
		if e.Mode != model.ModeInline {
			e.TunnelSource, e.TunnelDestination = tunnelSource, tunnelDestination
		}
		e.Match.Destination = oneOf(s, netip.Prefix{}, netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2001:db8:2::/48"))
		e.Match.DestinationPort = oneOf(s, nil, nil, &model.PortRange{From: 1, To: 1000})
		e.Match.TrafficClass = oneOf(s, nil, nil, nil, ptr(uint8(0)))
		for range 1 + s.below(3) {
			o := model.TraceOption{
				Namespace: oneOf[ioam.NamespaceID](s, 123, 200, 300),
				Type:      randomType(s)&ioam.TraceTypeSupported | 0x800000,
			}
			o.Size = sizeFor(s, config, o, 120)
			switch rare := s.below(16); {
			case rare == 0:
				o.Namespace = 7
			case rare == 1 && config.Compatibility == model.CompatibilityMainline:
				o.Size = 4 + 4*s.below(o.Size/4)
			}
			e.Options = append(e.Options, model.Traces(o)...)
		}
		for _, namespace := range []ioam.NamespaceID{123, 200, 7, 300}[:max(0, s.below(7)-2)] {
			e.Options = append(e.Options, model.InsertedOption{DirectExport: &model.DirectExportOption{
				Namespace:      namespace,
				Type:           randomType(s)&ioam.DirectExportTypeSupported | 0x800000,
				ExtensionFlags: oneOf(s, 0, ioam.ExtensionFlowID, ioam.ExtensionSequence, bothExtensions),
				FlowID:         model.FlowIDSource{Kind: oneOf(s, model.FlowIDHash, model.FlowIDLabel)},
				OptionType:     oneOf(s, 0, ioam.OptionIOAM, ioam.OptionIOAMStatic),
			}})
		}
		if len(e.Options) > 1 && s.below(3) == 0 {
			e.Options = e.Options[1:]
		}
		for _, ns := range config.Namespaces {
			if ns.Proof != nil && ns.Proof.Key.Encapsulates() && len(e.Options) < model.MaxOptionsPerPacket {
				e.Options = append(e.Options, model.InsertedOption{Proof: &model.ProofOption{Namespace: ns.ID}})
			}
		}
		config.Encapsulations = append(config.Encapsulations, e)
	}
	end := &config.Decapsulations[0]
	end.Bare = s.below(2) == 0
	end.Sources = oneOf(s, nil, nil, []netip.Prefix{netip.MustParsePrefix("2001:db8:9::/48")},
		[]netip.Prefix{netip.MustParsePrefix("2001:db8:9::/48"), netip.MustParsePrefix("2001:db8:1::/64")})
	config.Interfaces[1].MTU = oneOf(s, 1500, 1500, 100+s.below(300)) // some packets just fit
	return config
}

// randomInner is a packet in a tunnel, sometimes one that must not leave its
// link.
func randomInner(s source) []byte {
	packet := oneOf(
		s,
		inner(),
		ipv6Packet(ioam.NextHeaderICMPv6, []byte{byte(128 + s.below(32)), 0, 0, 0}),
		ipv6Packet(ioam.NextHeaderFragment, randomBytes(s, 8+s.below(8))),
	)
	packet[7] = byte(oneOf(s, 64, 255))
	if s.below(4) == 0 {
		packet = withDestination(packet, netip.MustParseAddr(oneOf(s, "ff02::1", "fe80::1", "::1")))
	}
	if s.below(8) == 0 { // longer than the packet around it
		setPayloadLength(packet, 2000)
	}
	return packet
}

// sizeFor is a random size with room for the node's own data, mostly not above
// largest.
func sizeFor(s source, config model.NodeConfig, o model.TraceOption, largest int) int {
	own := 4 * o.Type.NodeLen()
	for _, ns := range config.Namespaces {
		if ns.ID == o.Namespace && o.Type.HasSnapshot() {
			own += len(ns.Schema.Append(nil))
		}
	}
	return own + 4*s.below(max(largest-own, 0)/4+1)
}

func randomType(s source) ioam.TraceType {
	return oneOf(s, 0x800000, 0xc00000, 0xfff000, 0xfff002, 0xffffff, ioam.TraceType(s.below(1<<12))<<12|ioam.TraceType(s.below(1<<12)))
}

func randomBytes(s source, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.below(256))
	}
	return b
}

// randomTrace is mostly valid.
func randomTrace(s source) ioam.Option {
	kind := randomType(s)
	t := ioam.Trace{
		Incremental: s.below(5) == 0,
		Namespace:   oneOf[ioam.NamespaceID](s, 123, 123, 200, 200, 300, 7),
		NodeLen:     uint8(kind.NodeLen()),
		Flags:       ioam.TraceFlags(oneOf(s, 0, 0, 0, 0, s.below(16))),
		Type:        kind,
		Reserved:    uint8(oneOf(s, 0, 0, s.below(256))),
	}
	units := oneOf(s, t.NodeLen, 2*t.NodeLen, uint8(s.below(50)))
	t.Data = randomBytes(s, 4*int(min(units, 40)))
	if t.Incremental && s.below(8) > 0 {
		t.Data = randomNodes(s, kind)
	}
	t.RemainingLen = uint8(oneOf(s, len(t.Data)/4, len(t.Data)/4, s.below(len(t.Data)/4+1)))
	switch s.below(25) {
	case 0:
		t.NodeLen++
	case 1:
		t.RemainingLen = uint8(len(t.Data)/4 + 1)
	}
	// Sometimes the data are as this node's ingress would have left them.
	at := 4 * int(t.RemainingLen)
	if t.Incremental {
		at = 0
	}
	if s.below(2) == 0 && t.Type.Has(ioam.BitNode) && len(t.Data) >= at+4 {
		binary.BigEndian.PutUint32(t.Data[at:], 0x3f000002)
	}
	return t.Option()
}

// randomNodes are the data of up to three nodes.
func randomNodes(s source, kind ioam.TraceType) (data []byte) {
	for range s.below(4) {
		node := randomBytes(s, 4*kind.NodeLen())
		if words := s.below(4); kind.HasSnapshot() {
			node = append(append(node, byte(words)), randomBytes(s, 3+4*words)...)
		}
		if len(data)+len(node) <= 240 {
			data = append(data, node...)
		}
	}
	return data
}

// randomDirectExport is mostly valid.
func randomDirectExport(s source) ioam.Option {
	option := ioam.DirectExport{
		Namespace:      oneOf[ioam.NamespaceID](s, 123, 200, 300, 7),
		Flags:          uint8(oneOf(s, 0, 0, s.below(256))),
		ExtensionFlags: uint8(oneOf(s, 0, 0x80, 0xc0, s.below(256))),
		Type:           randomType(s),
		FlowID:         uint32(s.below(1 << 30)),
		Sequence:       uint32(s.below(1 << 30)),
	}.Option(oneOf(s, ioam.OptionIOAMStatic, ioam.OptionIOAM))
	switch s.below(16) {
	case 0:
		option.Data = option.Data[:len(option.Data)-1-s.below(4)]
	case 1:
		option.Data = append(option.Data, randomBytes(s, s.below(6))...)
	}
	return option
}

func randomHeader(s source, next ioam.NextHeader) []byte {
	var options []ioam.Option
	for range oneOf(s, 1, 1, 1, 2, 3, 1+s.below(11)) {
		option := randomTrace(s)
		switch s.below(12) {
		case 0:
			option = oneOf(
				s,
				ioam.Option{Type: ioam.OptionRouterAlert, Data: []byte{0, 0}},
				ioam.Option{Type: ioam.OptionJumbo, Data: []byte{0, 1, 0, 0}},
			)
		case 1:
			option = ioam.Option{Type: ioam.OptionIOAMStatic, Data: append([]byte{0, byte(s.below(5))}, randomBytes(s, s.below(12))...)}
		case 2:
			option = ioam.Option{Type: ioam.OptionIOAM, Data: randomBytes(s, s.below(14))}
		case 3, 4:
			option = randomDirectExport(s)
		case 5, 6:
			option = randomProof(s)
		}
		options = append(options, option)
	}
	header, err := ioam.AppendExtensionHeader(nil, next, options...)
	if err != nil {
		header, _ = ioam.AppendExtensionHeader(nil, next)
	}
	switch s.below(30) {
	case 0:
		header[2+s.below(len(header)-2)] = byte(s.below(256))
	case 1: // a trace after three Pad1
		trace := ioam.Trace{Namespace: 123, NodeLen: 1, Type: 0x800000, Data: randomBytes(s, 4)}.Option()
		header = slices.Concat([]byte{byte(next), 2, 0, 0, 0, byte(ioam.OptionIOAM), 14}, trace.Data, []byte{byte(ioam.OptionPadN), 1, 0})
	case 2:
		header = append([]byte{byte(next), 5}, make([]byte, 46)...) // 46 Pad1
	}
	return header
}

// randomPacket is an IPv6 packet, mostly with a Hop-by-Hop header.
func randomPacket(s source) []byte {
	payload := oneOf(s,
		func() []byte { return udp(s.below(1500)) },
		func() []byte { return randomBytes(s, s.below(64)) },
		func() []byte { return randomInner(s) },
	)()
	next := oneOf(
		s,
		ioam.NextHeaderUDP,
		ioam.NextHeaderTCP,
		ioam.NextHeaderICMPv6,
		ioam.NextHeaderIPv6,
		ioam.NextHeaderFragment,
		ioam.NextHeaderNone,
	)
	for range s.below(3) {
		payload = append([]byte{byte(next), 0, 0, byte(s.below(16)), 0, 0, 0, 0}, payload...)
		next = oneOf(s, ioam.NextHeaderRouting, ioam.NextHeaderDestination, ioam.NextHeaderFragment, ioam.NextHeaderAH)
	}
	if s.below(2) == 0 {
		payload, next = append(randomHeader(s, next), payload...), ioam.NextHeaderHopByHop
	}
	packet := ipv6Packet(next, payload)
	packet[1] = byte(s.below(256))
	packet[7] = byte(s.below(256))
	switch s.below(8) {
	case 0:
		packet = withDestination(packet, tunnelDestination)
	case 1:
		packet = withDestination(packet, netip.MustParseAddr(oneOf(s, "ff0e::1", "fe80::1", "2001:db8:3::1", "2001:db9::1")))
	case 2:
		setPayloadLength(packet, oneOf(s, 0, 0, s.below(1<<16)))
	case 3:
		packet[s.below(len(packet))] = byte(s.below(256))
	case 4:
		packet = packet[:s.below(len(packet)+1)]
	}
	return packet
}

func randomFrame(s source, packet []byte) Frame {
	f := Frame{
		Data:      packet,
		Link:      LinkNone,
		Interface: oneOf(s, ifIngress, ifEgress, ifEgress, ifEdge),
		Ingress:   oneOf(s, 0, ifIngress, ifIngress, ifEdge, ifOther),
		Time:      testTime + int64(s.below(1<<30)),
	}
	if s.below(2) == 0 {
		f.Arrived = f.Time - int64(s.below(1<<20))
	}
	if s.below(2) == 0 {
		f.Link, f.Data = LinkEthernet, ethernet(packet, []uint16{etherTypeQinQ, etherTypeVLAN, etherTypeVLAN}[:s.below(3)]...)
	}
	if s.below(2) == 0 {
		f.QueueKnown, f.QueuePackets, f.QueueBytes = true, uint32(s.below(100)), uint32(s.below(100000))
		f.BufferKnown, f.BufferBytes = true, uint32(s.below(1000000))
	}
	if s.below(4) == 0 {
		f.GSOSize, f.GSOSegments = uint32(1+s.below(1500)), 2
	}
	return f
}

// Random packets through random nodes: the invariants always hold, and every
// outcome occurs.
func TestRandomPackets(t *testing.T) {
	const packets = 90_000
	s := randomSource{rand.New(rand.NewPCG(9197, 9486))}
	seen := map[bool]map[model.Outcome]int{false: {}, true: {}}
	var config model.NodeConfig
	for i := range packets {
		if i%10 == 0 {
			config = randomConfig(s)
		}
		frame, egress := randomFrame(s, randomPacket(s)), s.below(2) == 0
		result := checkedRun(t, config, frame, egress)
		seen[egress][result.Outcome]++

		// The next node accepts what this node passes on.
		if !egress && result.Verdict == Pass {
			onward := frame
			onward.Data, onward.Ingress, onward.Interface = result.Data, frame.Interface, ifEgress
			seen[true][checkedRun(t, config, onward, true).Outcome]++
		}
	}
	for egress, outcomes := range map[bool][]model.Outcome{false: ingressOutcomes, true: egressOutcomes} {
		for _, outcome := range outcomes {
			if seen[egress][outcome] == 0 {
				t.Errorf("no packet ended as %v, egress %v: the test is too narrow", outcome, egress)
			}
		}
	}
	t.Logf("ingress %v", seen[false])
	t.Logf("egress %v", seen[true])
}

// A chain of nodes fills a trace, which then reads as the path.
func TestChain(t *testing.T) {
	s := randomSource{rand.New(rand.NewPCG(1, 2))}
	for range 2000 {
		kind := randomType(s)&ioam.TraceTypeSupported | 0x800000
		config := encapConfig(model.ModeEncap, func(e *model.Encapsulation) {
			e.Options = model.Traces(
				model.TraceOption{
					Namespace: 200,
					Type:      kind,
					Size:      sizeFor(s, testConfig(), model.TraceOption{Namespace: 200, Type: kind}, model.MaxTraceDataSize),
				},
			)
		})
		config.ID = 1
		frame := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(10)))
		frame.Data = mustNode(t, config).Egress(frame).Data

		room, fits := config.Encapsulations[0].Options[0].Trace.Size, 0
		hops := 1 + s.below(5)
		need := func(config model.NodeConfig) int {
			schema := config.Namespaces[1].Schema
			if !kind.HasSnapshot() {
				return 4 * kind.NodeLen()
			} else if schema == nil {
				return 4*kind.NodeLen() + 4
			}
			return 4*kind.NodeLen() + 4 + (len(schema.Data)+3)/4*4
		}
		full := false
		account := func(config model.NodeConfig) {
			if full = full || need(config) > room; !full {
				room -= need(config)
				fits++
			}
		}
		account(config)
		for hop := range hops {
			next := testConfig()
			next.ID = ioam.NodeID(hop + 2)
			next.Namespaces[1].Schema = oneOf(
				s,
				nil,
				&model.Schema{ID: ioam.SchemaID(hop)},
				&model.Schema{ID: ioam.SchemaID(hop), Data: randomBytes(s, s.below(20))},
			)
			next.Decapsulations = nil
			if hop == hops-1 {
				next.Decapsulations = []model.Decapsulation{{TunnelDestination: tunnelDestination}}
			}
			account(next)
			frame.Data[7]-- // the router between the hooks
			result := checkedRun(t, next, Frame{Data: frame.Data, Link: LinkNone, Interface: ifIngress, Time: testTime}, false)
			frame.Data = result.Data
			if hop < hops-1 {
				continue
			}
			if result.Outcome != model.OutcomeTunnelDecapsulated {
				t.Fatal(result.Outcome)
			}
			checkPath(t, result.Record.Header, fits, full)
		}
	}
}

// checkPath checks for nodes 1, 2, … with falling hop limits.
func checkPath(t *testing.T, header []byte, count int, overflow bool) {
	t.Helper()
	for option, err := range (ioam.ExtensionHeader{Bytes: header}).Options() {
		if err != nil {
			t.Fatal(err)
		}
		if option.Type.IsPadding() {
			continue
		}
		o, err := option.IOAM()
		if err != nil {
			t.Fatal(err)
		}
		trace, err := o.Trace()
		if err != nil {
			t.Fatal(err)
		}
		nodes, err := trace.Nodes()
		if err != nil || len(nodes) != count || trace.Flags&ioam.FlagOverflow != 0 != overflow {
			t.Fatalf("%d nodes, want %d; overflow %v; %v", len(nodes), count, overflow, err)
		}
		for i, node := range nodes {
			id, _ := node.NodeID()
			if id != ioam.NodeID(i+1) {
				t.Fatalf("node %d is %d", i, id)
			}
		}
	}
}
