// SPDX-License-Identifier: Apache-2.0

package routing

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/netlinkattr"
	"github.com/waymark-net/waymark/ioam"
)

// What Linux 6.18 says of policy rules, as `ip -6 rule` shows them.
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

// The same of routes.
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

// The same of devices.
var devices = []struct {
	name    string
	message string
	index   ioam.IfIndex
	sends   bool
}{
	{"lo", "0101000008000100010000000c00030000000000000000000c00050000000000000000000c0006000000000000000000", 1, false},
	{"a veth whose other end has no NAPI", "0101000008000100020000000c00030023000000000000000c00050007000000000000000c0006000000000000000000", 2, false},
	{"a veth whose other end has NAPI", "0101000008000100030000000c00030067000000000000000c00050007000000000000000c0006000000000000000000", 3, true},
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
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

func TestKeyOfRule(t *testing.T) {
	for _, tt := range rules {
		got, arrival := keyOfRule(unhex(t, tt.message))
		if got != tt.want || (arrival != "") != strings.Contains(tt.name, " iif "+arrival+" ") {
			t.Errorf("%s: key %d, iif %q; want %d", tt.name, got, arrival, tt.want)
		}
	}
	// attributes by their numbers in linux/fib_rules.h
	for want, kinds := range map[datapath.RouteKey][]uint16{
		datapath.RouteByDestination: {1, 3, 4, 6, 11, 13, 14, 15, 16, 17, 19, 20, 21},
		datapath.RouteByFlow:        {2, 25, 26, 27, 30},
		datapath.RouteByStack:       {10},
		datapath.RouteByPorts:       {12, 22, 23, 24, 28, 29, 31, 99, 0x3fff},
	} {
		for _, kind := range kinds {
			if got, _ := keyOfRule(message(15, kind)); got != want {
				t.Errorf("a rule with attribute %d: key %d, want %d", kind, got, want)
			}
		}
	}
	if got, _ := keyOfRule(message(2, 24, 25)); got != datapath.RouteByPorts {
		t.Errorf("a rule with source and ports: key %d, want %d", got, datapath.RouteByPorts)
	}
	whole := unhex(t, rules[0].message)
	for _, broken := range [][]byte{nil, whole[:unix.SizeofRtMsg-1], whole[:unix.SizeofRtMsg+5], append(message(), 0xff, 0xff, 1, 0), append(message(), 3, 0, 1, 0)} {
		if got, _ := keyOfRule(broken); got != datapath.RouteByPorts {
			t.Errorf("% x: key %d; what is not understood is asked of the kernel", broken, got)
		}
	}
}

func TestIsSpread(t *testing.T) {
	for _, tt := range routes {
		if got := isSpread(unhex(t, tt.message)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	whole := unhex(t, routes[0].message)
	for _, broken := range [][]byte{nil, whole[:unix.SizeofRtMsg-1], whole[:unix.SizeofRtMsg+5], append(message(), 0xff, 0xff, 1, 0)} {
		if !isSpread(broken) {
			t.Errorf("% x is not spread; what is not understood may be", broken)
		}
	}
}

func TestParseDevice(t *testing.T) {
	for _, tt := range devices {
		if index, sends := parseDevice(unhex(t, tt.message)); index != tt.index || sends != tt.sends {
			t.Errorf("%s: device %d, sends %v; want %d, %v", tt.name, index, sends, tt.index, tt.sends)
		}
	}
	able := unhex(t, devices[2].message)
	nameless := append(append([]byte(nil), able[:4]...), able[12:]...)
	for _, broken := range [][]byte{nil, able[:3], able[:4], able[:12], able[:20], nameless, append(able[:4:4], 0xff, 0xff, 1, 0)} {
		if index, sends := parseDevice(broken); sends {
			t.Errorf("% x: device %d sends", broken, index)
		}
	}
}

func FuzzRule(f *testing.F) {
	for _, tt := range rules {
		f.Add(unhex(f, tt.message))
	}
	f.Fuzz(func(t *testing.T, rule []byte) {
		switch key, _ := keyOfRule(rule); key {
		case datapath.RouteByDestination, datapath.RouteByFlow, datapath.RouteByPorts:
		default:
			if key&datapath.RouteByStack == 0 {
				t.Errorf("key %d", key)
			}
		}
		// more in a rule never asks for less
		if len(rule) < unix.SizeofRtMsg || len(rule)%unix.NLA_ALIGNTO > 0 || !netlinkattr.Each(rule[unix.SizeofRtMsg:], func(uint16, []byte) {}) {
			return
		}
		more := append(append([]byte(nil), rule...), message(2, 24)[unix.SizeofRtMsg:]...)
		if key, _ := keyOfRule(more); key&datapath.RouteByPorts != datapath.RouteByPorts {
			t.Error("ports in a rule go unnoticed")
		}
	})
}

func FuzzRoute(f *testing.F) {
	for _, tt := range routes {
		f.Add(unhex(f, tt.message))
	}
	f.Fuzz(func(t *testing.T, route []byte) {
		var seen traits
		seen.note(unix.RTM_NEWROUTE, 0, route)
		if seen.spread.Load() != isSpread(route) {
			t.Error("a message and a dump of the same route differ")
		}
	})
}

func FuzzDevice(f *testing.F) {
	for _, tt := range devices {
		f.Add(unhex(f, tt.message))
	}
	f.Fuzz(func(t *testing.T, device []byte) {
		if index, sends := parseDevice(device); sends && (index == 0 || len(device) < genericHeaderLength+8+12) {
			t.Errorf("device %d sends", index)
		}
	})
}

// The key is what rules, routes and settings together make of it.
func TestKey(t *testing.T) {
	const destination, flow, ports, stack = datapath.RouteByDestination, datapath.RouteByFlow, datapath.RouteByPorts, datapath.RouteByStack
	for _, tt := range []struct {
		name               string
		byRule, added      datapath.RouteKey
		spread, lost       bool
		hash               int
		ipsec, policy, off bool
		leaving            int32
		unread             bool
		want               datapath.RouteKey
	}{
		{name: "plain routes", want: destination},
		{name: "plain routes, policy 3", hash: 3, want: destination},
		{name: "spread, policy 0", spread: true, want: flow},
		{name: "spread, policy 1", spread: true, hash: 1, want: ports},
		{name: "spread, policy 2", spread: true, hash: 2, want: stack},
		{name: "spread, policy 3", spread: true, hash: 3, want: stack},
		{name: "rules by source", byRule: flow, want: flow},
		{name: "rules by source, spread, policy 0", byRule: flow, spread: true, want: flow},
		{name: "rules by source, spread, policy 1", byRule: flow, spread: true, hash: 1, want: ports},
		{name: "rules by ports", byRule: ports, want: ports},
		{name: "rules by ports, spread, policy 0", byRule: ports, spread: true, want: stack},
		{name: "rules by ports, spread, policy 1", byRule: ports, spread: true, hash: 1, want: ports},
		{name: "a rule by source came", added: flow, want: flow},
		{name: "a rule by mark came", byRule: flow, added: stack, want: stack},
		{name: "rules by marks and ports", byRule: stack | ports, want: stack},
		{name: "rules by marks, messages lost", byRule: stack, lost: true, want: stack},
		{name: "IPsec", ipsec: true, want: stack},
		{name: "a policy came", policy: true, want: stack},
		{name: "an interface went", leaving: 1, want: stack},
		{name: "messages lost", lost: true, want: ports},
		{name: "forwarding is off", off: true, want: stack},
		{name: "nothing read yet", unread: true, want: stack},
	} {
		seen := &traits{known: !tt.unread, byRule: tt.byRule, hash: tt.hash, off: tt.off, ipsec: tt.ipsec}
		seen.spread.Store(tt.spread)
		seen.added.Store(uint32(tt.added))
		seen.unknown.Store(tt.lost)
		seen.policies.Store(tt.policy)
		seen.leaving.Store(tt.leaving)
		if got := seen.key(); got != tt.want {
			t.Errorf("%s: key %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A VRF and its members are told from all others, and from what is not there.
func TestAnyAtVRF(t *testing.T) {
	link := func(index, master int, name string) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, MasterIndex: master, Name: name}
	}
	links := []netlink.Link{
		&netlink.Veth{LinkAttrs: link(2, 5, "member")}, &netlink.Veth{LinkAttrs: link(3, 0, "alone")}, &netlink.Veth{LinkAttrs: link(4, 6, "port")},
		&netlink.Vrf{LinkAttrs: link(5, 0, "red")}, &netlink.Bridge{LinkAttrs: link(6, 0, "bridge")},
	}
	for name, want := range map[string]bool{"member": true, "red": true, "alone": false, "port": false, "bridge": false, "gone": false} {
		if got := anyAtVRF(map[string]bool{"other": true, name: true}, links); got != want {
			t.Errorf("a rule by %s: %v", name, got)
		}
	}
}
