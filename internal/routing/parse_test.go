// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/netlinkattr"
	"github.com/waymark-net/waymark/test/craft"
)

// Messages of Linux 6.18 about policy rules, with the output of `ip -6 rule`.
var rules = []struct {
	name    string
	message string
	want    datapath.RouteKey
}{
	{"from all lookup local", "0a000000ff0000010000000008000f00ff00000008000e00ffffffff0500150002000000", datapath.RouteByDestination},
	{"from all iif a lookup 100", "0a000000640000010800000008000f006400000008000e00ffffffff0500150000000000060003006100000008000600fc7f0000", datapath.RouteByDestination},
	{"from 2001:db8::/32 lookup 100", "0a002000640000010000000008000f006400000008000e00ffffffff050015000000000008000600fd7f00001400020020010db8000000000000000000000000", datapath.RouteByFlow},
	{"from all tos 0x10 lookup 100", "0a000010640000010000000008000f006400000008000e00ffffffff050015000000000008000600fa7f0000", datapath.RouteByFlow},
	{"from all ipproto tcp dport 80 lookup 100", "0a000000640000010000000008000f006400000008000e00ffffffff050015000000000008000600fb7f0000080018005000500006001d00ffff00000500160006000000", datapath.RouteByPorts},
}

// The same for routes.
var routes = []struct {
	name    string
	message string
	want    bool
}{
	{"2001:db8:1::/64 dev v0", "0a400000fe0200010000000008000f00fe0000001400010020010db80001000000000000000000000800060000010000080004000300000024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000", false},
	{"2001:db8:2::/64 via 2001:db8:1::2 dev v0", "0a400000fe0300010000000008000f00fe0000001400010020010db800020000000000000000000008000600000400001400050020010db8000100000000000000000002080004000300000024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000", false},
	{"local 2001:db8:1::1 dev v0", "0a800000ff0200020000000008000f00ff0000001400010020010db80001000000000000000000010800060000000000080004000300000024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000", false},
	{"2001:db8:3::/64 nexthop via 2001:db8:1::2 nexthop via 2001:db8:1::3", "0a400000fe0300010000000008000f00fe0000001400010020010db800030000000000000000000008000600000400003c0009001c000000030000001400050020010db80001000000000000000000021c000000030000001400050020010db800010000000000000000000324000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000", true},
	{"2001:db8:4::/64 nhid 7 via 2001:db8:1::2 dev v0", "0a400000fe0300010000000008000f00fe0000001400010020010db8000400000000000000000000080006000004000008001e00070000001400050020010db8000100000000000000000002080004000300000024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000", true},
	{"2001:db8:5::/64 from 2001:db8:9::/64 via 2001:db8:1::2 dev v0", "0a404000fe0300010000000008000f00fe0000001400010020010db80005000000000000000000001400020020010db800090000000000000000000008000600000400001400050020010db8000100000000000000000002080004000300000024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000", true},
}

// The same for devices.
var devices = []struct {
	name    string
	message string
	index   model.IfIndex
	sends   bool
}{
	{"lo", "0101000008000100010000000c00030000000000000000000c00050000000000000000000c0006000000000000000000", 1, false},
	{"a veth whose other end has no NAPI", "0101000008000100020000000c00030023000000000000000c00050007000000000000000c0006000000000000000000", 2, false},
	{"a veth whose other end has NAPI", "0101000008000100030000000c00030067000000000000000c00050007000000000000000c0006000000000000000000", 3, true},
}

// message is an rtnetlink message's content with attributes of 4 bytes.
func message(kinds ...uint16) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0] = unix.AF_INET6
	for _, kind := range kinds {
		b = binary.NativeEndian.AppendUint16(b, 8)
		b = binary.NativeEndian.AppendUint16(b, kind)
		b = append(b, 1, 0, 0, 0)
	}
	return b
}

// ruleMessage is a rule's message with attributes of 4 bytes.
func ruleMessage(kinds ...uint16) []byte {
	b := message(kinds...)
	b[7], b[8], b[9], b[10], b[11] = ruleToTable, 0, 0, 0, 0
	return b
}

func TestNeedsOfRule(t *testing.T) {
	for _, tt := range rules {
		if got := needsOfRule(craft.Hex(t, tt.message)); got.key != tt.want || got.why != "" {
			t.Errorf("%s: key %d, %q; want %d", tt.name, got.key, got.why, tt.want)
		}
	}
	// attributes by their numbers in linux/fib_rules.h
	known := map[uint16]bool{}
	for want, kinds := range map[datapath.RouteKey][]uint16{
		datapath.RouteByDestination: {1, 3, 4, 6, 15, 17, 18, 19, 21},
		datapath.RouteByFlow:        {2, 25, 26, 27, 30},
		datapath.RouteByPorts:       {22, 23, 24, 28, 29},
	} {
		for _, kind := range kinds {
			known[kind] = true
			if got := needsOfRule(ruleMessage(kind)); got.key != want || got.why != "" {
				t.Errorf("a rule with attribute %d: key %d, %q; want %d", kind, got.key, got.why, want)
			}
		}
	}
	for kind := uint16(0); kind < 0x4000; kind++ { // all others need the stack
		if got := needsOfRule(ruleMessage(15, kind)); !known[kind] && (got.key&datapath.RouteByStack == 0 || got.why == "") {
			t.Errorf("a rule with attribute %d: key %d, %q", kind, got.key, got.why)
		}
	}
	if got := needsOfRule(ruleMessage(2, 24, 25)); got.key != datapath.RouteByPorts {
		t.Errorf("a rule with source and ports: key %d, want %d", got.key, datapath.RouteByPorts)
	}
}

// The values in rules that decide whether a program's lookup does the same as the
// stack.
func TestNeedsOfRuleValues(t *testing.T) {
	with := func(change func(b []byte)) []byte {
		b := ruleMessage(15, 14)
		copy(b[len(b)-4:], "\xff\xff\xff\xff")
		if change != nil {
			change(b)
		}
		return b
	}
	last := func(kind byte, value string) func(b []byte) {
		return func(b []byte) {
			b[len(b)-6] = kind
			copy(b[len(b)-4:], value)
		}
	}
	flags := func(f uint32) func(b []byte) {
		return func(b []byte) { binary.NativeEndian.PutUint32(b[8:], f) }
	}
	for _, tt := range []struct {
		name    string
		message []byte
		stack   bool
	}{
		{"no suppress_prefixlength", with(nil), false},
		{"suppress_prefixlength 0", with(last(14, "\x00\x00\x00\x00")), true},
		{"no suppress_ifgroup", with(last(13, "\xff\xff\xff\xff")), false},
		{"suppress_ifgroup 7", with(last(13, "\x07\x00\x00\x00")), true},
		{"no mark", with(last(10, "\x00\x00\x00\x00")), false},
		{"fwmark 1", with(last(10, "\x01\x00\x00\x00")), true},
		{"fwmark 0/0xff", with(last(16, "\xff\x00\x00\x00")), true},
		{"fwmark 0/0", with(last(16, "\x00\x00\x00\x00")), false},
		{"not", with(flags(2)), false},
		{"unresolved, detached, find a source", with(flags(0x1001c)), false},
		{"a flag of tomorrow", with(flags(0x20)), true},
		{"goto", with(func(b []byte) { b[7] = 2 }), false},
		{"nop", with(func(b []byte) { b[7] = 3 }), false},
		{"blackhole", with(func(b []byte) { b[7] = 6 }), false},
		{"unreachable", with(func(b []byte) { b[7] = 7 }), false},
		{"prohibit", with(func(b []byte) { b[7] = 8 }), false},
		{"an action of tomorrow", with(func(b []byte) { b[7] = 9 }), true},
		{"nothing", nil, true},
		{"a cut header", with(nil)[:unix.SizeofRtMsg-1], true},
		{"a cut attribute", with(nil)[:unix.SizeofRtMsg+5], true},
		{"an attribute longer than the message", append(ruleMessage(), 0xff, 0xff, 1, 0), true},
		{"an attribute shorter than its header", append(ruleMessage(), 3, 0, 1, 0), true},
	} {
		got := needsOfRule(tt.message)
		if (got.key&datapath.RouteByStack != 0) != tt.stack || (got.why != "") != tt.stack {
			t.Errorf("%s: key %d, %q", tt.name, got.key, got.why)
		}
	}
}

func TestShapeOfRoute(t *testing.T) {
	for _, tt := range routes {
		got := shapeOfRoute(craft.Hex(t, tt.message))
		if tt.want != got.spread || got.mtu != 0 || got.locked != 0 || got.why != "" {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	whole := craft.Hex(t, routes[0].message)
	for _, broken := range [][]byte{nil, whole[:unix.SizeofRtMsg-1], whole[:unix.SizeofRtMsg+5], append(message(), 0xff, 0xff, 1, 0)} {
		if s := shapeOfRoute(broken); !s.spread || s.why == "" {
			t.Errorf("% x: %+v; an unknown message must leave packets to the stack", broken, s)
		}
	}
	known := []uint16{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 20, 21, 22, 23, 24, 30}
	for kind := range uint16(0x4000) {
		b := message(kind)
		clear(b[8:12])
		if kind == unix.RTA_METRICS || kind == unix.RTA_MULTIPATH {
			b = b[:len(b)-4]
			b[12] = 4
		}
		if got := shapeOfRoute(b); (got.why == "") != slices.Contains(known, kind) {
			t.Errorf("a route with attribute %d: %+v", kind, got)
		}
	}
	odd := bytes.Clone(whole)
	odd[10] |= 1 // an unknown, future flag
	if s := shapeOfRoute(odd); s.why == "" {
		t.Error("an unknown flag goes unnoticed")
	}
}

// attribute is a netlink attribute.
func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, -len(b)&3)...)
}

func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func TestShapeOfMetrics(t *testing.T) {
	for _, tt := range []struct {
		name        string
		metrics     []byte
		mtu, locked uint32
		stack       bool
	}{
		{"none", nil, 0, 0, false},
		{"mtu 1300", attribute(2, number(1300)), 1300, 0, false},
		{"mtu lock 1300", append(attribute(1, number(4)), attribute(2, number(1300))...), 0, 1300, false},
		{"another lock", append(attribute(1, number(8)), attribute(2, number(1300))...), 1300, 0, false},
		{"advmss, hoplimit, congctl", slices.Concat(attribute(8, number(1200)), attribute(10, number(3)), attribute(16, []byte("reno\x00"))), 0, 0, false},
		{"features ecn", attribute(12, number(1)), 0, 0, false},
		{"features allfrag", attribute(12, number(8)), 0, 0, true},
		{"a metric of tomorrow", attribute(18, number(1)), 0, 0, true},
		{"a cut one", attribute(2, number(1300))[:6], 0, 0, true},
	} {
		b := message()
		clear(b[8:])
		got := shapeOfRoute(append(b, attribute(unix.RTA_METRICS, tt.metrics)...))
		if got.mtu != tt.mtu || got.locked != tt.locked || (got.why != "") != tt.stack || got.spread {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestShapeOfNextHop(t *testing.T) {
	header := make([]byte, nextHopHeader)
	for _, tt := range []struct {
		name    string
		message []byte
		stack   bool
		leaves  model.IfIndex
	}{
		{"via an interface", slices.Concat(header, attribute(1, number(7)), attribute(5, number(3)), attribute(6, make([]byte, 16))), false, 3},
		{"a group", slices.Concat(header, attribute(1, number(7)), attribute(3, []byte{0, 0}), attribute(2, make([]byte, 16))), false, 0},
		{"a resilient group", slices.Concat(header, attribute(1, number(7)), attribute(3, []byte{1, 0}), attribute(12, nil)), true, 0},
		{"a black hole", slices.Concat(header, attribute(1, number(7)), attribute(4, nil)), false, 0},
		{"an attribute of tomorrow", slices.Concat(header, attribute(1, number(7)), attribute(18, nil)), true, 0},
		{"a cut one", append(header[:8:8], 8, 0, 1, 0), true, 0},
		{"nothing", nil, true, 0},
	} {
		got := shapeOfNextHop(tt.message)
		if (got.why != "") != tt.stack || !got.spread || len(got.leaves) != min(int(tt.leaves), 1) || tt.leaves != 0 && !got.leaves[tt.leaves] {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestParseDevice(t *testing.T) {
	for _, tt := range devices {
		if index, sends := parseDevice(craft.Hex(t, tt.message)); index != tt.index || sends != tt.sends {
			t.Errorf("%s: device %d, sends %v; want %d, %v", tt.name, index, sends, tt.index, tt.sends)
		}
	}
	able := craft.Hex(t, devices[2].message)
	nameless := append(append([]byte(nil), able[:4]...), able[12:]...)
	for _, broken := range [][]byte{nil, able[:3], able[:4], able[:12], able[:20], nameless, append(able[:4:4], 0xff, 0xff, 1, 0)} {
		if index, sends := parseDevice(broken); sends {
			t.Errorf("% x: device %d sends", broken, index)
		}
	}
}

func FuzzRule(f *testing.F) {
	for _, tt := range rules {
		f.Add(craft.Hex(f, tt.message))
	}
	f.Fuzz(func(t *testing.T, rule []byte) {
		n := needsOfRule(rule)
		if (n.key&datapath.RouteByStack != 0) != (n.why != "") {
			t.Errorf("key %d, %q", n.key, n.why)
		}
		// an additional attribute never reduces the needs of a rule
		if len(rule) < unix.SizeofRtMsg || len(rule)%unix.NLA_ALIGNTO > 0 || !netlinkattr.Each(rule[unix.SizeofRtMsg:], func(uint16, []byte) {}) {
			return
		}
		more := append(append([]byte(nil), rule...), message(2, 24)[unix.SizeofRtMsg:]...)
		if got := needsOfRule(more); got.key != n.key|datapath.RouteByPorts || got.why != n.why {
			t.Errorf("with ports: key %d, %q; without: %d, %q", got.key, got.why, n.key, n.why)
		}
	})
}

func FuzzRoute(f *testing.F) {
	for _, tt := range routes {
		f.Add(craft.Hex(f, tt.message))
	}
	srh := slices.Concat(number(modeEncapReduced), []byte{0, 4, routingSegments, 1, 1, 0, 0, 0}, bytes.Repeat([]byte{0xfc}, 2*sidLength))
	for kind, encap := range map[byte][]byte{
		unix.LWTUNNEL_ENCAP_SEG6:       attribute(tunnelSRH, srh),
		unix.LWTUNNEL_ENCAP_SEG6_LOCAL: append(attribute(localAction, number(actionEndDT6)), attribute(localTable, number(254))...),
	} {
		b := append(message(), slices.Concat(attribute(unix.RTA_ENCAP_TYPE, []byte{kind, 0}), attribute(unix.RTA_ENCAP, encap))...)
		b[4], b[7] = unix.RT_TABLE_MAIN, unix.RTN_UNICAST
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, route []byte) {
		for _, r := range compileEncaps(shapeOfRoute(route).encaps, conditions{source: netip.MustParseAddr("2001:db8::1")}) {
			b := r.Behaviour
			if n := len(b.Header); b.Kind == datapath.BehaviourEncapsulate && (n < ipv6Header || n%8 != 0 || n > datapath.MaxBehaviourHeader) ||
				int(b.BlockBits)+int(b.SIDBits) > 128 || !r.Prefix.IsValid() ||
				(b.Kind == datapath.BehaviourStack) != (b.Reason != datapath.StackNone) {
				t.Errorf("%+v", r)
			}
		}
		var seen traits
		seen.examineMessage(unix.RTM_NEWROUTE, 0, route)
		if got, want := seen.routes.all(), shapeOfRoute(route); got.spread != want.spread || got.why != want.why || got.mtu != want.mtu {
			t.Errorf("a message %+v and a dump %+v of the same route differ", got, want)
		}
	})
}

func FuzzNextHop(f *testing.F) {
	f.Add(slices.Concat(make([]byte, nextHopHeader), attribute(1, number(7)), attribute(3, []byte{1, 0}), attribute(5, number(3))))
	f.Fuzz(func(t *testing.T, hop []byte) {
		s := shapeOfNextHop(hop)
		if !s.spread || s.why == "" && (len(hop) < nextHopHeader || !netlinkattr.Each(hop[nextHopHeader:], func(uint16, []byte) {})) {
			t.Errorf("%+v", s)
		}
	})
}

func FuzzLink(f *testing.F) {
	f.Add(slices.Concat(
		make([]byte, 4),
		number(7),
		make([]byte, 8),
		attribute(unix.IFLA_LINK, number(3)),
		attribute(
			unix.IFLA_LINKINFO,
			append(attribute(unix.IFLA_INFO_KIND, []byte("macvlan\x00")), attribute(unix.IFLA_INFO_DATA, attribute(1, number(8)))...),
		),
	))
	f.Fuzz(func(t *testing.T, message []byte) {
		l, whole := parseLink(message)
		if whole && l.index == 0 {
			t.Errorf("%+v", l)
		}
		l.diverts(map[model.IfIndex]datapath.Entrance{3: {}, l.index: {}})
		var s settings
		s.disabled, s.redirected = map[model.IfIndex]bool{}, map[model.IfIndex]bool{}
		s.readLink(message)
	})
}

func FuzzDevice(f *testing.F) {
	for _, tt := range devices {
		f.Add(craft.Hex(f, tt.message))
	}
	f.Fuzz(func(t *testing.T, device []byte) {
		if index, sends := parseDevice(device); sends && (index == 0 || len(device) < genericHeaderLength+8+12) {
			t.Errorf("device %d sends", index)
		}
	})
}

// Rules, routes and settings together determine the key.
func TestRouting(t *testing.T) {
	const destination, flow, ports, stack = datapath.RouteByDestination, datapath.RouteByFlow, datapath.RouteByPorts, datapath.RouteByStack
	spread := func(key datapath.RouteKey, hash int) *traits {
		return &traits{hash: hash, rules: seen[needs, *needs]{read: needs{key: key}}, routes: seen[shape, *shape]{read: shape{spread: true}}}
	}
	rules := func(read, added needs) *traits {
		return &traits{rules: seen[needs, *needs]{read: read, added: added}}
	}
	routes := func(read, added shape) *traits {
		t := &traits{routes: seen[shape, *shape]{read: read, added: added}}
		t.settings.smallestMTU = 1400
		return t
	}
	for _, tt := range []struct {
		name string
		seen *traits
		want datapath.RouteKey
		mtu  uint16
	}{
		{"plain routes", &traits{}, destination, 0},
		{"plain routes, policy 3", &traits{hash: 3}, destination, 0},
		{"spread, policy 0", spread(destination, 0), flow, 0},
		{"spread, policy 1", spread(destination, 1), stack, 0},
		{"spread, policy 2", spread(destination, 2), stack, 0},
		{"spread, policy 3", spread(destination, 3), stack, 0},
		{"rules by source", rules(needs{key: flow}, needs{}), flow, 0},
		{"rules by source, spread, policy 0", spread(flow, 0), flow, 0},
		{"rules by ports", rules(needs{key: ports}, needs{}), ports, 0},
		{"rules by ports, spread, policy 0", spread(ports, 0), stack, 0},
		{"a rule by source came", rules(needs{}, needs{key: flow}), flow, 0},
		{"a rule by mark came", rules(needs{key: flow}, byStack("a mark")), stack, 0},
		{"rules by marks and ports", rules(needs{key: stack | ports, why: "a mark"}, needs{}), stack, 0},
		{"a route with an MTU", routes(shape{mtu: 1300}, shape{}), destination, 1300},
		{"a route with a smaller MTU came", routes(shape{mtu: 1300}, shape{mtu: 1290}), destination, 1290},
		{"a locked MTU", routes(shape{locked: 1300}, shape{}), destination, 0},
		{"a locked MTU above a link's", routes(shape{locked: 1500, mtu: 1450}, shape{}), destination, 1400},
		{"an MTU above 65535", routes(shape{mtu: 100000}, shape{}), destination, 0},
		{"a route of tomorrow", routes(shape{why: "tomorrow"}, shape{}), stack, 0},
		{"a route of tomorrow came", routes(shape{}, shape{why: "tomorrow"}), stack, 0},
		{"IPsec", &traits{node: ipsecDecides}, stack, 0},
		{"a policy came", &traits{policies: true}, stack, 0},
		{"a link that diverts", &traits{links: "a bridge"}, stack, 0},
		{"a link that diverts came", &traits{link: "a bridge"}, stack, 0},
		{"an interface went", &traits{leaving: 1}, stack, 0},
		{"messages lost", &traits{messagesLost: true}, ports, 0},
	} {
		tt.seen.known = true
		if tt.mtu == 0 && tt.want != stack {
			tt.mtu = datapath.AnyMTU
		}
		got, why := tt.seen.routing()
		if want := (datapath.Routing{Key: tt.want, MTU: tt.mtu}); got != want || (why != "") != (tt.want == stack) {
			t.Errorf("%s: %+v, %q; want %+v", tt.name, got, why, want)
		}
		if tt.seen.known = false; true {
			if got, _ := tt.seen.routing(); got.Key != stack {
				t.Errorf("%s, nothing read yet: %+v", tt.name, got)
			}
		}
	}
}

// Only links that keep packets from being simply routed are reported.
func TestDiverts(t *testing.T) {
	entrances := map[model.IfIndex]datapath.Entrance{2: {Address: [6]byte{2, 0, 0, 0, 0, 2}}}
	own, other := []byte{2, 0, 0, 0, 0, 2}, []byte{2, 0, 0, 0, 0, 3}
	for _, tt := range []struct {
		name string
		link link
		want bool
	}{
		{"as the program knows it", link{index: 2, kind: "veth", address: own}, false},
		{"with another address", link{index: 2, kind: "veth", address: other}, true},
		{"a member", link{index: 2, master: 9, address: own}, true},
		{"another interface", link{index: 3, master: 9, address: other}, false},
		{"a VLAN on top", link{index: 3, lower: 2, kind: "vlan", address: own}, false},
		{"a tunnel on top", link{index: 3, lower: 2, kind: "vxlan"}, false},
		{"a macvlan in bridge mode", link{index: 3, lower: 2, kind: "macvlan", mode: 4, address: other}, false},
		{"a macvlan in passthru mode", link{index: 3, lower: 2, kind: "macvlan", mode: 8, address: own}, true},
		{"a macvlan in source mode", link{index: 3, lower: 2, kind: "macvlan", mode: 16, address: other}, true},
		{"a macvlan in a mode that is not said", link{index: 3, lower: 2, kind: "macvlan", address: other}, true},
		{"an ipvlan", link{index: 3, lower: 2, kind: "ipvlan", address: own}, true},
		{"a MACsec", link{index: 3, lower: 2, kind: "macsec", address: own}, true},
		{"what tomorrow brings", link{index: 3, lower: 2, kind: "tomorrow"}, true},
		{"an ipvlan elsewhere", link{index: 3, lower: 4, kind: "ipvlan"}, false},
	} {
		if why := tt.link.diverts(entrances); (why != "") != tt.want {
			t.Errorf("%s: %q", tt.name, why)
		}
	}
}
