// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/api"
)

func TestParseNamespace(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", `{"Verb":"show","Namespace":{"id":0},"Schema":null}`},
		{"sh", `{"Verb":"show","Namespace":{"id":0},"Schema":null}`},
		{"list", `{"Verb":"show","Namespace":{"id":0},"Schema":null}`},
		{"add 123", `{"Verb":"add","Namespace":{"id":123},"Schema":null}`},
		{"a 0x7b wide 0xcafec0caf00dc0de data 0xdeadbeef", `{"Verb":"add","Namespace":{"id":123,"data":"0xdeadbeef","data_wide":"0xcafec0caf00dc0de"},"Schema":null}`},
		{"add 65535 data 1", `{"Verb":"add","Namespace":{"id":65535,"data":"0x00000001"},"Schema":null}`},
		{"delete 0", `{"Verb":"del","Namespace":{"id":0},"Schema":null}`},
		{"d 5", `{"Verb":"del","Namespace":{"id":5},"Schema":null}`},
		{"set 5 schema 777", `{"Verb":"set","Namespace":{"id":5},"Schema":777}`},
		{"set 5 schema none", `{"Verb":"set","Namespace":{"id":5},"Schema":null}`},
	} {
		got, err := ParseNamespace(strings.Fields(tt.in))
		if err != nil {
			t.Errorf("namespace %s: %v", tt.in, err)
			continue
		}
		b, _ := json.Marshal(got)
		if diff := cmp.Diff(tt.want, string(b)); diff != "" {
			t.Errorf("namespace %s (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestNamespaceRefused(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"grow 1", `"grow": unknown command; say one of add, del, set, show`},
		{"add", "namespace id: a value is missing"},
		{"add 65536", `namespace id "65536": want a number from 0 to 0xffff`},
		{"add -1", `namespace id "-1": want a number from 0 to 0xffff`},
		{"add 1 data 0x100000000", `data "0x100000000": want a number from 0 to 0xffffffff`},
		{"add 1 wide 0x1ffffffffffffffff", `wide "0x1ffffffffffffffff": want a number from 0 to 0xffffffffffffffff`},
		{"add 1 data", "data: a value is missing"},
		{"add 1 data 1 data 2", "data: given twice"},
		{"add 1 colour red", `"colour": want data DATA32 or wide DATA64`},
		{"del 1 2", `"2": nothing more is expected here`},
		{"show 1", `"1": nothing more is expected here`},
		{"set 1", "namespace set ID: want schema {ID|none}"},
		{"set 1 data 3", "namespace set ID: want schema {ID|none}"},
		{"set 1 schema", "schema id: a value is missing"},
		{"set 1 schema 0xffffff", `schema id 0xffffff: this value says "no schema"; choose another`},
		{"set 1 schema none x", `"x": nothing more is expected here`},
		{"add 1_0", `namespace id "1_0": want a number from 0 to 0xffff`},
	} {
		if c, err := ParseNamespace(strings.Fields(tt.in)); err == nil || err.Error() != tt.want {
			t.Errorf("namespace %s: %+v, %v; want %s", tt.in, c, err, tt.want)
		}
	}
}

func TestParseSchema(t *testing.T) {
	c, err := ParseSchema([]string{"add", "777", "rack 7"})
	want := SchemaCommand{Verb: Add, Schema: api.Schema{ID: 777, Data: "rack 7"}}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, tt := range []struct {
		in   []string
		want string
	}{
		{[]string{"set", "1"}, `"set": unknown command; say one of add, del, show`},
		{[]string{"add", "1"}, "schema data: a value is missing"},
		{[]string{"add", "1", ""}, "schema data: 0 bytes; want 1 to 240, what one option can carry"},
		{[]string{"add", "1", strings.Repeat("x", 241)}, "schema data: 241 bytes; want 1 to 240, what one option can carry"},
		{[]string{"add", "0x1000000", "x"}, `schema id "0x1000000": want a number from 0 to 0xffffff`},
		{[]string{"add", "1", "rack", "7"}, `"7": nothing more is expected here`},
		{[]string{"del"}, "schema id: a value is missing"},
	} {
		if c, err := ParseSchema(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("schema %q: %+v, %v; want %s", tt.in, c, err, tt.want)
		}
	}
}

const trace = "trace prealloc type 0x800000 ns 123 size 12"

func TestParseRoute(t *testing.T) {
	prefix := func(s string) *netip.Prefix { p := netip.MustParsePrefix(s); return &p }
	addr := func(s string) *netip.Addr { a := netip.MustParseAddr(s); return &a }
	options := []api.Option{{Trace: &api.Trace{Namespace: 123, Type: 0x800000, Size: 12}}}
	for _, tt := range []struct {
		in   string
		want api.Encapsulation
	}{
		{"add 2001:db8:2::/64 encap ioam6 " + trace + " dev eth1", api.Encapsulation{
			Name: "route-2001-db8-2--_64-eth1", Interface: "eth1", Match: api.Match{Destination: prefix("2001:db8:2::/64")},
			Frequency: "1/1", Mode: "inline", Options: options}},
		{"add default encap ioam6 freq 3/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 " + trace + " dev eth1 name core", api.Encapsulation{
			Name: "core", Interface: "eth1", Match: api.Match{Destination: prefix("::/0")},
			Frequency: "3/100", Mode: "encap", Options: options,
			Tunnel: &api.Tunnel{Source: addr("2001:db8::1"), Destination: *addr("2001:db8::3")}}},
		{"add dev eth1 to 2001:db8::1 encap ioam6 tundst 2001:db8::3 mode auto trace prealloc size 12 ns 0x7b type 8388608", api.Encapsulation{
			Name: "route-2001-db8--1_128-eth1", Interface: "eth1", Match: api.Match{Destination: prefix("2001:db8::1/128")},
			Frequency: "1/1", Mode: "auto", Options: options, Tunnel: &api.Tunnel{Destination: *addr("2001:db8::3")}}},
		{"del 2001:db8:2::/64", api.Encapsulation{Match: api.Match{Destination: prefix("2001:db8:2::/64")}}},
		{"del name core", api.Encapsulation{Name: "core"}},
		{"show dev eth1", api.Encapsulation{Interface: "eth1"}},
		{"", api.Encapsulation{}},
	} {
		got, err := ParseRoute(strings.Fields(tt.in))
		if err != nil {
			t.Errorf("route %s: %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Rule, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("route %s (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestRouteRefused(t *testing.T) {
	const add = "add 2001:db8::/64 encap ioam6 "
	for _, tt := range []struct{ in, want string }{
		{"replace default", `"replace": unknown command; say one of add, del, show`},
		{"add", "the destination is missing"},
		{"del", "the destination is missing"},
		{"add dev eth1 encap ioam6 " + trace, "the destination is missing"},
		{"add 2001:db8::/64 dev eth1", "encap ioam6 is missing"},
		{"add 2001:db8::/64 encap seg6 mode encap dev eth1", "encap seg6: only ioam6 is served here"},
		{"add 192.0.2.0/24 encap ioam6 " + trace + " dev eth1", "192.0.2.0/24: IOAM rides on IPv6"},
		{"add ::ffff:192.0.2.0/120 encap ioam6 " + trace + " dev eth1", "want an IPv6 prefix"},
		{"add 2001:db8::1/64 encap ioam6 " + trace + " dev eth1", "2001:db8::1/64: bits are set behind the prefix; say 2001:db8::/64"},
		{"add fe80::1%eth0 encap ioam6 " + trace + " dev eth1", "want an IPv6 prefix"},
		{"add nonsense", `"nonsense": want an IPv6 prefix`},
		{add + trace, "dev is missing"},
		{add + trace + " dev", "dev: a value is missing"},
		{add + trace + " dev eth1 dev eth2", "dev: given twice"},
		{add + trace + " dev eth1 via fe80::1", "via: not used here: the kernel's routes stay as they are"},
		{add + trace + " dev eth1 quickly", `"quickly": unknown word; say encap, dev or name`},
		{add + trace + " type 0x400000 dev eth1", "type: given twice"},
		{add + "freq 1/2 freq 1/2 " + trace + " dev eth1", "freq: given twice"},
		{add + "freq 2 " + trace + " dev eth1", `freq "2": want K/N`},
		{add + "freq 0/0 " + trace + " dev eth1", "freq 0/0: the first K of every N packets need 1 ≤ K ≤ N ≤ 1000000"},
		{add + "freq 3/2 " + trace + " dev eth1", "freq 3/2: the first K"},
		{add + "freq 1/1000001 " + trace + " dev eth1", "freq 1/1000001: the first K"},
		{add + "freq x/2 " + trace + " dev eth1", `freq K "x": want a number`},
		{add + "mode sideways " + trace + " dev eth1", `mode "sideways": want inline, encap or auto`},
		{add + "tunsrc 2001:db8::1 " + trace + " dev eth1", "tunsrc: mode inline adds no outer header"},
		{add + "tundst 2001:db8::1 " + trace + " dev eth1", "tundst: mode inline adds no outer header"},
		{add + "mode encap " + trace + " dev eth1", "tundst is missing: mode encap needs"},
		{add + "mode auto tunsrc 2001:db8::1 " + trace + " dev eth1", "tundst is missing: mode auto needs"},
		{add + "mode encap tundst :: " + trace + " dev eth1", "tundst ::: want the unicast address of a node"},
		{add + "mode encap tundst ff02::1 " + trace + " dev eth1", "tundst ff02::1: want the unicast address"},
		{add + "mode encap tundst 192.0.2.1 " + trace + " dev eth1", "tundst 192.0.2.1: the tunnel is IPv6-in-IPv6"},
		{add + "dex ns 1", "dex: direct exporting is not served yet"},
		{add + "dev eth1", `"dev": unknown word; say freq, mode, tunsrc, tundst or trace`},
		{add, "trace is missing"},
		{add + "trace incr", "trace: want prealloc"},
		{add + "trace prealloc type 0x800000 ns 1 dev eth1", "size is missing"},
		{add + "trace prealloc size 4 ns 1 dev eth1", "type is missing"},
		{add + "trace prealloc size 4 type 0x800000 dev eth1", "ns is missing"},
		{add + "trace prealloc type 0 ns 1 size 4 dev eth1", "type 0x000000: trace type not usable"},
		{add + "trace prealloc type 0x000800 ns 1 size 4 dev eth1", "undefined bits"},
		{add + "trace prealloc type 0x800001 ns 1 size 4 dev eth1", "reserved bit 23"},
		{add + "trace prealloc type 0x1000000 ns 1 size 4 dev eth1", "want a number from 0 to 0xffffff"},
		{add + "trace prealloc type 0x800000 ns 1 size 6 dev eth1", "size 6: want a multiple of 4 from 4 to 244"},
		{add + "trace prealloc type 0x800000 ns 1 size 248 dev eth1", "size 248: want a multiple of 4"},
		{add + "trace prealloc type 0x800000 ns 1 size 0 dev eth1", "size 0: want a multiple of 4"},
		{"del 2001:db8::/64 encap ioam6 " + trace, "encap: not used with del"},
	} {
		if c, err := ParseRoute(strings.Fields(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("route %s: %+v, %v; want %s", tt.in, c, err, tt.want)
		}
	}
}

func TestFormatRouteSaysWhatItCannot(t *testing.T) {
	port := api.Ports{From: 9, To: 9}
	e := api.Encapsulation{Name: "core", Interface: "eth1", Frequency: "1/1", Mode: "inline",
		Match:   api.Match{DestinationPort: &port},
		Options: []api.Option{{Trace: &api.Trace{Namespace: 123, Type: 0x800000, Size: 12}}}}
	want := "default encap ioam6 freq 1/1 mode inline " + trace + " dev eth1 name core [and more criteria]"
	if got := FormatRoute(e); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzParseRoute holds the parser to its own printer: what it accepts, it
// prints in words that it reads as the same rule.
func FuzzParseRoute(f *testing.F) {
	for _, seed := range []string{
		"add 2001:db8:2::/64 encap ioam6 " + trace + " dev eth1",
		"add default encap ioam6 freq 3/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 " + trace + " dev eth1 name core",
		"del 2001:db8:2::/64 dev eth1", "show", "add ::/0 encap ioam6 mode auto tundst ::1 trace prealloc",
		"add to ::1 dev x encap ioam6 dex ns 1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		c, err := ParseRoute(args)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Error("an error without words")
			}
			return
		}
		if c.Verb != Add {
			return
		}
		again, err := ParseRoute(append([]string{"add"}, strings.Fields(FormatRoute(c.Rule))...))
		if err != nil {
			t.Fatalf("%q prints %q: %v", line, FormatRoute(c.Rule), err)
		}
		want, _ := json.Marshal(c)
		got, _ := json.Marshal(again)
		if string(got) != string(want) {
			t.Fatalf("%q prints %q:\n%s\n%s", line, FormatRoute(c.Rule), want, got)
		}
	})
}

// FuzzParseIOAM looks for panics and for refusals without a reason.
func FuzzParseIOAM(f *testing.F) {
	for _, seed := range []string{"add 123 data 0xdeadbeef wide 1", "set 1 schema none", "add 777 rack", "del 1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		if c, err := ParseNamespace(args); err == nil && c.Verb == Set && len(args) != 4 {
			t.Errorf("namespace %q accepted as %+v", line, c)
		}
		if c, err := ParseSchema(args); err == nil && c.Verb == Add && (len(args) != 3 || c.Schema.Data != args[2]) {
			t.Errorf("schema %q accepted as %+v", line, c)
		}
	})
}
