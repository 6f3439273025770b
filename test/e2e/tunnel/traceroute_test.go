// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	messages "github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// treatments are every mode, hook and way to forward, except those that
// TestTunnelErrors covers: XDP and the stack.
func treatments() []treatment {
	var all []treatment
	for _, mode := range []string{"encap", "auto", "inline"} {
		all = append(all, treatment{mode, "xdp", "fast"}, treatment{mode, string(e2e.TCModes()[0]), "stack"})
	}
	return append(all, treatment{"encap", string(e2e.TCModes()[0]), "fast"}, treatment{"encap", "clsact", "stack"})
}

// tracerouteProbes are what traceroute may send, each with a unique flow label.
func tracerouteProbes(from netip.Addr, hops int) [][]byte {
	var all [][]byte
	for hop := 1; hop <= hops; hop++ {
		udp := append([]byte{0x80, byte(hop), 0x82, 0x9a + byte(hop), 0, 0, 0, 0}, bytes.Repeat([]byte("probe UDP "), 3)...)
		large := append([]byte{0x81, byte(hop), 0x82, 0x9a + byte(hop), 0, 0, 0, 0}, bytes.Repeat([]byte("large UDP "), 130)...)
		echo := append([]byte{128, 0, 0, 0, 0x12, 0x34, 0, byte(hop)}, "probe of echo"...)
		syn := []byte{0x82, byte(hop), 0, 80, 1, 2, 3, byte(hop), 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0}
		for i, p := range []struct {
			next byte
			body []byte
		}{{craft.UDP, udp}, {craft.UDP, large}, {craft.ICMPv6, echo}, {craft.TCP, syn}} {
			if p.next == craft.UDP {
				binary.BigEndian.PutUint16(p.body[4:], uint16(len(p.body)))
			}
			h := craft.IPv6{Class: 0xb8, Label: uint32(hop<<4 | i), Next: p.next, HopLimit: byte(hop), Source: from, Destination: roadsEnd}
			all = append(all, craft.Seal(h.With(p.body)))
		}
	}
	return all
}

// answer is what came back for a probe.
type answer struct{ head, quote string }

// trace sends the probes from a node and returns the answers by flow label, or by
// identifier for echo replies.
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
	e2e.Await(t, "no more answers come", 10*time.Second, func() bool {
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
			continue // the original error, about a tunneled packet of this node
		}
		label := fmt.Sprintf("%05x", binary.BigEndian.Uint32(quote)&0xfffff)
		if _, twice := answers[label]; twice {
			t.Errorf("%s: two answers to %s", node, label)
		}
		answers[label] = answer{head + fmt.Sprintf(", word %x", m.Body[4:8]), string(quote)}
	}
	return answers
}

// withoutHopByHop removes the Hop-by-Hop header that was inserted inline from a
// quoted packet; other quotes stay the same.
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

// sameAnswers checks that the answers are those without Waymark; a quote of a
// large packet may be shorter by the headers that were in front of it.
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
			t.Errorf("%s, probe %s: %s, but no answer without Waymark", who, label, g.head)
		}
	}
}

// journey returns what alpha and athos hear: errors for probes to every hop, and
// when the route ends in the second domain, in three ways.
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
		e2e.Must(t, planchet, "ip", "-6", "route", "del", prefix)
	}
	time.Sleep(patience.Of(100 * time.Millisecond))
	hear("no route", last)
	for _, kind := range []string{"prohibit", "unreachable"} {
		for _, prefix := range []string{"2001:db8:7::/64", "2001:db8:ff::6/128"} {
			e2e.Must(t, planchet, "ip", "-6", "route", "replace", kind, prefix)
		}
		time.Sleep(patience.Of(100 * time.Millisecond))
		hear(kind, last)
	}
	return all
}

// With and without Waymark, traceroute and the errors that senders see are the
// same, hop for hop.
func TestTraceroute(t *testing.T) {
	t.Parallel()
	var without map[string]map[string]answer
	t.Run("without", func(t *testing.T) {
		without = journey(t, raiseRoad(t, treatment{}))
		for who, n := range map[string]int{"alpha, every hop": 4*6 + 2 + 2 + 2, "athos, every hop": 4*5 + 2 + 2 + 2, "alpha, no route": 4,
			"athos, prohibit": 4} {
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
				n := e2e.StatusOf(t, l, node).TunnelErrors
				if tunnels := tt.mode != "inline"; (n["relayed"] > 0) != tunnels || n["limited"]+n["unsent"]+n["malformed"]+n["too_short"] > 0 {
					t.Errorf("%s counted %v", node, n)
				}
			}
		})
	}
}
