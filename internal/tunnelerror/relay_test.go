// SPDX-License-Identifier: Apache-2.0

package tunnelerror

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/reference"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

var (
	host   = netip.MustParseAddr("2001:db8:1::2")
	far    = netip.MustParseAddr("2001:db8:2::2")
	router = netip.MustParseAddr("2001:db8:12::2")
	begin  = netip.MustParseAddr("2001:db8:ff::1")
	end    = netip.MustParseAddr("2001:db8:ff::3")
	start  = time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
)

// elsewhere says that no address belongs to this node.
func elsewhere(netip.Addr) bool { return false }

// encapsulating is a node that encapsulates all packets.
func encapsulating(t testing.TB, mode model.Mode) *reference.Node {
	t.Helper()
	both := model.RoleIngress | model.RoleEgress
	node, err := reference.NewNode(model.NodeConfig{
		ID:         1,
		Interfaces: []model.Interface{{Index: 1, Name: "eth0", ID: 1, IDWide: 1}, {Index: 2, Name: "eth1", ID: 2, IDWide: 2, Roles: both}},
		Namespaces: []model.Namespace{{ID: 123}},
		Encapsulations: []model.Encapsulation{{
			Name: "all", Interface: 2, Mode: mode, TunnelSource: begin, TunnelDestination: end,
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xf80000, Size: 60}),
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// datagram is a UDP packet from the host, as it reaches a router that may not
// forward it any more.
func datagram(length int) []byte {
	body := bytes.Repeat([]byte("payload."), length)[:length-48]
	h := craft.IPv6{Label: 0x12345, Next: craft.UDP, HopLimit: 1, Source: host, Destination: far}
	return h.With(craft.Datagram(4242, 9, body...))
}

// removed is the length of the headers that the tunnel puts in front.
const removed = 40 + 80

// tunnelled is a packet in the tunnel, as the router quotes it.
func tunnelled(t testing.TB, node *reference.Node, inner []byte) []byte {
	t.Helper()
	inner = bytes.Clone(inner)
	inner[7] = 3
	result := node.Egress(reference.Frame{Data: inner, Link: reference.LinkNone, Interface: 2, Ingress: 1})
	if result.Outcome != model.OutcomeEncapTunneled || len(result.Data) != len(inner)+removed {
		t.Fatalf("%v, %d bytes", result.Outcome, len(result.Data))
	}
	result.Data[7] = 1
	return result.Data
}

// message is an error from the router.
func message(kind icmpv6.Type, code byte, word uint32, quote []byte) icmpv6.Message {
	body := binary.BigEndian.AppendUint32([]byte{byte(kind), code, 0xab, 0xcd}, word)
	return icmpv6.Message{Body: append(body, quote...), Source: router, HopLimit: 64, TrafficClass: 0xc0}
}

// want is the packet that the router sends to the host without a tunnel, after
// one more hop.
func want(kind icmpv6.Type, code byte, word uint32, quote []byte) []byte {
	header := craft.IPv6{Class: 0xc0, Next: craft.ICMPv6, HopLimit: 63, Source: router, Destination: host}
	p := header.With(message(kind, code, word, quote).Body)
	return craft.Seal(p)
}

// extended pads a quote to at least 128 bytes, and appends a label that a router
// adds (RFC 4950).
func extended(quote []byte) (padded []byte, words uint32) {
	length := max(128, (len(quote)+7)&^7)
	padded = append(bytes.Clone(quote), make([]byte, length-len(quote))...)
	return append(padded, 0x20, 0, 0x9f, 0x3b, 0, 8, 1, 1, 0, 0x3e, 0x91, 1), uint32(length / 8)
}

func TestRelay(t *testing.T) {
	node := encapsulating(t, model.ModeEncap)
	inner := datagram(100)
	quote := tunnelled(t, node, inner)
	withLabel, words := extended(quote)
	bareWithLabel, bareWords := extended(inner)
	from := func(a netip.Addr, m icmpv6.Message) icmpv6.Message { m.Source = a; return m }
	right := message(icmpv6.TimeExceeded, 0, 0, quote)
	by := func(i model.IfIndex, m icmpv6.Message) icmpv6.Message { m.Interface = i; return m }
	limit := func(n uint8) icmpv6.Message { m := right; m.HopLimit = n; return m }
	for _, test := range []struct {
		name    string
		message icmpv6.Message
		result  Result
		want    []byte
	}{
		{"hop limit exceeded", right, Relayed, want(icmpv6.TimeExceeded, 0, 0, inner)},
		{"no route", message(icmpv6.Unreachable, 0, 0, quote), Relayed, want(icmpv6.Unreachable, 0, 0, inner)},
		{"prohibited", message(icmpv6.Unreachable, 1, 0, quote), Relayed, want(icmpv6.Unreachable, 1, 0, inner)},
		{"address unreachable", message(icmpv6.Unreachable, 3, 0, quote), Relayed, want(icmpv6.Unreachable, 3, 0, inner)},
		{"the tunnel's end has no port", message(icmpv6.Unreachable, 4, 0, quote), Relayed, want(icmpv6.Unreachable, 3, 0, inner)},
		{"source address failed policy", message(icmpv6.Unreachable, 5, 0, quote), Relayed, want(icmpv6.Unreachable, 5, 0, inner)},
		{"rejected", message(icmpv6.Unreachable, 6, 0, quote), Relayed, want(icmpv6.Unreachable, 6, 0, inner)},
		{"with extensions", message(icmpv6.TimeExceeded, 0, words<<24, withLabel), Relayed, want(icmpv6.TimeExceeded, 0, bareWords<<24, bareWithLabel)},
		{"a length beyond the quote", message(icmpv6.TimeExceeded, 0, 0xff<<24, quote), Relayed, want(icmpv6.TimeExceeded, 0, 0, inner)},
		{"a length of what extensions cannot be behind", message(icmpv6.TimeExceeded, 0, 1<<24, quote), Relayed, want(icmpv6.TimeExceeded, 0, 0, inner)},
		{"too big without the tunnel, too", message(icmpv6.TooBig, 0, 99, quote), Relayed, want(icmpv6.TooBig, 0, 99, inner)},
		{"too big with the tunnel", message(icmpv6.TooBig, 0, 100, quote), TunnelOwn, nil},
		{"parameter problem", message(icmpv6.ParameterProblem, 2, 44, quote), TunnelOwn, nil},
		{"as much as the minimum MTU holds", message(icmpv6.TimeExceeded, 0, 0, tunnelled(t, node, datagram(1380))[:1232]), Relayed,
			want(icmpv6.TimeExceeded, 0, 0, datagram(1380)[:1232-removed])},
		{"more than that", message(icmpv6.TimeExceeded, 0, 0, tunnelled(t, node, datagram(1380))[:1233]), Malformed, nil},
		{"8 bytes of UDP", message(icmpv6.TimeExceeded, 0, 0, quote[:removed+48]), Relayed, want(icmpv6.TimeExceeded, 0, 0, inner[:48])},
		{"7 bytes of UDP", message(icmpv6.TimeExceeded, 0, 0, quote[:removed+47]), TooShort, nil},
		{"the bare packet", message(icmpv6.TimeExceeded, 0, 0, inner), Foreign, nil},
		{"another tunnel", message(icmpv6.TimeExceeded, 0, 0, append(quote[:23:23], append([]byte{9}, quote[24:]...)...)), Foreign, nil},
		{"last hop", limit(2), Relayed, func() []byte { p := want(icmpv6.TimeExceeded, 0, 0, inner); p[7] = 1; return p }()},
		{"no hop is left", limit(1), Unsent, nil},
		{"no hop limit", limit(0), Unsent, nil},
		{"echo request", message(128, 0, 0, quote), Malformed, nil},
		{"informational", message(255, 0, 0, quote), Malformed, nil},
		{"no type", message(0, 0, 0, quote), Malformed, nil},
		{"7 bytes", icmpv6.Message{Body: right.Body[:7], Source: router, HopLimit: 64}, Malformed, nil},
		{"nothing quoted", message(icmpv6.TimeExceeded, 0, 0, nil), TooShort, nil},
		{"from outside of the domain", by(7, right), Outside, nil},
		{"parameter problem from outside", by(7, message(icmpv6.ParameterProblem, 2, 44, quote)), Outside, nil},
		{"from outside, with no hop left", by(7, limit(1)), Outside, nil},
		{"from outside, about another's packet", by(7, message(icmpv6.TimeExceeded, 0, 0, inner)), Foreign, nil},
		{"by another interface", by(8, right), Relayed, want(icmpv6.TimeExceeded, 0, 0, inner)},
		{"from a link-local address", from(netip.MustParseAddr("fe80::1"), right), Malformed, nil},
		{"from a multicast group", from(netip.MustParseAddr("ff02::1"), right), Malformed, nil},
		{"from nowhere", from(netip.IPv6Unspecified(), right), Malformed, nil},
		{"from loopback", from(netip.IPv6Loopback(), right), Malformed, nil},
		{"from IPv4", from(netip.MustParseAddr("::ffff:192.0.2.1"), right), Malformed, nil},
		{"from no address", from(netip.Addr{}, right), Malformed, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r Relay
			var sent []byte
			result := r.Hear(
				test.message,
				Node{Reference: node, HasAddress: elsewhere, Outside: map[model.IfIndex]bool{7: true}},
				start,
				func(p []byte) error { sent = p; return nil },
			)
			if result != test.result || !bytes.Equal(sent, test.want) {
				t.Errorf("%v\n%x\nwant %v\n%x", result, sent, test.result, test.want)
			}
			for _, c := range r.Counts() {
				if (c.Errors == 1) != (c.Result == test.result) || c.Errors > 1 {
					t.Errorf("%v was counted %d times", c.Result, c.Errors)
				}
			}
		})
	}
}

// This node's own packets are only in a tunnel with mode encap; their errors have
// reached their destination.
func TestRelayToThisNode(t *testing.T) {
	for mode, result := range map[model.Mode]Result{model.ModeEncap: Relayed, model.ModeAuto: Foreign} {
		node := encapsulating(t, mode)
		m := message(icmpv6.TimeExceeded, 0, 0, tunnelled(t, node, datagram(100)))
		var r Relay
		var sent []byte
		own := Node{Reference: node, HasAddress: func(a netip.Addr) bool { return a == host }}
		if got := r.Hear(m, own, start, func(p []byte) error { sent = p; return nil }); got != result {
			t.Errorf("%v: %v, want %v", mode, got, result)
		}
		if (sent != nil) != (result == Relayed) || sent != nil && sent[7] != 64 {
			t.Errorf("%v: sent %x; want hop limit 64", mode, sent)
		}
	}
}

// A flood is limited: at once, and over time.
func TestLimit(t *testing.T) {
	node := Node{Reference: encapsulating(t, model.ModeEncap), HasAddress: elsewhere}
	right := message(icmpv6.TimeExceeded, 0, 0, tunnelled(t, node.Reference, datagram(100)))
	foreign := message(icmpv6.TimeExceeded, 0, 0, datagram(100))
	var r Relay
	sent := 0
	send := func([]byte) error { sent++; return nil }
	flood := func(now time.Time, n, want int) {
		t.Helper()
		sent = 0
		for i := range n {
			r.Hear(foreign, node, now, send) // takes no token
			if got := r.Hear(right, node, now, send); (got == Relayed) != (i < want) || got != Relayed && got != Limited {
				t.Fatalf("%d: %v; want %d relayed", i, got, want)
			}
		}
		if sent != want {
			t.Errorf("%d were sent, want %d", sent, want)
		}
	}
	flood(start, 1000, burst)
	flood(start.Add(10*time.Millisecond), 100, 10)
	flood(start.Add(5*time.Millisecond), 10, 0) // the clock was set back
	outside := right
	outside.Interface, node.Outside = 7, map[model.IfIndex]bool{7: true}
	for range 1000 { // these take no token, either
		r.Hear(outside, node, start.Add(time.Hour), send)
	}
	flood(start.Add(time.Hour), 1000, burst)
	counts := map[Result]uint64{}
	for _, c := range r.Counts() {
		counts[c.Result] = c.Errors
	}
	if counts[Relayed] != 2*burst+10 || counts[Limited] != 2110-2*burst-10 || counts[Foreign] != 2110 || counts[Outside] != 1000 {
		t.Errorf("counted %v", counts)
	}
	if got := r.Hear(right, node, start.Add(2*time.Hour), func([]byte) error { return errors.New("no route") }); got != Unsent {
		t.Errorf("%v, and the kernel refused", got)
	}
}

func TestResultNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range numResults {
		if name := r.String(); name == "" || name == "unknown" || seen[name] {
			t.Errorf("%d is called %q", r, name)
		} else {
			seen[name] = true
		}
	}
	if numResults.String() != "unknown" {
		t.Error("an undefined result has a name")
	}
}

// holdsIOAM reports whether an IPv6 packet has an IOAM option.
func holdsIOAM(packet []byte) bool {
	if packet[6] != byte(ioam.NextHeaderHopByHop) {
		return false
	}
	header, err := ioam.DecodeExtensionHeader(packet[40:])
	if err != nil {
		return true // unknown
	}
	for option := range header.Options() {
		if option.IsIOAM() {
			return true
		}
	}
	return false
}

// FuzzRelay never panics; what it sends is an error of the same type from the
// same router, not longer than what arrived, and without a byte of the outer
// headers.
func FuzzRelay(f *testing.F) {
	node := encapsulating(f, model.ModeEncap)
	quote := tunnelled(f, node, datagram(100))
	withLabel, words := extended(quote)
	for _, m := range []icmpv6.Message{
		message(icmpv6.TimeExceeded, 0, 0, quote), message(icmpv6.Unreachable, 4, words<<24, withLabel),
		message(icmpv6.TooBig, 0, 99, quote), message(icmpv6.ParameterProblem, 0, 40, quote[:50]),
	} {
		f.Add(m.Body, uint8(64))
	}
	f.Fuzz(func(t *testing.T, body []byte, hopLimit uint8) {
		var r Relay
		m := icmpv6.Message{Body: bytes.Clone(body), Source: router, HopLimit: hopLimit}
		var sent []byte
		result := r.Hear(
			m,
			Node{Reference: node, HasAddress: elsewhere, Outside: map[model.IfIndex]bool{7: true}},
			start,
			func(p []byte) error { sent = p; return nil },
		)
		if (result == Relayed) != (sent != nil) || !bytes.Equal(m.Body, body) {
			t.Fatalf("%v, sent %x", result, sent)
		}
		if sent == nil {
			return
		}
		rest := sent[48:]
		if sent[40] != body[0] || len(sent)-40 > len(body) || int(binary.BigEndian.Uint16(sent[4:])) != len(sent)-40 ||
			[16]byte(sent[8:24]) != router.As16() || [16]byte(sent[24:40]) != [16]byte(rest[8:24]) || holdsIOAM(rest) {
			t.Fatalf("%x became %x", body, sent)
		}
	})
}
