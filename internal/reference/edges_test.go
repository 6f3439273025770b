// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// TestExtractEdges removes Edge-to-Edge options of namespace 300 from Destination Options
// headers that hold other options.
func TestExtractEdges(t *testing.T) {
	const (
		marked = "110a0003 012c4000 00000007"
		stays  = "110a0003 007b4000 00000007"
	)
	for _, test := range []struct {
		name, header, left string
		outcome            model.Outcome
		edges              int // options that are removed
	}{
		{"before an option", "3b02 0100" + marked + "1e06 000000000000", "3b01 0104 00000000 1e06 000000000000", model.OutcomeOptionsRemoved, 1},
		{"after an option of any alignment", "3b02 1e01 07 0101 00" + marked + "0102 0000", "3b00 1e01 07 0101 00", model.OutcomeOptionsRemoved, 1},
		{"two, before and after one that stays", "3b04 0100" + marked + stays + marked, "3b02 0104 00000000" + stays + "0102 0000", model.OutcomeOptionsRemoved, 2},
		{"padding in between", "3b03 0100" + marked + "0106 000000000000" + "3e06 000000000000", "3b01 0104 00000000 3e06 000000000000", model.OutcomeOptionsRemoved, 1},
		{"another Hop-by-Hop header behind", "0002 0100" + marked + "1e06 000000000000", "0001 0104 00000000 1e06 000000000000", model.OutcomeOptionsRemoved, 1},
		{"a Hop-by-Hop header behind, and nothing else in it", "0001 0100" + marked, "", model.OutcomeRemovalPartial, 0},
		{"none to be removed", "3b02 0100" + stays + "1e06 000000000000", "", model.OutcomeNoIOAM, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6Packet(ioam.NextHeaderDestination, craft.Hex(t, test.header))
			n := mustNode(t, testConfig())
			result := n.Ingress(Frame{Data: bytes.Clone(packet), Link: LinkNone, Interface: ifIngress, Time: testTime})
			want := packet
			if test.left != "" {
				want = ipv6Packet(ioam.NextHeaderDestination, craft.Hex(t, test.left))
			}
			if result.Outcome != test.outcome || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], test.outcome, want[40:])
			}
			if result.Outcome == model.OutcomeOptionsRemoved {
				checkExtracted(t, testConfig(), Frame{Data: packet, Link: LinkNone}, result)
			}
			if !slices.Equal(result.Edges, slices.Repeat([]model.Outcome{model.OutcomeOptionUnsupported}, test.edges)) {
				t.Errorf("counted %v", result.Edges)
			}
		})
	}
}

// TestExtractBehind removes options of namespace 300 from a Hop-by-Hop header and from the
// Destination Options header after it, where something stays.
func TestExtractBehind(t *testing.T) {
	const (
		edge   = "110a0003 012c4000 00000007"
		other  = "110a0003 007b4000 00000007"
		trace  = "310e0000 012c0801 80000000 00000000"
		stays  = "310e0000 007b0801 80000000 00000000"
		filled = "310e0000 007b0800 80000000 3f000002"
	)
	long := func(n int) string {
		return "1efe" + strings.Repeat("00", 254) + fmt.Sprintf("1e%02x", n) + strings.Repeat("00", n)
	}
	for _, test := range []struct {
		name, header, left string
		first              ioam.NextHeader // of what is left
		outcome            model.Outcome
		edges              int // options that are removed
	}{
		{"alone", "3c00 1e04 00000000" + "3b01 0100" + edge, "3b00 1e04 00000000", 0, model.OutcomeOptionsRemoved, 1},
		{"alone after a trace that stays", "3c02 0100" + stays + "0102 0000" + "3b01 0100" + edge, "3b02 0100" + filled + "0102 0000", 0, model.OutcomeOptionsRemoved, 1},
		{"alone after one that goes, and another option", "3c03 0100" + trace + "0502 0000 0106 000000000000" + "3b01 0100" + edge, "3b00 0100 0502 0000", 0, model.OutcomeOptionsRemoved, 1},
		{"before an option", "3c00 1e04 00000000" + "3b02 0100" + edge + "1e06 000000000000", "3c00 1e04 00000000" + "3b01 0104 00000000 1e06 000000000000", 0, model.OutcomeOptionsRemoved, 1},
		{"between two that stay", "3c00 1e04 00000000" + "3b03 1e01 07 0101 00" + edge + "0100 3e02 0000 1e04 00000000",
			"3c00 1e04 00000000" + "3b01 1e01 07 00 3e02 0000 1e04 00000000", 0, model.OutcomeOptionsRemoved, 1},
		{"after an option, where all others go", "3c02 0100" + trace + "0102 0000" + "3b02 1e01 07 0101 00" + edge + "0102 0000", "3b00 1e01 07 0101 00", 60, model.OutcomeOptionsRemoved, 1},
		{"two, and one that stays", "3c02 0100" + stays + "0102 0000" + "3b04 0100" + edge + other + edge, "3c02 0100" + filled + "0102 0000" + "3b02 0104 00000000" + other + "0102 0000", 0, model.OutcomeOptionsRemoved, 2},
		{"both taken apart", "3c04 0100" + trace + stays + "0102 0000" + "3b02 0100" + edge + "1e06 000000000000",
			"3c02 0100" + filled + "0102 0000" + "3b01 0104 00000000 1e06 000000000000", 0, model.OutcomeOptionsRemoved, 1},
		{"padding of the first stays as it is", "3c01 0106 000000000000 1e04 00000000" + "3b01 0100" + edge, "3b01 0106 000000000000 1e04 00000000", 0, model.OutcomeOptionsRemoved, 1},
		{"padding alone in the first", "3c00 0104 00000000" + "3b01 0100" + edge, "3b00 0104 00000000", 0, model.OutcomeOptionsRemoved, 1},
		{"another Hop-by-Hop header follows", "3c00 1e04 00000000" + "0001 0100" + edge, "0000 1e04 00000000", 0, model.OutcomeOptionsRemoved, 1},
		{"another Hop-by-Hop header would be first", "3c02 0100" + trace + "0102 0000" + "0001 0100" + edge, "", 0, model.OutcomeRemovalPartial, 0},
		{"nothing stays", "3c02 0100" + trace + "0102 0000" + "3b01 0100" + edge, "-", 59, model.OutcomeInlineRemoved, 1},
		{"one that stays, alone", "3c00 1e04 00000000" + "3b01 0100" + other, "", 0, model.OutcomeNoIOAM, 0},
		{"one that stays, after a trace that goes", "3c02 0100" + trace + "0102 0000" + "3b01 0100" + other, "3b01 0100" + other, 60, model.OutcomeInlineRemoved, 0},
		{"512 bytes", "3c3d 0104 00000000" + long(230) + "3b01 0100" + edge, "3b3d 0104 00000000" + long(230), 0, model.OutcomeOptionsRemoved, 1},
		{"520 bytes", "3c3e 0104 00000000" + long(238) + "3b01 0100" + edge, "", 0, model.OutcomeRemovalPartial, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			n := mustNode(t, testConfig())
			result := n.Ingress(Frame{Data: bytes.Clone(packet), Link: LinkNone, Interface: ifIngress, Time: testTime})
			want := packet
			if test.left != "" {
				want = ipv6Packet(test.first, craft.Hex(t, strings.Trim(test.left, "-")))
			} else if test.outcome == model.OutcomeRemovalPartial && strings.Contains(test.header, trace) {
				want = result.Data // the trace is filled
			}
			if result.Outcome != test.outcome || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], test.outcome, want[40:])
			}
			if result.Outcome == model.OutcomeOptionsRemoved {
				checkExtracted(t, testConfig(), Frame{Data: packet, Link: LinkNone}, result)
			}
			if !slices.Equal(result.Edges, slices.Repeat([]model.Outcome{model.OutcomeOptionUnsupported}, test.edges)) {
				t.Errorf("counted %v", result.Edges)
			}
		})
	}
}

// TestMergeEdges inserts an Edge-to-Edge option into Destination Options headers that are
// there.
func TestMergeEdges(t *testing.T) {
	const (
		edge  = "0100 110a0003 007b4000 00000000"
		trace = "3c020100 310e0000 007b0800 80000000 40000002 01020000"
	)
	option := func(n int) string { return fmt.Sprintf("1e%02x", n) + strings.Repeat("00", n) }
	for _, test := range []struct {
		name           string
		traced         bool
		header, merged string
		outcome        model.Outcome
	}{
		{"an option at once", false, "3b00 1e04 00000000", "3b02" + edge + "0100 1e04 00000000", 0},
		{"an option that is aligned to 8n", false, "3b01 0104 00000000 1e06 000000000000", "3b02" + edge + "1e06 000000000000", 0},
		{"padding alone", false, "3b00 0104 00000000", "3b01" + edge, 0},
		{"behind a trace", true, "3b00 1e04 00000000", trace + "3b02" + edge + "0100 1e04 00000000", 0},
		{"a router alert, which means nothing here", false, "3b00 0502 0000 0100", "3b02" + edge + "0100 0502 0000 0100", 0},
		{"after eight octets of padding", false, "3b01 0106 000000000000 1e04 00000000", "", model.OutcomeEncapSkippedOptions},
		{"eight in all", false, "3b01" + strings.Repeat("1e00", 7), "3b03" + edge + "0100" + strings.Repeat("1e00", 7), 0},
		{"nine in all", false, "3b02" + strings.Repeat("1e00", 8) + "0104 00000000", "", model.OutcomeEncapSkippedOptions},
		{"an option beyond the header", false, "3b00 1e05 00000000", "", model.OutcomeEncapSkippedOptions},
		{"a header beyond the packet", false, "3b01 1e04 00000000", "", model.OutcomeEncapSkippedOptions},
		{"512 bytes in all", false, "3b3d" + option(250) + option(240), "3b3f" + edge + "0100" + option(250) + option(240), 0},
		{"520 bytes in all", false, "3b3e" + option(254) + option(244), "", model.OutcomeEncapSkippedOptions},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := encapConfig(model.ModeInline)
			cfg.Encapsulations[0].Options = []model.InsertedOption{{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: 123, Type: 0x4000}}}
			first := ioam.NextHeaderDestination
			if test.traced {
				cfg.Encapsulations[0].Options = append(
					cfg.Encapsulations[0].Options,
					model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})...)
				first = ioam.NextHeaderHopByHop
			}
			packet := ipv6Packet(ioam.NextHeaderDestination, craft.Hex(t, test.header))
			result := mustNode(t, cfg).Egress(egressFrame(packet))
			want, outcome := packet, test.outcome
			if outcome == 0 {
				want, outcome = ipv6Packet(first, craft.Hex(t, test.merged)), model.OutcomeEncapInserted
			}
			if result.Outcome != outcome || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], outcome, want[40:])
			}
		})
	}
}

// TestMergeEdgesBehind inserts an Edge-to-Edge option into packets that have a Hop-by-Hop
// header.
func TestMergeEdgesBehind(t *testing.T) {
	const (
		own   = "1e04 00000000"
		edge  = "0100 110a0003 007b4000 00000000"
		trace = "0100 310e0000 007b0800 80000000 40000002"
	)
	option := func(n int) string { return fmt.Sprintf("1e%02x", n) + strings.Repeat("00", n) }
	for _, test := range []struct {
		name           string
		traced         bool
		header, merged string
		outcome        model.Outcome
	}{
		{"in a header of its own", false, "3b00" + own, "3c00" + own + "3b01" + edge, 0},
		{"into the header there", false, "3c00" + own + "3b00" + own, "3c00" + own + "3b02" + edge + "0100" + own, 0},
		{"into padding there", false, "3c00" + own + "3b00 0104 00000000", "3c00" + own + "3b01" + edge, 0},
		{"a trace before it", true, "3b00" + own, "3c03" + trace + "0104 00000000" + own + "3b01" + edge, 0},
		{"a trace before it, into both headers", true, "3c01 0104 00000000 1e06 000000000000" + "3b01 0104 00000000 1e06 000000000000",
			"3c03" + trace + "0102 0000 1e06 000000000000" + "3b02" + edge + "1e06 000000000000", 0},
		{"a trace before it, into padding", true, "3b00 0104 00000000", "3c02" + trace + "0102 0000" + "3b01" + edge, 0},
		{"padding stays as it is", false, "3b01 0106 000000000000" + own, "3c01 0106 000000000000" + own + "3b01" + edge, 0},
		{"a trace before it, after eight octets of padding", true, "3b01 0106 000000000000" + own, "", model.OutcomeEncapSkippedOptions},
		{"nine options in the first header", false, "3b02" + strings.Repeat("1e00", 9) + "0102 0000", "3c02" + strings.Repeat("1e00", 9) + "0102 0000" + "3b01" + edge, 0},
		{"eight options in the second", false, "3c00" + own + "3b01" + strings.Repeat("1e00", 7), "3c00" + own + "3b03" + edge + "0100" + strings.Repeat("1e00", 7), 0},
		{"nine options in the second", false, "3c00" + own + "3b02" + strings.Repeat("1e00", 8) + "0104 00000000", "", model.OutcomeEncapSkippedOptions},
		{"eight octets of padding in the second", false, "3c00" + own + "3b01 0106 000000000000" + own, "", model.OutcomeEncapSkippedOptions},
		{"an option beyond the second header", false, "3c00" + own + "3b00 1e05 00000000", "", model.OutcomeEncapSkippedOptions},
		{"a second header beyond the packet", false, "3c00" + own + "3b01" + own, "", model.OutcomeEncapSkippedOptions},
		{"router alert", false, "3b00 0502 0000 0100", "", model.OutcomeEncapSkippedRouterAlert},
		{"jumbo payload", false, "3b00 c204 00010000", "", model.OutcomeEncapSkippedJumbo},
		{"before a Routing header", false, "2b00" + own + "3b000000 00000000", "3c00" + own + "2b01" + edge + "3b000000 00000000", 0},
		{"before a Fragment header", false, "2c00" + own + "3b000008 00000001", "3c00" + own + "2c01" + edge + "3b000008 00000001", 0},
		{"an Authentication header", false, "3300" + own + "3b010000 00000000 00000000", "", model.OutcomeEncapSkippedAH},
		{"512 bytes in all", false, "3b3d" + option(250) + option(240), "3c3d" + option(250) + option(240) + "3b01" + edge, 0},
		{"520 bytes in all", false, "3b3e" + option(254) + option(244), "", model.OutcomeEncapSkippedHBH},
		{"520 bytes in all with the second header", false, "3c00" + own + "3b3d" + option(254) + "0104 00000000" + option(230), "", model.OutcomeEncapSkippedHBH},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := encapConfig(model.ModeInline)
			cfg.Encapsulations[0].Options = []model.InsertedOption{{EdgeToEdge: &model.EdgeToEdgeOption{Namespace: 123, Type: 0x4000}}}
			if test.traced {
				cfg.Encapsulations[0].Options = append(
					cfg.Encapsulations[0].Options,
					model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})...)
			}
			packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
			result := mustNode(t, cfg).Egress(egressFrame(packet))
			want, outcome := packet, test.outcome
			if outcome == 0 {
				want, outcome = ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.merged)), model.OutcomeEncapInserted
			}
			if result.Outcome != outcome || !bytes.Equal(result.Data, want) {
				t.Errorf("%v %x, want %v %x", result.Outcome, result.Data[40:], outcome, want[40:])
			}
			// exactly as large as the MTU, and one octet larger
			for over := range 2 {
				cfg.Interfaces[1].MTU = len(want) - over
				if fits := mustNode(t, cfg).Egress(egressFrame(packet)).Outcome == model.OutcomeEncapInserted; fits != (test.outcome == 0 &&
					over == 0) {
					t.Errorf("%d over the MTU: inserted %v", over, fits)
				}
			}
		})
	}
}
