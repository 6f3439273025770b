// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/ioam"
)

func TestParseNamespace(t *testing.T) {
	schema := ioam.SchemaID(777)
	namespace := func(id ioam.NamespaceID, data config.Data, wide config.DataWide) config.Namespace {
		return config.Namespace{ID: id, Data: data, DataWide: wide}
	}
	const none32, none64 = 1<<32 - 1, 1<<64 - 1
	for _, tt := range []struct {
		in   string
		want NamespaceCommand
	}{
		{"", NamespaceCommand{Verb: Show}},
		{"sh", NamespaceCommand{Verb: Show}},
		{"list", NamespaceCommand{Verb: Show}},
		{"add 123", NamespaceCommand{Verb: Add, Namespace: namespace(123, none32, none64)}},
		{"a 0x7b wide 0xcafec0caf00dc0de data 0xdeadbeef", NamespaceCommand{Verb: Add, Namespace: namespace(123, 0xdeadbeef, 0xcafec0caf00dc0de)}},
		{"add 65535 data 1", NamespaceCommand{Verb: Add, Namespace: namespace(65535, 1, none64)}},
		{"delete 0", NamespaceCommand{Verb: Del}},
		{"d 5", NamespaceCommand{Verb: Del, Namespace: config.Namespace{ID: 5}}},
		{"set 5 schema 777", NamespaceCommand{Verb: Set, Namespace: config.Namespace{ID: 5}, Schema: &schema}},
		{"set 5 schema none", NamespaceCommand{Verb: Set, Namespace: config.Namespace{ID: 5}}},
	} {
		got, err := ParseNamespace(strings.Fields(tt.in))
		if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
			t.Errorf("namespace %s: %v (-want +got):\n%s", tt.in, err, diff)
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
	want := SchemaCommand{Verb: Add, Schema: config.Schema{ID: 777, Data: "rack 7"}}
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

// comparers look at addresses as values.
var comparers = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

const trace = "trace prealloc type 0x800000 ns 123 size 12"

func TestParseRoute(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	once := ioam.Frequency{K: 1, N: 1}
	options := []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}}}
	for _, tt := range []struct {
		in   string
		want config.Encapsulation
	}{
		{"add 2001:db8:2::/64 encap ioam6 " + trace + " dev eth1", config.Encapsulation{
			Name: "route-2001-db8-2--_64-eth1", Interface: "eth1", Match: config.Match{Destination: prefix("2001:db8:2::/64")},
			Frequency: once, Options: options}},
		{"add default encap ioam6 freq 3/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 " + trace + " dev eth1 name core", config.Encapsulation{
			Name: "core", Interface: "eth1", Match: config.Match{Destination: prefix("::/0")},
			Frequency: ioam.Frequency{K: 3, N: 100}, Mode: ioam.ModeEncap, Options: options,
			Tunnel: &config.Tunnel{Source: addr("2001:db8::1"), Destination: addr("2001:db8::3")}}},
		{"add dev eth1 to 2001:db8::1 encap ioam6 tundst 2001:db8::3 mode auto trace prealloc size 12 ns 0x7b type 8388608", config.Encapsulation{
			Name: "route-2001-db8--1_128-eth1", Interface: "eth1", Match: config.Match{Destination: prefix("2001:db8::1/128")},
			Frequency: once, Mode: ioam.ModeAuto, Options: options, Tunnel: &config.Tunnel{Source: netip.IPv6Unspecified(), Destination: addr("2001:db8::3")}}},
		{"del 2001:db8:2::/64", config.Encapsulation{Match: config.Match{Destination: prefix("2001:db8:2::/64")}}},
		{"del name core", config.Encapsulation{Name: "core"}},
		{"show dev eth1", config.Encapsulation{Interface: "eth1"}},
		{"", config.Encapsulation{}},
	} {
		got, err := ParseRoute(strings.Fields(tt.in))
		if err != nil {
			t.Errorf("route %s: %v", tt.in, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got.Rule, comparers); diff != "" {
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
	port := ioam.PortRange{From: 9, To: 9}
	e := config.Encapsulation{Name: "core", Interface: "eth1", Frequency: ioam.Frequency{K: 1, N: 1},
		Match:   config.Match{DestinationPort: &port},
		Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}}}}
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
		if diff := cmp.Diff(c, again, comparers); diff != "" {
			t.Fatalf("%q prints %q (-want +got):\n%s", line, FormatRoute(c.Rule), diff)
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
