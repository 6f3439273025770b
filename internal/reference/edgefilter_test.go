// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// filters are policies at an edge, such as "drop 7:strip".
func filters(t *testing.T, text string) model.Interface {
	t.Helper()
	var edge model.Interface
	for i, word := range strings.Fields(text) {
		id, policy, ok := strings.Cut(word, ":")
		if !ok {
			policy = id
		}
		var b model.Boundary
		if err := b.UnmarshalText([]byte(policy)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			edge.Boundary = b
			continue
		}
		number := map[string]ioam.NamespaceID{"7": 7, "123": 123, "9": 9}[id]
		edge.Policies = append(edge.Policies, model.NamespacePolicy{Namespace: number, Boundary: b})
	}
	return edge
}

const (
	edgeOf123  = "0100 110a0003 007b4000 00000000"
	edgeOf7    = "0100 110a0003 00074000 00000000"
	traceOf123 = "310e0000 007b0800 80000000 00000000" // of 16 bytes
	traceOf7   = "310e0000 00070800 80000000 00000000"
	others4    = "1e04 00000000"
	hbh, dest  = ioam.NextHeaderHopByHop, ioam.NextHeaderDestination
)

// TestEdgeFilter has the packet's headers, and those that are left of them.
func TestEdgeFilter(t *testing.T) {
	const (
		dropped, unproven = model.OutcomeBoundaryDropped, model.OutcomeBoundaryUnprovenDropped
		stripped, partial = model.OutcomeBoundaryStripped, model.OutcomeBoundaryStripPartial
		ignored, none     = model.OutcomeBoundaryIgnored, model.OutcomeNoIOAM
	)
	routing := "00 00 04 00000000"
	for _, test := range []struct {
		name, policies string
		first          ioam.NextHeader
		header         string
		outcome        model.Outcome
		next           ioam.NextHeader
		left           string // "" for all of it
	}{
		// by namespace, in a Hop-by-Hop header
		{"a namespace that may pass", "drop 123:ignore", hbh, "3b02 0100" + traceOf123 + "0102 0000", ignored, 0, ""},
		{"another", "drop 123:ignore", hbh, "3b02 0100" + traceOf7 + "0102 0000", dropped, 0, ""},
		{"one that may not", "ignore 123:drop", hbh, "3b02 0100" + traceOf123 + "0102 0000", dropped, 0, ""},
		{"one that is stripped", "drop 7:strip", hbh, "3b02 0100" + traceOf7 + "0102 0000", stripped, ioam.NextHeaderNone, "-"},
		{"one stays, one goes", "drop 7:strip 123:ignore", hbh, "3b04 0100" + traceOf7 + traceOf123 + "0102 0000", stripped, hbh, "3b02 0100" + traceOf123 + "0102 0000"},
		{"the strictest decides", "drop 7:strip 123:ignore", hbh, "3b06 0100" + traceOf7 + traceOf123 + strings.Replace(traceOf7, "0007", "0008", 1) + "0102 0000", dropped, 0, ""},
		{"too short for a namespace", "drop 0:ignore", hbh, "3b00 0100 31020000", dropped, 0, ""},
		{"an unknown option-type", "strip 123:ignore", hbh, "3b01 0100 31060009 007b0000 0102 0000", stripped, ioam.NextHeaderNone, "-"},
		{"not sound, but with a namespace", "drop 123:ignore", hbh, "3b00 3104 0000 007b", ignored, 0, ""},
		// in a Destination Options header
		{"first", "drop", dest, "3b01" + edgeOf123, dropped, 0, ""},
		{"first, ignored", "drop 123:ignore", dest, "3b01" + edgeOf123, ignored, 0, ""},
		{"not looked at", "ignore", dest, "3b01" + edgeOf123, none, 0, ""},
		{"first, stripped", "strip", dest, "3b01" + edgeOf123, stripped, ioam.NextHeaderNone, "-"},
		{"a trace", "strip", dest, "3b02 0100" + traceOf7 + "0102 0000", stripped, ioam.NextHeaderNone, "-"},
		{"no valid option", "drop", dest, "3b00 3100 0102 0000", dropped, 0, ""},
		{"nothing of IOAM", "drop", dest, "3b00" + others4, none, 0, ""},
		{"shared", "strip", dest, "3b02" + edgeOf123 + "0100" + others4, stripped, dest, "3b00" + others4},
		{"one stays, one goes, first header", "drop 7:strip 123:ignore", dest, "3b03" + edgeOf7 + strings.TrimPrefix(edgeOf123, "0100") + "0102 0000", stripped, dest, "3b02 0104 00000000" + strings.TrimPrefix(edgeOf123, "0100") + "0102 0000"},
		{"behind a Hop-by-Hop header", "strip", hbh, "3c00" + others4 + "3b01" + edgeOf123, stripped, hbh, "3b00" + others4},
		{"behind one that goes", "strip", hbh, "3c02 0100" + traceOf7 + "0102 0000" + "3b01" + edgeOf123, stripped, ioam.NextHeaderNone, "-"},
		{"behind one that stays in part", "strip 7:ignore", hbh, "3c04 0100" + traceOf7 + traceOf123 + "0102 0000" + "3b01" + edgeOf123, stripped, hbh, "3b02 0100" + traceOf7 + "0102 0000"},
		{"ignored behind one that is stripped", "strip 123:ignore", hbh, "3c02 0100" + traceOf7 + "0102 0000" + "3b01" + edgeOf123, stripped, dest, "3b01" + edgeOf123},
		{"dropped behind one that is ignored", "drop 7:ignore", hbh, "3c02 0100" + traceOf7 + "0102 0000" + "3b01" + edgeOf123, dropped, 0, ""},
		{"behind a Routing header", "drop", ioam.NextHeaderRouting, "3c" + routing + "3b01" + edgeOf123, dropped, 0, ""},
		{"behind a Routing header, stripped", "strip", ioam.NextHeaderRouting, "3c" + routing + "3b01" + edgeOf123, partial, 0, ""},
		{"before and behind a Routing header", "strip", dest, "2b01" + edgeOf123 + "3c" + routing + "3b01" + edgeOf123, partial, ioam.NextHeaderRouting, "3c" + routing + "3b01" + edgeOf123},
		{"in the first fragment", "drop", ioam.NextHeaderFragment, "3c000001 00000001" + "3b01" + edgeOf123, dropped, 0, ""},
		{"in a later fragment", "drop", ioam.NextHeaderFragment, "3c000008 00000001" + "3b01" + edgeOf123, none, 0, ""},
		// not found
		{"an option beyond the header", "drop", dest, "3b01 1e20 00000000 0000000000000000", unproven, 0, ""},
		{"an option beyond the header, and some policy drops", "ignore 9:drop", dest, "3b01 1e20 00000000 0000000000000000", unproven, 0, ""},
		{"an option beyond the header, and none drops", "strip", dest, "3b01" + "1104 0003 007b" + "3140 0000 0000", none, 0, ""},
		{"a header beyond the packet", "drop", dest, "3b02" + others4 + others4 + "0000", unproven, 0, ""},
		{"33 options", "drop", dest, "3b04" + strings.Repeat("00", 33) + "0103 000000", unproven, 0, ""},
		{"ten IOAM options", "drop 7:ignore", dest, "3b0a 0100" + strings.Repeat("3106 0000 00070000", 10) + "0102 0000", unproven, 0, ""},
		{"a Hop-by-Hop header behind, ignored namespace", "drop 7:ignore", hbh, "0002 0100" + traceOf7 + "0102 0000" + "3b00" + others4, unproven, 0, ""},
		{"a Hop-by-Hop header behind one to strip", "strip", dest, "0001" + edgeOf123 + "3b00" + others4, unproven, 0, ""},
		{"a Hop-by-Hop header behind, and nothing to strip", "strip", dest, "0000" + others4 + "3b00" + others4, none, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := testConfig()
			edge := filters(t, test.policies)
			config.Interfaces[2].Boundary, config.Interfaces[2].Policies = edge.Boundary, edge.Policies
			packet := ipv6Packet(test.first, craft.Hex(t, test.header))
			want := packet
			if test.left != "" {
				want = ipv6Packet(test.next, craft.Hex(t, strings.Trim(test.left, "-")))
			}
			node := mustNode(t, config)
			frame := Frame{Data: bytes.Clone(packet), Link: LinkNone, Interface: ifEdge}
			for hook, result := range map[string]Result{"ingress": node.Ingress(frame), "egress": node.Egress(frame)} {
				drops := test.outcome == dropped || test.outcome == unproven
				if result.Outcome != test.outcome || !bytes.Equal(result.Data, want) || (result.Verdict == Drop) != drops {
					t.Errorf("%s: %v %v %x, want %v %x", hook, result.Verdict, result.Outcome, result.Data[40:], test.outcome, want[40:])
				}
			}
		})
	}
}

// The default policy alone decides which tunnels from outside are dropped.
func TestEdgeFilterOfTunnels(t *testing.T) {
	for policies, want := range map[string]model.Outcome{
		"drop 7:ignore":  model.OutcomeBoundaryTunnelDropped,
		"ignore 7:drop":  model.OutcomeBoundaryIgnored,
		"strip 123:drop": model.OutcomeBoundaryDropped,
	} {
		config := testConfig()
		edge := filters(t, policies)
		config.Interfaces[2].Boundary, config.Interfaces[2].Policies = edge.Boundary, edge.Policies
		if result := mustNode(t, config).Ingress(Frame{Data: tunnelPacket(t), Link: LinkNone, Interface: ifEdge}); result.Outcome != want {
			t.Errorf("%s: %v, want %v", policies, result.Outcome, want)
		}
	}
}
