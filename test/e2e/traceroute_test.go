// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	messages "github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// road is a line with two domains: athos to aramis, milady to rochefort. The
// node of number k has the address 2001:db8:ff::k; its link to the next one is
// 2001:db8:k+1::/64, where it is ::1 and the next one ::2.
var road = []string{"alpha", "athos", "porthos", "aramis", "milady", "planchet", "rochefort", "beta"}

// treatment is one way to put traces into what goes to beta; without a mode no
// agent runs.
type treatment struct{ mode, attach, forwarding string }

func (tt treatment) String() string { return tt.mode + " by " + tt.attach + ", " + tt.forwarding }

// treatments are every mode, hook and way to forward; TestTunnelErrorsReachSockets
// has XDP and the stack.
func treatments() []treatment {
	var all []treatment
	for _, mode := range []string{"encap", "auto", "inline"} {
		all = append(all, treatment{mode, "xdp", "fast"}, treatment{mode, string(tcModes()[0]), "stack"})
	}
	return append(all, treatment{"encap", string(tcModes()[0]), "fast"}, treatment{"encap", "clsact", "stack"})
}

// agent is the configuration of the node of number k.
func (tt treatment) agent(k int) string {
	inside := map[string][2]bool{"athos": {false, true}, "porthos": {true, true}, "aramis": {true, false},
		"milady": {false, true}, "planchet": {true, true}, "rochefort": {true, false}}
	sides, ok := inside[road[k]]
	if !ok || tt.mode == "" {
		return ""
	}
	text := fmt.Sprintf("    agent:\n      node: {id: %d, id-wide: %d}\n      interfaces:\n", k, k)
	for i, in := range sides {
		role := "role: [], boundary: drop"
		if in {
			role = "role: [ingress, egress]"
		}
		text += fmt.Sprintf("        - {name: eth%d, id: %d, id-wide: %d, attach: %s, forwarding: %s, %s}\n", i, 10*k+i+1, 10*k+i+1, tt.attach, tt.forwarding, role)
	}
	text += fmt.Sprintf("      namespaces: [{id: 123, remove: %v}]\n", tt.mode != "encap" && !sides[1])
	if sides[0] && !sides[1] {
		text += fmt.Sprintf("      decapsulations: [{tunnel-destination: \"2001:db8:ff::%d\"}]\n", k)
	}
	if !sides[0] && sides[1] {
		tunnel := fmt.Sprintf("tunnel: {source: \"2001:db8:ff::%d\", destination: \"2001:db8:ff::%d\"}, ", k, k+2)
		if tt.mode == "inline" {
			tunnel = ""
		}
		text += fmt.Sprintf("      encapsulations: [{name: all, interface: eth1, match: {destination: \"2001:db8:7::/64\"}, mode: %s, %soptions: [{trace: {namespace: 123, type: 0xf80000, size: 60}}]}]\n",
			tt.mode, tunnel)
	}
	return text
}

// raiseRoad brings the line up. Routers answer as often as they are asked.
func raiseRoad(t *testing.T, tt treatment) *lab.Lab {
	t.Helper()
	text := "name: road\npermanent-neighbours: true\nnodes:\n"
	links := "links:\n"
	for k, name := range road {
		text += fmt.Sprintf("  - name: %s\n    addresses: 2001:db8:ff::%d/128\n    routes:\n", name, k)
		for other := range road {
			via := fmt.Sprintf("2001:db8:%d::2", k+1)
			if other < k {
				via = fmt.Sprintf("2001:db8:%d::1", k)
			}
			if other != k {
				text += fmt.Sprintf("      - {to: \"2001:db8:ff::%d/128\", via: \"%s\"}\n", other, via)
			}
			if other+1 < len(road) && other != k && other+1 != k {
				text += fmt.Sprintf("      - {to: \"2001:db8:%d::/64\", via: \"%s\"}\n", other+1, via)
			}
		}
		text += tt.agent(k)
		if k+1 < len(road) {
			from := "eth1"
			if k == 0 {
				from = "eth0"
			}
			links += fmt.Sprintf("  - mtu: 1700\n    ends:\n      - {node: %s, interface: %s, addresses: \"2001:db8:%d::1/64\"}\n      - {node: %s, interface: eth0, addresses: \"2001:db8:%d::2/64\"}\n",
				name, from, k+1, road[k+1], k+1)
		}
	}
	l := raiseText(t, "road", text+links)
	for _, name := range road {
		must(t, l.Node(name), "sysctl", "-qw", "net.ipv6.icmp.ratelimit=0")
	}
	if tt.forwarding == "fast" {
		openEnds(t, l, "alpha", "beta")
	}
	return l
}

// ear collects what ICMPv6 tells a node, also its own echo replies.
type ear struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	mu     sync.Mutex
	heard  []messages.Message
	err    error
}

const echoReply messages.Type = 129

func listen(t *testing.T, n *lab.Node) *ear {
	t.Helper()
	var l *messages.Listener
	if err := n.Do(func() (err error) {
		l, err = messages.Listen(2048, 1_000_000, messages.Unreachable, messages.TooBig, messages.TimeExceeded, messages.ParameterProblem, echoReply)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := &ear{cancel: cancel}
	e.done.Go(func() {
		e.err = l.Read(ctx, func(m messages.Message) {
			m.Body = bytes.Clone(m.Body)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.heard = append(e.heard, m)
		})
	})
	return e
}

func (e *ear) soFar() []messages.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func (e *ear) stop(t *testing.T) []messages.Message {
	t.Helper()
	e.cancel()
	e.done.Wait()
	if e.err != nil {
		t.Error(e.err)
	}
	return e.heard
}

var roadsEnd = netip.MustParseAddr("2001:db8:7::2")

// tracerouteProbes are what traceroute may send, each with a flow label that no other has.
func tracerouteProbes(from netip.Addr, hops int) [][]byte {
	var all [][]byte
	for hop := 1; hop <= hops; hop++ {
		udp := append([]byte{0x80, byte(hop), 0x82, 0x9a + byte(hop), 0, 0, 0, 0}, bytes.Repeat([]byte("probe UDP "), 3)...)
		large := append([]byte{0x81, byte(hop), 0x82, 0x9a + byte(hop), 0, 0, 0, 0}, bytes.Repeat([]byte("large UDP "), 130)...)
		echo := append([]byte{128, 0, 0, 0, 0x12, 0x34, 0, byte(hop)}, "probe of echo"...)
		syn := []byte{0x82, byte(hop), 0, 80, 1, 2, 3, byte(hop), 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0}
		for i, p := range []struct {
			next  byte
			sumAt int
			body  []byte
		}{{17, 6, udp}, {17, 6, large}, {58, 2, echo}, {6, 16, syn}} {
			if p.next == 17 {
				binary.BigEndian.PutUint16(p.body[4:], uint16(len(p.body)))
			}
			packet := binary.BigEndian.AppendUint32(nil, 0x6b800000|uint32(hop<<4|i))
			packet = append(packet, byte(len(p.body)>>8), byte(len(p.body)), p.next, byte(hop))
			packet = append(append(packet, from.AsSlice()...), roadsEnd.AsSlice()...)
			binary.BigEndian.PutUint16(p.body[p.sumAt:], checksum(packet[8:40], p.next, p.body))
			all = append(all, append(packet, p.body...))
		}
	}
	return all
}

// checksum is that of an upper layer (RFC 8200 §8.1).
func checksum(addresses []byte, next byte, body []byte) uint16 {
	sum := uint32(len(body)) + uint32(next)
	for _, b := range [][]byte{addresses, body} {
		for i, v := range b {
			sum += uint32(v) << (8 * (1 - i%2))
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// answer is what came back for a probe.
type answer struct{ head, quote string }

// trace sends the probes from a node and returns the answers by flow label, those
// to echo requests under the identifier.
func trace(t *testing.T, l *lab.Lab, node string, from netip.Addr, packets [][]byte) map[string]answer {
	t.Helper()
	e := listen(t, l.Node(node))
	var sender *messages.Sender
	if err := l.Node(node).Do(func() (err error) { sender, err = messages.NewSender(); return err }); err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	for _, p := range packets {
		if err := sender.Send(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	count := -1
	await(t, "no more answers come", 10*time.Second, func() bool {
		time.Sleep(patience.Of(300 * time.Millisecond))
		before := count
		count = len(e.soFar())
		return count == before
	})
	answers := make(map[string]answer)
	for _, m := range e.stop(t) {
		head := fmt.Sprintf("type %d code %d from %v, hop limit %d, class %02x", m.Body[0], m.Body[1], m.Source, m.HopLimit, m.TrafficClass)
		if messages.Type(m.Body[0]) == echoReply {
			answers[fmt.Sprintf("echo %d", m.Body[7])] = answer{head, string(m.Body[8:])}
			continue
		}
		quote := withoutHopByHop(m.Body[8:])
		if len(quote) < 40 || [16]byte(quote[8:24]) != from.As16() {
			continue // the original, about a tunnelled packet of this node
		}
		label := fmt.Sprintf("%05x", binary.BigEndian.Uint32(quote)&0xfffff)
		if _, twice := answers[label]; twice {
			t.Errorf("%s: two answers to %s", node, label)
		}
		answers[label] = answer{head + fmt.Sprintf(", word %x", m.Body[4:8]), string(quote)}
	}
	return answers
}

// withoutHopByHop is a quote of a packet that got a header inline as it was
// before; of others, the quote itself.
func withoutHopByHop(quote []byte) []byte {
	if len(quote) < 48 || quote[6] != 0 || quote[40] == 41 {
		return quote
	}
	length := 8 * (int(quote[41]) + 1)
	bare := append(bytes.Clone(quote[:40]), quote[min(len(quote), 40+length):]...)
	bare[6] = quote[40]
	binary.BigEndian.PutUint16(bare[4:], binary.BigEndian.Uint16(bare[4:])-uint16(length))
	return bare
}

// sameAnswers wants what came to be what comes without Waymark; of a large
// packet, less may be quoted, by what was in front of it.
func sameAnswers(t *testing.T, who string, got, want map[string]answer) {
	t.Helper()
	for label, w := range want {
		g, ok := got[label]
		full := min(len(w.quote), 1232-40-80)
		if !ok || g.head != w.head || len(g.quote) < full || !strings.HasPrefix(w.quote, g.quote) {
			t.Errorf("%s, probe %s: %s\n%s\nwithout: %s\n%s", who, label, g.head, hex.Dump([]byte(g.quote)), w.head, hex.Dump([]byte(w.quote)))
		}
	}
	for label, g := range got {
		if _, ok := want[label]; !ok {
			t.Errorf("%s, probe %s: %s, and nothing without", who, label, g.head)
		}
	}
}

// journey is what alpha and athos hear: of probes to every hop, and when the
// route ends in the second domain, in three ways.
func journey(t *testing.T, l *lab.Lab) map[string]map[string]answer {
	t.Helper()
	alpha, athos := netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::1")
	all := make(map[string]map[string]answer)
	hear := func(step string, count func(packets [][]byte) [][]byte) {
		all["alpha, "+step] = trace(t, l, "alpha", alpha, count(tracerouteProbes(alpha, len(road))))
		all["athos, "+step] = trace(t, l, "athos", athos, count(tracerouteProbes(athos, len(road)-1)))
	}
	hear("every hop", func(p [][]byte) [][]byte { return p })
	last := func(p [][]byte) [][]byte { return p[len(p)-4:] }
	planchet := l.Node("planchet")
	for _, prefix := range []string{"2001:db8:7::/64", "2001:db8:ff::6/128"} {
		must(t, planchet, "ip", "-6", "route", "del", prefix)
	}
	time.Sleep(patience.Of(100 * time.Millisecond))
	hear("no route", last)
	for _, kind := range []string{"prohibit", "unreachable"} {
		for _, prefix := range []string{"2001:db8:7::/64", "2001:db8:ff::6/128"} {
			must(t, planchet, "ip", "-6", "route", "replace", kind, prefix)
		}
		time.Sleep(patience.Of(100 * time.Millisecond))
		hear(kind, last)
	}
	return all
}

// With Waymark and without it, traceroute and the errors that senders see are
// the same, hop for hop.
func TestTraceroute(t *testing.T) {
	t.Parallel()
	var without map[string]map[string]answer
	t.Run("without", func(t *testing.T) {
		without = journey(t, raiseRoad(t, treatment{}))
		for who, n := range map[string]int{"alpha, every hop": 4*6 + 2 + 2 + 2, "athos, every hop": 4*5 + 2 + 2 + 2, "alpha, no route": 4, "athos, prohibit": 4} {
			if len(without[who]) != n {
				t.Fatalf("%s: %d answers, want %d", who, len(without[who]), n)
			}
		}
	})
	for _, tt := range treatments() {
		t.Run(tt.String(), func(t *testing.T) {
			t.Parallel()
			l := raiseRoad(t, tt)
			got := journey(t, l)
			for who, want := range without {
				sameAnswers(t, who, got[who], want)
			}
			for _, node := range []string{"athos", "milady"} {
				n := statusOf(t, l, node).TunnelErrors
				if tunnels := tt.mode != "inline"; (n["relayed"] > 0) != tunnels || n["limited"]+n["unsent"]+n["malformed"]+n["too_short"] > 0 {
					t.Errorf("%s counted %v", node, n)
				}
			}
		})
	}
}
