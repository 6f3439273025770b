// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

func TestResolveCollectors(t *testing.T) {
	c := mustParse(t, `export:
  - {kind: jsonl}
  - {kind: ipfix, address: "udp://[2001:db8::9]:4000"}
  - {kind: ipfix, address: "udp://192.0.2.9"}
  - {kind: ipfix, address: "tls://collector.example"}
  - {kind: ipfix, address: "tcp://nobody.example:1"}
collectors:
  - udp://[2001:db8::9]:4000
  - udp://[2001:db8::11]
  - tcp://[::ffff:192.0.2.9]
  - tcp://collector.example:4740
  - tcp://four.example
  - udp://nobody.example:1
`)
	six, four := netip.MustParseAddr("2001:db8::10"), netip.MustParseAddr("192.0.2.10")
	r, err := c.Resolve(fakeHost{names: map[string][]netip.Addr{"collector.example": {four, six}, "four.example": {four}}})
	want := []model.Collector{
		{Address: netip.MustParseAddr("2001:db8::9"), Port: 4000, Protocol: ioam.NextHeaderUDP},
		{Address: netip.MustParseAddr("2001:db8::11"), Port: 4739, Protocol: ioam.NextHeaderUDP},
		{Address: six, Port: 4740, Protocol: ioam.NextHeaderTCP},
	}
	if err != nil || !slices.Equal(r.Node.Collectors, want) {
		t.Errorf("%v, %v", r.Node.Collectors, err)
	}
	unspared := []Unspared{
		{"tcp://four.example:4739", "its name has no IPv6 address now"},
		{"udp://nobody.example:1", "its name has no IPv6 address now"},
	}
	if !slices.Equal(r.Unspared, unspared) {
		t.Errorf("%v", r.Unspared)
	}
}

// repeated is one line for each number below n.
func repeated(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// Names with more addresses than there is room for take none from other collectors, and
// the excess is reported.
func TestNamesBeyondTheBound(t *testing.T) {
	const literals = model.MaxCollectors - 3
	c := mustParse(t, "collectors:\n  - udp://many.example\n"+repeated(literals, "  - udp://[2001:db8::1:%d]\n")+"  - udp://late.example\n")
	var many []netip.Addr
	for i := range byte(5) {
		many = append(many, netip.AddrFrom16([16]byte{0x20, 15: i}))
	}
	r, err := c.Resolve(fakeHost{names: map[string][]netip.Addr{"many.example": many, "late.example": many[4:]}})
	want := []Unspared{
		{"udp://many.example:4739", fmt.Sprintf("2 of its 5 addresses exceed the limit of %d for all collectors together", model.MaxCollectors)},
		{"udp://late.example:4739", fmt.Sprintf("1 of its 1 addresses exceed the limit of %d for all collectors together", model.MaxCollectors)},
	}
	if err != nil || !slices.Equal(r.Unspared, want) || len(r.Node.Collectors) != model.MaxCollectors {
		t.Fatalf("%v, %v, %d collectors", err, r.Unspared, len(r.Node.Collectors))
	}
	for i, n := range r.Node.Collectors {
		if literal := i < literals; literal != strings.HasPrefix(n.Address.String(), "2001:db8::1:") {
			t.Errorf("collector %d is %v", i, n)
		}
	}
}

// Collectors to which sinks send now come before names, each once.
func TestPeersBeforeNames(t *testing.T) {
	c := mustParse(t, "export:\n  - {kind: ipfix, address: \"udp://many.example\"}\n  - {kind: ipfix, address: \"udp://[2001:db8::1]\"}\n")
	at := func(a string) model.Collector {
		return model.Collector{Address: netip.MustParseAddr(a), Port: 4739, Protocol: ioam.NextHeaderUDP}
	}
	many := []netip.Addr{netip.MustParseAddr("2001:db8::3"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("192.0.2.1")}
	r, err := c.Resolve(
		fakeHost{
			names: map[string][]netip.Addr{"many.example": many},
			peers: []model.Collector{at("2001:db8::2"), at("2001:db8::1"), at("192.0.2.1")},
		},
	)
	if want := []model.Collector{at("2001:db8::1"), at("2001:db8::2"), at("2001:db8::3")}; err != nil ||
		!slices.Equal(r.Node.Collectors, want) ||
		len(r.Unspared) != 0 {
		t.Errorf("%v, %v, %v", r.Node.Collectors, r.Unspared, err)
	}
}

// An absent list and an empty one are distinguished, also in the written form.
func TestNoMoreCollectors(t *testing.T) {
	for text, want := range map[string]string{"node: {}": "", "collectors:": "", "collectors: []": "collectors: []\n"} {
		c := mustParse(t, text)
		if shown := string(c.Marshal()); (c.Collectors == nil) != (want == "") || !strings.Contains(shown, want) ||
			strings.Contains(shown, "collectors") != (want != "") || !same(c, mustParse(t, shown)) {
			t.Errorf("%s: %v\n%s", text, c.Collectors, shown)
		}
	}
}

func TestFaultsOfCollectors(t *testing.T) {
	const most = model.MaxCollectors
	exporters := repeated(most, "  - {kind: ipfix, address: \"udp://[2001:db8::1:%d]\"}\n")
	tooMany := fmt.Sprintf("%d collectors are too many for export and collectors together; use at most %d", most+1, most)
	checkFaults(t, []faultCase{
		{"as exporters are", "collectors: [\"udp://2001:db8::9:4739\", \"[::1]:1\"]", []string{
			`1:14: collectors[0]: "2001:db8::9:4739" may be an address, or the address 2001:db8::9 and a port; write udp://[2001:db8::9]:4739, or udp://[2001:db8::9:4739] if all of it is the address`,
			`1:40: collectors[1]: "[::1]:1" does not begin with a transport, udp://, tcp:// or tls://; write an address such as "udp://[2001:db8::9]:4739", "tcp://…" or "tls://…"`}},
		{"not a list", "collectors: \"udp://[::1]\"", []string{`1:13: collectors is the text "udp://[::1]"; write a list: ["udp://[::1]"]`}},
		{"twice", "collectors: [\"udp://[::1]\", \"udp://[::1]:4739\"]", []string{`1:29: collectors lists udp://[::1]:4739 twice; remove one`}},
		{"too many exporters", "export:\n" + exporters + "  - {kind: ipfix, address: \"udp://[2001:db8::2]\"}\n", []string{
			fmt.Sprintf("%d:28: export[%d].address: %s", most+2, most, tooMany)}},
		{"too many together", "export:\n" + exporters + "collectors: [\"udp://[2001:db8::1:0]\", \"udp://192.0.2.1\", \"tcp://[2001:db8::1:0]\"]", []string{
			fmt.Sprintf("%d:58: collectors[2]: %s", most+2, tooMany)}},
	})
	mustParse(t, "export:\n"+exporters+"collectors: [\"udp://[2001:db8::1:0]\", \"udp://192.0.2.1\"]")
}
