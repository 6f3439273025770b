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
				cfg.Encapsulations[0].Options = append(cfg.Encapsulations[0].Options, model.Traces(model.TraceOption{Namespace: 123, Type: 0x800000, Size: 4})...)
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
