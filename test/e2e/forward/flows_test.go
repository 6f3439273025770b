// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// flow is a packet that represents its flow in the choice of a way.
type flow struct {
	kind   string
	packet []byte
}

// flows returns flows from alpha's network to beta's, with every difference that
// rules and route hashes may use.
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
			{"echo", 58, append([]byte{128, 0}, upper...)}, {"IPv6 in IPv6", 41, m.header(1, 17, 0, e2e.LeftAddress, e2e.RightAddress)}, {"GRE", 47, upper},
			{"UDP behind a trace", 0, wrap(trace, upper)}, {"a tunnel behind a trace", 0, wrap(m.hopByHop(t, 41), m.header(1, 59, 0, e2e.LeftAddress, e2e.RightAddress))},
			{"UDP behind options", 60, wrap(options(17), upper)}, {"UDP behind a trace and options", 0, wrap(m.hopByHop(t, 60), wrap(options(17), upper))},
			{"first fragment", 44, wrap(fragment(17, 0, 1), upper)}, {"last fragment", 44, wrap(fragment(17, 100, 0), upper)},
		} {
			source := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0x0d, 3: 0xb8, 5: 1, 15: byte(0x10 + m.IntN(8))})
			destination := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 2: 0x0d, 3: 0xb8, 5: 2, 15: byte(0x10 + m.IntN(3))})
			body := binary.BigEndian.AppendUint64(append([]byte(nil), k.body...), label)
			body = binary.BigEndian.AppendUint64(body, uint64(len(out)))
			p := append(m.header(m.IntN(4), k.next, len(body), source, destination), body...)
			p[0], p[1], p[7] = 0x60, p[1]&0x0f, 64 // one traffic class, because rules may match on it
			out = append(out, flow{k.kind, p})
		}
	}
	return out
}

// waysOf sends each flow's packet and returns the nodes in the middle that
// forwarded them.
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
		if err := l.Node("alpha").Do(func() error { return e2e.Inject("eth0", to, packets) }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	e2e.Await(t, "all flows' packets", 5*time.Second, func() bool {
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

// choice is what routes and rules choose a flow's way by.
type choice struct {
	name    string
	policy  string   // fib_multipath_hash_policy
	rules   []string // that lead to dartagnan
	byStack bool     // programs cannot do it
}

var choices = []choice{
	{"policy 3", "3", nil, true}, // the first one that the agent's watch sees
	{"policy 1", "1", nil, true},
	{"policy 1, rule by port", "1", []string{"ipproto udp dport 1-30000", "from 2001:db8:1::12"}, true},
	{"policy 0", "0", nil, false},
	{"policy 0, rules by source and class", "0", []string{"from 2001:db8:1::10/127", "tos 0x10"}, false},
	{"policy 0, rule by port", "0", []string{"ipproto udp dport 1-30000"}, true},
}

// with sets a node up to choose this way while it sends flows.
func (c choice) with(t *testing.T, n *lab.Node, send func()) {
	t.Helper()
	e2e.Must(t, n, "sysctl", "-w", "net.ipv6.fib_multipath_hash_policy="+c.policy)
	for _, verb := range []string{"add", "del"} {
		for _, rule := range c.rules {
			e2e.Must(t, n, append(append([]string{"ip", "-6", "rule", verb}, strings.Fields(rule)...), "lookup", "100")...)
		}
		if verb == "add" {
			send()
		}
	}
}
