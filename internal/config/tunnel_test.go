// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

const served = "interfaces: [{name: eth0, role: [ingress, egress]}]\n"

func TestTunnelEnds(t *testing.T) {
	c := mustParse(t, full)
	got := c.build(model.NodeConfig{}, nil, nil, nil, true).node
	sources := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	address := netip.MustParseAddr
	want := []model.Decapsulation{
		{TunnelDestination: address("2001:db8:3::1")},
		{TunnelDestination: address("2001:db8:3::2"), Sources: sources("2001:db8:ff::/48", "2001:db8:1::2/128"), Bare: true},
		{TunnelDestination: address("2001:db8:3::3"), Sources: sources("::/0")},
		{TunnelDestination: address("2001:db8:3::4"), Bare: true},
	}
	if !reflect.DeepEqual(got.Decapsulations, want) {
		t.Errorf("decapsulations %+v, want %+v", got.Decapsulations, want)
	}
	if want := []netip.Addr{address("2001:db8:4::1"), address("2001:db8:4::2")}; !slices.Equal(got.TunnelDestinations, want) {
		t.Errorf("tunnel destinations %v, want %v", got.TunnelDestinations, want)
	}
	// an encapsulation that waits for its interface protects its tunnel's end
	left := c.build(model.NodeConfig{}, nil, nil, nil, false).node
	if want := address("2001:db8:3::1"); len(left.Encapsulations) > 0 || !slices.Contains(left.TunnelDestinations, want) {
		t.Errorf("%d encapsulations, tunnel destinations %v, want %v among them", len(left.Encapsulations), left.TunnelDestinations, want)
	}
	for _, text := range []string{"sources:", "bare: false", `tunnel-destinations: ["2001:db8:4::1", "2001:db8:4::2"]`} {
		if shown := string(c.Marshal()); !strings.Contains(shown, text) {
			t.Errorf("%q is not in\n%s", text, shown)
		}
	}
}

func TestFaultsOfTunnelEnds(t *testing.T) {
	named := served + "namespaces: [{id: 123}]\n"
	ends := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("\"2001:db8:%x::1\"", i)
		}
		return strings.Join(list, ", ")
	}
	checkFaults(t, []faultCase{
		{"no source", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: []}]", []string{
			`3:61: decapsulations[0].sources: no source is listed, so no packet would be decapsulated; list the prefixes of the encapsulating nodes, or remove it`}},
		{"sources without a value", named + "decapsulations:\n  - tunnel-destination: 2001:db8::1\n    sources:\n    bare: true", []string{
			`5:13: decapsulations[0].sources: no source is listed, so no packet would be decapsulated; list the prefixes of the encapsulating nodes, or remove it`}},
		{"null sources", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: null}]", []string{
			`3:61: decapsulations[0].sources: no source is listed, so no packet would be decapsulated; list the prefixes of the encapsulating nodes, or remove it`}},
		{"a tilde for sources", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: ~}]", []string{
			`3:61: decapsulations[0].sources: no source is listed, so no packet would be decapsulated; list the prefixes of the encapsulating nodes, or remove it`}},
		{"an IPv4 source", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: [192.0.2.0/24]}]", []string{
			`3:62: decapsulations[0].sources[0]: 192.0.2.0 is an IPv4 address; write an IPv6 prefix such as 2001:db8:2::/64`}},
		{"host bits", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: [\"2001:db8::1/64\"]}]", []string{
			`3:62: decapsulations[0].sources[0]: 2001:db8::1/64 has bits set after its prefix length (the prefix is 2001:db8::/64); write an IPv6 prefix such as 2001:db8:2::/64`}},
		{"a prefix without quotes", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: [2001:db8::/64]}]", []string{
			`3:62: decapsulations[0].sources[0] is a mapping; write an IPv6 prefix such as 2001:db8:2::/64, in quotes`}},
		{"a source twice", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: [\"2001:db8::/64\", \"2001:db8:0::/64\"]}]", []string{
			`3:79: decapsulations[0].sources lists 2001:db8::/64 twice; remove one`}},
		{"65 sources", named + "decapsulations: [{tunnel-destination: 2001:db8::1, sources: [" + ends(65) + "]}]", []string{
			`3:61: decapsulations[0].sources: 65 prefixes; use at most 64, which may be shorter prefixes`}},
		{"bare is a word", named + "decapsulations: [{tunnel-destination: 2001:db8::1, bare: maybe}]", []string{
			`3:58: decapsulations[0].bare is the text "maybe"; write true or false`}},
		{"no tunnel's end", served + "tunnel-destinations: [fe80::1, 2001:db8::1, 192.0.2.1]", []string{
			`2:23: tunnel-destinations[0]: fe80::1 is a link-local address; use an address that is valid beyond the link, such as 2001:db8:3::1`,
			`2:45: tunnel-destinations[2]: 192.0.2.1 is an IPv4 address; write an IPv6 address such as 2001:db8::1`}},
		{"a tunnel's end twice", served + "tunnel-destinations: [2001:db8::1, 2001:db8:0::1]", []string{
			`2:36: tunnel-destinations lists 2001:db8::1 twice; remove one`}},
		{"1025 ends", served + "tunnel-destinations: [" + ends(1025) + "]", []string{
			`2:22: tunnel-destinations: 1025 tunnel destinations are too many; use at most 1024`}},
	})
}
