// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// around is a packet in a tunnel to this node's end, with a trace.
func around(t testing.TB, inner []byte) []byte {
	packet := ipv6Packet(ioam.NextHeaderHopByHop, append(craft.Hex(t, rightHeader), inner...))
	packet[40] = byte(ioam.NextHeaderIPv6)
	return withDestination(packet, tunnelDestination)
}

func withSource(packet []byte, source string) []byte {
	a := netip.MustParseAddr(source).As16()
	copy(packet[8:24], a[:])
	return packet
}

func icmpv6(kind byte) []byte { return ipv6Packet(ioam.NextHeaderICMPv6, []byte{kind, 0, 0, 0}) }

func to(address string) []byte { return withDestination(inner(), netip.MustParseAddr(address)) }

func from(address string) []byte { return withSource(inner(), address) }

type innerCase struct {
	name    string
	inner   []byte
	outcome model.Outcome
}

// What may happen to an inner packet.
const (
	staysIn = model.OutcomeDecapRefusedInner
	taken   = model.OutcomeTunnelDecapsulated
)

func innerAddresses() []innerCase {
	return []innerCase{
		{"right", inner(), taken},
		{"to a link-local address", to("fe80::1"), staysIn},
		{"to the last link-local address", to("febf:ffff::1"), staysIn},
		{"to a site-local address", to("fec0::1"), taken},
		{"to all nodes of the link", to("ff02::1"), staysIn},
		{"to a global group", to("ff0e::1"), staysIn},
		{"to loopback", to("::1"), staysIn},
		{"to unspecified", to("::"), staysIn},
		{"to an IPv4-mapped address", to("::ffff:192.0.2.1"), staysIn},
		{"to an IPv4-compatible address", to("::192.0.2.1"), staysIn},
		{"to an address with 63 zero bits", to("0:0:0:1::1"), taken},
		{"to an IPv4-embedded address", to("64:ff9b::192.0.2.1"), taken},
		{"from a link-local address", from("fe80::bad"), staysIn},
		{"from a group", from("ff02::1"), staysIn},
		{"from loopback", from("::1"), staysIn},
		{"from unspecified", from("::"), staysIn},
		{"from an IPv4-mapped address", from("::ffff:127.0.0.1"), staysIn},
	}
}

func innerMessages() []innerCase {
	return []innerCase{
		{"an error", icmpv6(2), encapsulatedNever},
		{"echo request", icmpv6(128), taken},
		{"echo reply", icmpv6(129), taken},
		{"MLD query", icmpv6(130), staysIn},
		{"MLD done", icmpv6(132), staysIn},
		{"router solicitation", icmpv6(133), staysIn},
		{"router advertisement", icmpv6(134), staysIn},
		{"neighbour solicitation", icmpv6(135), staysIn},
		{"neighbour advertisement", icmpv6(136), staysIn},
		{"redirect", icmpv6(137), staysIn},
		{"router renumbering", icmpv6(138), taken},
		{"inverse solicitation", icmpv6(141), staysIn},
		{"MLDv2 report", icmpv6(143), staysIn},
		{"home agent discovery", icmpv6(144), taken},
		{"certification path", icmpv6(149), staysIn},
		{"ICMPv6 150", icmpv6(150), taken},
		{"multicast router solicitation", icmpv6(152), staysIn},
		{"ICMPv6 154", icmpv6(154), taken},
		{"extended echo", icmpv6(160), taken},
		{"ICMPv6 162", icmpv6(162), taken}, // 130 + 32
		{"ICMPv6 without type", ipv6Packet(ioam.NextHeaderICMPv6, nil), staysIn},
	}
}

func innerChains(t testing.TB) []innerCase {
	hidden := ""
	for range 8 {
		hidden += "3c00010400000000"
	}
	return []innerCase{
		{"after options", chain(t, 60, "3a00010400000000", []byte{136, 0, 0, 0}), staysIn},
		{"after a Hop-by-Hop header", chain(t, 0, "3a00010400000000", []byte{136, 0, 0, 0}), staysIn},
		{"after a routing header", chain(t, 43, "3a000400 00000000", []byte{134, 0, 0, 0}), staysIn},
		{"after AH", chain(t, 51, "3a040000 00000000 00000000 00000000 00000000 00000000", []byte{136, 0, 0, 0}), staysIn},
		{"an echo request after options", chain(t, 60, "3a00010400000000", []byte{128, 0, 0, 0}), taken},
		{"an atomic fragment", chain(t, 44, "3a000000 00000001", []byte{136, 0, 0, 0}), staysIn},
		{"a first fragment", chain(t, 44, "3a000001 00000001", []byte{136, 0, 0, 0}), staysIn},
		{"a first fragment without the header", chain(t, 44, "3c000001 00000001", []byte{58, 0, 1, 4}), staysIn},
		{"a first fragment without the type", chain(t, 44, "3a000001 00000001", nil), staysIn},
		{"a first fragment of UDP", chain(t, 44, "11000001 00000001", udp(4)), taken},
		{"a later fragment", chain(t, 44, "3a000008 00000001", []byte{136, 0, 0, 0}), taken},
		{"a later fragment that begins with options", chain(t, 44, "3c000008 00000001", []byte{58, 0, 1, 4, 0, 0, 0, 0, 136}), staysIn},
		{"after eight headers", chain(t, 60, hidden[:7*16]+"1100010400000000", udp(4)), taken},
		{"after nine headers", chain(t, 60, hidden+"1100010400000000", udp(4)), staysIn},
		{"a header cut off", chain(t, 43, "11000400 000000", nil), staysIn},
		{"ESP", ipv6Packet(50, []byte{1, 2, 3, 4}), taken},
		{"another tunnel", ipv6Packet(ioam.NextHeaderIPv6, icmpv6(136)), taken},
	}
}

// A packet that must not leave its link stays in the tunnel, and one that is
// proven harmless is decapsulated; an encapsulating node encapsulates nothing
// that would not be.
func TestInnerPackets(t *testing.T) {
	tests := slices.Concat(innerAddresses(), innerMessages(), innerChains(t))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			want := test.outcome
			if want == encapsulatedNever {
				want = taken
			}
			packet := around(t, test.inner)
			frame := Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime}
			result := mustNode(t, testConfig()).Ingress(frame)
			if result.Outer != nil { // what is inside was treated, too
				result = *result.Outer
			}
			if result.Outcome != want || result.Verdict != Pass {
				t.Errorf("%v %v, want %v", result.Outcome, result.Verdict, want)
			}
			if result.Outcome == staysIn && (!bytes.Equal(result.Data, packet) || result.Record != nil || result.Postcards != nil) {
				t.Errorf("refused, but changed to\n%x, with record %v", result.Data, result.Record)
			}
			sent := mustNode(t, encapConfig(model.ModeEncap)).Egress(egressFrame(test.inner))
			if tunneled := sent.Outcome == model.OutcomeEncapTunneled; tunneled != (test.outcome == taken) ||
				!tunneled && sent.Outcome != model.OutcomeEncapSkippedControl {
				t.Errorf("encapsulation: %v", sent.Outcome)
			}
		})
	}
}

// encapsulatedNever marks packets that are decapsulated but never encapsulated.
const encapsulatedNever = model.NumOutcomes

// Who may send into a tunnel.
func TestTunnelSources(t *testing.T) {
	const source, bare = model.OutcomeDecapRefusedSource, model.OutcomeDecapRefusedBare
	list := func(prefixes ...string) (sources []netip.Prefix) {
		for _, p := range prefixes {
			sources = append(sources, netip.MustParsePrefix(p))
		}
		return sources
	}
	traced := func() []byte { return around(t, inner()) } // from 2001:db8:1::2
	plain := func() []byte { return withDestination(ipv6Packet(ioam.NextHeaderIPv6, inner()), tunnelDestination) }
	padded := func() []byte { return set(44, 0x1e)(traced()) }
	unknown := func() []byte { return set(49, 7)(traced()) }
	overflow := func() []byte { return set(50, 0x14)(traced()) }
	e2e := func() []byte { return set(47, 3)(traced()) }
	dex := func() []byte { return tunnelCarrying(t, dexHeader) }
	for _, test := range []struct {
		name    string
		end     model.Decapsulation
		packet  func() []byte
		outcome model.Outcome
	}{
		{"a trace", model.Decapsulation{}, traced, taken},
		{"a full trace", model.Decapsulation{}, overflow, taken},
		{"a Direct Export", model.Decapsulation{}, dex, taken},
		{"no header", model.Decapsulation{}, plain, bare},
		{"no IOAM", model.Decapsulation{}, padded, bare},
		{"an unknown namespace", model.Decapsulation{}, unknown, bare},
		{"another type of option", model.Decapsulation{}, e2e, bare},
		{"bare, no header", model.Decapsulation{Bare: true}, plain, taken},
		{"bare, no IOAM", model.Decapsulation{Bare: true}, padded, taken},
		{"bare, an unknown namespace", model.Decapsulation{Bare: true}, unknown, taken},
		{"the source", model.Decapsulation{Sources: list("2001:db8:1::2/128")}, traced, taken},
		{"the second source", model.Decapsulation{Sources: list("2001:db8:1::1/128", "2001:db8:1::/64")}, traced, taken},
		{"any source", model.Decapsulation{Sources: list("::/0")}, traced, taken},
		{"another source", model.Decapsulation{Sources: list("2001:db8:1::3/128")}, traced, source},
		{"another source, no header", model.Decapsulation{Sources: list("2001:db8:1::3/128"), Bare: true}, plain, source},
		{"the source, no header", model.Decapsulation{Sources: list("2001:db8:1::2/128")}, plain, bare},
		{"the source, bare, no header", model.Decapsulation{Sources: list("2001:db8:1::2/128"), Bare: true}, plain, taken},
		{"the end of the prefix", model.Decapsulation{Sources: list("2001:db8:1::2/127"), Bare: true}, func() []byte { return withSource(plain(), "2001:db8:1::3") }, taken},
		{"after the prefix", model.Decapsulation{Sources: list("2001:db8:1::2/127"), Bare: true}, func() []byte { return withSource(plain(), "2001:db8:1::4") }, source},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := testConfig()
			test.end.TunnelDestination = tunnelDestination
			config.Decapsulations = []model.Decapsulation{{TunnelDestination: tunnelSource, Bare: true}, test.end}
			packet := test.packet()
			result := mustNode(t, config).Ingress(Frame{Data: packet, Link: LinkNone, Interface: ifIngress, Time: testTime})
			if result.Outcome != test.outcome || result.Verdict != Pass {
				t.Fatalf("%v %v, want %v", result.Outcome, result.Verdict, test.outcome)
			}
			if test.outcome != taken && (!bytes.Equal(result.Data, packet) || result.Record != nil) {
				t.Errorf("refused, but changed to\n%x, with record %v", result.Data, result.Record)
			}
		})
	}
}

// An edge that drops keeps tunnels from outside away from every tunnel end that
// the node knows, and drops no others.
func TestGuardedTunnels(t *testing.T) {
	const dropped, passes = model.OutcomeBoundaryTunnelDropped, model.OutcomeNoIOAM
	listed, inserted := netip.MustParseAddr("2001:db8:f::7"), netip.MustParseAddr("2001:db8:f::8")
	long := ""
	for range 8 {
		long += "3c00010400000000"
	}
	plain := func(destination netip.Addr) []byte {
		return withDestination(ipv6Packet(ioam.NextHeaderIPv6, inner()), destination)
	}
	held := func(first ioam.NextHeader, headers string, payload []byte) []byte {
		return withDestination(chain(t, first, headers, payload), tunnelDestination)
	}
	for _, test := range []struct {
		name    string
		packet  []byte
		outcome model.Outcome
	}{
		{"to an end here", plain(tunnelDestination), dropped},
		{"to a listed end", plain(listed), dropped},
		{"to the end of an encapsulation", plain(inserted), dropped},
		{"to another node", plain(netip.MustParseAddr("2001:db8:f::9")), passes},
		{"without an inner header", held(ioam.NextHeaderIPv6, "", nil), dropped},
		{"echo request", withDestination(icmpv6(128), tunnelDestination), passes},
		{"UDP", withDestination(ipv6Packet(ioam.NextHeaderUDP, udp(4)), tunnelDestination), passes},
		{"UDP after options", held(60, "1100010400000000", udp(4)), passes},
		{"ESP", withDestination(ipv6Packet(50, []byte{1, 2, 3, 4}), tunnelDestination), passes},
		{"IPv4 inside", withDestination(ipv6Packet(4, []byte{0x45}), tunnelDestination), passes},
		{"after options", held(60, "2900010400000000", inner()), dropped},
		{"after a Hop-by-Hop header", held(0, "2900010400000000", inner()), dropped},
		{"after a faulty Hop-by-Hop header", held(0, "2900ff0400000000", inner()), dropped},
		{"after a trace", around(t, inner()), dropped},
		{"a trace", withDestination(rightPacket(t), tunnelDestination), model.OutcomeBoundaryDropped},
		{"after a routing header", held(43, "29000400 00000000", inner()), dropped},
		{"first fragment", held(44, "29000001 00000001", inner()), dropped},
		{"later fragment", held(44, "29000008 00000001", inner()), dropped},
		{"later fragment of UDP", held(44, "11000008 00000001", inner()), passes},
		{"later fragment that begins with options", held(44, "3c000008 00000001", inner()), dropped},
		{"after nine headers", held(60, long+"1100010400000000", udp(4)), dropped},
		{"a header cut off", held(43, "11000400 000000", nil), dropped},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, policy := range []model.Boundary{model.BoundaryDrop, model.BoundaryStrip, model.BoundaryIgnore} {
				config := encapConfig(model.ModeEncap, func(e *model.Encapsulation) { e.TunnelDestination = inserted })
				config.TunnelDestinations = []netip.Addr{listed}
				config.Interfaces[2].Boundary = policy
				result := mustNode(t, config).Ingress(Frame{Data: test.packet, Link: LinkNone, Interface: ifEdge})
				if policy == model.BoundaryDrop {
					if result.Outcome != test.outcome || (result.Verdict == Drop) != (test.outcome != passes) || !bytes.Equal(result.Data, test.packet) {
						t.Errorf("%v %v, want %v", result.Outcome, result.Verdict, test.outcome)
					}
				} else if result.Outcome == dropped || result.Verdict == Drop {
					t.Errorf("with %v: %v %v", policy, result.Outcome, result.Verdict)
				}
			}
		})
	}
}
