// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
)

// flow is a packet that says which way its flow takes.
type flow struct {
	kind   string
	packet []byte
}

// flows are some of each kind that rules and hashes of routes may tell apart,
// from alpha's network to beta's.
func flows(t *testing.T, label uint64) []flow {
	t.Helper()
	const each = 24
	m := maker{rand.New(rand.NewPCG(label, 0))}
	fragment := func(next byte, offset uint16, more uint16) []byte {
		h := binary.BigEndian.AppendUint16([]byte{next, 0}, offset<<3|more)
		return append(h, m.bytes(4)...)
	}
	options := func(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} } // a PadN
	wrap := func(h, rest []byte) []byte { return append(h, rest...) }
	var out []flow
	for range each {
		upper := m.bytes(24)
		trace := m.hopByHop(t, 17)
		for _, k := range []struct {
			kind string
			next byte
			body []byte
		}{
			{"UDP", 17, upper}, {"TCP", 6, upper}, {"DCCP", 33, upper}, {"ESP", 50, upper}, {"SCTP", 132, upper}, {"UDP-Lite", 136, upper},
			{"echo", 58, append([]byte{128, 0}, upper...)}, {"IPv6 in IPv6", 41, m.header(1, 17, 0, leftAddress, rightAddress)}, {"GRE", 47, upper},
			{"UDP behind a trace", 0, wrap(trace, upper)}, {"a tunnel behind a trace", 0, wrap(m.hopByHop(t, 41), m.header(1, 59, 0, leftAddress, rightAddress))},
			{"UDP behind options", 60, wrap(options(17), upper)}, {"UDP behind a trace and options", 0, wrap(m.hopByHop(t, 60), wrap(options(17), upper))},
			{"first fragment", 44, wrap(fragment(17, 0, 1), upper)}, {"last fragment", 44, wrap(fragment(17, 100, 0), upper)},
		} {
			source := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0x0d, 3: 0xb8, 5: 1, 15: byte(0x10 + m.IntN(8))})
			destination := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0x0d, 3: 0xb8, 5: 2, 15: byte(0x10 + m.IntN(3))})
			body := binary.BigEndian.AppendUint64(append([]byte(nil), k.body...), label)
			body = binary.BigEndian.AppendUint64(body, uint64(len(out)))
			p := append(m.header(m.IntN(4), k.next, len(body), source, destination), body...)
			p[0], p[1], p[7] = 0x60, p[1]&0x0f, 64 // one traffic class: rules may ask for it
			out = append(out, flow{k.kind, p})
		}
	}
	return out
}

// waysOf sends each flow's packet and returns the nodes in the middle that they
// came by.
func waysOf(t *testing.T, l *lab.Lab, label uint64, all []flow) []string {
	t.Helper()
	var mu sync.Mutex
	ways, came := make([]string, len(all)), 0
	var captures []*lab.Capture
	for _, node := range []string{"porthos", "dartagnan"} {
		capture, err := l.Capture(node, "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
			if n := len(p.Data); !p.Outgoing && n > 16 && binary.BigEndian.Uint64(p.Data[n-16:]) == label {
				mu.Lock()
				defer mu.Unlock()
				came++
				ways[binary.BigEndian.Uint64(p.Data[n-8:])] += node
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		captures = append(captures, capture)
	}
	to := linkAddress(t, l.Node("athos"), "eth0")
	for i := 0; i < len(all); i += 50 {
		var packets [][]byte
		for _, f := range all[i:min(len(all), i+50)] {
			packets = append(packets, f.packet)
		}
		if err := l.Node("alpha").Do(func() error { return inject("eth0", to, packets) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	await(t, "all flows' packets", 5*time.Second, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return came >= len(all)
	})
	for _, c := range captures {
		if _, err := c.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	return ways
}

// choice is what routes and rules tell flows apart by.
type choice struct {
	name    string
	policy  string   // of hashes
	rules   []string // that lead to dartagnan
	byStack bool     // it is beyond a program
}

var choices = []choice{
	{"policy 3", "3", nil, true}, // the first one that a watch meets
	{"policy 1", "1", nil, true},
	{"policy 1, rule by port", "1", []string{"ipproto udp dport 1-30000", "from 2001:db8:1::12"}, true},
	{"policy 0", "0", nil, false},
	{"policy 0, rules by source and class", "0", []string{"from 2001:db8:1::10/127", "tos 0x10"}, false},
	{"policy 0, rule by port", "0", []string{"ipproto udp dport 1-30000"}, true},
}

// with makes a node choose like that while it sends flows.
func (c choice) with(t *testing.T, n *lab.Node, send func()) {
	t.Helper()
	must(t, n, "sysctl", "-w", "net.ipv6.fib_multipath_hash_policy="+c.policy)
	for _, verb := range []string{"add", "del"} {
		for _, rule := range c.rules {
			must(t, n, append(append([]string{"ip", "-6", "rule", verb}, strings.Fields(rule)...), "lookup", "100")...)
		}
		if verb == "add" {
			send()
		}
	}
}

// Every flow takes the way that the stack would give it, whatever routes and
// rules tell flows apart by.
func TestForwardSameWays(t *testing.T) {
	needRedirection(t)
	top := builtin(t, "ecmp")
	top.Node("porthos").Agent, top.Node("dartagnan").Agent = nil, nil
	reconfigure(t, top, "athos", "role: [], boundary: drop", "role: [ingress, egress]")
	l := raiseTwoWays(t, top)
	athos := l.Node("athos")
	must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "table", "100")
	label := rand.Uint64()
	all := flows(t, label)
	forwarding(t, l, "athos", "stack")
	want := make([][]string, len(choices))
	for i, c := range choices {
		c.with(t, athos, func() { want[i] = waysOf(t, l, label, all) })
	}
	must(t, athos, "sysctl", "-w", "net.ipv6.fib_multipath_hash_policy="+choices[0].policy)
	forwarding(t, l, "athos", "fast")
	for i, c := range choices {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			before := forwardsOf(t, l, "athos")
			c.with(t, athos, func() {
				if i > 0 && c.policy != choices[i-1].policy {
					time.Sleep(1200 * time.Millisecond) // the agent looks at settings once a second
				} else {
					time.Sleep(100 * time.Millisecond) // of rules it hears
				}
				got = waysOf(t, l, label, all)
			})
			f := forwardsOf(t, l, "athos")
			fast, by := f.sum()-before.sum(), map[string]int{}
			for j, w := range want[i] {
				by[w]++
				if got[j] != w {
					t.Errorf("%s, flow %d: went by %q, the stack would have it go by %q\n% x", all[j].kind, j, got[j], w, all[j].packet)
				}
			}
			t.Logf("%v; %d of %d packets went fast", by, fast, len(all))
			if len(by) != 2 {
				t.Errorf("the flows took the ways %v, want two, and no packet twice", by)
			}
			if c.byStack && fast > 0 || !c.byStack && fast < uint64(len(all)/2) {
				t.Errorf("%d of %d packets went fast; left to the stack: %v", fast, len(all), f.toStack)
			}
		})
	}
}

// forwarding reloads an agent's file with another way to forward.
func forwarding(t *testing.T, l *lab.Lab, node, how string) {
	t.Helper()
	rewriteAs(t, l, node, how)
	signalAgent(t, l, node, syscall.SIGHUP)
	await(t, "forwarding by "+how, 10*time.Second, func() bool { return statusInterface(t, l, node, "eth0").Forwarding == how })
}
