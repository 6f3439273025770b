// SPDX-License-Identifier: Apache-2.0

package iproute2

import (
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
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
		{"grow 1", `"grow": unknown command; use one of add, del, set, show`},
		{"add", "namespace id: a value is missing"},
		{"add 65536", `namespace id "65536": want a number from 0 to 0xffff`},
		{"add -1", `namespace id "-1": want a number from 0 to 0xffff`},
		{"add 1 data 0x100000000", `data "0x100000000": want a number from 0 to 0xffffffff`},
		{"add 1 wide 0x1ffffffffffffffff", `wide "0x1ffffffffffffffff": want a number from 0 to 0xffffffffffffffff`},
		{"add 1 data", "data: a value is missing"},
		{"add 1 data 1 data 2 data 3", "wide: given twice"},
		{"add 1 data 1 wide 2 data 3", "wide: given twice"},
		{"add 1 data 0x100000000", `data "0x100000000": want a number from 0 to 0xffffffff`},
		{"add 1 colour red", `"colour": want data DATA32, wide DATA64, export WAY, pot FILE, or one of remove, e2e, incremental, loopback, terminate-active, drop-rejected with on or off`},
		{"del 1 2", `"2": nothing more is expected here`},
		{"show 1", `"1": nothing more is expected here`},
		{"set 1", "namespace set ID: want schema {ID|none}, export WAY, pot {FILE|none}, or some of remove, e2e, incremental, loopback, terminate-active, drop-rejected with on or off"},
		{"set 1 pot", "pot: want the file with this node's key, as 'waymark pot generate' makes it, or none"},
		{"set 1 pot a pot b", "pot: given twice"},
		{"set 1 drop-rejected", "drop-rejected: a value is missing"},
		{"add 1 drop-rejected on", "namespace 1 has no proof of transit whose packets could be dropped; name the file with this node's key, too: pot FILE drop-rejected on"},
		{"set 1 data 3", "namespace set ID: want schema {ID|none}, export WAY, pot {FILE|none}, or some of remove, e2e, incremental, loopback, terminate-active, drop-rejected with on or off"},
		{"set 1 schema", "schema id: a value is missing"},
		{"set 1 schema 0xffffff", `schema id 0xffffff: this value means "no schema"; choose another`},
		{"set 1 schema none x", `"x": nothing more is expected here`},
		{"add 1 remove", "remove: a value is missing"},
		{"add 1 remove yes", `remove "yes": want on or off`},
		{"add 1 e2e on e2e off", "e2e: given twice"},
		{"set 1 remove", "remove: a value is missing"},
		{"set 1 loopback 1", `loopback "1": want on or off`},
		{"set 1 remove on remove off", "remove: given twice"},
		{"set 1 remove on data 3", `"data": want pot, or one of remove, e2e, incremental, loopback, terminate-active, drop-rejected`},
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
		{[]string{"set", "1"}, `"set": unknown command; use one of add, del, show`},
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

// comparers compare addresses as values.
var comparers = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

const trace = "trace prealloc type 0x800000 ns 123 size 12"

func TestParseRoute(t *testing.T) {
	prefix, addr := netip.MustParsePrefix, netip.MustParseAddr
	once := model.Frequency{K: 1, N: 1}
	options := []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}}}
	for _, tt := range []struct {
		in   string
		want config.Encapsulation
	}{
		{"add 2001:db8:2::/64 encap ioam6 " + trace + " dev eth1", config.Encapsulation{
			Name: "route-2001-db8-2--_64-eth1", Interface: "eth1", Match: config.Match{Destination: prefix("2001:db8:2::/64")},
			Flows: 1, Frequency: once, Options: options}},
		{"add default encap ioam6 freq 3/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 " + trace + " dev eth1 name core", config.Encapsulation{
			Name: "core", Interface: "eth1", Match: config.Match{Destination: prefix("::/0")},
			Flows: 1, Frequency: model.Frequency{K: 3, N: 100}, Mode: model.ModeEncap, Options: options,
			Tunnel: &config.Tunnel{Source: addr("2001:db8::1"), Destination: addr("2001:db8::3")}}},
		{"add dev eth1 to 2001:db8::1 encap ioam6 tundst 2001:db8::3 mode auto trace prealloc size 12 ns 0x7b type 8388608", config.Encapsulation{
			Name: "route-2001-db8--1_128-eth1", Interface: "eth1", Match: config.Match{Destination: prefix("2001:db8::1/128")},
			Flows: 1, Frequency: once, Mode: model.ModeAuto, Options: options, Tunnel: &config.Tunnel{Destination: addr("2001:db8::3")}}},
		{"replace 2001:db8::1 dport 9 tos 1 encap ioam6 " + trace + " " + trace + " dev eth1", config.Encapsulation{
			Name: "route-2001-db8--1_128-eth1-tos-0x01-dport-9", Interface: "eth1", Flows: 1, Frequency: once, Options: append(options, options...),
			Match: config.Match{Destination: prefix("2001:db8::1/128"), DestinationPort: &model.PortRange{From: 9, To: 9}, TrafficClass: new(config.TrafficClass(1))}}},
		{"add default encap ioam6 " + trace + " loopback 1/100 dev eth1", config.Encapsulation{
			Name: "route-default-eth1", Interface: "eth1", Match: config.Match{Destination: prefix("::/0")}, Flows: 1, Frequency: once,
			Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12, Loopback: 100}}}}},
		{"del name 'core 1'", config.Encapsulation{Name: "core 1"}},
		{"del 2001:db8:2::/64", config.Encapsulation{Match: config.Match{Destination: prefix("2001:db8:2::/64")}}},
		{"del name core", config.Encapsulation{Name: "core"}},
		{"show dev eth1", config.Encapsulation{Interface: "eth1"}},
		{"", config.Encapsulation{}},
	} {
		got, err := ParseRoute(splitShell(tt.in))
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
		{"grow default", `"grow": unknown command; use one of add, append, change, replace, del, show`},
		{"change default", "encap ioam6 is missing: change is for IOAM rules here"},
		{"prep default", "prepend: not supported here: use add"},
		{"get 2001:db8::1", "get: not supported here: 'route show' lists the rules"},
		{"flu", "flush: not supported here: remove rules one by one with del"},
		{"replace default dev eth1", "encap ioam6 is missing: replace is for IOAM rules here"},
		{"del dport 9", "the destination is missing"},
		{"replace encap ioam6 " + trace + " dev eth1 name core", "the destination is missing"},
		{"show encap ioam6", "encap: not used with show"},
		{add + trace + " dev eth1 from 192.0.2.0/24", "from: 192.0.2.0/24: IOAM needs IPv6"},
		{add + trace + " dev eth1 dport 65536", "dport: "},
		{add + trace + " dev eth1 sport 5-4", "sport: the range 5-4 ends before it begins; want a port"},
		{add + trace + " dev eth1 ipproto nonsense", `ipproto: "nonsense" is not a known protocol; want a number from 0 to 255`},
		{add + trace + " dev eth1 flowlabel 0x100000", "flowlabel: "},
		{add + trace + " dev eth1 tos 1 dsfield 1", "tos: given twice"},
		{add + trace + " trace prealloc type 0x800000 ns 123 dev eth1", "size is missing"},
		{"add", "the destination is missing"},
		{"del", "the destination is missing"},
		{"add dev eth1 encap ioam6 " + trace, "the destination is missing"},
		{"add 2001:db8::/64 dev eth1", "encap ioam6 is missing"},
		{"add 2001:db8::/64 encap seg6 mode encap dev eth1", "encap seg6: only ioam6 is supported here"},
		{"add 192.0.2.0/24 encap ioam6 " + trace + " dev eth1", "192.0.2.0/24: IOAM needs IPv6"},
		{"add ::ffff:192.0.2.0/120 encap ioam6 " + trace + " dev eth1", "want an IPv6 prefix"},
		{"add 2001:db8::1/64 encap ioam6 " + trace + " dev eth1", "2001:db8::1/64: bits are set after the prefix; use 2001:db8::/64"},
		{"add fe80::1%eth0 encap ioam6 " + trace + " dev eth1", "want an IPv6 prefix"},
		{"add nonsense", `"nonsense": want an IPv6 prefix`},
		{add + trace, "dev is missing"},
		{add + trace + " dev", "dev: a value is missing"},
		{add + trace + " dev eth1 dev eth2", "dev: given twice"},
		{add + trace + " dev eth1 via", "via: a value is missing"},
		{add + trace + " dev eth1 via fe80::1 via fe80::2", "via: given twice"},
		{add + trace + " dev eth1 via inet 192.0.2.1", `via "inet": want the IPv6 address of a router`},
		{add + trace + " dev eth1 via 192.0.2.1", `via "192.0.2.1": want the IPv6 address of a router`},
		{add + trace + " dev eth1 table 100", "table 100: a rule acts on all packets that leave by an interface"},
		{add + trace + " dev eth1 metric x", `metric "x": want a number`},
		{add + trace + " dev eth1 src 2001:db8::1", "src: not used here: the kernel's routes do not change, and this rule acts on packets that leave by an interface; remove it; to select packets by their source, use from PREFIX"},
		{add + trace + " dev eth1 nexthop via fe80::1", "nexthop: not used here"},
		{add + trace + " oif eth1 dev eth2", "dev: given twice"},
		{"show via fe80::1", "via: not used with show"},
		{add + trace + " dev eth1 quickly", `"quickly": unknown word; use encap, dev, name, or one of from`},
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
		{add + "dev eth1", `"dev": unknown word; use freq, flows, budget, mode, nested, tunsrc, tundst, trace, dex, pot or e2e`},
		{add, "trace, dex, pot or e2e is missing"},
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
	} {
		if c, err := ParseRoute(strings.Fields(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("route %s: %+v, %v; want %s", tt.in, c, err, tt.want)
		}
	}
}

// splitShell splits like a shell, as far as FormatRoute quotes.
func splitShell(line string) []string {
	var list []string
	var word strings.Builder
	begun, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			begun, quoted = true, !quoted
		case quoted || c != ' ' && c != '\\':
			begun = true
			word.WriteByte(c)
		case c == '\\':
			i++
			begun = true
			word.WriteByte(line[i])
		case begun:
			list = append(list, word.String())
			word.Reset()
			begun = false
		}
	}
	if begun {
		list = append(list, word.String())
	}
	return list
}

// everything is a rule that uses every word.
func everything() config.Encapsulation {
	tcp, class, label := ioam.NextHeaderTCP, config.TrafficClass(0x2e), config.FlowLabel(0x12345)
	source, destination := model.PortRange{From: 1000, To: 2000}, model.PortRange{From: 9, To: 9}
	return config.Encapsulation{
		Name: "it's core", Interface: "eth1.7",
		Match: config.Match{Destination: netip.MustParsePrefix("2001:db8:2::/64"), Source: netip.MustParsePrefix("2001:db8::/32"),
			NextHeader: &tcp, SourcePort: &source, DestinationPort: &destination, TrafficClass: &class, FlowLabel: &label},
		Flows: 1, Frequency: model.Frequency{K: 3, N: 100}, Mode: model.ModeAuto,
		Tunnel: &config.Tunnel{Source: netip.MustParseAddr("2001:db8::1"), Destination: netip.MustParseAddr("2001:db8::3")},
		Options: []config.Option{{Trace: &config.TraceOption{Namespace: 123, Type: 0x800000, Size: 12}},
			{Trace: &config.TraceOption{Namespace: 5, Type: 0xf00002, Size: 244}}},
	}
}

func TestFormatRoute(t *testing.T) {
	const want = "2001:db8:2::/64 from 2001:db8::/32 tos 0x2e ipproto tcp sport 1000-2000 dport 9 flowlabel 0x12345" +
		" encap ioam6 freq 3/100 mode auto tunsrc 2001:db8::1 tundst 2001:db8::3 trace prealloc type 0x800000 ns 123 size 12" +
		" trace prealloc type 0xf00002 ns 5 size 244 dev eth1.7 name "
	e := everything()
	if got := FormatRoute(e); got != want+`'it'\''s core'` {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	selection := "2001:db8:2::/64 from 2001:db8::/32 tos 0x2e ipproto tcp sport 1000-2000 dport 9 flowlabel 0x12345 " +
		"dev eth1.7 name 'it'\\''s core'"
	if got := FormatSelection(e); got != selection {
		t.Errorf("got  %s\nwant %s", got, selection)
	}
	e.Name = RouteName(e)
	if got := FormatRoute(e); got != strings.TrimSuffix(want, " name ") {
		t.Errorf("a name that is made is printed: %s", got)
	}
	e.Match.Destination = netip.Prefix{}
	if got := RouteName(e); got != "route-default-eth1.7-from-2001-db8--_32-tos-0x2e-ipproto-tcp-sport-1000-2000-dport-9-flowlabel-0x12345" {
		t.Errorf("the name is %s", got)
	}
}

// For every rule that a file may have, the words that show prints add the same rule,
// and select it but no different one.
func TestShowAddsAndDeletes(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 3000 {
		e := randomRule(r)
		line := FormatRoute(e)
		added, err := ParseRoute(append([]string{"add"}, splitShell(line)...))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !e.Match.Destination.IsValid() {
			e.Match.Destination = netip.MustParsePrefix("::/0") // the same
		}
		if diff := cmp.Diff(e, added.Rule, comparers); diff != "" {
			t.Fatalf("%s (-rule +added):\n%s", line, diff)
		}
		other := randomRule(r)
		for _, words := range []string{line, FormatSelection(e)} {
			del, err := ParseRoute(append([]string{"del"}, splitShell(words)...))
			if err != nil || !del.Selection().Selects(e) {
				t.Fatalf("del %s: %v, selects the rule: %v", words, err, err == nil && del.Selection().Selects(e))
			}
			var asked config.Selection // as the agent gets it
			if body, err := json.Marshal(del.Selection()); err != nil || json.Unmarshal(body, &asked) != nil || !asked.Selects(e) {
				t.Fatalf("del %s asks for %s, which does not select the rule (%v)", words, body, err)
			}
			other.Name = e.Name
			if asked.Selects(other) != del.Selection().Selects(other) {
				t.Fatalf("del %s: the agent selects otherwise", words)
			}
			if words == line && del.Selection().Selects(other) != (FormatRoute(other) == line) {
				t.Fatalf("del %s selects %s: %v", words, FormatRoute(other), del.Selection().Selects(other))
			}
			if other.Name += "x"; words != line && del.Selection().Selects(other) {
				t.Fatalf("del %s selects %s too", words, FormatRoute(other))
			}
		}
	}
}

// randomRule is a rule that a file may contain; each choice has few values, so that two
// rules often agree in some.
func randomRule(r *rand.Rand) config.Encapsulation {
	e := everything()
	full := e
	e.Match = config.Match{}
	maybe := func(set func()) {
		if r.IntN(2) == 0 {
			set()
		}
	}
	maybe(func() { e.Match.Destination = full.Match.Destination })
	maybe(func() { e.Match.Destination = netip.MustParsePrefix("::/0") })
	maybe(func() { e.Match.Source = full.Match.Source })
	maybe(func() { h := ioam.NextHeader(r.IntN(256)); e.Match.NextHeader = &h })
	maybe(func() { e.Match.SourcePort = &model.PortRange{From: uint16(r.IntN(9)), To: 9} })
	maybe(func() { e.Match.DestinationPort = &model.PortRange{From: 9, To: uint16(9 + r.IntN(3))} })
	maybe(func() { e.Match.SourcePort = &model.PortRange{} })
	maybe(func() { c := config.TrafficClass(r.IntN(256)); e.Match.TrafficClass = &c })
	maybe(func() { l := config.FlowLabel(r.IntN(1 << 20)); e.Match.FlowLabel = &l })
	maybe(func() { e.Name = RouteName(e) })
	maybe(func() { e.Name = []string{"$(x) y", "a b", "ü", "\"", "'", "*", "-"}[r.IntN(7)] })
	maybe(func() { e.Mode = model.ModeEncap })
	maybe(func() { e.Mode, e.Tunnel = model.ModeInline, nil })
	maybe(func() { e.Options = e.Options[:1] })
	maybe(func() { e.Flows = config.Share(1 + r.IntN(3)) })
	maybe(func() { e.Options = append(slices.Clone(e.Options), randomDirectExport(r)) })
	return e
}

func TestSelects(t *testing.T) {
	e := everything()
	const all = "2001:db8:2::/64 from 2001:db8::/32 tos 0x2e ipproto tcp sport 1000-2000 dport 9 flowlabel 0x12345"
	const traces = trace + " trace prealloc type 0xf00002 ns 5 size 244"
	for _, tt := range []struct {
		words string
		want  bool
	}{
		{"2001:db8:2::/64", true},
		{"2001:db8:2::/65", false},
		{"default", false},
		{"2001:db8:2::/64 dport 9", true},
		{"2001:db8:2::/64 dport 8", false},
		{"2001:db8:2::/64 sport 1000", false},
		{"2001:db8:2::/64 from all", true}, // no restriction
		{"2001:db8:2::/64 from 2001:db8::/33", false},
		{"2001:db8:2::/64 ipproto 6 dsfield 46 flowlabel 74565", true},
		{"2001:db8:2::/64 ipproto udp", false},
		{"2001:db8:2::/64 dev eth1", false},
		{"name core", false},
		{all + " encap ioam6 freq 3/100 mode auto tundst 2001:db8::3 " + traces, true},
		{all + " encap ioam6 freq 3/100 mode auto tunsrc ::1 tundst 2001:db8::3 " + traces, false},
		{all + " encap ioam6 " + traces, false},
		{"2001:db8:2::/64 encap ioam6 freq 3/100 mode auto tundst 2001:db8::3 " + traces, false}, // of a rule without further criteria
	} {
		c, err := ParseRoute(append([]string{"del"}, strings.Fields(tt.words)...))
		if err != nil || c.Selection().Selects(e) != tt.want {
			t.Errorf("del %s: %v; selects the rule: %v, want %v", tt.words, err, !tt.want, tt.want)
		}
	}
}

// FuzzParseRoute checks the parser against the printer: rules that it accepts are
// printed in words that it reads as the same rule.
func FuzzParseRoute(f *testing.F) {
	for _, seed := range []string{
		"add 2001:db8:2::/64 encap ioam6 " + trace + " dev eth1",
		"add default encap ioam6 freq 3/100 mode encap tunsrc 2001:db8::1 tundst 2001:db8::3 " + trace + " dev eth1 name core",
		"del 2001:db8:2::/64 dev eth1", "show", "add ::/0 encap ioam6 mode auto tundst ::1 trace prealloc",
		"add to ::1 dev x encap ioam6 dex ns 1 trace-type 0xc00000 ext-flags 0xc0",
		"add ::1 encap ioam6 mode inline nested trace prealloc type 0x800000 ns 1 size 4 dev x",
		"add ::1 dev x encap ioam6 flows 1/9 mode encap tundst ::2 dex ns 1 trace-type 1 flow-id 5 option-type 0x31 trace prealloc",
		"replace ::1 from ::/64 tos 0x2e ipproto udp sport 1-2 dport 9 flowlabel 1 dev x encap ioam6 " + trace + " " + trace + " name a'b",
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
		if c.Verb != Add && c.Verb != Replace {
			return
		}
		c.Verb = Add
		again, err := ParseRoute(append([]string{"add"}, splitShell(FormatRoute(c.Rule))...))
		again.Named = c.Named // a name that would be made anyway is not printed
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
	for _, seed := range []string{"add 123 data 0xdeadbeef wide 1", "set 1 schema none", "set 1 export sample 7", "set 1 pot none e2e on",
		"add 777 rack", "del 1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		if c, err := ParseNamespace(args); err == nil && c.Verb == Set && !c.SetExport && c.Change == nil && len(args) != 4 {
			t.Errorf("namespace %q accepted as %+v", line, c)
		}
		if c, err := ParseSchema(args); err == nil && c.Verb == Add && (len(args) != 3 || c.Schema.Data != args[2]) {
			t.Errorf("schema %q accepted as %+v", line, c)
		}
	})
}
