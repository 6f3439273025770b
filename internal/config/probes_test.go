// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// Probes that would be a flood, or can never work, are refused, with what to do.
func TestProbes(t *testing.T) {
	many := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("2001:db8::%x", i+1))
		}
		return `destinations: ["` + strings.Join(list, `", "`) + `"]`
	}
	const one = `destinations: ["r3=2001:db8::3", "2001:db8::4", r5=r5.example.net, r6]`
	for _, tt := range []struct{ probes, want string }{
		{one, ""},
		{many(100) + ", interval: 100ms, budget: 17600", ""},
		{many(56), ""}, // 896 a second and a tenth
		{many(100) + ", interval: 100ms", "100 destinations with 16 flows every 100ms are 16000 probes a second, and 1600 more packets find broken links: more than 1000; set interval: 1.8s, or budget: 17600"},
		{many(1024) + ", interval: 10ms, flows: 64, budget: 50000", "more than 50000; set interval: 1.5s"},
		{one + ", budget: 10", "4 destinations with 16 flows every 1s are 64 probes a second, and 20 more packets find broken links: more than 10; set budget: 84"},
		{one + ", interval: 1ms", "1ms is not from 10ms to 1m"},
		{one + ", interval: 2m", "2m is not from 10ms to 1m"},
		{one + ", flows: 65", "write a number from 1 to 64"},
		{one + ", budget: 50001", "write a number from 1 to 50000"},
		{one + ", timeout: 11s", "11s is too long; use at most 10s"},
		{one + ", interval: 10ms, timeout: 5s, budget: 50000", "5s is more than 256 intervals of 10ms; use at most 2.56s"},
		{"destinations: []", "0 destinations; list 1 to 1024"},
		{many(1025), "1025 destinations; list 1 to 1024"},
		{`destinations: ["2001:db8::1", "a=2001:db8::1"]`, "destinations[0] is the same node"},
		{`destinations: ["a=2001:db8::1", "2001:db8::2", "a=2001:db8::3"]`, `F:3:57: probes.destinations[2]: destinations[0] has the name "a", too: results could not tell them apart; give each its own name: NAME=2001:db8::3`},
		{`destinations: [r3, "r3=2001:db8::3"]`, `destinations[0] has the name "r3", too`},
		{`destinations: ["r3=2001:db8::3", r3]`, `destinations[0] has the name "r3", too`},
		{`destinations: ["fe80::1"]`, "is valid on one link only"},
		{`destinations: ["ff02::1"]`, "is not the address of a node"},
		{`destinations: ["192.0.2.1"]`, "is an IPv4 address"},
		{`destinations: ["a b"]`, "is neither an address nor the name of a host"},
		{`destinations: ["x y=2001:db8::1"]`, "is not a name of"},
	} {
		_, err := Parse("F", []byte("node: {id: 1}\nnamespaces: [{id: 123}]\nprobes: {"+tt.probes+"}\n"))
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%.60s: %v", tt.probes, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%.60s: %v\nwant %s", tt.probes, err, tt.want)
		}
	}
	if _, err := Parse("F", []byte("node: {id: 1}\nprobes: {"+one+"}\n")); err == nil || !strings.Contains(err.Error(), "probes.namespace") {
		t.Errorf("without a namespace: %v", err)
	}
	c, err := Parse("F", []byte("node: {id: 1}\nprobes: {namespace: 7, "+one+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse("F", c.Marshal())
	if err != nil || !again.Equal(c) || *again.Probes.Namespace != 7 || again.Probes.Destinations[2].Host != "r5.example.net" {
		t.Errorf("%v: %s", err, c.Marshal())
	}
	if n := c.Probes.Arriving(4); n != 48 {
		t.Errorf("%d probes a second come from three others", n)
	}
}
