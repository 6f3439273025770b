// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// Packets that get IOAM where they leave, after their segments were added, advanced or
// removed, are the same from XDP as from the stack and the egress hook.
func TestForwardSegmentsWithIOAM(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const count = 1500
	text := strings.Replace(fastChain, "match: {destination-port: 7000}", `match: {destination: "fc00:2::/32"}`, 1)
	text = strings.Replace(text, "match: {destination-port: 7001}", `match: {destination: "2001:db8:2::/48"}`, 1)
	l := e2e.RaiseText(t, "chain", text)
	e2e.OpenEnds(t, l, "alpha", "beta")
	router := l.Node("router")
	e2e.Must(t, router, "ip", "sr", "tunsrc", "set", "2001:db8:ff::1")
	for _, route := range []string{
		"fc00:2::/32 via 2001:db8:2::2", "fc00:3::/32 via 2001:db8:2::2", "fcbb:bb00::/32 via 2001:db8:2::2", "2001:db8:a::/48 via 2001:db8:2::2",
		"fc00:1::e encap seg6local action End dev eth1", "fc00:1::a encap seg6local action End.X nh6 2001:db8:2::2 dev eth1",
		"fcbb:bb00:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev eth1", "fc00:1::d6 encap seg6local action End.DT6 table 254 dev eth1",
		"2001:db8:e1::/48 encap seg6 mode encap segs fc00:2::1,fc00:3::1 dev eth1", "2001:db8:e2::/48 encap seg6 mode encap.red segs fc00:2::1 dev eth1",
		"2001:db8:e3::/48 encap seg6 mode encap segs fc00:2::1,fc00:2::2,fc00:2::3,fc00:2::4,fc00:2::5,fc00:2::6,fc00:2::7 dev eth1",
	} {
		e2e.Must(t, router, append([]string{"ip", "-6", "route", "add"}, strings.Fields(route)...)...)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := segmenter{rand.New(rand.NewPCG(seed, 0))}
	var packets [][]byte
	for number := 1; number <= count; number++ {
		inner := craft.Between("2001:db8:1::2", s.one("2001:db8:2::2", "2001:db8:a::1"), craft.UDP)
		inner.Class, inner.Label = byte(s.IntN(256)), uint32(number)
		body, next := inner.With(craft.Datagram(1, 2, make([]byte, s.IntN([]int{80, 1200}[s.IntN(2)]))...)), byte(41)
		if s.IntN(4) > 0 {
			body, next = append(s.header(next), body...), 43
		}
		outer := craft.Between(
			"2001:db8:1::2",
			s.one("fc00:1::e", "fc00:1::a", "fcbb:bb00:1:2::", "fc00:1::d6", "2001:db8:e1::1", "2001:db8:e2::1", "2001:db8:e3::1", "fc00:2::5"),
			next,
		)
		outer.Class, outer.Label = byte(s.IntN(256)), uint32(number)
		packets = append(packets, outer.With(body))
	}
	time.Sleep(looked) // the agent reads the source of encapsulations
	fast := pass(t, l, packets)
	f := e2e.ForwardsOf(t, l, "router")
	forwarding(t, l, "router", "stack")
	stack := pass(t, l, packets)
	t.Logf("%d packets arrived by the stack, %d with fast forwarding; fast %v, to the stack %v", len(stack), len(fast), f.Fast, f.ToStack)
	if f.Sum() < count/4 || f.Fast["encap_tunneled"] < count/20 || f.Fast["encap_inserted"] < count/100 {
		t.Errorf("only %d packets went fast: %v", f.Sum(), f.Fast)
	}
	faults := 0
	for i, p := range packets {
		if a, b := fmt.Sprintf("%x", fast[i+1]), fmt.Sprintf("%x", stack[i+1]); a != b {
			if faults++; faults > 3 {
				break
			}
			t.Errorf("packet\n%sfast\n%sby the stack\n%s", hex.Dump(p[:min(len(p), 200)]), dump(fast[i+1]), dump(stack[i+1]))
		}
	}
}

// TestForwardSegmentsToShorterLink removes tunnels from packets that the next link has room
// for, but not with IOAM: they still take the route of the segment's table, which no other
// table has, as they do through the stack. Some tunnels are as long as what IOAM adds.
func TestForwardSegmentsToShorterLink(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	const room = 1400 // of the next link
	text := strings.Replace(fastChain, "match: {destination-port: 7001}", `match: {destination: "2001:db8:a::/48"}`, 1)
	text = strings.Replace(text, "size: 80", "size: 88", 1) // 144 octets with its tunnel, as six segments with theirs
	l := e2e.RaiseText(
		t,
		"chain",
		strings.Replace(text, "  - ends:\n      - {node: alpha", "  - mtu: 1700\n    ends:\n      - {node: alpha", 1),
	)
	e2e.OpenEnds(t, l, "alpha", "beta")
	for _, route := range []string{
		"fc00:1::d6 encap seg6local action End.DT6 table 100 dev eth1",
		"2001:db8:a::/48 via 2001:db8:2::2 dev eth1 table 100", "blackhole 2001:db8:a::/48",
	} {
		e2e.Must(t, l.Node("router"), append([]string{"ip", "-6", "route", "add"}, strings.Fields(route)...)...)
	}
	var packets [][]byte
	const lengths = 160
	for i := range 3 * lengths {
		length, segments := room-i%lengths, []int{1, 6, 8}[i/lengths]
		inner := craft.Between("2001:db8:1::2", "2001:db8:a::1", craft.UDP)
		inner.Label = uint32(len(packets) + 1)
		body := inner.With(craft.Datagram(1, 2, make([]byte, length-craft.HeaderLen-8)...))
		srh := append([]byte{craft.IPv6InIPv6, byte(2 * segments), 4, 0, byte(segments - 1), 0, 0, 0}, make([]byte, 16*segments)...)
		packets = append(packets, craft.Between("2001:db8:1::2", "fc00:1::d6", craft.Routing).With(srh, body))
	}
	time.Sleep(looked)
	fast := pass(t, l, packets)
	f := e2e.ForwardsOf(t, l, "router")
	forwarding(t, l, "router", "stack")
	stack := pass(t, l, packets)
	if f.Fast["encap_inserted"] == 0 || f.ToStack["headroom"] == 0 {
		t.Errorf("fast %v, to the stack %v: neither way is tested without the other", f.Fast, f.ToStack)
	}
	for i := range packets {
		if a, b := fmt.Sprintf("%x", fast[i+1]), fmt.Sprintf("%x", stack[i+1]); a != b || len(fast[i+1]) != 1 {
			t.Fatalf("packet %d of %d bytes: fast\n%sby the stack\n%s", i, len(packets[i]), dump(fast[i+1]), dump(stack[i+1]))
		}
	}
}
