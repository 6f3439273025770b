// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// exporting makes all namespaces of a configuration export.
func exporting(config model.NodeConfig) model.NodeConfig {
	for i := range config.Namespaces {
		config.Namespaces[i].Export = model.ExportEvery
	}
	return config
}

// dexConfig has one rule, with one Direct Export of namespace 123, for everything
// that leaves through ifEgress.
func dexConfig(mode model.Mode, o model.DirectExportOption, change ...func(*model.Encapsulation)) model.NodeConfig {
	if o.Namespace == 0 {
		o.Namespace = 123
	}
	if o.Type == 0 {
		o.Type = 0xc00000
	}
	change = append(
		[]func(*model.Encapsulation){func(e *model.Encapsulation) { e.Options = []model.InsertedOption{{DirectExport: &o}} }},
		change...)
	return exporting(encapConfig(mode, change...))
}

const bothExtensions = ioam.ExtensionFlowID | ioam.ExtensionSequence

// Flow hashes of packets from 2001:db8:1::2 to 2001:db8:2::2, computed
// independently.
const (
	hashUDP      = 0x2af1bd9b // port 4242 to 9, seed 0
	hashSeed1    = 0x6d8cf0aa // seed 1
	hashLabel    = 0xad79ac86 // flow label 0x12345
	hashNone     = 0x47c3c032 // no next header, no ports
	hashFragment = 0x4b87d931 // UDP, ports unknown
)

func TestFlowHash(t *testing.T) {
	labelled := ipv6Packet(ioam.NextHeaderUDP, udp(10))
	copy(labelled, []byte{0x6f, 0xf1, 0x23, 0x45}) // the traffic class does not count
	for _, test := range []struct {
		name   string
		seed   uint64
		packet []byte
		want   uint32
	}{
		{"udp", 0, ipv6Packet(ioam.NextHeaderUDP, udp(10)), hashUDP},
		{"seed", 1, ipv6Packet(ioam.NextHeaderUDP, udp(10)), hashSeed1},
		{"label", 0, labelled, hashLabel},
		{"no ports", 0, ipv6Packet(ioam.NextHeaderNone, []byte{1}), hashNone},
		{"first fragment", 0, ipv6Packet(ioam.NextHeaderFragment, append(craft.Hex(t, "11000001 00000001"), udp(10)...)), hashUDP},
		{"later fragment", 0, ipv6Packet(ioam.NextHeaderFragment, append(craft.Hex(t, "11000009 00000001"), udp(10)...)), hashFragment},
		{"ports cut", 0, ipv6Packet(ioam.NextHeaderUDP, udp(10)[:3]), hashFragment},
		{"behind options", 0, ipv6Packet(ioam.NextHeaderDestination, append(craft.Hex(t, "11000104 00000000"), udp(10)...)), hashUDP},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := dexConfig(model.ModeEncap, model.DirectExportOption{ExtensionFlags: ioam.ExtensionFlowID})
			config.FlowSeed = test.seed
			result := mustNode(t, config).Egress(egressFrame(test.packet))
			if len(result.Postcards) != 1 || result.Postcards[0].Option.FlowID != test.want {
				t.Errorf("%v %+v, want the Flow-ID %08x", result.Outcome, result.Postcards, test.want)
			}
		})
	}
}

// Hosts of one network, with the same ports and no flow label, have flows of
// their own: a Flow-ID that two of them share is chance (n²/2^33).
func TestFlowHashSpreads(t *testing.T) {
	n := mustNode(t, dexConfig(model.ModeEncap, model.DirectExportOption{ExtensionFlags: ioam.ExtensionFlowID}))
	const hosts = 128
	seen := make(map[uint32]bool)
	for source := range hosts {
		for destination := range hosts {
			packet := ipv6Packet(ioam.NextHeaderUDP, udp(10))
			packet[23], packet[39] = byte(source), byte(destination)
			seen[n.Egress(egressFrame(packet)).Postcards[0].Option.FlowID] = true
		}
	}
	if shared := hosts*hosts - len(seen); shared > 2 {
		t.Errorf("%d of %d flows share a Flow-ID", shared, hosts*hosts)
	}
}

func TestInsertedDirectExport(t *testing.T) {
	trace := model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4}
	for _, test := range []struct {
		name    string
		options []model.InsertedOption
		want    string
	}{
		{"alone", []model.InsertedOption{{DirectExport: &model.DirectExportOption{Namespace: 123, Type: 0xc00000}}},
			"3b010100 110a0004 007b0000 c0000000"},
		{"in 0x31", []model.InsertedOption{{DirectExport: &model.DirectExportOption{Namespace: 123, Type: 0xc00000, OptionType: ioam.OptionIOAM}}},
			"3b010100 310a0004 007b0000 c0000000"},
		{"both fields", []model.InsertedOption{{DirectExport: &model.DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: bothExtensions}}},
			"3b020100 11120004 007b00c0 c0000000 47c3c032 00000000"},
		{"flow label", []model.InsertedOption{{DirectExport: &model.DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: ioam.ExtensionFlowID, FlowID: model.FlowIDSource{Kind: model.FlowIDLabel}}}},
			"3b020100 110e0004 007b0080 c0000000 00012345 01020000"},
		{"fixed", []model.InsertedOption{{DirectExport: &model.DirectExportOption{Namespace: 200, Type: 0x800000, ExtensionFlags: ioam.ExtensionFlowID, FlowID: model.FlowIDSource{Kind: model.FlowIDFixed, Fixed: 0xdeadbeef}}}},
			"3b020100 110e0004 00c80080 80000000 deadbeef 01020000"},
		{"behind a trace, another behind", append(append(model.Traces(trace), model.InsertedOption{DirectExport: &model.DirectExportOption{Namespace: 123, Type: 0xc00000, ExtensionFlags: ioam.ExtensionSequence}}), model.Traces(trace)...),
			"3b060100 310e0000 007b0800 80000000 40000002 110e0004 007b0040 c0000000 00000000 310e0000 007b0800 80000000 40000002 01020000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6Packet(ioam.NextHeaderNone, []byte{1})
			if test.name == "flow label" {
				copy(packet, []byte{0x60, 1, 0x23, 0x45})
			}
			config := encapConfig(model.ModeInline, func(e *model.Encapsulation) { e.Options = test.options })
			result := mustNode(t, config).Egress(egressFrame(packet))
			want := append(craft.Hex(t, test.want), 1)
			if result.Outcome != model.OutcomeEncapInserted || !bytes.Equal(result.Data[40:], want) {
				t.Errorf("%v\n%x, want\n%x", result.Outcome, result.Data[40:], want)
			}
			if len(result.Postcards) != 0 {
				t.Errorf("exports without export: %+v", result.Postcards)
			}
		})
	}
}

// Sequence Numbers count only the packets of a namespace and Flow-ID that get the
// option.
func TestSequence(t *testing.T) {
	config := dexConfig(model.ModeInline, model.DirectExportOption{ExtensionFlags: bothExtensions}, func(e *model.Encapsulation) {
		e.Options = append(e.Options, model.InsertedOption{DirectExport: &model.DirectExportOption{
			Namespace: 200, Type: 0xc00000, ExtensionFlags: ioam.ExtensionSequence, FlowID: model.FlowIDSource{Kind: model.FlowIDLabel}}})
		e.Match.DestinationPort = &model.PortRange{From: 9, To: 9}
	})
	other := config.Encapsulations[0] // another rule continues the same flow's numbers
	other.Name, other.Match = "other", model.Match{TrafficClass: ptr(uint8(1))}
	other.Options = other.Options[:1]
	config.Encapsulations = append(config.Encapsulations, other)
	node := mustNode(t, config)

	packet := func(port uint16, label byte) []byte {
		p := ipv6Packet(ioam.NextHeaderUDP, udp(10))
		binary.BigEndian.PutUint16(p[40:], port)
		p[3] = label
		return p
	}
	tooLarge := ipv6Packet(ioam.NextHeaderUDP, udp(1450))
	elsewhere := packet(4242, 0)
	elsewhere[1], elsewhere[43] = 0x10, 10 // traffic class 1, port 10
	for i, step := range []struct {
		packet []byte
		want   []uint32 // Sequence Numbers of the options
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
		for _, e := range node.Egress(egressFrame(step.packet)).Postcards {
			got = append(got, e.Option.Sequence)
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("packet %d: %v, want %v", i, got, step.want)
		}
	}
	same := dexConfig(
		model.ModeInline,
		model.DirectExportOption{ExtensionFlags: ioam.ExtensionSequence},
		func(e *model.Encapsulation) { e.Match.DestinationPort = &model.PortRange{From: 9, To: 9} },
	)
	rule := same.Encapsulations[0]
	rule.Name, rule.Match = "rest", model.Match{}
	rule.Options = []model.InsertedOption{
		{
			DirectExport: &model.DirectExportOption{
				Namespace:      123,
				Type:           0x800000,
				ExtensionFlags: ioam.ExtensionSequence,
				FlowID:         model.FlowIDSource{Kind: model.FlowIDFixed, Fixed: hashUDP},
			},
		},
	}
	same.Encapsulations = append(same.Encapsulations, rule)
	node = mustNode(t, same)
	for want, packet := range [][]byte{packet(4242, 0), ipv6Packet(ioam.NextHeaderNone, []byte{1}), packet(4242, 0)} {
		if got := node.Egress(egressFrame(packet)).Postcards[0].Option.Sequence; got != uint32(want) {
			t.Errorf("two rules of one Flow-ID: %d, want %d", got, want)
		}
	}
}

// Packets that share a flow label, and so a Flow-ID, are selected all or none,
// whatever their ports are.
func TestFlowSelectionByLabel(t *testing.T) {
	const n, labels, ports = 3, 500, 4
	node := mustNode(t, dexConfig(model.ModeInline, model.DirectExportOption{
		Namespace: 123, Type: 0xc00000, ExtensionFlags: ioam.ExtensionFlowID, FlowID: model.FlowIDSource{Kind: model.FlowIDLabel},
	}, func(e *model.Encapsulation) { e.Flows = n }))
	selected := 0
	for label := range uint32(labels) {
		inserted := 0
		for port := range uint16(ports) {
			packet := ipv6Packet(ioam.NextHeaderUDP, udp(1))
			binary.BigEndian.PutUint32(packet, 6<<28|label)
			binary.BigEndian.PutUint16(packet[40:], port)
			if node.Egress(egressFrame(packet)).Outcome == model.OutcomeEncapInserted {
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

// Flows are selected by their hash before packets are counted for the frequency.
func TestFlowSelection(t *testing.T) {
	for _, n := range []uint32{0, 1, 2, 3, 64, model.MaxFrequency} {
		node := mustNode(t, dexConfig(model.ModeInline, model.DirectExportOption{}, func(e *model.Encapsulation) {
			e.Flows, e.Frequency = n, model.Frequency{K: 1, N: 2}
		}))
		selected, inserted := 0, 0
		const flows = 3000
		for port := range uint16(flows) {
			packet := ipv6Packet(ioam.NextHeaderUDP, udp(1))
			binary.BigEndian.PutUint16(packet[40:], port)
			p, _, _ := parse(packet, LinkNone)
			want := model.OutcomeEncapNotSelected
			if hash := node.flowHash(p, ipv6.FindUpperLayer(p.ip)); n < 2 || uint64(hash)*uint64(n) < 1<<32-uint64(n) {
				if selected%2 == 0 {
					want = model.OutcomeEncapInserted
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
		packet := ipv6Packet(ioam.NextHeaderUDP, udp(10))
		binary.BigEndian.PutUint16(packet[42:], p)
		return packet
	}
	tcp := port(4739)
	tcp[6] = byte(ioam.NextHeaderTCP)
	second := withDestination(bytes.Clone(tcp), netip.MustParseAddr("2001:db8:9::9"))
	later := ipv6Packet(ioam.NextHeaderFragment, append(craft.Hex(t, "11000009 00000001"), port(4739)[40:]...))
	laterTCP := ipv6Packet(ioam.NextHeaderFragment, append(craft.Hex(t, "06000009 00000001"), port(4739)[40:]...))
	for _, test := range []struct {
		name    string
		packet  []byte
		outcome model.Outcome
	}{
		{"the collector", port(4739), model.OutcomeEncapSkippedExport},
		{"behind options", ipv6Packet(ioam.NextHeaderDestination, append(craft.Hex(t, "11000104 00000000"), port(4739)[40:]...)), model.OutcomeEncapSkippedExport},
		{"its first fragment", ipv6Packet(ioam.NextHeaderFragment, append(craft.Hex(t, "11000001 00000001"), port(4739)[40:]...)), model.OutcomeEncapSkippedExport},
		{"another protocol", tcp, model.OutcomeEncapNotSelected},
		{"another port", port(4740), model.OutcomeEncapNotSelected},
		{"another address", withDestination(port(4739), netip.MustParseAddr("2001:db8:2::3")), model.OutcomeEncapNotSelected},
		{"its later fragment", later, model.OutcomeEncapSkippedExport},
		{"a later fragment of another protocol", laterTCP, model.OutcomeEncapNotSelected},
		{"no port", port(0), model.OutcomeEncapSkippedExport},
		{"a second collector", second, model.OutcomeEncapSkippedExport},
		{"control", withDestination(port(4739), netip.MustParseAddr("ff02::1")), model.OutcomeEncapSkippedControl},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := dexConfig(
				model.ModeEncap,
				model.DirectExportOption{},
				func(e *model.Encapsulation) { e.Frequency = model.Frequency{K: 1, N: 2} },
			)
			config.Collectors = []model.Collector{
				{Address: address, Port: 4739, Protocol: ioam.NextHeaderUDP},
				{Address: netip.MustParseAddr("2001:db8:9::9"), Port: 4739, Protocol: ioam.NextHeaderTCP},
				{Address: netip.MustParseAddr("ff02::1"), Port: 4739, Protocol: ioam.NextHeaderUDP},
			}
			node := mustNode(t, config)
			node.matched[0] = 1
			if got := node.Egress(egressFrame(bytes.Clone(test.packet))).Outcome; got != test.outcome {
				t.Errorf("%v, want %v", got, test.outcome)
			}
			if counted := node.matched[0] == 2; counted != (test.outcome == model.OutcomeEncapNotSelected) {
				t.Errorf("%d packets counted", node.matched[0]-1)
			}
		})
	}
}

// flowUDP is the flow of the test packets.
var flowUDP = model.Flow{
	Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), FlowLabel: 0xabcde,
	NextHeader: ioam.NextHeaderUDP, SourcePort: 4242, DestinationPort: 9,
}
