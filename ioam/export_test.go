// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// exporting lets all namespaces of a configuration export.
func exporting(config NodeConfig) NodeConfig {
	for i := range config.Namespaces {
		config.Namespaces[i].Export = ExportEvery
	}
	return config
}

// dexConfig has one rule, with one Direct Export of namespace 123, for
// everything that leaves by ifEgress.
func dexConfig(mode Mode, o DirectExportOption, change ...func(*Encapsulation)) NodeConfig {
	if o.Namespace == 0 {
		o.Namespace = 123
	}
	if o.Type == 0 {
		o.Type = 0xc00000
	}
	change = append([]func(*Encapsulation){func(e *Encapsulation) { e.Options = []InsertedOption{{DirectExport: &o}} }}, change...)
	return exporting(encapConfig(mode, change...))
}

const bothExtensions = ExtensionFlowID | ExtensionSequence

// Flow hashes of packets from 2001:db8:1::2 to 2001:db8:2::2, computed apart.
const (
	hashUDP      = 0x6ba32f49 // port 4242 to 9, seed 0
	hashSeed1    = 0xc6866cc9 // seed 1
	hashLabel    = 0xa165bbf3 // flow label 0x12345
	hashNone     = 0x0102e7cc // no next header, no ports
	hashFragment = 0x97b77618 // UDP, ports unknown
)

func TestFlowHash(t *testing.T) {
	labelled := ipv6(NextHeaderUDP, udp(10))
	copy(labelled, []byte{0x6f, 0xf1, 0x23, 0x45}) // the traffic class does not count
	for _, test := range []struct {
		name   string
		seed   uint64
		packet []byte
		want   uint32
	}{
		{"udp", 0, ipv6(NextHeaderUDP, udp(10)), hashUDP},
		{"seed", 1, ipv6(NextHeaderUDP, udp(10)), hashSeed1},
		{"label", 0, labelled, hashLabel},
		{"no ports", 0, ipv6(NextHeaderNone, []byte{1}), hashNone},
		{"first fragment", 0, ipv6(NextHeaderFragment, append(unhex(t, "11000001 00000001"), udp(10)...)), hashUDP},
		{"later fragment", 0, ipv6(NextHeaderFragment, append(unhex(t, "11000009 00000001"), udp(10)...)), hashFragment},
		{"ports cut", 0, ipv6(NextHeaderUDP, udp(10)[:3]), hashFragment},
		{"behind options", 0, ipv6(NextHeaderDestination, append(unhex(t, "11000104 00000000"), udp(10)...)), hashUDP},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := dexConfig(ModeEncap, DirectExportOption{ExtensionFlags: ExtensionFlowID})
			config.FlowSeed = test.seed
			result := mustNode(t, config).Egress(egressFrame(test.packet))
			if len(result.Exports) != 1 || result.Exports[0].Option.FlowID != test.want {
				t.Errorf("%v %+v, want the Flow-ID %08x", result.Outcome, result.Exports, test.want)
			}
		})
	}
}

func TestInsertedDirectExport(t *testing.T) {
	trace := TraceOption{123, 0x800000, 4}
	for _, test := range []struct {
		name    string
		options []InsertedOption
		want    string
	}{
		{"alone", []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 123, Type: 0xc00000}}},
			"3b010100 110a0004 007b0000 c0000000"},
		{"in 0x31", []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 123, Type: 0xc00000, OptionType: OptionIOAM}}},
			"3b010100 310a0004 007b0000 c0000000"},
		{"both fields", []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: bothExtensions}}},
			"3b020100 11120004 007b00c0 c0000000 0102e7cc 00000000"},
		{"flow label", []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: ExtensionFlowID, FlowID: FlowIDSource{Kind: FlowIDLabel}}}},
			"3b020100 110e0004 007b0080 c0000000 00012345 01020000"},
		{"fixed", []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 200, Type: 0x800000, ExtensionFlags: ExtensionFlowID, FlowID: FlowIDSource{FlowIDFixed, 0xdeadbeef}}}},
			"3b020100 110e0004 00c80080 80000000 deadbeef 01020000"},
		{"behind a trace, another behind", append(append(Traces(trace), InsertedOption{DirectExport: &DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: ExtensionSequence}}), Traces(trace)...),
			"3b060100 310e0000 007b0800 80000000 40000002 110e0004 007b0040 c0000000 00000000 310e0000 007b0800 80000000 40000002 01020000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6(NextHeaderNone, []byte{1})
			if test.name == "flow label" {
				copy(packet, []byte{0x60, 1, 0x23, 0x45})
			}
			config := encapConfig(ModeInline, func(e *Encapsulation) { e.Options = test.options })
			result := mustNode(t, config).Egress(egressFrame(packet))
			want := append(unhex(t, test.want), 1)
			if result.Outcome != OutcomeEncapInserted || !bytes.Equal(result.Data[40:], want) {
				t.Errorf("%v\n%x, want\n%x", result.Outcome, result.Data[40:], want)
			}
			if len(result.Exports) != 0 {
				t.Errorf("exports without export: %+v", result.Exports)
			}
		})
	}
}

// Sequence Numbers count the packets of a namespace and Flow-ID that get the
// option, and no others.
func TestSequence(t *testing.T) {
	config := dexConfig(ModeInline, DirectExportOption{ExtensionFlags: bothExtensions}, func(e *Encapsulation) {
		e.Options = append(e.Options, InsertedOption{DirectExport: &DirectExportOption{
			Namespace: 200, Type: 0xc00000, ExtensionFlags: ExtensionSequence, FlowID: FlowIDSource{Kind: FlowIDLabel}}})
		e.Match.DestinationPort = &PortRange{9, 9}
	})
	other := config.Encapsulations[0] // another rule numbers the same flow on
	other.Name, other.Match = "other", Match{TrafficClass: ptr(uint8(1))}
	other.Options = other.Options[:1]
	config.Encapsulations = append(config.Encapsulations, other)
	node := mustNode(t, config)

	packet := func(port uint16, label byte) []byte {
		p := ipv6(NextHeaderUDP, udp(10))
		binary.BigEndian.PutUint16(p[40:], port)
		p[3] = label
		return p
	}
	tooLarge := ipv6(NextHeaderUDP, udp(1450))
	elsewhere := packet(4242, 0)
	elsewhere[1], elsewhere[43] = 0x10, 10 // traffic class 1, port 10
	for i, step := range []struct {
		packet []byte
		want   []uint32 // of the options
	}{
		{packet(4242, 0), []uint32{0, 0}},
		{packet(4242, 0), []uint32{1, 1}},
		{packet(4243, 0), []uint32{0, 2}}, // another hash, the same label
		{packet(4242, 1), []uint32{0, 0}},
		{tooLarge, nil},
		{withDestination(packet(4242, 0), netip.MustParseAddr("ff0e::1")), nil},
		{packet(4242, 0), []uint32{2, 3}},
		{elsewhere, []uint32{0}},
		{packet(4242, 0), []uint32{3, 4}},
	} {
		var got []uint32
		for _, e := range node.Egress(egressFrame(step.packet)).Exports {
			got = append(got, e.Option.Sequence)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("packet %d: %v, want %v", i, got, step.want)
		}
	}
	same := dexConfig(ModeInline, DirectExportOption{ExtensionFlags: ExtensionSequence}, func(e *Encapsulation) { e.Match.DestinationPort = &PortRange{9, 9} })
	rule := same.Encapsulations[0]
	rule.Name, rule.Match = "rest", Match{}
	rule.Options = []InsertedOption{{DirectExport: &DirectExportOption{Namespace: 123, Type: 0x800000, ExtensionFlags: ExtensionSequence, FlowID: FlowIDSource{FlowIDFixed, hashUDP}}}}
	same.Encapsulations = append(same.Encapsulations, rule)
	node = mustNode(t, same)
	for want, packet := range [][]byte{packet(4242, 0), ipv6(NextHeaderNone, []byte{1}), packet(4242, 0)} {
		if got := node.Egress(egressFrame(packet)).Exports[0].Option.Sequence; got != uint32(want) {
			t.Errorf("two rules of one Flow-ID: %d, want %d", got, want)
		}
	}
}

// Packets that share a flow label, and so a Flow-ID, are selected or none is,
// whatever their ports are.
func TestFlowSelectionByLabel(t *testing.T) {
	const n, labels, ports = 3, 500, 4
	node := mustNode(t, dexConfig(ModeInline, DirectExportOption{
		Namespace: 123, Type: 0xc00000, ExtensionFlags: ExtensionFlowID, FlowID: FlowIDSource{Kind: FlowIDLabel},
	}, func(e *Encapsulation) { e.Flows = n }))
	selected := 0
	for label := range uint32(labels) {
		inserted := 0
		for port := range uint16(ports) {
			packet := ipv6(NextHeaderUDP, udp(1))
			binary.BigEndian.PutUint32(packet, 6<<28|label)
			binary.BigEndian.PutUint16(packet[40:], port)
			if node.Egress(egressFrame(packet)).Outcome == OutcomeEncapInserted {
				inserted++
			}
		}
		switch inserted {
		case ports:
			selected++
		case 0:
		default:
			t.Errorf("%d of %d packets with flow label %d were selected", inserted, ports, label)
		}
	}
	if selected < labels/n*7/10 || selected > labels/n*13/10 {
		t.Errorf("1/%d selects %d of %d flow labels", n, selected, labels)
	}
}

// Flows are selected by their hash, before packets are counted for the
// frequency.
func TestFlowSelection(t *testing.T) {
	for _, n := range []uint32{0, 1, 2, 3, 64, MaxFrequency} {
		node := mustNode(t, dexConfig(ModeInline, DirectExportOption{}, func(e *Encapsulation) {
			e.Flows, e.Frequency = n, Frequency{1, 2}
		}))
		selected, inserted := 0, 0
		const flows = 3000
		for port := range uint16(flows) {
			packet := ipv6(NextHeaderUDP, udp(1))
			binary.BigEndian.PutUint16(packet[40:], port)
			p, _, _ := parse(packet, LinkNone)
			want := OutcomeEncapNotSelected
			if hash := node.flowHash(p, findUpperLayer(p.ip)); n < 2 || uint64(hash)*uint64(n) < 1<<32-uint64(n) {
				if selected%2 == 0 {
					want = OutcomeEncapInserted
					inserted++
				}
				selected++
			}
			if got := node.Egress(egressFrame(packet)).Outcome; got != want {
				t.Fatalf("1/%d: port %d: %v, want %v", n, port, got, want)
			}
		}
		if share := float64(selected) * float64(max(n, 1)) / flows; n <= 64 && (share < 0.6 || share > 1.4) {
			t.Errorf("1/%d selects %d of %d flows", n, selected, flows)
		}
	}
}

func TestCollectorsAreSpared(t *testing.T) {
	address := netip.MustParseAddr("2001:db8:2::2")
	port := func(p uint16) []byte {
		packet := ipv6(NextHeaderUDP, udp(10))
		binary.BigEndian.PutUint16(packet[42:], p)
		return packet
	}
	tcp := port(4739)
	tcp[6] = byte(NextHeaderTCP)
	second := withDestination(bytes.Clone(tcp), netip.MustParseAddr("2001:db8:9::9"))
	later := ipv6(NextHeaderFragment, append(unhex(t, "11000009 00000001"), port(4739)[40:]...))
	laterTCP := ipv6(NextHeaderFragment, append(unhex(t, "06000009 00000001"), port(4739)[40:]...))
	for _, test := range []struct {
		name    string
		packet  []byte
		outcome Outcome
	}{
		{"the collector", port(4739), OutcomeEncapSkippedExport},
		{"behind options", ipv6(NextHeaderDestination, append(unhex(t, "11000104 00000000"), port(4739)[40:]...)), OutcomeEncapSkippedExport},
		{"its first fragment", ipv6(NextHeaderFragment, append(unhex(t, "11000001 00000001"), port(4739)[40:]...)), OutcomeEncapSkippedExport},
		{"another protocol", tcp, OutcomeEncapNotSelected},
		{"another port", port(4740), OutcomeEncapNotSelected},
		{"another address", withDestination(port(4739), netip.MustParseAddr("2001:db8:2::3")), OutcomeEncapNotSelected},
		{"its later fragment", later, OutcomeEncapSkippedExport},
		{"a later fragment of another protocol", laterTCP, OutcomeEncapNotSelected},
		{"no port", port(0), OutcomeEncapSkippedExport},
		{"a second collector", second, OutcomeEncapSkippedExport},
		{"control", withDestination(port(4739), netip.MustParseAddr("ff02::1")), OutcomeEncapSkippedControl},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := dexConfig(ModeEncap, DirectExportOption{}, func(e *Encapsulation) { e.Frequency = Frequency{1, 2} })
			config.Collectors = []Collector{
				{address, 4739, NextHeaderUDP},
				{netip.MustParseAddr("2001:db8:9::9"), 4739, NextHeaderTCP},
				{netip.MustParseAddr("ff02::1"), 4739, NextHeaderUDP},
			}
			node := mustNode(t, config)
			node.matched[0] = 1
			if got := node.Egress(egressFrame(bytes.Clone(test.packet))).Outcome; got != test.outcome {
				t.Errorf("%v, want %v", got, test.outcome)
			}
			if counted := node.matched[0] == 2; counted != (test.outcome == OutcomeEncapNotSelected) {
				t.Errorf("%d packets counted", node.matched[0]-1)
			}
		})
	}
}

// flowUDP is the flow of the test packets.
var flowUDP = Flow{
	Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), FlowLabel: 0xabcde,
	NextHeader: NextHeaderUDP, SourcePort: 4242, DestinationPort: 9,
}
