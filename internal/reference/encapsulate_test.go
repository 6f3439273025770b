// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

func hex32(v uint32) string { return fmt.Sprintf("%08x", v) }

// encapConfig has one rule for everything that leaves through ifEgress.
func encapConfig(mode model.Mode, change ...func(*model.Encapsulation)) model.NodeConfig {
	config := testConfig()
	rule := model.Encapsulation{
		Name: "core", Interface: ifEgress, Mode: mode,
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xf20000, Size: 24}),
	}
	if mode != model.ModeInline {
		rule.TunnelSource, rule.TunnelDestination = tunnelSource, tunnelDestination
	}
	for _, c := range change {
		c(&rule)
	}
	config.Encapsulations = []model.Encapsulation{rule}
	return config
}

// udp is a UDP datagram from port 4242 to port 9.
func udp(length int) []byte {
	datagram := make([]byte, 8+length)
	binary.BigEndian.PutUint16(datagram, 4242)
	binary.BigEndian.PutUint16(datagram[2:], 9)
	return datagram
}

func egressFrame(packet []byte) Frame {
	return Frame{
		Data:         packet,
		Link:         LinkNone,
		Interface:    ifEgress,
		Ingress:      ifIngress,
		Time:         testTime,
		QueueKnown:   true,
		QueuePackets: 7,
		QueueBytes:   0x2a00,
		BufferKnown:  true,
		BufferBytes:  0x2b00,
	}
}

// The header that encapConfig's rule inserts, after the Next Header: 24 bytes of
// data, 20 of which are this node's.
const (
	headerForwarded     = "040100 31220000 007b2801 f2000000 00000000 40000002 00c900ca 6b012a3c 00000001 00000007"
	headerLocal         = "040100 31220000 007b2801 f2000000 00000000 40000002 ffff00ca 6b012a3c 00000001 00000007"
	headerLocalMainline = "040100 31220000 007b2801 f2000000 00000000 40000002 ffff00ca ffffffff ffffffff 00002a00"
)

func TestInsertedBytes(t *testing.T) {
	for _, test := range []struct {
		name          string
		mode          model.Mode
		compatibility model.Compatibility
		ingress       model.IfIndex
		tunnel        bool
		header        string
	}{
		{"inline, forwarded", model.ModeInline, model.CompatibilityDefault, ifIngress, false, headerForwarded},
		{"inline, local", model.ModeInline, model.CompatibilityDefault, 0, false, headerLocal},
		{"inline, local, mainline", model.ModeInline, model.CompatibilityMainline, 0, false, headerLocalMainline},
		{"inline, unserved ingress", model.ModeInline, model.CompatibilityDefault, ifOther, false, headerLocal},
		{"encap, forwarded", model.ModeEncap, model.CompatibilityDefault, ifIngress, true, headerForwarded},
		{"encap, local", model.ModeEncap, model.CompatibilityDefault, 0, true, headerLocal},
		{"auto, forwarded", model.ModeAuto, model.CompatibilityDefault, ifIngress, true, headerForwarded},
		{"auto, unserved ingress", model.ModeAuto, model.CompatibilityDefault, ifOther, true, headerLocal},
		{"auto, local", model.ModeAuto, model.CompatibilityDefault, 0, false, headerLocal},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(test.mode)
			config.Compatibility = test.compatibility
			packet := ipv6Packet(ioam.NextHeaderUDP, udp(10))
			copy(packet, []byte{0x6a, 0xbc, 0xde, 0xf1})
			frame := egressFrame(packet)
			frame.Ingress = test.ingress
			frame.Data, frame.Link = ethernet(packet, etherTypeVLAN), LinkEthernet

			want, outcome := slices.Concat(packet[:40], craft.Hex(t, "11"+test.header), packet[40:]), model.OutcomeEncapInserted
			if test.tunnel {
				want, outcome = slices.Concat(packet[:40], craft.Hex(t, "29"+test.header), packet), model.OutcomeEncapTunneled
				source, destination := tunnelSource.As16(), tunnelDestination.As16()
				copy(want[8:], source[:])
				copy(want[24:], destination[:])
			}
			want[6] = 0
			binary.BigEndian.PutUint16(want[4:], uint16(len(want)-40))

			result := mustNode(t, config).Egress(frame)
			if result.Outcome != outcome || result.Verdict != Pass {
				t.Fatalf("%v, want %v", result.Outcome, outcome)
			}
			if want = ethernet(want, etherTypeVLAN); !bytes.Equal(result.Data, want) {
				t.Errorf("left as\n%x, want\n%x", result.Data, want)
			}
		})
	}
}

func TestInsertedOptions(t *testing.T) {
	for _, test := range []struct {
		name    string
		options []model.TraceOption
		want    string
	}{
		{"tail padding", []model.TraceOption{{Namespace: 123, Type: 0x800000, Size: 4}}, "3b020100 310e0000 007b0800 80000000 40000002 01020000"},
		{"no tail padding", []model.TraceOption{{Namespace: 123, Type: 0x800000, Size: 8}}, "3b020100 31120000 007b0801 80000000 00000000 40000002"},
		{"two namespaces", []model.TraceOption{{Namespace: 123, Type: 0x800000, Size: 4}, {Namespace: 200, Type: 0x040000, Size: 4}},
			"3b040100 310e0000 007b0800 80000000 40000002 310e0000 00c80800 04000000 deadbeef 01020000"},
		{"snapshot", []model.TraceOption{{Namespace: 200, Type: 0x000002, Size: 12}}, "3b030100 31160000 00c80000 00000200 02000309 7261636b 20370000 01020000"},
		{"no delay, complement, buffer", []model.TraceOption{{Namespace: 123, Type: 0x091000, Size: 12}}, "3b030100 31160000 007b1800 09100000 ffffffff 0000d502 00002b00 01020000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(model.ModeInline, func(e *model.Encapsulation) { e.Options = model.Traces(test.options...) })
			result := mustNode(t, config).Egress(egressFrame(ipv6Packet(ioam.NextHeaderNone, []byte{1})))
			want := append(craft.Hex(t, test.want), 1)
			if result.Outcome != model.OutcomeEncapInserted || !bytes.Equal(result.Data[40:], want) {
				t.Errorf("%v\n%x, want\n%x", result.Outcome, result.Data[40:], want)
			}
		})
	}
}

func TestEncapsulationSkipped(t *testing.T) {
	plain := func() []byte { return ipv6Packet(ioam.NextHeaderUDP, udp(10)) }
	icmp := func(kind byte) func() []byte {
		return func() []byte { return ipv6Packet(ioam.NextHeaderICMPv6, []byte{kind, 0, 0, 0}) }
	}
	source := func(a string) func() []byte {
		b := netip.MustParseAddr(a).As16()
		return func() []byte { p := plain(); copy(p[8:], b[:]); return p }
	}
	destination := func(a string) func() []byte {
		return func() []byte { return withDestination(plain(), netip.MustParseAddr(a)) }
	}
	authenticated := func() []byte {
		return ipv6Packet(ioam.NextHeaderAH, append(craft.Hex(t, "11040000 00000000 00000000 00000000 00000000 00000000"), udp(4)...))
	}
	for _, test := range []struct {
		name    string
		mode    model.Mode
		packet  func() []byte
		outcome model.Outcome
	}{
		{"right", model.ModeInline, plain, model.OutcomeEncapInserted},
		{"to multicast", model.ModeInline, destination("ff0e::1"), model.OutcomeEncapSkippedControl},
		{"to link-local", model.ModeInline, destination("fe80::1"), model.OutcomeEncapSkippedControl},
		{"to the end of link-local", model.ModeInline, destination("febf::1"), model.OutcomeEncapSkippedControl},
		{"to site-local", model.ModeInline, destination("fec0::1"), model.OutcomeEncapInserted},
		{"to mapped link-local IPv4", model.ModeInline, destination("::ffff:169.254.0.1"), model.OutcomeEncapInserted},
		{"from unspecified", model.ModeInline, source("::"), model.OutcomeEncapSkippedControl},
		{"from link-local", model.ModeInline, source("fe80::1"), model.OutcomeEncapSkippedControl},
		{"from multicast", model.ModeInline, source("ff02::1"), model.OutcomeEncapSkippedControl},
		{"ICMPv6 too big", model.ModeInline, icmp(2), model.OutcomeEncapSkippedControl},
		{"ICMPv6 127", model.ModeInline, icmp(127), model.OutcomeEncapSkippedControl},
		{"echo request", model.ModeInline, icmp(128), model.OutcomeEncapInserted},
		{"echo reply", model.ModeInline, icmp(129), model.OutcomeEncapInserted},
		{"MLD query", model.ModeInline, icmp(130), model.OutcomeEncapSkippedControl},
		{"redirect", model.ModeInline, icmp(137), model.OutcomeEncapSkippedControl},
		{"ICMPv6 138", model.ModeInline, icmp(138), model.OutcomeEncapInserted},
		{"MLDv2 report", model.ModeInline, icmp(143), model.OutcomeEncapSkippedControl},
		{"ICMPv6 without type", model.ModeInline, func() []byte { return set(5, 4)(ipv6Packet(ioam.NextHeaderICMPv6, nil)) }, model.OutcomeEncapInserted},
		{"header there, inline", model.ModeInline, func() []byte { return ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, "3b000502 00000000")) }, model.OutcomeEncapSkippedRouterAlert},
		{"header there, encap", model.ModeEncap, func() []byte { return ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, "3b000502 00000000")) }, model.OutcomeEncapTunneled},
		{"IOAM there, inline", model.ModeInline, func() []byte { return set(44, 0x31)(rightPacket(t)) }, model.OutcomeEncapInserted},
		{"AH there, inline", model.ModeInline, authenticated, model.OutcomeEncapSkippedAH},
		{"AH there, encap", model.ModeEncap, authenticated, model.OutcomeEncapTunneled},
		{"AH in a later fragment", model.ModeInline, func() []byte {
			return ipv6Packet(ioam.NextHeaderFragment, craft.Hex(t, "33000008 00000001 00000000 00000000"))
		}, model.OutcomeEncapSkippedAH},
		{"up to the MTU, inline", model.ModeInline, func() []byte { return ipv6Packet(ioam.NextHeaderUDP, udp(1500-40-8-40)) }, model.OutcomeEncapInserted},
		{"beyond the MTU, inline", model.ModeInline, func() []byte { return ipv6Packet(ioam.NextHeaderUDP, udp(1500-40-8-39)) }, model.OutcomeEncapSkippedMTU},
		{"up to the MTU, encap", model.ModeEncap, func() []byte { return ipv6Packet(ioam.NextHeaderUDP, udp(1500-40-8-80)) }, model.OutcomeEncapTunneled},
		{"beyond the MTU, encap", model.ModeEncap, func() []byte { return ipv6Packet(ioam.NextHeaderUDP, udp(1500-40-8-79)) }, model.OutcomeEncapSkippedMTU},
		{"payload length 0", model.ModeInline, func() []byte { return ipv6Packet(ioam.NextHeaderNone, nil) }, model.OutcomeEncapSkippedMTU},
		{"malformed", model.ModeInline, func() []byte { return plain()[:39] }, model.OutcomeMalformedIPv6},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := test.packet()
			frame := egressFrame(packet)
			frame.Ingress = 0
			result := mustNode(t, encapConfig(test.mode)).Egress(frame)
			if result.Outcome != test.outcome {
				t.Errorf("%v, want %v", result.Outcome, test.outcome)
			}
			changed := test.outcome == model.OutcomeEncapInserted || test.outcome == model.OutcomeEncapTunneled
			if bytes.Equal(result.Data, packet) == changed || result.Verdict != Pass {
				t.Errorf("%v %x", result.Verdict, result.Data)
			}
		})
	}
}

func TestPayloadLengthLimit(t *testing.T) {
	config := encapConfig(model.ModeInline)
	config.Interfaces[1].MTU = 0 // no limit
	for _, test := range []struct {
		payload int
		outcome model.Outcome
	}{{0xffff - 40, model.OutcomeEncapInserted}, {0xffff - 39, model.OutcomeEncapSkippedMTU}} {
		result := mustNode(t, config).Egress(egressFrame(ipv6Packet(ioam.NextHeaderNone, make([]byte, test.payload))))
		if result.Outcome != test.outcome {
			t.Errorf("%d: %v, want %v", test.payload, result.Outcome, test.outcome)
		}
	}
}

func TestGSO(t *testing.T) {
	fragment := craft.Hex(t, "06000008 00000001")
	for _, test := range []struct {
		name    string
		next    ioam.NextHeader
		payload int
		size    uint32
		zero    bool // payload length 0 on arrival
		outcome model.Outcome
		newSize uint32
		length  int // payload length written
	}{
		{"tcp", ioam.NextHeaderTCP, 30000, 1440, false, model.OutcomeEncapInserted, 1400, 30040},
		{"tcp, segments as large as the MTU", ioam.NextHeaderTCP, 30000, 9000, false, model.OutcomeEncapInserted, 8960, 30040},
		{"tcp, small segments", ioam.NextHeaderTCP, 30000, 81, false, model.OutcomeEncapInserted, 41, 30040},
		{"tcp, too small segments", ioam.NextHeaderTCP, 30000, 80, false, model.OutcomeEncapSkippedGSO, 80, 30000},
		{"tcp, grows beyond 65535", ioam.NextHeaderTCP, 0xffff - 39, 1440, false, model.OutcomeEncapInserted, 1400, 0},
		{"tcp, grows to 65535", ioam.NextHeaderTCP, 0xffff - 40, 1440, false, model.OutcomeEncapInserted, 1400, 0xffff},
		{"big tcp", ioam.NextHeaderTCP, 100000, 1440, true, model.OutcomeEncapSkippedGSO, 1440, 0},
		{"udp that fits", ioam.NextHeaderUDP, 30000, 1500 - 40 - 8 - 40, false, model.OutcomeEncapInserted, 1412, 30040},
		{"udp that does not fit", ioam.NextHeaderUDP, 30000, 1500 - 40 - 8 - 39, false, model.OutcomeEncapSkippedMTU, 1413, 30000},
		{"sctp", ioam.NextHeaderSCTP, 30000, 1000, false, model.OutcomeEncapSkippedGSO, 1000, 30000},
		{"tcp fragment", ioam.NextHeaderFragment, 30000, 1000, false, model.OutcomeEncapSkippedGSO, 1000, 30000},
	} {
		t.Run(test.name, func(t *testing.T) {
			payload := make([]byte, test.payload)
			copy(payload, fragment)
			packet := ipv6Packet(test.next, payload)
			if test.zero {
				setPayloadLength(packet, 0)
			}
			frame := egressFrame(packet)
			frame.GSOSize, frame.GSOSegments = test.size, uint32(test.payload)/test.size
			result := mustNode(t, encapConfig(model.ModeInline)).Egress(frame)
			length := int(binary.BigEndian.Uint16(result.Data[4:]))
			if result.Outcome != test.outcome || result.GSOSize != test.newSize || length != test.length {
				t.Errorf("%v, segments of %d, payload length %d", result.Outcome, result.GSOSize, length)
			}
		})
	}
}

func TestFrequency(t *testing.T) {
	for _, f := range []model.Frequency{{}, {K: 1, N: 1}, {K: 1, N: 3}, {K: 2, N: 3}, {K: 3, N: 3}, {K: 1, N: 100}} {
		node := mustNode(t, encapConfig(model.ModeInline, func(e *model.Encapsulation) { e.Frequency = f }))
		multicast := withDestination(ipv6Packet(ioam.NextHeaderUDP, udp(1)), netip.MustParseAddr("ff0e::1"))
		for i := range 300 {
			want := model.OutcomeEncapNotSelected
			if f.N == 0 || uint32(i)%f.N < f.K {
				want = model.OutcomeEncapInserted
			}
			if got := node.Egress(egressFrame(multicast)).Outcome; got != model.OutcomeEncapSkippedControl {
				t.Fatalf("%v: control packet: %v", f, got)
			}
			if got := node.Egress(egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(1)))).Outcome; got != want {
				t.Fatalf("%v: packet %d: %v, want %v", f, i, got, want)
			}
		}
	}
}

func TestInsertion(t *testing.T) {
	option := func(size int) model.InsertedOption {
		return model.InsertedOption{Trace: &model.TraceOption{Size: size}}
	}
	for _, tt := range []struct {
		mode  model.Mode
		sizes []int
		want  int
	}{
		{model.ModeInline, []int{4}, 24},
		{model.ModeInline, []int{64}, 80},
		{model.ModeEncap, []int{64}, 120},
		{model.ModeAuto, []int{4, 8}, 80},
		{model.ModeInline, []int{244}, 264},
	} {
		e := model.Encapsulation{Mode: tt.mode}
		for _, s := range tt.sizes {
			e.Options = append(e.Options, option(s))
		}
		if got := e.Insertion(); got != tt.want {
			t.Errorf("mode %v, sizes %v: %d bytes, want %d", tt.mode, tt.sizes, got, tt.want)
		}
	}
}
