// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestMerge inserts a trace of 16 bytes, or two of them, into headers that are there.
func TestMerge(t *testing.T) {
	const trace = "310e0000 007b0800 80000000 40000002"
	for _, test := range []struct {
		name           string
		traces         int
		header, merged string
		outcome        model.Outcome
	}{
		{"an option at once", 1, "3b00 1e04 00000000", "3b03 0100" + trace + "0104 00000000" + "1e04 00000000", 0},
		{"after a PadN of 2", 1, "3b00 0100 1e02 0000", "3b02 0100" + trace + "1e02 0000", 0},
		{"after a Pad1", 1, "3b00 00 1e 03 000000", "3b03 0100" + trace + "0105 0000000000" + "1e 03 000000", 0},
		{"after a PadN of 6, aligned to 8n", 1, "3b01 0104 00000000 1e06 000000000000", "3b03 0100" + trace + "0102 0000" + "1e06 000000000000", 0},
		{"after seven octets", 1, "3b01 0105 0000000000 1e05 0000000000", "3b03 0100" + trace + "0103 000000" + "1e05 0000000000", 0},
		{"after eight octets", 1, "3b01 0106 000000000000 1e04 00000000", "", model.OutcomeEncapSkippedOptions},
		{"padding alone", 1, "3b00 0104 00000000", "3b02 0100" + trace + "0102 0000", 0},
		{"padding behind stays", 1, "3b01 1e02 0000 0100 0106 000000000000", "3b04 0100" + trace + "0104 00000000" + "1e02 0000 0100 0106 000000000000", 0},
		{"two options", 2, "3b00 1e04 00000000", "3b05 0100" + trace + trace + "0104 00000000" + "1e04 00000000", 0},
		{"eight in all", 2, "3b01 1e00 1e00 1e00 1e00 1e00 1e00 0100", "3b06 0100" + trace + trace + "0104 00000000" + "1e00 1e00 1e00 1e00 1e00 1e00 0100", 0},
		{"nine in all", 2, "3b01 1e00 1e00 1e00 1e00 1e00 1e00 1e00", "", model.OutcomeEncapSkippedOptions},
		{"router alert", 1, "3b00 0502 0000 0100", "", model.OutcomeEncapSkippedRouterAlert},
		{"router alert after another", 1, "3b01 1e02 0000 0502 0000 0104 00000000", "", model.OutcomeEncapSkippedRouterAlert},
		{"jumbo payload", 1, "3b00 c204 00010000", "", model.OutcomeEncapSkippedJumbo},
		{"jumbo payload and router alert", 1, "3b01 c204 00010000 0502 0000 0102 0000", "", model.OutcomeEncapSkippedRouterAlert},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := encapConfig(model.ModeInline)
			option := model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})[0]
			cfg.Encapsulations[0].Options = slices.Repeat([]model.InsertedOption{option}, test.traces)
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			frame := egressFrame(packet)
			result := mustNode(t, cfg).Egress(frame)
			want, outcome := packet, test.outcome
			if outcome == 0 {
				want, outcome = ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.merged)), model.OutcomeEncapInserted
			}
			if result.Outcome != outcome || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], outcome, want[40:])
			}
		})
	}
}

// TestMergeUpToTheMTU merges into packets that are exactly as large as the MTU afterwards, and
// leaves alone those that would be larger.
func TestMergeUpToTheMTU(t *testing.T) {
	for _, test := range []struct {
		name, header string
		traces, grow int
	}{
		{"an option at once", "3b00 1e04 00000000", 1, 24},
		{"padding is used", "3b00 0100 1e02 0000", 1, 16},
		{"padding alone", "3b00 0104 00000000", 1, 16},
		{"two options", "3b00 1e04 00000000", 2, 40},
	} {
		for over := range 2 {
			cfg := encapConfig(model.ModeInline)
			option := model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})[0]
			cfg.Encapsulations[0].Options = slices.Repeat([]model.InsertedOption{option}, test.traces)
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			cfg.Interfaces[1].MTU = len(packet) + test.grow - over
			want, length := model.OutcomeEncapInserted, len(packet)+test.grow
			if over > 0 {
				want, length = model.OutcomeEncapSkippedMTU, len(packet)
			}
			if result := checkedRun(t, cfg, egressFrame(packet), true); result.Outcome != want || len(result.Data) != length {
				t.Errorf("%s, %d over the MTU: %v, %d bytes; want %v, %d", test.name, over, result.Outcome, len(result.Data), want, length)
			}
		}
	}
}

// TestMergeUpToTheLongestHeader makes a header as long as can be taken apart again.
func TestMergeUpToTheLongestHeader(t *testing.T) {
	for _, test := range []struct {
		length  int
		outcome model.Outcome
	}{{512 - 24, model.OutcomeEncapInserted}, {512 - 16, model.OutcomeEncapSkippedOptions}} {
		header := []byte{59, byte(test.length/8 - 1), 0x1e, 0}
		for len(header) < test.length {
			n := min(test.length-len(header), 257)
			if test.length-len(header)-n == 1 {
				n--
			}
			header = append(append(header, byte(ioam.OptionPadN), byte(n-2)), make([]byte, n-2)...)
		}
		cfg := encapConfig(model.ModeInline)
		cfg.Encapsulations[0].Options = model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})
		cfg.Interfaces[1].MTU = 65535
		packet := ipv6Packet(ioam.NextHeaderHopByHop, header)
		if result := mustNode(t, cfg).Egress(egressFrame(packet)); result.Outcome != test.outcome {
			t.Errorf("%d bytes: %v, want %v", test.length, result.Outcome, test.outcome)
		}
	}
}

// TestExtract removes namespace 300 from headers that hold other options.
func TestExtract(t *testing.T) {
	const (
		marked = "310e0000 012c0801 80000000 00000000"
		stays  = "310e0000 007b0801 80000000 00000000"
		filled = "310e0000 007b0800 80000000 3f000002"
		dex    = "110a0004 012c0000 80000000"
	)
	for _, test := range []struct{ name, header, left, reported string }{
		{"before an option", "3b03 0100" + marked + "0502 0000 0106 000000000000", "3b00 0100 0502 0000", "3b03 0100 310e0000 012c0800 80000000 3f000002 0502 0000 0106 000000000000"},
		{"after an option", "3b02 0502 0000 00 00" + marked, "3b00 0502 0000 0100", "3b02 0502 0000 00 00 310e0000 012c0800 80000000 3f000002"},
		{"between options", "3b04 1e04 00000000 310e0000 012c0801 80000000 00000000 1e04 00000000 3e06 000000000000 0100",
			"3b02 1e04 00000000 1e04 00000000 3e06 000000000000 0100", "3b04 1e04 00000000 310e0000 012c0800 80000000 3f000002 1e04 00000000 3e06 000000000000 0100"},
		{"before a trace", "3b04 0100" + marked + stays + "0102 0000", "3b02 0100" + filled + "0102 0000",
			"3b04 0100 310e0000 012c0800 80000000 3f000002 010e0000 007b0800 80000000 3f000002 0102 0000"},
		{"after a trace", "3b04 0100" + stays + marked + "0102 0000", "3b02 0100" + filled + "0102 0000",
			"3b04 0100 010e0000 007b0800 80000000 3f000002 310e0000 012c0800 80000000 3f000002 0102 0000"},
		{"two of three", "3b06 0100" + marked + stays + marked + "0102 0000", "3b02 0100" + filled + "0102 0000",
			"3b06 0100 310e0000 012c0800 80000000 3f000002 010e0000 007b0800 80000000 3f000002 310e0000 012c0800 80000000 3f000002 0102 0000"},
		{"Direct Export alone", "3b03 0100" + dex + "0106 0000 0000 0000" + "3e06 000000000000", "3b01 0104 00000000 3e06 000000000000", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
			if want := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.left)); result.Outcome != model.OutcomeOptionsRemoved ||
				!bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %x", result.Outcome, result.Data[40:], want[40:])
			}
			var reported []byte
			if result.Record != nil {
				reported = result.Record.Header
			}
			if !bytes.Equal(reported, craft.Hex(t, test.reported)) {
				t.Errorf("reported %x, want %s", reported, test.reported)
			}
		})
	}
}

// TestNoExtraction names what keeps a header as it is.
func TestNoExtraction(t *testing.T) {
	const header = "3b03 0100 310e0000 012c0801 80000000 00000000 0502 0000 0106 000000000000"
	other := append([]byte{0x1e, 254}, make([]byte, 254)...)
	long := slices.Concat(craft.Hex(t, header), other, other)
	long[1] = byte(len(long)/8 - 1)
	for name, packet := range map[string][]byte{
		"a jumbogram":           set(5, 0)(ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, header))),
		"longer than 512 bytes": ipv6Packet(ioam.NextHeaderHopByHop, long),
	} {
		result := mustNode(t, testConfig()).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
		if result.Outcome != model.OutcomeRemovalPartial || len(result.Data) != len(packet) || result.Record != nil {
			t.Errorf("%s: %v %x", name, result.Outcome, result.Data)
		}
	}
}

// checkMerged checks that the options of a packet's own header stay, in order and aligned,
// after those that were inserted, and that the kernel accepts the header.
func checkMerged(t *testing.T, was, is packet) {
	t.Helper()
	before, after := others(was.header), others(is.header)
	inserted := len(after) - len(before)
	if inserted < 1 || len(after) > maxStackOptions {
		t.Fatalf("%d options became %d", len(before), len(after))
	}
	for i, option := range before {
		moved := after[inserted+i]
		if moved.Type != option.Type || !bytes.Equal(moved.Data, option.Data) || moved.Offset%8 != option.Offset%8 {
			t.Fatalf("option %+v became %+v", option, moved)
		}
	}
	if is.header[0] != was.header[0] || !bytes.Equal(is.ip[ipv6.HeaderLen+len(is.header):], was.ip[ipv6.HeaderLen+len(was.header):]) {
		t.Fatal("what follows the header changed")
	}
	if (taking{header: was.header}).firstOption()-2 <= maxStackPadding && (taking{header: is.header}).firstOption() != 4 {
		t.Fatalf("the first option is at %d", (taking{header: is.header}).firstOption())
	}
	checkPadding(t, is.header[:after[len(after)-1].Offset], after[:inserted+min(1, len(before))])
}

// checkPadding checks that before each of some options there are at most 7 octets of padding.
func checkPadding(t *testing.T, header []byte, options []ioam.Option) {
	t.Helper()
	end := 2
	for _, option := range options {
		if gap := option.Offset - end; gap > maxStackPadding {
			t.Fatalf("%d octets of padding in %x", gap, header)
		}
		end = option.Offset + 2 + len(option.Data)
	}
}

// checkExtracted checks that nothing but options of namespaces to be removed is missing in the
// headers of options, that others are in order and aligned, and that what follows is the same.
func checkExtracted(t *testing.T, config model.NodeConfig, f Frame, result Result) {
	t.Helper()
	was, is := mustParse(t, bytes.Clone(f.Data), f.Link), mustParse(t, result.Data, f.Link)
	if fault, sound := is.check(config.Compatibility); !sound {
		t.Fatalf("what is left is %v", fault)
	}
	n := mustNode(t, config)
	behind, _, ok := n.readDestination(was)
	if !ok || !behind.marked {
		behind = destination{}
	}
	next, rest, removed := is.nextHeader(), is.ip[ipv6.HeaderLen:], 0
	for _, h := range []struct {
		kind ioam.NextHeader
		was  []byte
		gone func(ioam.Option) bool
	}{
		{ioam.NextHeaderHopByHop, was.header, func(o ioam.Option) bool { return o.IsIOAM() && n.removable(o) }},
		{ioam.NextHeaderDestination, behind.header, func(o ioam.Option) bool {
			return slices.ContainsFunc(behind.options, func(e edgeOption) bool { return e.marked && e.offset == o.Offset })
		}},
	} {
		kept := slices.DeleteFunc(others(h.was), h.gone)
		lost := len(others(h.was)) - len(kept)
		removed += lost
		if h.was == nil || len(kept) == 0 && lost > 0 {
			continue
		}
		header, err := ioam.DecodeExtensionHeader(rest)
		if err != nil || next != h.kind {
			t.Fatalf("header %x became %x, of type %d: %v", h.was, rest, next, err)
		}
		checkKept(t, h.was, header.Bytes, kept, lost)
		next, rest = header.NextHeader, rest[len(header.Bytes):]
	}
	was.behind = behind
	if after := was.ip[ipv6.HeaderLen+was.headersLen():]; removed == 0 || next != was.nextAfter() || !bytes.Equal(rest, after) ||
		is.payloadLength()-was.payloadLength() != len(is.ip)-len(was.ip) {
		t.Fatalf("%d options removed, packet\n%x became\n%x", removed, was.ip, is.ip)
	}
}

// checkKept checks what became of a header that lost some options, and kept others. The data
// of traces may have changed.
func checkKept(t *testing.T, was, is []byte, kept []ioam.Option, lost int) {
	t.Helper()
	left := others(is)
	if len(left) != len(kept) || lost == 0 && len(was) != len(is) {
		t.Fatalf("%d options stay, not %d: %x became %x", len(left), len(kept), was, is)
	}
	for i, option := range kept {
		if left[i].Type != option.Type || len(left[i].Data) != len(option.Data) || left[i].Offset%8 != option.Offset%8 ||
			!option.IsIOAM() && !bytes.Equal(left[i].Data, option.Data) || lost == 0 && left[i].Offset != option.Offset {
			t.Fatalf("option %+v became %+v", option, left[i])
		}
	}
	if lost > 0 {
		checkPadding(t, is, left)
	}
}

// TestNested encapsulates packets that arrived with IOAM by rules that say so, and completes
// their own options first.
func TestNested(t *testing.T) {
	const header, completed = "3b020100 310e0000 007b0800 40000000 00c9ffff 01020000", "310e0000 007b0800 40000000 00c900ca 01020000"
	for _, test := range []struct {
		name    string
		nested  bool
		from    model.IfIndex
		mode    model.Mode
		header  string
		outcome model.Outcome
	}{
		{"completed", false, ifIngress, model.ModeInline, "3b020100" + completed, model.OutcomeTraceFilled},
		{"completed, inline", true, ifIngress, model.ModeInline, "3b040100 310e0000 007b0800 80000000 40000002" + completed, model.OutcomeEncapInserted},
		{"completed, in a tunnel", true, ifIngress, model.ModeEncap, "29020100 310e0000 007b0800 80000000 40000002 01020000", model.OutcomeEncapTunneled},
		{"from elsewhere", false, ifOther, model.ModeInline, header, model.OutcomeUntouched},
		{"from elsewhere, inline", true, ifOther, model.ModeInline, "3b040100 310e0000 007b0800 80000000 40000002" + header[8:], model.OutcomeEncapInserted},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := encapConfig(test.mode, func(e *model.Encapsulation) { e.Nested = test.nested })
			cfg.Decapsulations = nil
			cfg.Encapsulations[0].Options = model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})
			frame := egressFrame(ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, header)))
			frame.Ingress = test.from
			result := mustNode(t, cfg).Egress(frame)
			want := craft.Hex(t, test.header)
			if result.Outcome != test.outcome || !bytes.Equal(result.Data[40:40+len(want)], want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], test.outcome, want)
			}
			if treated := test.from == ifIngress; treated != (len(result.Options) == 1) {
				t.Errorf("options %v", result.Options)
			}
		})
	}
}
