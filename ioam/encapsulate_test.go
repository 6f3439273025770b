// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func hex32(v uint32) string { return fmt.Sprintf("%08x", v) }

// encapConfig has one rule for everything that leaves by ifEgress.
func encapConfig(mode Mode, change ...func(*Encapsulation)) NodeConfig {
	config := testConfig()
	rule := Encapsulation{
		Name: "core", Interface: ifEgress, Mode: mode,
		Options: Traces(TraceOption{Namespace: 123, Type: 0xf20000, Size: 24}),
	}
	if mode != ModeInline {
		rule.TunnelSource, rule.TunnelDestination = tunnelSource, tunnelDestination
	}
	for _, c := range change {
		c(&rule)
	}
	config.Encapsulations = []Encapsulation{rule}
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
	return Frame{Data: packet, Link: LinkNone, Interface: ifEgress, Ingress: ifIngress, Time: testTime, QueueKnown: true, QueuePackets: 7, QueueBytes: 0x2a00}
}

// The header that encapConfig's rule inserts, up to the Next Header: 24 bytes
// of data, of which this node's take 20.
const (
	headerForwarded     = "040100 31220000 007b2801 f2000000 00000000 40000002 00c900ca 6b012a3c 00000001 00000007"
	headerLocal         = "040100 31220000 007b2801 f2000000 00000000 40000002 ffff00ca 6b012a3c 00000001 00000007"
	headerLocalMainline = "040100 31220000 007b2801 f2000000 00000000 40000002 ffff00ca ffffffff ffffffff 00002a00"
)

func TestInsertedBytes(t *testing.T) {
	for _, test := range []struct {
		name          string
		mode          Mode
		compatibility Compatibility
		ingress       IfIndex
		tunnel        bool
		header        string
	}{
		{"inline, forwarded", ModeInline, CompatibilityDefault, ifIngress, false, headerForwarded},
		{"inline, local", ModeInline, CompatibilityDefault, 0, false, headerLocal},
		{"inline, local, mainline", ModeInline, CompatibilityMainline, 0, false, headerLocalMainline},
		{"inline, unserved ingress", ModeInline, CompatibilityDefault, ifOther, false, headerLocal},
		{"encap, forwarded", ModeEncap, CompatibilityDefault, ifIngress, true, headerForwarded},
		{"encap, local", ModeEncap, CompatibilityDefault, 0, true, headerLocal},
		{"auto, forwarded", ModeAuto, CompatibilityDefault, ifIngress, true, headerForwarded},
		{"auto, unserved ingress", ModeAuto, CompatibilityDefault, ifOther, true, headerLocal},
		{"auto, local", ModeAuto, CompatibilityDefault, 0, false, headerLocal},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(test.mode)
			config.Compatibility = test.compatibility
			packet := ipv6(NextHeaderUDP, udp(10))
			copy(packet, []byte{0x6a, 0xbc, 0xde, 0xf1})
			frame := egressFrame(packet)
			frame.Ingress = test.ingress
			frame.Data, frame.Link = ethernet(packet, etherTypeVLAN), LinkEthernet

			want, outcome := slices.Concat(packet[:40], unhex(t, "11"+test.header), packet[40:]), OutcomeEncapInserted
			if test.tunnel {
				want, outcome = slices.Concat(packet[:40], unhex(t, "29"+test.header), packet), OutcomeEncapTunneled
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
		options []TraceOption
		want    string
	}{
		{"tail padding", []TraceOption{{123, 0x800000, 4}}, "3b020100 310e0000 007b0800 80000000 40000002 01020000"},
		{"no tail padding", []TraceOption{{123, 0x800000, 8}}, "3b020100 31120000 007b0801 80000000 00000000 40000002"},
		{"two namespaces", []TraceOption{{123, 0x800000, 4}, {200, 0x040000, 4}},
			"3b040100 310e0000 007b0800 80000000 40000002 310e0000 00c80800 04000000 deadbeef 01020000"},
		{"snapshot", []TraceOption{{200, 0x000002, 12}}, "3b030100 31160000 00c80000 00000200 02000309 7261636b 20370000 01020000"},
		{"unmeasured", []TraceOption{{123, 0x091000, 12}}, "3b030100 31160000 007b1800 09100000 ffffffff ffffffff ffffffff 01020000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := encapConfig(ModeInline, func(e *Encapsulation) { e.Options = Traces(test.options...) })
			result := mustNode(t, config).Egress(egressFrame(ipv6(NextHeaderNone, []byte{1})))
			want := append(unhex(t, test.want), 1)
			if result.Outcome != OutcomeEncapInserted || !bytes.Equal(result.Data[40:], want) {
				t.Errorf("%v\n%x, want\n%x", result.Outcome, result.Data[40:], want)
			}
		})
	}
}

func TestEncapsulationSkipped(t *testing.T) {
	plain := func() []byte { return ipv6(NextHeaderUDP, udp(10)) }
	icmp := func(kind byte) func() []byte {
		return func() []byte { return ipv6(NextHeaderICMPv6, []byte{kind, 0, 0, 0}) }
	}
	source := func(a string) func() []byte {
		b := netip.MustParseAddr(a).As16()
		return func() []byte { p := plain(); copy(p[8:], b[:]); return p }
	}
	destination := func(a string) func() []byte {
		return func() []byte { return withDestination(plain(), netip.MustParseAddr(a)) }
	}
	for _, test := range []struct {
		name    string
		mode    Mode
		packet  func() []byte
		outcome Outcome
	}{
		{"right", ModeInline, plain, OutcomeEncapInserted},
		{"to multicast", ModeInline, destination("ff0e::1"), OutcomeEncapSkippedControl},
		{"to link-local", ModeInline, destination("fe80::1"), OutcomeEncapSkippedControl},
		{"to the end of link-local", ModeInline, destination("febf::1"), OutcomeEncapSkippedControl},
		{"to site-local", ModeInline, destination("fec0::1"), OutcomeEncapInserted},
		{"to mapped link-local IPv4", ModeInline, destination("::ffff:169.254.0.1"), OutcomeEncapInserted},
		{"from unspecified", ModeInline, source("::"), OutcomeEncapSkippedControl},
		{"from link-local", ModeInline, source("fe80::1"), OutcomeEncapSkippedControl},
		{"from multicast", ModeInline, source("ff02::1"), OutcomeEncapSkippedControl},
		{"ICMPv6 too big", ModeInline, icmp(2), OutcomeEncapSkippedControl},
		{"ICMPv6 127", ModeInline, icmp(127), OutcomeEncapSkippedControl},
		{"echo request", ModeInline, icmp(128), OutcomeEncapInserted},
		{"echo reply", ModeInline, icmp(129), OutcomeEncapInserted},
		{"MLD query", ModeInline, icmp(130), OutcomeEncapSkippedControl},
		{"redirect", ModeInline, icmp(137), OutcomeEncapSkippedControl},
		{"ICMPv6 138", ModeInline, icmp(138), OutcomeEncapInserted},
		{"MLDv2 report", ModeInline, icmp(143), OutcomeEncapSkippedControl},
		{"ICMPv6 without type", ModeInline, func() []byte { return set(5, 4)(ipv6(NextHeaderICMPv6, nil)) }, OutcomeEncapInserted},
		{"header there, inline", ModeInline, func() []byte { return ipv6(NextHeaderHopByHop, unhex(t, "3b000502 00000000")) }, OutcomeEncapSkippedHBH},
		{"header there, encap", ModeEncap, func() []byte { return ipv6(NextHeaderHopByHop, unhex(t, "3b000502 00000000")) }, OutcomeEncapTunneled},
		{"IOAM there, inline", ModeInline, func() []byte { return set(44, 0x31)(rightPacket(t)) }, OutcomeEncapSkippedHBH},
		{"up to the MTU, inline", ModeInline, func() []byte { return ipv6(NextHeaderUDP, udp(1500-40-8-40)) }, OutcomeEncapInserted},
		{"beyond the MTU, inline", ModeInline, func() []byte { return ipv6(NextHeaderUDP, udp(1500-40-8-39)) }, OutcomeEncapSkippedMTU},
		{"up to the MTU, encap", ModeEncap, func() []byte { return ipv6(NextHeaderUDP, udp(1500-40-8-80)) }, OutcomeEncapTunneled},
		{"beyond the MTU, encap", ModeEncap, func() []byte { return ipv6(NextHeaderUDP, udp(1500-40-8-79)) }, OutcomeEncapSkippedMTU},
		{"payload length 0", ModeInline, func() []byte { return ipv6(NextHeaderNone, nil) }, OutcomeEncapSkippedMTU},
		{"malformed", ModeInline, func() []byte { return plain()[:39] }, OutcomeMalformedIPv6},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := test.packet()
			frame := egressFrame(packet)
			frame.Ingress = 0
			result := mustNode(t, encapConfig(test.mode)).Egress(frame)
			if result.Outcome != test.outcome {
				t.Errorf("%v, want %v", result.Outcome, test.outcome)
			}
			changed := test.outcome == OutcomeEncapInserted || test.outcome == OutcomeEncapTunneled
			if bytes.Equal(result.Data, packet) == changed || result.Verdict != Pass {
				t.Errorf("%v %x", result.Verdict, result.Data)
			}
		})
	}
}

func TestPayloadLengthLimit(t *testing.T) {
	config := encapConfig(ModeInline)
	config.Interfaces[1].MTU = 0 // no limit
	for _, test := range []struct {
		payload int
		outcome Outcome
	}{{0xffff - 40, OutcomeEncapInserted}, {0xffff - 39, OutcomeEncapSkippedMTU}} {
		result := mustNode(t, config).Egress(egressFrame(ipv6(NextHeaderNone, make([]byte, test.payload))))
		if result.Outcome != test.outcome {
			t.Errorf("%d: %v, want %v", test.payload, result.Outcome, test.outcome)
		}
	}
}

func TestGSO(t *testing.T) {
	fragment := unhex(t, "06000008 00000001")
	for _, test := range []struct {
		name    string
		next    NextHeader
		payload int
		size    uint32
		zero    bool // payload length 0 on arrival
		outcome Outcome
		newSize uint32
		length  int // payload length written
	}{
		{"tcp", NextHeaderTCP, 30000, 1440, false, OutcomeEncapInserted, 1400, 30040},
		{"tcp, segments as large as the MTU", NextHeaderTCP, 30000, 9000, false, OutcomeEncapInserted, 8960, 30040},
		{"tcp, small segments", NextHeaderTCP, 30000, 81, false, OutcomeEncapInserted, 41, 30040},
		{"tcp, too small segments", NextHeaderTCP, 30000, 80, false, OutcomeEncapSkippedGSO, 80, 30000},
		{"tcp, grows beyond 65535", NextHeaderTCP, 0xffff - 39, 1440, false, OutcomeEncapInserted, 1400, 0},
		{"tcp, grows to 65535", NextHeaderTCP, 0xffff - 40, 1440, false, OutcomeEncapInserted, 1400, 0xffff},
		{"big tcp", NextHeaderTCP, 100000, 1440, true, OutcomeEncapSkippedGSO, 1440, 0},
		{"udp that fits", NextHeaderUDP, 30000, 1500 - 40 - 8 - 40, false, OutcomeEncapInserted, 1412, 30040},
		{"udp that does not fit", NextHeaderUDP, 30000, 1500 - 40 - 8 - 39, false, OutcomeEncapSkippedMTU, 1413, 30000},
		{"sctp", NextHeaderSCTP, 30000, 1000, false, OutcomeEncapSkippedGSO, 1000, 30000},
		{"tcp fragment", NextHeaderFragment, 30000, 1000, false, OutcomeEncapSkippedGSO, 1000, 30000},
	} {
		t.Run(test.name, func(t *testing.T) {
			payload := make([]byte, test.payload)
			copy(payload, fragment)
			packet := ipv6(test.next, payload)
			if test.zero {
				setPayloadLength(packet, 0)
			}
			frame := egressFrame(packet)
			frame.GSOSize, frame.GSOSegments = test.size, uint32(test.payload)/test.size
			result := mustNode(t, encapConfig(ModeInline)).Egress(frame)
			length := int(binary.BigEndian.Uint16(result.Data[4:]))
			if result.Outcome != test.outcome || result.GSOSize != test.newSize || length != test.length {
				t.Errorf("%v, segments of %d, payload length %d", result.Outcome, result.GSOSize, length)
			}
		})
	}
}

func TestFrequency(t *testing.T) {
	for _, f := range []Frequency{{}, {1, 1}, {1, 3}, {2, 3}, {3, 3}, {1, 100}} {
		node := mustNode(t, encapConfig(ModeInline, func(e *Encapsulation) { e.Frequency = f }))
		multicast := withDestination(ipv6(NextHeaderUDP, udp(1)), netip.MustParseAddr("ff0e::1"))
		for i := range 300 {
			want := OutcomeEncapNotSelected
			if f.N == 0 || uint32(i)%f.N < f.K {
				want = OutcomeEncapInserted
			}
			if got := node.Egress(egressFrame(multicast)).Outcome; got != OutcomeEncapSkippedControl {
				t.Fatalf("%v: control packet: %v", f, got)
			}
			if got := node.Egress(egressFrame(ipv6(NextHeaderUDP, udp(1)))).Outcome; got != want {
				t.Fatalf("%v: packet %d: %v, want %v", f, i, got, want)
			}
		}
	}
}

func TestInsertion(t *testing.T) {
	option := func(size int) InsertedOption { return InsertedOption{Trace: &TraceOption{Size: size}} }
	for _, tt := range []struct {
		mode  Mode
		sizes []int
		want  int
	}{
		{ModeInline, []int{4}, 24},
		{ModeInline, []int{64}, 80},
		{ModeEncap, []int{64}, 120},
		{ModeAuto, []int{4, 8}, 80},
		{ModeInline, []int{244}, 264},
	} {
		e := Encapsulation{Mode: tt.mode}
		for _, s := range tt.sizes {
			e.Options = append(e.Options, option(s))
		}
		if got := e.Insertion(); got != tt.want {
			t.Errorf("mode %v, sizes %v: %d bytes, want %d", tt.mode, tt.sizes, got, tt.want)
		}
	}
}
