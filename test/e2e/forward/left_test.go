// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// leftover is a packet that is not forwarded fast, and what the stack should do
// with it.
type leftover struct {
	name   string
	packet []byte
	reason string
	// where it leaves, as "beta eth0", and by how many bytes it has grown
	at    string
	grown int
	// answer is the ICMPv6 message to its sender: type, code, and the first 4
	// bytes of the rest, which an echo reply's check skips
	answer *icmp
	count  int    // how many are sent; 0: three
	to     string // link-layer destination, if not the router's own
	before string // a command in the router
	fast   bool   // it is forwarded fast after all
}

type icmp struct {
	kind, code byte
	value      uint32
}

var echoed = &icmp{kind: 129}

// echo is an echo request.
func echo(destination string) []byte {
	return icmpv6(destination, 64, 128, []byte("\x12\x34\x00\x01 sixteen bytes "))
}

// traced is a packet with room for the data of this router and one more node.
func traced(t *testing.T, destination string) []byte {
	t.Helper()
	trace := ioam.Trace{Namespace: 123, NodeLen: 2, Type: 0xc00000, RemainingLen: 4, Data: make([]byte, 16)}
	header, err := ioam.AppendExtensionHeader(nil, 59, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	return from(destination, 0, 64, append(header, make([]byte, 64)...))
}

// leftovers covers every reason that depends on the packet itself.
func leftovers(t *testing.T, l *lab.Lab) []leftover {
	t.Helper()
	some := make([]byte, 64)
	options := func(six ...byte) []byte { return slices.Concat([]byte{59, 0}, six, some) }
	solicitation := append(make([]byte, 4), netip.MustParseAddr("2001:db8:1::1").AsSlice()...)
	own := linkLocal(t, l.Node("router"), "eth0")
	return []leftover{
		{name: "everyday", packet: from("2001:db8:2::2", 59, 64, some), at: "beta eth0", fast: true},
		{name: "echo", packet: icmpv6("2001:db8:2::2", 64, 129, some), at: "beta eth0", fast: true},
		{name: "hop limit 2", packet: from("2001:db8:2::2", 59, 2, some), at: "beta eth0", fast: true},
		{name: "hop limit 1", packet: from("2001:db8:2::2", 59, 1, some), reason: "hop_limit", answer: &icmp{3, 0, 0}},
		{name: "hop limit 0", packet: from("2001:db8:2::2", 59, 0, some), reason: "hop_limit", answer: &icmp{3, 0, 0}},
		{name: "just fits", packet: from("2001:db8:2::2", 59, 64, make([]byte, exitMTU-40)), at: "beta eth0", fast: true},
		{name: "too big", packet: from("2001:db8:2::2", 59, 64, make([]byte, exitMTU-40+1)), reason: "mtu", answer: &icmp{2, 0, exitMTU}},

		{name: "to another's link address", packet: from("2001:db8:2::2", 59, 64, some), reason: "link", to: "02:00:00:00:99:99"},
		{name: "to all nodes", packet: echo("ff02::1"), reason: "link", answer: echoed, to: "33:33:00:00:00:01"},
		{name: "to a group elsewhere", packet: from("ff0e::1:2", 59, 64, some), reason: "link", to: "33:33:00:01:00:02"},
		{name: "to all nodes, at the router's link address", packet: echo("ff02::1"), reason: "packet", answer: echoed},
		{name: "link-local", packet: echo(own), reason: "packet", answer: echoed},
		{name: "no payload", packet: from("2001:db8:2::2", 59, 64, nil), reason: "packet", at: "beta eth0"},
		{name: "padded", packet: pad(from("2001:db8:2::2", 59, 64, some)), reason: "packet", at: "beta eth0", grown: -7},
		{name: "from ::1", packet: fromLoopback(from("2001:db8:2::2", 59, 64, some)), reason: "packet"},

		{name: "router alert", packet: from("2001:db8:2::2", 0, 64, options(5, 2, 0, 0, 1, 0)), reason: "headers", at: "beta eth0"},
		{name: "an option to be refused", packet: from("2001:db8:2::2", 0, 64, options(0xbe, 4, 0, 0, 0, 0)), reason: "headers", answer: &icmp{4, 2, 42}},
		{name: "an option beyond its header", packet: from("2001:db8:2::2", 0, 64, options(0x1e, 9, 0, 0, 0, 0)), reason: "headers"},

		{name: "an error", packet: icmpv6("2001:db8:2::2", 64, 1, make([]byte, 64)), reason: "control", at: "beta eth0"},
		{name: "a neighbour's question", packet: icmpv6("2001:db8:1::1", 255, 135, solicitation), reason: "control", answer: &icmp{136, 0, 0xc0000000}},

		{name: "the router's address here", packet: echo("2001:db8:1::1"), reason: "route", answer: echoed},
		{name: "the router's address beyond", packet: echo("2001:db8:2::1"), reason: "route", answer: echoed},
		{name: "a closed port of the router", packet: toPort("2001:db8:1::1"), reason: "route", answer: &icmp{1, 4, 0}},
		{name: "no route", packet: from("2001:db8:99::1", 59, 64, some), reason: "route", answer: &icmp{1, 0, 0}},
		{name: "prohibited", packet: from("2001:db8:66::1", 59, 64, some), reason: "route", answer: &icmp{1, 1, 0}},
		{name: "black hole", packet: from("2001:db8:67::1", 59, 64, some), reason: "route"},
		{name: "a route that encapsulates", packet: from("2001:db8:68::1", 59, 64, some), reason: "segment_setting", at: "beta eth0", grown: 40 + 24},

		{name: "a neighbour to be asked", packet: from("2001:db8:2::77", 59, 64, some), reason: "neighbour", at: "beta eth0", count: 1,
			before: "ip -6 neigh flush to 2001:db8:2::77 dev eth1"},
		{name: "nobody", packet: from("2001:db8:2::99", 59, 64, some), reason: "neighbour", answer: &icmp{1, 3, 0},
			before: "ip -6 neigh flush to 2001:db8:2::99 dev eth1"},

		{name: "back to its link", packet: from("2001:db8:1::77", 59, 64, some), reason: "device", at: "alpha eth0"},
		{name: "grows", packet: from("2001:db8:2::7", 59, 64, some), at: "beta eth0", grown: 24, fast: true},
		{name: "too large for what it is to get", packet: from("2001:db8:2::7", 59, 64, make([]byte, exitMTU-40-23)), reason: "headroom", at: "beta eth0"},
		{name: "no room for what it is to get", packet: from("2001:db8:2::8", 59, 64, some), reason: "headroom", at: "beta eth0", grown: 512},

		{name: "IOAM within the domain", packet: traced(t, "2001:db8:2::2"), at: "beta eth0", fast: true},
		{name: "IOAM where nothing is served", packet: traced(t, "2001:db8:3::2"), reason: "boundary", at: "beta eth1"},
		{name: "IOAM at the edge", packet: traced(t, "2001:db8:4::2"), reason: "boundary", at: "beta eth2", grown: -32},
	}
}

func pad(p []byte) []byte { return append(p, make([]byte, 7)...) }

func fromLoopback(p []byte) []byte {
	copy(p[8:], net.IPv6loopback)
	return p
}

// send sends the packets of a row, then an echo request to the router: when its
// answer arrives, the router's stack has handled all.
func (r leftover) send(t *testing.T, l *lab.Lab, w *exitWatch) map[string][][]byte {
	t.Helper()
	if r.before != "" {
		e2e.Must(t, l.Node("router"), strings.Fields(r.before)...)
	}
	router := linkAddress(t, l.Node("router"), "eth0")
	to := router
	if r.to != "" {
		var err error
		if to, err = net.ParseMAC(r.to); err != nil {
			t.Fatal(err)
		}
	}
	last := icmpv6("2001:db8:1::1", 64, 128, append([]byte{0, 1, 0, 1}, lastWords...))
	err := l.Node("alpha").Do(func() error {
		if err := e2e.Inject("eth0", to, slices.Repeat([][]byte{r.packet}, r.count)); err != nil {
			return err
		}
		return e2e.Inject("eth0", router, [][]byte{last})
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	if r.answer != nil {
		want["alpha eth0"] += r.count
	}
	if r.at != "" {
		want[r.at] += r.count
	}
	return w.takeFrames(want)
}

// check checks that what arrived matches the row.
func (r leftover) check(t *testing.T, came map[string][][]byte) {
	t.Helper()
	forwarded, answers := 0, 0
	for at, all := range came {
		for _, p := range all {
			if at == "alpha eth0" && bytes.Equal(p[24:40], e2e.LeftAddress.AsSlice()) && r.answer != nil {
				r.checkAnswer(t, p)
				answers++
				continue
			}
			forwarded++
			sent := 40 + int(binary.BigEndian.Uint16(r.packet[4:]))
			if at != r.at || len(p) != len(r.packet)+r.grown {
				t.Errorf("a packet of %d bytes arrived at %s, want one of %d at %q\n% x", len(p), at, len(r.packet)+r.grown, r.at, p)
			} else if changed := bytes.Clone(r.packet[:sent]); r.at != "" && len(p) == sent && r.packet[6] != 0 {
				changed[7]--
				if !bytes.Equal(p, changed) {
					t.Errorf("it arrived as\n% x\nwant\n% x", p, changed)
				}
			}
		}
	}
	if want := r.count; r.at != "" && forwarded != want || r.answer != nil && answers != want {
		t.Errorf("%d packets were forwarded and %d answered, of %d", forwarded, answers, want)
	}
}

func (r leftover) checkAnswer(t *testing.T, p []byte) {
	t.Helper()
	got := icmp{p[40], p[41], binary.BigEndian.Uint32(p[44:])}
	if r.answer.kind == 129 {
		got.value = 0
		if !bytes.Equal(p[44:], r.packet[44:]) {
			t.Errorf("the answer to % x is % x", r.packet[44:], p[44:])
		}
	}
	if p[6] != 58 || got != *r.answer {
		t.Errorf("the answer is %+v, want %+v\n% x", got, *r.answer, p)
	}
	if r.answer.kind < 128 && !bytes.Equal(p[48 : 48+40][8:], r.packet[8:40]) {
		t.Errorf("the error quotes another packet:\n% x", p)
	}
}

// Packets that fast forwarding does not handle go to the stack, which forwards,
// accepts, answers or drops them exactly as without fast forwarding, to the byte.
// Each is counted once, by its reason.
func TestForwardLeavesToStack(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	l := raiseExits(t)
	w := watchExits(t, l)
	e2e.AwaitSegments(t, l, "router")
	rows := leftovers(t, l)
	came := make([]string, len(rows))
	for i, r := range rows {
		if r.count == 0 {
			r.count = 3
		}
		rows[i] = r
		t.Run(r.name, func(t *testing.T) {
			before := e2e.StatusInterface(t, l, "router", "eth0")
			all := r.send(t, l, w)
			r.check(t, all)
			r.checkCounted(t, before, e2e.StatusInterface(t, l, "router", "eth0"))
			came[i] = fmt.Sprintf("%x", all)
		})
	}
	forwarding(t, l, "router", "stack")
	for i, r := range rows {
		if all := fmt.Sprintf("%x", r.send(t, l, w)); all != came[i] {
			t.Errorf("%s: the result is\n%s\nand with forwarding by the stack\n%s", r.name, came[i], all)
		}
	}
}

// checkCounted checks that each packet, and the last one, was counted once.
func (r leftover) checkCounted(t *testing.T, before, after api.Interface) {
	t.Helper()
	want := map[string]uint64{}
	maps.Copy(want, before.ToStack)
	want["route"]++
	fast := sum(before.Forwarded)
	if r.fast {
		fast += uint64(r.count)
	} else {
		want[r.reason] += uint64(r.count)
	}
	if n := sum(after.Forwarded); n != fast || !maps.Equal(after.ToStack, want) {
		t.Errorf("forwarded fast: %d, want %d; left to the stack: %v, want %v", n, fast, after.ToStack, want)
	}
}

func sum(by map[string]uint64) (n uint64) {
	for _, count := range by {
		n += count
	}
	return n
}

// A header with nine options is forwarded fast once the stack takes as many; until
// then the stack drops it.
func TestForwardAsManyOptionsAsTheStack(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	l := raiseExits(t)
	w := watchExits(t, l)
	trace := ioam.Trace{Namespace: 123, NodeLen: 2, Type: 0xc00000, RemainingLen: 2, Data: make([]byte, 8)}
	header, err := ioam.AppendExtensionHeader(nil, 59, slices.Repeat([]ioam.Option{trace.Option()}, 9)...)
	if err != nil {
		t.Fatal(err)
	}
	r := leftover{packet: from("2001:db8:2::2", 0, 64, append(header, make([]byte, 64)...)), reason: "headers", count: 3}
	holds := func() {
		before := e2e.StatusInterface(t, l, "router", "eth0")
		r.check(t, r.send(t, l, w))
		r.checkCounted(t, before, e2e.StatusInterface(t, l, "router", "eth0"))
	}
	holds()
	e2e.Must(t, l.Node("router"), "sysctl", "-w", "net.ipv6.max_hbh_opts_number=9")
	r.at, r.fast = "beta eth0", true
	e2e.Await(t, "the agent to notice", 5*time.Second, func() bool {
		before := sum(e2e.StatusInterface(t, l, "router", "eth0").Forwarded)
		r.send(t, l, w)
		return sum(e2e.StatusInterface(t, l, "router", "eth0").Forwarded) > before
	})
	holds()
}
