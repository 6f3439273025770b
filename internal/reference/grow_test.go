// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// isAnyGrowing reports whether a frame has an incremental trace that may grow.
func isAnyGrowing(config model.NodeConfig, f Frame) bool {
	p, _, ok := parse(bytes.Clone(f.Data), f.Link)
	return ok && slices.ContainsFunc(p.options, func(o ioam.Option) bool {
		if len(o.Data) < 2 || soundModuleOf(o) != (incrementalModule{}) {
			return false
		}
		trace, _ := ioam.DecodeTrace(o.Data[2:])
		return slices.ContainsFunc(config.Namespaces, func(ns model.Namespace) bool { return ns.ID == trace.Namespace && ns.Incremental })
	})
}

// checkGrown checks a packet whose incremental traces may have grown: nothing is lost, each
// trace has new data in front or none, and the headers say so.
func checkGrown(t *testing.T, f Frame, result Result) {
	t.Helper()
	was, is := mustParse(t, f.Data, f.Link), mustParse(t, result.Data, f.Link)
	more := len(is.header) - len(was.header)
	if len(result.Data)-len(f.Data) != more || more < 0 {
		t.Fatalf("the header has %d bytes more, and the frame %d", more, len(result.Data)-len(f.Data))
	}
	payload := was.payloadLength() + more
	if more > 0 && payload > 0xffff && f.GSOSize > 0 {
		payload = 0
	}
	if is.payloadLength() != payload || !bytes.Equal(is.ip[ipv6.HeaderLen+len(is.header):], was.ip[ipv6.HeaderLen+len(was.header):]) {
		t.Fatalf("payload\n%x became\n%x", f.Data, result.Data)
	}
	if len(was.options) != len(is.options) {
		t.Fatalf("%d options became %d", len(was.options), len(is.options))
	}
	for i, after := range is.options {
		before := was.options[i]
		if after.Offset%4 != 0 && before.Offset%4 == 0 {
			t.Fatalf("option %d moved to %d", i, after.Offset)
		}
		if len(before.Data) < 2 || !isIncrementalTrace(before) {
			if len(before.Data) != len(after.Data) {
				t.Fatalf("option %d grew", i)
			}
			continue
		}
		old, _ := ioam.DecodeTrace(before.Data[2:])
		now, _ := ioam.DecodeTrace(after.Data[2:])
		own := len(now.Data) - len(old.Data)
		if !bytes.HasSuffix(now.Data, old.Data) || int(old.RemainingLen)-int(now.RemainingLen) != own/4 || own > 0 && now.Flags != old.Flags {
			t.Fatalf("trace\n%x became\n%x", before.Data, after.Data)
		}
	}
}

// growingConfig lets the traces of namespaces 123 and 200 grow.
func growingConfig() model.NodeConfig {
	c := testConfig()
	c.Namespaces[0].Incremental, c.Namespaces[1].Incremental = true, true
	return c
}

func TestGrowth(t *testing.T) {
	const (
		one   = "3b020100 310e0001 007b0809 80000000 40000003 01020000"
		grown = "3b030104 00000000 31120001 007b0808 80000000 3f000002 40000003 01020000"
	)
	data := func(nodes int) string { return strings.Repeat(" 40000003", nodes) }
	for _, test := range []struct {
		name, header, want string // an empty one: as before
		change             func(*model.NodeConfig, *Frame)
		outcome            model.Outcome
	}{
		{name: "4 bytes, padding grows", header: one, want: grown, outcome: model.OutcomeTraceGrown},
		{name: "4 bytes, padding is given back", header: "3b030104 00000000 31120001 007b0808 80000000 3e000005 40000003 01020000",
			want: "3b030100 31160001 007b0807 80000000 3f000002 3e000005 40000003 01020000", outcome: model.OutcomeTraceGrown},
		{name: "8 bytes", header: "3b020100 31120001 007b1009 c0000000 40000003 00010002",
			want: "3b030100 311a0001 007b1007 c0000000 3f000002 000b000c 40000003 00010002", outcome: model.OutcomeTraceGrown},
		{name: "option before it, no padding at the beginning", header: "3b030502 00000100 310e0001 007b0809 80000000 40000003 01060000 00000000",
			want: "3b030502 00000100 310e0001 007b0c09 80000000 40000003 01060000 00000000", outcome: model.OutcomeTraceOverflow},
		{name: "another trace behind it", header: "3b040100 310e0001 007b0809 80000000 40000003 310e0000 007b0c00 80000000 00000000 01020000",
			want:    "3b050104 00000000 31120001 007b0808 80000000 3f000002 40000003 310e0000 007b0c00 80000000 00000000 01020000",
			outcome: model.OutcomeTraceGrown},
		{name: "an Authentication header behind it", header: "33" + one[2:], want: "33" + strings.Replace(one[2:], "0809", "0c09", 1), outcome: model.OutcomeTraceOverflow},
		{name: "an Authentication header behind another one", header: "2c" + one[2:] + " 33000000 00000000", want: "2c" + strings.Replace(one[2:], "0809", "0c09", 1) + " 33000000 00000000",
			outcome: model.OutcomeTraceOverflow},
		{name: "512 bytes with the header behind it", header: "3c" + one[2:] + " 3b3b" + strings.Repeat("00", 478), want: "3c" + grown[2:] + " 3b3b" + strings.Repeat("00", 478), outcome: model.OutcomeTraceGrown},
		{name: "more than 512 bytes with the header behind it", header: "3c" + one[2:] + " 3b3c" + strings.Repeat("00", 486),
			want: "3c" + strings.Replace(one[2:], "0809", "0c09", 1) + " 3b3c" + strings.Repeat("00", 486), outcome: model.OutcomeTraceOverflow},
		{name: "the header behind it is of another type", header: "2b" + one[2:] + " 3b3c" + strings.Repeat("00", 486),
			want: "2b" + grown[2:] + " 3b3c" + strings.Repeat("00", 486), outcome: model.OutcomeTraceGrown},
		{name: "the header behind it is not there", header: "3c" + one[2:], want: "3c" + grown[2:], outcome: model.OutcomeTraceGrown},
		{name: "no data yet", header: "3b010100 310a0001 007b0801 80000000", want: "3b020104 00000000 310e0001 007b0800 80000000 3f000002", outcome: model.OutcomeTraceGrown},
		{name: "no room", header: "3b020100 310e0001 007b0800 80000000 40000003 01020000",
			want: "3b020100 310e0001 007b0c00 80000000 40000003 01020000", outcome: model.OutcomeTraceOverflow},
		{name: "room for half", header: "3b020100 31120001 007b1001 c0000000 40000003 00010002",
			want: "3b020100 31120001 007b1401 c0000000 40000003 00010002", outcome: model.OutcomeTraceOverflow},
		{name: "option too long", header: "3b200100 31fe0001 007b087f 80000000" + data(61) + "01020000",
			want: "3b200100 31fe0001 007b0c7f 80000000" + data(61) + "01020000", outcome: model.OutcomeTraceOverflow},
		{name: "overflow before", header: "3b020100 310e0001 007b0c09 80000000 40000003 01020000", outcome: model.OutcomeOverflowSet},
		{name: "this node's already", header: "3b020100 310e0001 007b0809 80000000 3f000002 01020000", outcome: model.OutcomeUntouched},
		{name: "this node's, on an earlier pass", header: "3b020100 310e0001 007b0809 80000000 41000002 01020000",
			want: "3b030104 00000000 31120001 007b0808 80000000 3f000002 41000002 01020000", outcome: model.OutcomeTraceGrown},
		{name: "another namespace", header: "3b020100 310e0001 007c0809 80000000 40000003 01020000", outcome: model.OutcomeNamespaceUnknown},
		{name: "a namespace that does not allow it", header: one, outcome: model.OutcomeOptionUnsupported,
			change: func(c *model.NodeConfig, _ *Frame) { c.Namespaces[0].Incremental = false }},
		{name: "not forwarded", header: one, outcome: model.OutcomeUntouched, change: func(_ *model.NodeConfig, f *Frame) { f.Ingress = 0 }},
		{name: "link", header: one, want: "3b020100 310e0001 007b0c09 80000000 40000003 01020000", outcome: model.OutcomeTraceOverflow,
			change: func(c *model.NodeConfig, f *Frame) { c.Interfaces[1].MTU = len(f.Data) + 7 }},
		{name: "link, just", header: one, want: grown, outcome: model.OutcomeTraceGrown,
			change: func(c *model.NodeConfig, f *Frame) { c.Interfaces[1].MTU = len(f.Data) + 8 }},
		{name: "checksum complement and delay", header: "3b010100 310a0001 007b1004 09000000", want: "3b020100 31120001 007b1002 09000000 ffffffff 0000fff9", outcome: model.OutcomeTraceGrown},
		{name: "snapshot", header: "3b010100 310a0001 00c8007f 00000200",
			want: "3b030104 00000000 31160001 00c8007c 00000200 02000309 7261636b 20370000", outcome: model.OutcomeTraceGrown},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			packet[7] = 63
			config := growingConfig()
			f := Frame{Data: packet, Link: LinkNone, Interface: ifEgress, Ingress: ifIngress}
			if test.change != nil {
				test.change(&config, &f)
			}
			config.Interfaces[1].ID = 12
			config.Interfaces[0].ID = 11
			want := packet
			if test.want != "" {
				want = ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.want))
				want[7] = 63
			}
			result := mustNode(t, config).Egress(f)
			if result.Outcome != test.outcome || result.Verdict != Pass || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %v, want %v\n%x\n%x", result.Outcome, result.Verdict, test.outcome, result.Data, want)
			}
		})
	}
}

// TestGrowthOfSegments checks that what is to be cut grows as with an insertion: segments of
// TCP get smaller.
func TestGrowthOfSegments(t *testing.T) {
	tcp := append(craft.Hex(t, "06020100 310e0001 007b0809 80000000 40000003 01020000"), make([]byte, 20+3000)...)
	tcp[24+12] = 5 << 4
	for size, want := range map[uint32]string{1000: "992 trace_grown", 16: "16 trace_overflow"} {
		packet := ipv6Packet(ioam.NextHeaderHopByHop, tcp)
		result := mustNode(t, growingConfig()).Egress(Frame{Data: packet, Link: LinkNone, Interface: ifEgress, Ingress: ifIngress, GSOSize: size})
		if got := fmt.Sprint(result.GSOSize, result.Outcome); got != want {
			t.Errorf("segments of %d: %s, want %s", size, got, want)
		}
	}
}

// TestGrowthOfSegmentsInTunnels checks that TCP in a tunnel is no exception, and that all else
// in one is.
func TestGrowthOfSegmentsInTunnels(t *testing.T) {
	tcp := make([]byte, 20+3000)
	tcp[12] = 5 << 4
	segment := ipv6Packet(ioam.NextHeaderTCP, tcp)
	for _, test := range []struct {
		name  string
		inner []byte
		size  uint32
		want  string
	}{
		{"TCP", segment, 1000, "992 trace_grown"},
		{"TCP after another header", ipv6Packet(ioam.NextHeaderDestination, append(craft.Hex(t, "06000104 00000000"), tcp...)), 1000, "992 trace_grown"},
		{"TCP, small segments", segment, 16, "16 trace_overflow"},
		{"UDP", ipv6Packet(ioam.NextHeaderUDP, udp(3000)), 1000, "1000 trace_overflow"},
		{"another tunnel", ipv6Packet(ioam.NextHeaderIPv6, segment), 1000, "1000 trace_overflow"},
		{"cut", segment[:39], 1000, "1000 trace_overflow"},
	} {
		packet := ipv6Packet(
			ioam.NextHeaderHopByHop,
			append(craft.Hex(t, "29020100 310e0001 007b0809 80000000 40000003 01020000"), test.inner...),
		)
		result := mustNode(
			t,
			growingConfig(),
		).Egress(Frame{Data: packet, Link: LinkNone, Interface: ifEgress, Ingress: ifIngress, GSOSize: test.size})
		if got := fmt.Sprint(result.GSOSize, result.Outcome); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestInsertedRoom checks that an inserted trace may grow to its size, or as far as the path
// allows.
func TestInsertedRoom(t *testing.T) {
	for _, test := range []struct {
		mtu, want int // 4-byte units
	}{{1500, 9}, {40 + 24 + 100 + 12, 3}, {40 + 24 + 100 + 15, 3}, {40 + 24 + 100, 0}} {
		config := growingConfig()
		config.Interfaces[1].MTU = test.mtu
		config.Encapsulations = []model.Encapsulation{{
			Name: "grow", Interface: ifEgress, Mode: model.ModeInline,
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 40, Incremental: true}),
		}}
		packet := ipv6Packet(ioam.NextHeaderUDP, make([]byte, 100))
		result := mustNode(t, config).Egress(Frame{Data: packet, Link: LinkNone, Interface: ifEgress})
		if result.Outcome != model.OutcomeEncapInserted {
			t.Fatalf("MTU %d: %v", test.mtu, result.Outcome)
		}
		p := mustParse(t, result.Data, LinkNone)
		trace, _ := ioam.DecodeTrace(p.options[0].Data[2:])
		if int(trace.RemainingLen) != test.want || len(trace.Data) != 4 {
			t.Errorf("MTU %d: RemainingLen %d with %d bytes of data, want %d", test.mtu, trace.RemainingLen, len(trace.Data), test.want)
		}
	}
}

// TestReceive checks the data of a node that removes the header, which are only in its
// record.
func TestReceive(t *testing.T) {
	node := mustNode(t, growingConfig())
	for _, test := range []struct{ name, header, want string }{
		{"room", "007b0803 80000000 40000003", "007b0802 80000000 3f000002 40000003"},
		{"none", "007b0800 80000000 40000003", "007b0c00 80000000 40000003"},
		{"overflow before", "007b0c03 80000000 40000003", "007b0c03 80000000 40000003"},
		{"a namespace that does not allow it", "012c0803 80000000 40000003", "012c0803 80000000 40000003"},
		{"an unknown namespace", "00070803 80000000 40000003", "00070803 80000000 40000003"},
		{"interfaces, time and delay", "007b2808 f8000000", "007b2803 f8000000 3f000002 00c9ffff 00000000 00000000 ffffffff"},
	} {
		trace, err := ioam.DecodeTrace(craft.Hex(t, test.header))
		if err != nil {
			t.Fatal(err)
		}
		trace.Incremental = true
		node.Receive(&trace, ifIngress, 64, node.TAIOffset)
		if got := trace.Append(nil); !bytes.Equal(got, craft.Hex(t, test.want)) {
			t.Errorf("%s: %x, want %s", test.name, got, test.want)
		}
	}
}

// TestGrownQuote checks that a quoted packet is known again after it has grown.
func TestGrownQuote(t *testing.T) {
	for _, kind := range []ioam.TraceType{0x800000, 0xc00000} {
		config := encapConfig(model.ModeEncap, func(e *model.Encapsulation) {
			e.Options = model.Traces(
				model.TraceOption{Namespace: 123, Type: kind, Size: 80, Incremental: true},
				model.TraceOption{Namespace: 123, Type: 0x800000, Size: 8},
			)
		})
		config.Namespaces[0].Incremental = true
		f := egressFrame(ipv6Packet(ioam.NextHeaderUDP, udp(10)))
		result := mustNode(t, config).Egress(f)
		for range 4 {
			p := mustParse(t, result.Data, LinkNone)
			if !inserts(&config.Encapsulations[0], p) {
				t.Fatalf("%v: not known: %x", kind, p.header)
			}
			f.Data, f.Ingress = result.Data, ifIngress
			f.Data[7]--
			grows := growingConfig()
			grows.ID = 3
			if result = mustNode(t, grows).Egress(f); result.Outcome != model.OutcomeTraceGrown {
				t.Fatal(result.Outcome)
			}
		}
		for _, change := range []func(p packet){
			func(p packet) { p.options[0].Data[1] = 0 },
			func(p packet) { p.options[0].Data[3]++ },
			func(p packet) { p.options[1].Data[3]++ },
			func(p packet) { p.options[0].Data[5] = 0x7f },
		} {
			p := mustParse(t, bytes.Clone(result.Data), LinkNone)
			if change(p); inserts(&config.Encapsulations[0], p) {
				t.Errorf("%v: known: %x", kind, p.header)
			}
		}
	}
}
