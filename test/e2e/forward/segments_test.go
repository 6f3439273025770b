// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// segmentWorld is what both routers have in the tests of SRv6: routes to segments
// elsewhere, and what decapsulated packets are routed by.
var segmentWorld = []string{
	"route add 2001:db8:a::/48 via 2001:db8:11::2 dev eth1",
	"route add 2001:db8:b::/48 via 2001:db8:12::3 dev eth2",
	"route add 2001:db8:a::/48 via 2001:db8:13::4 dev eth3 table 100",
	"route add 2001:db8:b::/48 encap seg6 mode encap segs fc00:2::1 dev eth1 table 100",
	"route add fc00:2::/32 via 2001:db8:12::2 dev eth2",
	"route add fc00:3::/32 via fe80::3 dev eth3",
	"route add fcbb:bb00::/32 via 2001:db8:11::5 dev eth1",
}

// behaviours are routes with the behaviours that programs have, and destinations of
// packets that they match.
var behaviours = []struct {
	command string
	to      []string
	reason  string // why the stack alone has it
	with    string // another route, without which the packets have no way
}{
	{command: "fc00:1::e encap seg6local action End dev eth1", to: []string{"fc00:1::e"}},
	{command: "fc00:1::a encap seg6local action End.X nh6 2001:db8:12::3 dev eth2", to: []string{"fc00:1::a"}},
	{command: "fc00:1::b encap seg6local action End.X nh6 fc00:3::77 dev eth2", to: []string{"fc00:1::b"}},
	{command: "fcbb:bb00:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev eth1", to: []string{"fcbb:bb00:1::", "fcbb:bb00:1:2::", "fcbb:bb00:1:2:3:4:5:6", "fcbb:bb00:1::7"}},
	{command: "fcbb:bb00:2200::/40 encap seg6local action End flavors next-csid lblen 32 nflen 8 dev eth1", to: []string{"fcbb:bb00:2233:4455:6677:8899:aabb:ccdd", "fcbb:bb00:2200::"}},
	{command: "fcbb:bb00:3:4:5:6:7:8 encap seg6local action End flavors next-csid lblen 40 nflen 72 dev eth1", to: []string{"fcbb:bb00:3:4:5:6:7:8"}},
	{command: "fcbb:bb00:4::/48 encap seg6local action End.X nh6 2001:db8:13::2 flavors next-csid lblen 32 nflen 16 dev eth3", to: []string{"fcbb:bb00:4::", "fcbb:bb00:4:2:3::"}},
	{command: "fc00:1::d6 encap seg6local action End.DT6 table 254 dev eth1", to: []string{"fc00:1::d6"}},
	{command: "fc00:1::d7 encap seg6local action End.DT6 table 100 dev eth1", to: []string{"fc00:1::d7"}},
	{command: "2001:db8:e1::/48 encap seg6 mode encap segs fc00:2::1,fc00:3::1,fc00:3::2 dev eth1", to: []string{"2001:db8:e1::1"}},
	{command: "2001:db8:e2::/48 encap seg6 mode encap.red segs fc00:3::1,fc00:2::1 dev eth1", to: []string{"2001:db8:e2::1"}},
	{command: "2001:db8:e3::/48 encap seg6 mode encap.red segs fc00:2::9 dev eth1", to: []string{"2001:db8:e3::1"}},
	{command: "2001:db8:e4::/48 encap seg6 mode encap segs fc00:2::9 dev eth1", to: []string{"2001:db8:e4::1"}},
	{command: "fc00:1::/64 encap seg6local action End dev eth1", to: []string{"fc00:1::77"}},

	{command: "fc00:1:1::f encap seg6local action End flavors psp dev eth1", to: []string{"fc00:1:1::f"}, reason: "segment_flavour"},
	{command: "fc00:1:1::c encap seg6local action End count dev eth1", to: []string{"fc00:1:1::c"}, reason: "segment_behaviour"},
	{command: "fc00:1:1::7 encap seg6local action End.T table 100 dev eth1", to: []string{"fc00:1:1::7"}, reason: "segment_behaviour"},
	{command: "fc00:1:1::6 encap seg6local action End.DX6 nh6 2001:db8:12::3 dev eth1", to: []string{"fc00:1:1::6"}, reason: "segment_behaviour"},
	{command: "fc00:1:1::8 encap seg6local action End.B6.Encaps srh segs fc00:2::1,fc00:3::1 dev eth1", to: []string{"fc00:1:1::8"}, reason: "segment_behaviour"},
	{command: "2001:db8:e5::/48 encap seg6 mode inline segs fc00:2::1 dev eth1", to: []string{"2001:db8:e5::1"}, reason: "segment_behaviour"},
	{command: "2001:db8:e6::/48 encap seg6 mode encap segs fc00:2::1,fc00:2::2,fc00:2::3,fc00:2::4,fc00:2::5,fc00:2::6,fc00:2::7,fc00:2::8,fc00:2::9,fc00:2::a,fc00:3::1 dev eth1", to: []string{"2001:db8:e6::1"}, reason: "segment_behaviour"},
	{command: "2001:db8:e7::/48 encap seg6 mode encap segs fc00:1::e dev eth1", to: []string{"2001:db8:e7::1"}, reason: "segment_chained", with: "fc00:1::e encap seg6local action End dev eth1"},
}

// segmenter makes packets of SRv6 at random, also wrong ones.
type segmenter struct{ *rand.Rand }

func (s segmenter) one(of ...string) string { return of[s.IntN(len(of))] }

// hopLimit is mostly one with which packets are forwarded.
func (s segmenter) hopLimit() byte { return []byte{64, 64, 64, 64, 255, 2, 1, 0}[s.IntN(8)] }

func (s segmenter) upper() (next byte, body []byte) {
	next = []byte{17, 17, 17, 6, 58, 58, 59, 43, 60, 44, 0}[s.IntN(11)]
	body = make([]byte, 8+s.IntN([]int{40, 400, 1300}[s.IntN(3)]))
	switch next {
	case 58:
		body[0] = []byte{128, 129, 1, 3, 135}[s.IntN(5)]
	case 43, 60, 44, 0:
		copy(body, []byte{59, 0, 1, 4, 0, 0, 0, 0})
		if next == 43 || next == 44 {
			copy(body, make([]byte, 8))
			body[0] = 59
		}
	}
	return next, body
}

// inner is a packet in a tunnel, which has the number of the packet in its flow label.
func (s segmenter) inner(number uint32) []byte {
	next, body := s.upper()
	h := craft.Between(
		s.one("2001:db8:5:1::1", "2001:db8:5:2::1"),
		s.one("2001:db8:a:1::1", "2001:db8:a:2::1", "2001:db8:b::1", "2001:db8:c::1", "2001:db8:11::1", "ff02::1", "fe80::9"),
		next,
	)
	h.Class, h.Label, h.HopLimit = byte(s.IntN(256)), number, s.hopLimit()
	p := h.With(body)
	switch s.IntN(30) {
	case 0:
		p[5] ^= byte(1 + s.IntN(255))
	case 1:
		p[0] ^= 0x10
	case 2:
		p = p[:s.IntN(len(p))]
	}
	return p
}

// header is an SRH, mostly one that segments of a path have.
func (s segmenter) header(next byte) []byte {
	count := 1 + s.IntN(4)
	left := s.IntN(count + 1)
	srh := []byte{next, byte(2 * count), 4, byte(left), byte(count - 1), 0, byte(s.IntN(2)), byte(s.IntN(2))}
	for range count {
		srh = append(
			srh,
			netip.MustParseAddr(s.one("fc00:2::1", "fc00:3::1", "fc00:2::2", "fcbb:bb00:2:3::", "2001:db8:a::7", "2001:db8:b::7", "fc00:1::e",
				"fc00:99::1", "ff02::1", "fe80::3", "::1")).
				AsSlice()...)
	}
	switch s.IntN(24) {
	case 0:
		srh[1] += byte(s.IntN(3)) - 1
	case 1:
		srh[2] = byte(s.IntN(6))
	case 2:
		srh[3] = byte(s.IntN(256))
	case 3:
		srh[4] = byte(s.IntN(256))
	case 4:
		srh[5] = byte(s.IntN(256))
	case 5: // padding
		srh[1]++
		srh = append(srh, 4, 6, 0, 0, 0, 0, 0, 0)
	case 6: // a TLV beyond the header
		srh[1]++
		srh = append(srh, 4, 7, 0, 0, 0, 0, 0, 0)
	case 7: // an HMAC that no key has made
		srh[1], srh[5] = srh[1]+5, 8
		srh = append(srh, append([]byte{5, 38}, make([]byte, 38)...)...)
	}
	return srh
}

// packet is a packet to one of the destinations.
func (s segmenter) packet(w *twins, destinations []string) trial {
	number := w.last%0xffffe + 1
	var next byte
	var body []byte
	switch s.IntN(8) {
	case 0:
		next, body = s.upper()
	default:
		next, body = 41, s.inner(number)
	}
	if s.IntN(4) > 0 {
		body, next = append(s.header(next), body...), 43
	}
	switch s.IntN(16) {
	case 0:
		body, next = append([]byte{next, 0, 1, 4, 0, 0, 0, 0}, body...), []byte{0, 60}[s.IntN(2)]
	case 1, 2: // the option that marks packets, mostly alone
		option := []byte{next, 0, 0x12, 4, byte(s.IntN(256)), byte(s.IntN(256)), byte(s.IntN(256)), 0}
		if s.IntN(8) == 0 {
			option[1+s.IntN(3)] ^= 1 << s.IntN(8)
		}
		body, next = append(option, body...), 60
	}
	p := w.newTrial(s.one("2001:db8:5:1::1", "2001:db8:5:2::1"), s.one(destinations...), byte(s.IntN(256)), next, body)
	p.frame[14+7] = s.hopLimit()
	switch s.IntN(40) {
	case 0:
		p.frame = p.frame[:14+40+s.IntN(len(p.frame)-14-40+1)]
	case 1:
		p.frame = append(p.frame, make([]byte, 1+s.IntN(9))...)
	}
	p.frame = p.frame[:min(len(p.frame), 1514)]
	binary.BigEndian.PutUint16(p.frame[14+4:], uint16(len(p.frame)-14-40))
	if s.IntN(30) == 0 {
		p.frame[14+5]--
	}
	p.what += fmt.Sprintf("\n% x", p.frame[14:min(len(p.frame), 200)])
	return p
}

// raiseSegmentTwins raises two routers with routes to segments, and a source for what
// they encapsulate.
func raiseSegmentTwins(t *testing.T, attach string) *twins {
	t.Helper()
	w := raiseTwins(t, attach)
	for _, n := range []string{"fast", "plain"} {
		e2e.Must(t, w.lab.Node(n), "ip", "sr", "tunsrc", "set", "2001:db8:ff::1")
	}
	w.both(t, segmentWorld...)
	return w
}

// randomSegments is how many rounds of packets a regular test compares.
const randomSegments = 60

// Whatever packets of SRv6 arrive, wrong ones among them, they leave a router that has
// the behaviours in XDP as they leave the kernel. WAYMARK_WAYS is how many rounds there
// are, WAYMARK_SEED repeats a run.
func TestForwardSegments(t *testing.T) {
	e2e.NeedRedirection(t)
	count := int(numberOf(t, "WAYMARK_WAYS", randomSegments))
	seed := numberOf(t, "WAYMARK_SEED", rand.Uint64())
	t.Logf("WAYMARK_WAYS=%d WAYMARK_SEED=%d", count, seed)
	w := raiseSegmentTwins(t, "xdp")
	var commands, destinations []string
	for _, b := range behaviours {
		commands = append(commands, "route add "+b.command)
		destinations = append(destinations, b.to...)
	}
	w.both(t, commands...)
	e2e.AwaitSegments(t, w.lab, "fast")
	packets, fast := 0, 0
	for round := range count {
		s := segmenter{newChooser(seed, round).Rand}
		var trials []trial
		for range trialsOfEach {
			trials = append(trials, s.packet(w, destinations))
		}
		differ, n := w.compare(t, trials)
		packets, fast = packets+len(trials), fast+n
		if differ > 0 {
			t.Fatalf("round %d of WAYMARK_SEED=%d", round, seed)
		}
	}
	t.Logf("%d of %d packets went fast; left to the stack: %v", fast, packets, e2e.ForwardsOf(t, w.lab, "fast").ToStack)
	if fast < packets/8 {
		t.Errorf("only %d of %d packets went fast", fast, packets)
	}
}

// marked is the header that nodes insert which mark packets by the AltMark option (RFC 9343).
var marked = []byte{43, 0, 0x12, 4, 0xab, 0xcd, 0xe8, 0}

// segmented is a packet in a tunnel; headers puts more in front of it.
func segmented(w *twins, destination string, headers func(inner []byte) (next byte, body []byte)) trial {
	inner := craft.Between("2001:db8:5:1::1", "2001:db8:a:1::1", 17)
	inner.Class, inner.Label = 0x2e, w.last%0xffffe+1 // of the whole
	next, body := headers(inner.With(craft.Datagram(1, 2, make([]byte, 40)...)))
	return w.newTrial("2001:db8:5:1::1", destination, 0x2e, next, body)
}

// header is a header of two segments, of which the first comes next if any is left.
func header(left byte) []byte {
	srh := []byte{41, 4, 4, left, 1, 0, 0, 0}
	for _, segment := range []string{"fc00:2::7", "fc00:1::e"} {
		srh = append(srh, netip.MustParseAddr(segment).AsSlice()...)
	}
	return srh
}

// good is a packet for a behaviour that carries it out.
func good(w *twins, destination string, before ...byte) trial {
	return segmented(w, destination, func(inner []byte) (byte, []byte) {
		left, next := byte(1), byte(43)
		if slices.Contains([]string{"fc00:1::d6", "fc00:1::d7"}, destination) {
			left = 0
		}
		if len(before) > 0 {
			next = 60
		}
		return next, slices.Concat(before, header(left), inner)
	})
}

// checkWay sends packets and checks that all go fast, or all are left to the stack for a
// reason; what leaves is the same either way.
func (w *twins) checkWay(t *testing.T, reason string, packets func() []trial) {
	t.Helper()
	var fast uint64
	var left map[string]uint64
	for range 3 { // an agent may be without a processor for 100 ms
		trials := packets()
		before := e2e.ForwardsOf(t, w.lab, "fast")
		w.compare(t, trials)
		after := e2e.ForwardsOf(t, w.lab, "fast")
		fast, left = after.Sum()-before.Sum(), after.ToStack
		for other, n := range before.ToStack {
			if left[other] -= n; left[other] == 0 || other == "route" { // that of what ends the packets
				delete(left, other)
			}
		}
		delete(left, "route")
		once, twice := uint64(len(trials)), uint64(2*len(trials)) // a comparison that fails is made again
		if reason == "" && len(left) == 0 && (fast == once || fast == twice) ||
			fast == 0 && len(left) == 1 && (left[reason] == once || left[reason] == twice) {
			return
		}
	}
	t.Errorf("%d packets went fast, left to the stack: %v, want all by %q", fast, left, reason)
}

// Each behaviour alone does what the kernel does, in XDP or in the stack.
func TestForwardBehaviours(t *testing.T) {
	e2e.NeedRedirection(t)
	w := raiseSegmentTwins(t, "xdp")
	for _, b := range behaviours {
		t.Run(b.command, func(t *testing.T) {
			for _, route := range []string{b.command, b.with} {
				if route != "" {
					w.both(t, "route add "+route)
					defer w.both(t, "route del "+route)
				}
			}
			e2e.AwaitSegments(t, w.lab, "fast")
			w.checkWay(t, b.reason, func() (trials []trial) {
				for range 8 {
					for _, to := range b.to {
						trials = append(trials, good(w, to), good(w, to, marked...))
					}
				}
				return trials
			})
		})
	}
}

// Packets to one destination take the way of the table that they are routed by,
// whatever others took before them.
func TestForwardTables(t *testing.T) {
	e2e.NeedRedirection(t)
	w := raiseSegmentTwins(t, "xdp")
	var commands []string
	for _, b := range behaviours {
		if slices.Contains(b.to, "fc00:1::d6") || slices.Contains(b.to, "fc00:1::d7") {
			commands = append(commands, "route add "+b.command)
		}
	}
	w.both(t, commands...)
	e2e.AwaitSegments(t, w.lab, "fast")
	var trials []trial
	for range 5 {
		trials = append(trials, good(w, "fc00:1::d6"), good(w, "fc00:1::d7"),
			w.newTrial("2001:db8:5:1::1", "2001:db8:a:1::1", 0, 17, datagram(1, 2, 100)), good(w, "fc00:1::d7"))
	}
	if differ, fast := w.compare(t, trials); differ > 0 || fast != len(trials) || w.used() != 2 {
		t.Errorf("%d of %d packets differ, %d went fast, %d ways", differ, len(trials), fast, w.used())
	}
}
