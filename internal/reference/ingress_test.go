// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// rightHeader is a Hop-by-Hop header with one trace: namespace 123, node and
// interface ids, room for two nodes. Offsets of its fields are from the IPv6
// header: option type 44, length 45, reserved 46, option-type 47, namespace 48,
// NodeLen, flags and RemainingLen 50, trace type 52, data 56, PadN 72.
const rightHeader = "3b030100 311a0000 007b1004 c0000000 00000000 00000000 00000000 00000000"

// filledHeader is rightHeader after this node's ingress.
const filledHeader = "3b030100 311a0000 007b1002 c0000000 00000000 00000000 3f000002 00c9ffff"

func rightPacket(t testing.TB) []byte {
	return ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, rightHeader))
}

// unchangedBytes wants a packet to go on unchanged.
var unchangedBytes = func(_ testing.TB, in []byte) []byte { return in }

// headerBytes wants the Hop-by-Hop header to be replaced.
func headerBytes(hex string) func(testing.TB, []byte) []byte {
	return func(t testing.TB, in []byte) []byte {
		header := craft.Hex(t, hex)
		return slices.Concat(in[:40], header, in[40+len(header):])
	}
}

// shortened wants the Hop-by-Hop header to be replaced by a shorter one.
func shortened(hex string) func(testing.TB, []byte) []byte {
	return func(t testing.TB, in []byte) []byte {
		header, length := craft.Hex(t, hex), (int(in[41])+1)*8
		out := slices.Concat(in[:40], header, in[40+length:])
		binary.BigEndian.PutUint16(out[4:], binary.BigEndian.Uint16(in[4:])-uint16(length-len(header)))
		return out
	}
}

// withoutHeader wants the Hop-by-Hop header to be removed.
func withoutHeader(_ testing.TB, in []byte) []byte {
	length := (int(in[41]) + 1) * 8
	out := slices.Concat(in[:40], in[40+length:])
	out[6] = in[40]
	binary.BigEndian.PutUint16(out[4:], binary.BigEndian.Uint16(in[4:])-uint16(length))
	return out
}

// replaceHeader gives a packet another Hop-by-Hop header.
func replaceHeader(t testing.TB, packet []byte, hex string) []byte {
	old := (int(packet[41]) + 1) * 8
	return ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, hex), packet[40+old:]...))
}

// inner is a plain packet inside a tunnel, not ECN-capable.
func inner() []byte { return ipv6Packet(ioam.NextHeaderNone, []byte{1, 2, 3, 4}) }

// tunnelPacket is rightPacket around inner, to this node's end of the tunnel.
func tunnelPacket(t testing.TB) []byte {
	packet := ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, rightHeader), inner()...))
	packet[40] = byte(ioam.NextHeaderIPv6)
	return withDestination(packet, tunnelDestination)
}

type packetCase struct {
	name    string
	mutate  func(packet []byte) []byte
	outcome model.Outcome
	want    func(t testing.TB, in []byte) []byte
	record  bool
	kernel  bool // dropped with compatibility mainline
	unknown bool // with compatibility mainline, an option-type that is not processed
}

var ingressCases = []packetCase{
	{name: "right", outcome: model.OutcomeTraceFilled, want: headerBytes(filledHeader)},

	// Parsing.
	{name: "version 4", mutate: set(0, 0x45), outcome: model.OutcomeNotIPv6, want: unchangedBytes},
	{name: "empty", mutate: func([]byte) []byte { return nil }, outcome: model.OutcomeNotIPv6, want: unchangedBytes},
	{name: "39 bytes", mutate: cut(39), outcome: model.OutcomeMalformedIPv6, want: unchangedBytes},
	{name: "no length octet", mutate: cut(41), outcome: model.OutcomeMalformedHeader, want: unchangedBytes},
	{name: "header beyond the frame", mutate: set(41, 4), outcome: model.OutcomeMalformedHeader, want: unchangedBytes},
	{name: "header beyond the payload", mutate: set(5, 31), outcome: model.OutcomeMalformedHeader, want: unchangedBytes},
	{name: "jumbogram", mutate: set(5, 0), outcome: model.OutcomeTraceFilled, want: headerBytes(filledHeader)},
	{name: "option beyond the header", mutate: set(45, 27), outcome: model.OutcomeMalformedHeader, want: unchangedBytes},
	{name: "option without length", mutate: header("3b000102 00000005"), outcome: model.OutcomeMalformedHeader, want: unchangedBytes},
	{name: "last option of 32 malformed", mutate: manyPads(31, "05"), outcome: model.OutcomeMalformedHeader, want: unchangedBytes},
	{name: "33rd option malformed", mutate: manyPads(32, "05"), outcome: model.OutcomeMalformedTooManyOptions, want: unchangedBytes},
	{name: "32 options", mutate: manyPads(32, ""), outcome: model.OutcomeNoIOAM, want: unchangedBytes},
	{name: "9 IOAM options", mutate: manyIOAM(9), outcome: model.OutcomeOptionUnsupported, want: unchangedBytes},
	{name: "10 IOAM options", mutate: manyIOAM(10), outcome: model.OutcomeMalformedTooManyOptions, want: unchangedBytes},
	{name: "no header", mutate: set(6, 59), outcome: model.OutcomeNoIOAM, want: unchangedBytes},
	{name: "another option", mutate: set(44, 0x1e), outcome: model.OutcomeNoIOAM, want: unchangedBytes},

	// Type 0x11.
	{name: "0x11 with a trace", mutate: set(44, 0x11), outcome: model.OutcomeNoIOAM, want: unchangedBytes},
	{name: "0x11 E2E", mutate: header("3b010100 11060003 00010000 01020000"), outcome: model.OutcomeOptionUnsupported, want: unchangedBytes},
	{name: "0x11 E2E too short", mutate: header("3b010100 11050003 00010001 01020000"), outcome: model.OutcomeNoIOAM, want: unchangedBytes},
	{name: "0x11 E2E reserved not 0", mutate: header("3b010100 11060103 00010000 01020000"), outcome: model.OutcomeNoIOAM, want: unchangedBytes},
	{name: "0x11 E2E not aligned", mutate: header("3b010000 00110600 03000100 00010100"), outcome: model.OutcomeNoIOAM, want: unchangedBytes},
	{name: "0x11 DEX", mutate: header("3b010100 110a0004 00010000 80000000"), outcome: model.OutcomeNamespaceUnknown, want: unchangedBytes},
	{name: "0x11 DEX too short", mutate: header("3b010100 11090004 00010000 80000000"), outcome: model.OutcomeNoIOAM, want: unchangedBytes},

	// Validation.
	{name: "not aligned", mutate: header("3b020000 00310e00 00007b08 01800000 00000000 00010100"),
		outcome: model.OutcomeMalformedAlignment, want: unchangedBytes, kernel: true},
	{name: "length 1", mutate: header("3b000100 31010000"), outcome: model.OutcomeMalformedOptionLength, want: unchangedBytes, kernel: true},
	{name: "length 9", mutate: header("3b010100 31090000 007b0800 80000000"),
		outcome: model.OutcomeMalformedOptionLength, want: unchangedBytes, kernel: true},
	{name: "RemainingLen 5", mutate: set(51, 5), outcome: model.OutcomeMalformedRemainingLength, want: unchangedBytes, kernel: true},
	{name: "RemainingLen 5 and NodeLen 3", mutate: then(set(51, 5), set(50, 0x18)),
		outcome: model.OutcomeMalformedRemainingLength, want: unchangedBytes, kernel: true},
	{name: "NodeLen 3", mutate: set(50, 0x18), outcome: model.OutcomeMalformedNodeLength, want: unchangedBytes, kernel: true},
	{name: "second option malformed", mutate: header("3b040100 310e0000 007b0801 80000000 00000000 310e0000 007b1001 80000000 00000000 01020000"),
		outcome: model.OutcomeMalformedNodeLength, want: unchangedBytes, kernel: true},

	{name: "incremental, within a node's data", mutate: header("3b020100 310e0001 007b1002 c0000000 40000009 01020000"), outcome: model.OutcomeMalformedNodeData, want: unchangedBytes, unknown: true},
	{name: "incremental, within 4 bytes", mutate: header("3b020100 310c0001 007b0802 80000000 4000 0104 00000000"), outcome: model.OutcomeMalformedNodeData, want: unchangedBytes, unknown: true},
	{name: "incremental, within a snapshot", mutate: header("3b030100 31160001 007b0802 80000200 40000009 02000309 7261636b 01020000"), outcome: model.OutcomeMalformedNodeData, want: unchangedBytes, unknown: true},
	{name: "incremental with a snapshot", mutate: header("3b030100 31160001 007b0802 80000200 40000009 01000309 7261636b 01020000"), outcome: model.OutcomeOptionUnsupported, want: unchangedBytes},

	// Transit.
	{name: "incremental", mutate: set(47, 1), outcome: model.OutcomeOptionUnsupported, want: unchangedBytes},
	{name: "DEX of the namespace", mutate: header("3b010100 110a0004 007b0000 80000000"), outcome: model.OutcomeDirectExport, want: unchangedBytes},
	{name: "DEX with both fields", mutate: header("3b020100 11120004 007b00c0 80000000 00000000 00000000"), outcome: model.OutcomeDirectExport, want: unchangedBytes},
	{name: "DEX, second field missing", mutate: header("3b020100 110e0004 007b00c0 80000000 00000000 01020000"), outcome: model.OutcomeMalformedOptionLength, want: unchangedBytes, unknown: true},
	{name: "DEX, unknown field missing", mutate: header("3b010100 110a0004 007b0001 80000000"), outcome: model.OutcomeMalformedOptionLength, want: unchangedBytes, unknown: true},
	{name: "DEX in 0x31, cut", mutate: header("3b010100 31080004 007b0000 80000100"), outcome: model.OutcomeMalformedOptionLength, want: unchangedBytes, unknown: true},
	{name: "DEX in 0x31 of two bytes", mutate: header("3b000100 31020004"), outcome: model.OutcomeMalformedOptionLength, want: unchangedBytes, unknown: true},
	{name: "DEX in 0x31, not aligned", mutate: header("3b020000 00310a00 04007b00 00800000 00010300 00000100"), outcome: model.OutcomeMalformedAlignment, want: unchangedBytes, kernel: true},
	{name: "option without data at the end, not aligned", mutate: header("3b000102 00003100"), outcome: model.OutcomeMalformedAlignment, want: unchangedBytes, kernel: true},
	{name: "DEX of a removed namespace", mutate: header("3b010100 110a0004 012c0000 80000000"), outcome: model.OutcomeInlineRemoved, want: withoutHeader},
	{name: "DEX removed with a trace kept", mutate: header("3b040100 110a0004 012c0000 80000000 310e0000 007b0801 80000000 00000000 01020000 00000000"), outcome: model.OutcomeOptionsRemoved,
		want: shortened("3b020104 00000000 310e0000 007b0800 80000000 3f000002")},
	{name: "DEX and a trace", mutate: header("3b030100 110a0004 007b0000 80000000 310e0000 007b0801 80000000 00000000"), outcome: model.OutcomeTraceFilled,
		want: headerBytes("3b030100 110a0004 007b0000 80000000 310e0000 007b0800 80000000 3f000002")},
	{name: "DEX in 0x31", mutate: set(47, 4), outcome: model.OutcomeDirectExport, want: unchangedBytes},
	{name: "namespace 124", mutate: set(49, 124), outcome: model.OutcomeNamespaceUnknown, want: unchangedBytes},
	{name: "overflow set", mutate: set(50, 0x14), outcome: model.OutcomeOverflowSet, want: unchangedBytes},
	{name: "RemainingLen 1", mutate: set(51, 1), outcome: model.OutcomeTraceOverflow, want: with(set(50, 0x14))},
	{name: "RemainingLen 0", mutate: set(51, 0), outcome: model.OutcomeTraceOverflow, want: with(set(50, 0x14))},
	{name: "trace type 0, RemainingLen 4", mutate: then(set(50, 0), set(52, 0)), outcome: model.OutcomeTraceFilled, want: unchangedBytes},
	{name: "trace type 0, RemainingLen 0", mutate: then(set(50, 0), set(51, 0), set(52, 0)), outcome: model.OutcomeTraceOverflow, want: with(set(50, 0x04))},
	{name: "reserved bit 23", mutate: set(54, 1), outcome: model.OutcomeTraceFilled, want: then2(headerBytes(filledHeader), set(54, 1))},
	{name: "reserved octets", mutate: then(set(46, 7), set(55, 7)), outcome: model.OutcomeTraceFilled,
		want: then2(headerBytes(filledHeader), then(set(46, 7), set(55, 7)))},
	{name: "hop limit 0", mutate: set(7, 0), outcome: model.OutcomeTraceFilled, want: then2(headerBytes(filledHeader), set(64, 0xff))},
	{name: "undefined bits", mutate: header("3b030100 31160000 007b1803 80080400 00000000 00000000 00000000 01020000"),
		outcome: model.OutcomeTraceFilled, want: headerBytes("3b030100 31160000 007b1800 80080400 3f000002 ffffffff ffffffff 01020000")},
	{name: "snapshot without schema", mutate: header("3b020100 31120000 007b0802 80000200 00000000 00000000"),
		outcome: model.OutcomeTraceFilled, want: headerBytes("3b020100 31120000 007b0800 80000200 3f000002 00ffffff")},
	{name: "snapshot", mutate: header("3b030100 311a0000 00c80804 80000200 00000000 00000000 00000000 00000000"),
		outcome: model.OutcomeTraceFilled, want: headerBytes("3b030100 311a0000 00c80800 80000200 3f000002 02000309 7261636b 20370000")},
	{name: "snapshot without room", mutate: header("3b030100 311a0000 00c80803 80000200 00000000 00000000 00000000 00000000"),
		outcome: model.OutcomeTraceOverflow, want: headerBytes("3b030100 311a0000 00c80c03 80000200 00000000 00000000 00000000 00000000")},
	{name: "two options", mutate: header("3b040100 310e0000 007b0801 80000000 00000000 310e0000 00070801 80000000 00000000 01020000"),
		outcome: model.OutcomeTraceFilled, want: headerBytes("3b040100 310e0000 007b0800 80000000 3f000002 310e0000 00070801 80000000 00000000 01020000")},
	{name: "filled and overflowed", mutate: header("3b040100 310e0000 007b0801 80000000 00000000 310e0000 007b0800 80000000 00000000 01020000"),
		outcome: model.OutcomeTraceOverflow, want: headerBytes("3b040100 310e0000 007b0800 80000000 3f000002 310e0000 007b0c00 80000000 00000000 01020000")},

	// Removal.
	{name: "inline removal", mutate: then(set(48, 1), set(49, 0x2c)), outcome: model.OutcomeInlineRemoved, want: withoutHeader, record: true},
	{name: "inline removal of overflow", mutate: then(set(48, 1), set(49, 0x2c), set(51, 0)), outcome: model.OutcomeInlineRemoved, want: withoutHeader, record: true},
	{name: "inline removal, other namespace", mutate: header("3b040100 310e0000 012c0801 80000000 00000000 310e0000 007b0801 80000000 00000000 01020000"),
		outcome: model.OutcomeOptionsRemoved, want: shortened("3b020100 310e0000 007b0800 80000000 3f000002 01020000"), record: true},
	{name: "inline removal, router alert", mutate: header("3b030100 310e0000 012c0801 80000000 00000000 05020000 01040000 00000000"),
		outcome: model.OutcomeOptionsRemoved, want: shortened("3b000100 05020000"), record: true},
	{name: "inline removal, followed", mutate: func(p []byte) []byte {
		p[40], p[48], p[49] = 0, 1, 0x2c
		return ipv6Packet(ioam.NextHeaderHopByHop, append(p[40:], craft.Hex(panicTB{}, rightHeader)...))
	}, outcome: model.OutcomeRemovalPartial, want: then2(headerBytes(filledHeader), then(set(40, 0), set(48, 1), set(49, 0x2c)))},
	{name: "tunnel not ours", mutate: func(p []byte) []byte { p[40] = 41; return append(p, inner()...) },
		outcome: model.OutcomeTraceFilled, want: then2(headerBytes(filledHeader), set(40, 41))},
}

// set changes the byte at an offset.
func set(at int, value byte) func([]byte) []byte {
	return func(p []byte) []byte { p[at] = value; return p }
}

func cut(length int) func([]byte) []byte {
	return func(p []byte) []byte { return p[:length] }
}

func then(steps ...func([]byte) []byte) func([]byte) []byte {
	return func(p []byte) []byte {
		for _, step := range steps {
			p = step(p)
		}
		return p
	}
}

// with changes the packet that arrived.
func with(step func([]byte) []byte) func(testing.TB, []byte) []byte {
	return func(_ testing.TB, in []byte) []byte { return step(bytes.Clone(in)) }
}

func then2(want func(testing.TB, []byte) []byte, step func([]byte) []byte) func(testing.TB, []byte) []byte {
	return func(t testing.TB, in []byte) []byte { return step(bytes.Clone(want(t, in))) }
}

func header(hex string) func([]byte) []byte {
	return func(p []byte) []byte { return replaceHeader(panicTB{}, p, hex) }
}

// panicTB is for tables: a wrong constant fails the whole test binary.
type panicTB struct{ testing.TB }

func (panicTB) Helper()           {}
func (panicTB) Fatal(args ...any) { panic(args) }

// manyPads is a header of Pad1 options, followed by more options, given in
// hexadecimal, at its very end.
func manyPads(count int, tail string) func([]byte) []byte {
	return func([]byte) []byte {
		last := craft.Hex(panicTB{}, tail)
		// Long options come first, so that the header's length is right.
		options := make([]byte, 0, 64)
		short := count
		total := 2 + count + len(last)
		for total%8 != 0 {
			options = append(options, 1, 0) // PadN of 2 instead of Pad1
			short--
			total++
		}
		options = append(options, make([]byte, short)...)
		options = append(options, last...)
		return ipv6Packet(ioam.NextHeaderHopByHop, append([]byte{59, byte(total/8 - 1)}, options...))
	}
}

// manyIOAM is a header of options of an option-type that no node knows.
func manyIOAM(count int) func([]byte) []byte {
	return func([]byte) []byte {
		options := make([]ioam.Option, count)
		for i := range options {
			options[i] = ioam.Option{Type: ioam.OptionIOAM, Data: []byte{0, 9}}
		}
		header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderNone, options...)
		if err != nil {
			panic(err)
		}
		return ipv6Packet(ioam.NextHeaderHopByHop, header)
	}
}

func TestIngressMutations(t *testing.T) {
	links := map[string]func([]byte) []byte{
		"no link layer": nil,
		"ethernet":      func(p []byte) []byte { return ethernet(p) },
		"one tag":       func(p []byte) []byte { return ethernet(p, etherTypeVLAN) },
		"two tags":      func(p []byte) []byte { return ethernet(p, etherTypeQinQ, etherTypeVLAN) },
	}
	for _, test := range ingressCases {
		for name, link := range links {
			t.Run(test.name+"/"+name, func(t *testing.T) { testIngressCase(t, test, link) })
		}
	}
}

func testIngressCase(t *testing.T, test packetCase, link func([]byte) []byte) {
	packet := rightPacket(t)
	if test.mutate != nil {
		packet = test.mutate(packet)
	}
	frame := Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime}
	want, outcome := test.want(t, packet), test.outcome
	if link != nil {
		frame.Data, frame.Link, want = link(packet), LinkEthernet, link(want)
		if outcome == model.OutcomeNotIPv6 { // the EtherType says that it is IPv6
			outcome = model.OutcomeMalformedIPv6
		}
	}
	arrived := bytes.Clone(frame.Data)
	for _, config := range []model.NodeConfig{testConfig(), mainlineConfig()} {
		result := mustNode(t, config).Ingress(frame)
		verdict := Pass
		outcome := outcome
		if test.kernel && config.Compatibility == model.CompatibilityMainline {
			verdict = Drop
		}
		if test.unknown && config.Compatibility == model.CompatibilityMainline {
			outcome = model.OutcomeOptionUnsupported
		}
		if result.Outcome != outcome || result.Verdict != verdict {
			t.Errorf("%v: %v %v, want %v %v", config.Compatibility, result.Outcome, result.Verdict, outcome, verdict)
		}
		if !bytes.Equal(result.Data, want) {
			t.Errorf("%v: went on as\n%x, want\n%x", config.Compatibility, result.Data, want)
		}
		if (result.Record != nil) != test.record {
			t.Errorf("%v: record %v", config.Compatibility, result.Record)
		}
		if !bytes.Equal(frame.Data, arrived) {
			t.Fatal("the node changed its input")
		}
	}
}

func TestNotIPv6OverEthernet(t *testing.T) {
	for name, frame := range map[string][]byte{
		"third tag":     ethernet(rightPacket(t), etherTypeQinQ, etherTypeVLAN, etherTypeVLAN),
		"13 bytes":      ethernet(rightPacket(t))[:13],
		"17 bytes":      ethernet(rightPacket(t), etherTypeVLAN)[:17],
		"21 bytes":      ethernet(rightPacket(t), etherTypeVLAN, etherTypeVLAN)[:21],
		"another":       set(13, 0)(ethernet(rightPacket(t))),
		"tagged other":  set(17, 0)(ethernet(rightPacket(t), etherTypeVLAN)),
		"tagged other2": set(21, 0)(ethernet(rightPacket(t), etherTypeVLAN, etherTypeVLAN)),
	} {
		result := mustNode(t, testConfig()).Ingress(Frame{Data: frame, Interface: ifIngress})
		if result.Outcome != model.OutcomeNotIPv6 || !bytes.Equal(result.Data, frame) {
			t.Errorf("%s: %v", name, result.Outcome)
		}
	}
}

func TestIngressBoundary(t *testing.T) {
	foreign := replaceHeader(t, rightPacket(t), "3b030100 310e0000 007b0801 80000000 00000000 05020000 01040000 00000000")
	for _, test := range []struct {
		name    string
		policy  model.Boundary
		packet  []byte
		outcome model.Outcome
		verdict Verdict
		want    func(testing.TB, []byte) []byte
	}{
		{"drop", model.BoundaryDrop, rightPacket(t), model.OutcomeBoundaryDropped, Drop, unchangedBytes},
		{"ignore", model.BoundaryIgnore, rightPacket(t), model.OutcomeBoundaryIgnored, Pass, unchangedBytes},
		{"strip", model.BoundaryStrip, rightPacket(t), model.OutcomeBoundaryStripped, Pass, withoutHeader},
		{"strip shared", model.BoundaryStrip, foreign, model.OutcomeBoundaryStripped, Pass, func(t testing.TB, p []byte) []byte {
			return replaceHeader(t, p, "3b000100 05020000")
		}},
		{"strip shared, not aligned", model.BoundaryStrip, replaceHeader(t, rightPacket(t), "3b030000 00310e00 00007b08 01800000 00000000 00010100 1e020000 01020000"),
			model.OutcomeBoundaryStripped, Pass, func(t testing.TB, p []byte) []byte { return replaceHeader(t, p, "3b010104 00000000 1e020000 01020000") }},
		{"strip shared, too long", model.BoundaryStrip, replaceHeader(t, rightPacket(t), "3b400100 310e0000 007b0801 80000000 00000000 1ef9"+strings.Repeat("00", 249)+"1ef1"+strings.Repeat("00", 241)+"0104 00000000"),
			model.OutcomeBoundaryStripPartial, Pass, unchangedBytes},
		{"strip shared, jumbogram", model.BoundaryStrip, set(5, 0)(replaceHeader(t, rightPacket(t), "3b030100 310e0000 007b0801 80000000 00000000 c2040001 00010100 00000000")),
			model.OutcomeBoundaryStripPartial, Pass, unchangedBytes},
		{"strip malformed", model.BoundaryStrip, set(50, 0x18)(rightPacket(t)), model.OutcomeBoundaryStripped, Pass, withoutHeader},
		{"no IOAM", model.BoundaryDrop, inner(), model.OutcomeNoIOAM, Pass, unchangedBytes},
		{"tunnel elsewhere", model.BoundaryDrop, ipv6Packet(ioam.NextHeaderIPv6, inner()), model.OutcomeNoIOAM, Pass, unchangedBytes},
		{"drop too many", model.BoundaryDrop, manyIOAM(10)(nil), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"drop too many, no IOAM", model.BoundaryDrop, manyPads(33, "")(nil), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"drop beyond the frame", model.BoundaryDrop, cut(41)(rightPacket(t)), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"drop beyond the payload", model.BoundaryDrop, set(5, 31)(rightPacket(t)), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"drop option beyond", model.BoundaryDrop, set(45, 27)(rightPacket(t)), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"drop second header", model.BoundaryDrop, followed(t, "00000104 00000000"), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"drop both headers", model.BoundaryDrop, followed(t, "00"+rightHeader[2:]), model.OutcomeBoundaryDropped, Drop, unchangedBytes},
		{"drop other option", model.BoundaryDrop, replaceHeader(t, rightPacket(t), "3b001e04 00000000"), model.OutcomeNoIOAM, Pass, unchangedBytes},
		{"drop 39 bytes", model.BoundaryDrop, cut(39)(rightPacket(t)), model.OutcomeMalformedIPv6, Pass, unchangedBytes},
		{"drop 0x11 of others", model.BoundaryDrop, replaceHeader(t, rightPacket(t), "3b010100 110a0104 00010000 80000000"), model.OutcomeNoIOAM, Pass, unchangedBytes},
		{"drop not aligned", model.BoundaryDrop, replaceHeader(t, rightPacket(t), "3b020000 00310e00 00007b08 01800000 00000000 00010100"), model.OutcomeBoundaryDropped, Drop, unchangedBytes},
		{"strip too many", model.BoundaryStrip, manyIOAM(10)(nil), model.OutcomeMalformedTooManyOptions, Pass, unchangedBytes},
		{"strip option beyond", model.BoundaryStrip, set(45, 27)(rightPacket(t)), model.OutcomeMalformedHeader, Pass, unchangedBytes},
		{"strip both headers", model.BoundaryStrip, followed(t, "00"+rightHeader[2:]), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"strip shared, followed", model.BoundaryStrip, followed(t, "00030100 310e0000 007b0801 80000000 00000000 05020000 01040000 00000000"), model.OutcomeBoundaryUnprovenDropped, Drop, unchangedBytes},
		{"strip second header", model.BoundaryStrip, followed(t, "00000104 00000000"), model.OutcomeNoIOAM, Pass, unchangedBytes},
		{"ignore too many", model.BoundaryIgnore, manyIOAM(10)(nil), model.OutcomeMalformedTooManyOptions, Pass, unchangedBytes},
		{"ignore both headers", model.BoundaryIgnore, followed(t, "00"+rightHeader[2:]), model.OutcomeBoundaryIgnored, Pass, unchangedBytes},
	} {
		for _, egress := range []bool{false, true} {
			config := testConfig()
			config.Interfaces[2].Boundary = test.policy
			node := mustNode(t, config)
			frame := Frame{Data: test.packet, Link: LinkNone, Interface: ifEdge, Ingress: ifIngress}
			result := node.Ingress(frame)
			if egress {
				result = node.Egress(frame)
			}
			want := test.want(t, test.packet)
			if result.Outcome != test.outcome || result.Verdict != test.verdict || result.Record != nil || !bytes.Equal(result.Data, want) {
				t.Errorf("%s, egress %v: %v %v\n%x, want\n%x", test.name, egress, result.Outcome, result.Verdict, result.Data, want)
			}
		}
	}
}

// followed is a packet with two Hop-by-Hop headers, the second with a trace.
func followed(t testing.TB, first string) []byte {
	return ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, first), craft.Hex(t, rightHeader)...))
}

func TestDecapsulation(t *testing.T) {
	const notECT, ect0, ce = 0x00, 0x20, 0x30
	for _, test := range []struct {
		name          string
		packet        []byte
		outer, inside byte // second octet, for the ECN bits
		wantInside    byte
		header        string // recorded
	}{
		{"with trace", tunnelPacket(t), notECT, notECT, notECT, "29" + filledHeader[2:]},
		{"overflow", set(51, 1)(tunnelPacket(t)), notECT, notECT, notECT, "29030100 311a0000 007b1401" + rightHeader[26:]},
		{"CE on ECT", tunnelPacket(t), ce, ect0, ce, "29" + filledHeader[2:]},
		{"CE on Not-ECT", tunnelPacket(t), ce, notECT, notECT, "29" + filledHeader[2:]},
		{"ECT on ECT", tunnelPacket(t), ect0, ect0, ect0, "29" + filledHeader[2:]},
		{"no header", withDestination(ipv6Packet(ioam.NextHeaderIPv6, inner()), tunnelDestination), notECT, notECT, notECT, ""},
		{"header without IOAM", set(44, 0x1e)(tunnelPacket(t)), notECT, notECT, notECT, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			innerAt := len(test.packet) - len(inner())
			test.packet[1] |= test.outer
			test.packet[innerAt+1] |= test.inside
			want := inner()
			want[1] |= test.wantInside
			config := testConfig()
			config.Decapsulations[0].Bare = test.header == ""
			result := mustNode(t, config).Ingress(Frame{Data: ethernet(test.packet), Interface: ifIngress, Time: testTime})
			if result.Outcome != model.OutcomeTunnelDecapsulated || result.Verdict != Pass {
				t.Fatalf("%v %v", result.Outcome, result.Verdict)
			}
			if !bytes.Equal(result.Data, ethernet(want)) {
				t.Errorf("went on as\n%x, want\n%x", result.Data, ethernet(want))
			}
			if (result.Record != nil) != (test.header != "") {
				t.Fatalf("record %v", result.Record)
			}
			if r := result.Record; r != nil {
				if r.Time != testTime || r.Interface != ifIngress || r.Outcome != model.OutcomeTunnelDecapsulated ||
					r.Length != len(want) || !bytes.Equal(r.Packet, want) || !bytes.Equal(r.Header, craft.Hex(t, test.header)) {
					t.Errorf("record %+v, header\n%x, want\n%s", r, r.Header, test.header)
				}
			}
		})
	}
}

// The hop limit of a packet that leaves a tunnel is what it would be without the
// tunnel.
func TestHopLimitOfTunnels(t *testing.T) {
	for _, test := range []struct{ outer, inner, want byte }{{64, 64, 64}, {61, 64, 61}, {64, 3, 3}, {1, 255, 1}, {0, 1, 0}} {
		packet := tunnelPacket(t)
		at := len(packet) - len(inner())
		packet[7], packet[at+7] = test.outer, test.inner
		result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
		want := inner()
		want[7] = test.want
		if result.Outcome != model.OutcomeTunnelDecapsulated || !bytes.Equal(result.Data, want) {
			t.Errorf("%d in %d: %v, %x; want hop limit %d", test.inner, test.outer, result.Outcome, result.Data, test.want)
		}
	}
}

func TestNotDecapsulated(t *testing.T) {
	for name, packet := range map[string][]byte{
		"another destination": withDestination(tunnelPacket(t), netip.MustParseAddr("2001:db8:f::3")),
		"not IPv6 inside":     set(40, 17)(tunnelPacket(t)),
		"version 4 inside":    set(72, 0x45)(tunnelPacket(t)),
		"39 bytes inside":     tunnelPacket(t)[:72+39],
	} {
		result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
		if result.Outcome != model.OutcomeTraceFilled || len(result.Data) != len(packet) || result.Record != nil {
			t.Errorf("%s: %v", name, result.Outcome)
		}
	}
}

func TestRecordIsBounded(t *testing.T) {
	packet := ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, rightHeader), make([]byte, 1000)...))
	copy(packet[48:], []byte{1, 0x2c})
	result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress})
	if r := result.Record; r == nil || r.Length != 1040 || len(r.Packet) != RecordPacketSize || !bytes.Equal(r.Packet, result.Data[:80]) {
		t.Errorf("record %+v", r)
	}
}

func TestRemovalOfJumbo(t *testing.T) {
	for _, test := range []struct{ rest, want int }{{100, 100}, {0xffff, 0xffff}, {0x10000, 0}} {
		packet := ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, rightHeader), make([]byte, test.rest)...))
		copy(packet[48:], []byte{1, 0x2c})
		setPayloadLength(packet, 0)
		result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress})
		if got := int(binary.BigEndian.Uint16(result.Data[4:])); result.Outcome != model.OutcomeInlineRemoved || got != test.want {
			t.Errorf("%d bytes: %v, payload length %d, want %d", test.rest, result.Outcome, got, test.want)
		}
	}
}
