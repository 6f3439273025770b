// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// A third VLAN tag hides IPv6 from the edge, which then drops; the edge passes
// what cannot be IPv6.
func TestEdgeBehindThreeTags(t *testing.T) {
	three := []uint16{etherTypeQinQ, etherTypeVLAN, etherTypeVLAN}
	for _, test := range []struct {
		name    string
		frame   []byte
		outcome model.Outcome
	}{
		{"IPv6", ethernet(rightPacket(t), three...), model.OutcomeBoundaryUnprovenDropped},
		{"IPv6 behind four", ethernet(rightPacket(t), append(three, etherTypeQinQ)...), model.OutcomeBoundaryUnprovenDropped},
		{"another protocol", set(25, 0)(ethernet(rightPacket(t), three...)), model.OutcomeNotIPv6},
		{"cut", ethernet(rightPacket(t), three...)[:25], model.OutcomeNotIPv6},
		{"IPv6 without the third", ethernet(rightPacket(t), three[:2]...), model.OutcomeBoundaryDropped},
	} {
		for _, policy := range []model.Boundary{model.BoundaryDrop, model.BoundaryStrip, model.BoundaryIgnore} {
			config := testConfig()
			config.Interfaces[2].Boundary = policy
			frame := Frame{Data: test.frame, Interface: ifEdge, Ingress: ifIngress}
			node := mustNode(t, config)
			for _, result := range []Result{node.Ingress(frame), node.Egress(frame)} {
				dropped := test.outcome == model.OutcomeBoundaryUnprovenDropped || test.outcome == model.OutcomeBoundaryDropped
				if policy == model.BoundaryDrop && (result.Outcome != test.outcome || (result.Verdict == Drop) != dropped) ||
					policy != model.BoundaryDrop && result.Verdict != Pass {
					t.Errorf("%s, %v: %v %v", test.name, policy, result.Outcome, result.Verdict)
				}
			}
		}
	}
}

// A tunnel is only decapsulated if its packet and the inner packet are complete,
// and no option asks nodes to discard the packet.
func TestTunnelLeftToTheStack(t *testing.T) {
	bare := func() []byte { return withDestination(ipv6Packet(ioam.NextHeaderIPv6, inner()), tunnelDestination) }
	other := func(kind byte) []byte {
		header := []byte{41, 0, kind, 0, 1, 2, 0, 0}
		return withDestination(ipv6Packet(ioam.NextHeaderHopByHop, append(header, inner()...)), tunnelDestination)
	}
	shared := func(kind byte) []byte {
		header := craft.Hex(t, "29030100 310e0000 007b0801 80000000 00000000 05020000 01040000 00000000")
		header[20] = kind
		return withDestination(ipv6Packet(ioam.NextHeaderHopByHop, append(header, inner()...)), tunnelDestination)
	}
	length := func(p []byte, value int) []byte { setPayloadLength(p, value); return p }
	inside := func(p []byte, value int) []byte { setPayloadLength(p[len(p)-len(inner()):], value); return p }
	whole := len(tunnelPacket(t)) - ipv6.HeaderLen
	for _, test := range []struct {
		name    string
		packet  []byte
		outcome model.Outcome
	}{
		{"whole", tunnelPacket(t), model.OutcomeTunnelDecapsulated},
		{"inner beyond the outer", inside(tunnelPacket(t), 5), model.OutcomeMalformedTunnel},
		{"inner into the padding", append(inside(tunnelPacket(t), 5), 0), model.OutcomeMalformedTunnel},
		{"inner to its end, without padding", length(inside(tunnelPacket(t), 3), whole-1), model.OutcomeTunnelDecapsulated},
		{"outer ends in the inner header", length(tunnelPacket(t), 71), model.OutcomeMalformedTunnel},
		{"outer beyond the frame", length(tunnelPacket(t), whole+1), model.OutcomeMalformedTunnel},
		{"outer without length", length(tunnelPacket(t), 0), model.OutcomeTunnelDecapsulated},
		{"outer without length, inner beyond the frame", length(inside(tunnelPacket(t), 5), 0), model.OutcomeMalformedTunnel},
		{"inner shorter", inside(tunnelPacket(t), 0), model.OutcomeTunnelDecapsulated},
		{"padding behind", append(tunnelPacket(t), 0, 0, 0), model.OutcomeTunnelDecapsulated},
		{"bare", bare(), model.OutcomeTunnelDecapsulated},
		{"bare, inner beyond the outer", inside(bare(), 5), model.OutcomeMalformedTunnel},
		{"bare, outer beyond the frame", length(bare(), 45), model.OutcomeMalformedTunnel},
		{"no IOAM, skip", other(0x1e), model.OutcomeTunnelDecapsulated},
		{"no IOAM, discard", other(0x5e), model.OutcomeRemovalPartial},
		{"no IOAM, discard and report", other(0x9e), model.OutcomeRemovalPartial},
		{"no IOAM, jumbo payload", other(0xc2), model.OutcomeRemovalPartial},
		{"skip", shared(0x05), model.OutcomeTunnelDecapsulated},
		{"discard", shared(0x45), model.OutcomeRemovalPartial},
		{"discard and report", shared(0x85), model.OutcomeRemovalPartial},
		{"discard, and report unless multicast", shared(0xc5), model.OutcomeRemovalPartial},
		{"two headers", withDestination(followed(t, "00"+rightHeader[2:]), tunnelDestination), model.OutcomeTraceFilled},
	} {
		cfg := testConfig()
		cfg.Decapsulations[0].Bare = true
		result := mustNode(t, cfg).Ingress(Frame{Data: ethernet(test.packet), Interface: ifIngress, Time: testTime})
		if result.Outcome != test.outcome || result.Verdict != Pass {
			t.Errorf("%s: %v %v, want %v", test.name, result.Outcome, result.Verdict, test.outcome)
		}
		if left := len(result.Data) == 14+len(test.packet); left != (test.outcome != model.OutcomeTunnelDecapsulated) {
			t.Errorf("%s: went on as\n%x", test.name, result.Data)
		}
		if test.outcome == model.OutcomeMalformedTunnel && !bytes.Equal(result.Data, ethernet(test.packet)) {
			t.Errorf("%s: became\n%x", test.name, result.Data)
		}
	}
}

// A packet from a tunnel may carry another node's trace, whether this node ended
// the tunnel or not: a node that ends tunnels completes only data that are
// clearly its own and not complete.
func TestCompletionBehindTunnels(t *testing.T) {
	for _, test := range []struct {
		name    string
		ids     bool // this node has ids
		header  string
		outcome model.Outcome
	}{
		{"own", true, "3b020100 31120000 007b1000 c0000000 3f000002 00c9ffff", model.OutcomeTraceFilled},
		{"own, of an earlier pass", true, "3b020100 31120000 007b1000 c0000000 3f000002 00c900cb", model.OutcomeUntouched},
		{"another node's", true, "3b020100 31120000 007b1000 c0000000 3f000003 00c9ffff", model.OutcomeUntouched},
		{"no id in the type", true, "3b020100 310e0000 007b0800 40000000 00c9ffff 01020000", model.OutcomeUntouched},
		{"no id in the type, complete", true, "3b020100 310e0000 007b0800 40000000 00c900cb 01020000", model.OutcomeUntouched},
		{"id not available", false, "3b020100 31120000 007b1000 c0000000 3fffffff 00c9ffff", model.OutcomeUntouched},
		{"wide id not available", false, "3b030100 31160000 007b1800 40800000 00c9ffff 3fffffff ffffffff 01020000", model.OutcomeUntouched},
		{"wide id", true, "3b030100 31160000 007b1800 40800000 00c9ffff 3f000000 0153158e 01020000", model.OutcomeTraceFilled},
	} {
		config := testConfig()
		if !test.ids {
			config.ID, config.IDWide = ioam.NodeIDUnavailable, ioam.NodeIDWideUnavailable
		}
		frame := egressFrame(ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header)))
		result := mustNode(t, config).Egress(frame)
		if changed := !bytes.Equal(result.Data, frame.Data); result.Outcome != test.outcome ||
			changed != (test.outcome == model.OutcomeTraceFilled) {
			t.Errorf("%s: %v, changed %v: %x", test.name, result.Outcome, changed, result.Data[40:])
		}
	}
}

// With compatibility mainline, a Direct Export that is too short is treated like
// an unknown option-type, as in Linux: other options are filled, and an error in
// them drops the packet.
func TestShortExportAsLinux(t *testing.T) {
	const short, trace = "31060004 007b0000", "310e0000 007b0801 80000000 00000000"
	for _, test := range []struct {
		name, header  string
		outcome       model.Outcome
		verdict       Verdict
		strictOutcome model.Outcome
	}{
		{"alone", "3b010100 31060004 007b0000 01020000", model.OutcomeOptionUnsupported, Pass, model.OutcomeMalformedOptionLength},
		{"before a trace", "3b030100" + short + trace + "01020000", model.OutcomeTraceFilled, Pass, model.OutcomeMalformedOptionLength},
		{"before a faulty trace", "3b030100" + short + "310e0000 007b1001 80000000 00000000 01020000", model.OutcomeMalformedNodeLength, Drop, model.OutcomeMalformedOptionLength},
	} {
		packet := ipv6Packet(ioam.NextHeaderHopByHop, craft.Hex(t, test.header))
		frame := Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime}
		result := mustNode(t, mainlineConfig()).Ingress(frame)
		if filled := result.Outcome == model.OutcomeTraceFilled; result.Outcome != test.outcome || result.Verdict != test.verdict ||
			bytes.Equal(result.Data, packet) == filled {
			t.Errorf("%s: %v %v %x", test.name, result.Outcome, result.Verdict, result.Data[40:])
		}
		if strict := mustNode(t, testConfig()).Ingress(frame); strict.Outcome != test.strictOutcome || strict.Verdict != Pass ||
			!bytes.Equal(strict.Data, packet) {
			t.Errorf("%s, default: %v %v", test.name, strict.Outcome, strict.Verdict)
		}
	}
}
