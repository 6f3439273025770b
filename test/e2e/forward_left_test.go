// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
)

// exits is a router with a way out of every kind to beta: narrow and with
// encapsulations (eth1), not served (eth2), at the domain's edge (eth3).
const exits = `
name: exits
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: router
    agent:
      node: {id: 2}
      interfaces:
        - {name: eth0, id: 201, role: [ingress, egress], forwarding: fast}
        - {name: eth1, id: 202, role: [ingress, egress]}
        - {name: eth3, id: 203, role: [], boundary: strip}
      namespaces: [{id: 123}]
      encapsulations:
        - name: small
          interface: eth1
          match: {destination: 2001:db8:2::7/128}
          mode: inline
          options: [{trace: {namespace: 123, type: 0x800000, size: 8}}]
        - name: large
          interface: eth1
          match: {destination: 2001:db8:2::8/128}
          mode: inline
          options: [{trace: {namespace: 123, type: 0x800000, size: 240}}, {trace: {namespace: 123, type: 0x800000, size: 240}}]
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - {ends: [{node: alpha, interface: eth0, addresses: "2001:db8:1::2/64"}, {node: router, interface: eth0, addresses: "2001:db8:1::1/64"}]}
  - {mtu: 1400, ends: [{node: router, interface: eth1, addresses: "2001:db8:2::1/64"}, {node: beta, interface: eth0, addresses: "2001:db8:2::2/64"}]}
  - {ends: [{node: router, interface: eth2, addresses: "2001:db8:3::1/64"}, {node: beta, interface: eth1, addresses: "2001:db8:3::2/64"}]}
  - {ends: [{node: router, interface: eth3, addresses: "2001:db8:4::1/64"}, {node: beta, interface: eth2, addresses: "2001:db8:4::2/64"}]}
`

const exitMTU = 1400

// raiseExits brings it up. alpha's own stack is mute: what arrives from there is
// what the test sends, and all that is counted.
func raiseExits(t *testing.T) *lab.Lab {
	t.Helper()
	l := raiseText(t, "exits", exits)
	router, beta := l.Node("router"), l.Node("beta")
	mac := linkAddress(t, beta, "eth0").String()
	for _, command := range []string{
		"sysctl -qw net.ipv6.icmp.ratelimit=0 net.ipv6.neigh.eth1.retrans_time_ms=100",
		"ip -6 neigh replace 2001:db8:2::7 lladdr " + mac + " dev eth1 nud permanent",
		"ip -6 neigh replace 2001:db8:2::8 lladdr " + mac + " dev eth1 nud permanent",
		"ip -6 neigh replace 2001:db8:1::77 lladdr " + linkAddress(t, l.Node("alpha"), "eth0").String() + " dev eth0 nud permanent",
		"ip -6 route add prohibit 2001:db8:66::/64",
		"ip -6 route add blackhole 2001:db8:67::/64",
		"ip -6 route add 2001:db8:68::/64 encap seg6 mode encap segs 2001:db8:2::2 dev eth1",
	} {
		must(t, router, strings.Fields(command)...)
	}
	must(t, beta, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=0")
	must(t, beta, "ip", "-6", "addr", "add", "2001:db8:2::77/64", "dev", "eth0", "nodad")
	for _, name := range []string{"eth0", "eth1", "eth2"} {
		must(t, beta, "ethtool", "-K", name, "gro", "on")
	}
	must(t, l.Node("alpha"), "ethtool", "-K", "eth0", "gro", "on")
	must(t, l.Node("alpha"), "sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
	awaitRouting()
	return l
}

// leftover is a packet that is not forwarded fast, and what the stack is to do
// with it.
type leftover struct {
	name   string
	packet []byte
	reason string
	// where it comes out, as "beta eth0", and by how much it is longer then
	at    string
	grown int
	// answer is the ICMPv6 message to its sender: type, code, first 4 bytes of
	// the rest; those of an echo are not looked at
	answer *icmp
	count  int    // how many of them are sent; 0: three
	to     string // address at the link, when not the router's own
	before string // a command in the router
	fast   bool   // it is forwarded fast after all
}

type icmp struct {
	kind, code byte
	value      uint32
}

var echoed = &icmp{kind: 129}

// from is a packet from alpha that beta does not answer.
func from(destination string, next, hopLimit byte, body []byte) []byte {
	p := packet(1, hopLimit, nil, body)
	p[6] = next
	to := netip.MustParseAddr(destination).As16()
	copy(p[24:], to[:])
	return p
}

// folded is the sum of 16-bit words (RFC 1071).
func folded(b []byte, begin int) uint16 {
	sum := begin
	for i, c := range b {
		sum += int(c) << (8 * (1 - i&1))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// seal puts the upper layer's checksum in its place, at an offset behind the
// header.
func seal(p []byte, at int) []byte {
	binary.BigEndian.PutUint16(p[40+at:], ^folded(p[8:], len(p)-40+int(p[6])))
	return p
}

func icmpv6(destination string, hopLimit, kind byte, body []byte) []byte {
	return seal(from(destination, 58, hopLimit, append([]byte{kind, 0, 0, 0}, body...)), 2)
}

// toPort is a datagram to a port where nobody listens.
func toPort(destination string) []byte {
	return seal(from(destination, 17, 64, []byte{0, 9, 0, 9, 0, 12, 0, 0, 'a', 'b', 'c', 'd'}), 6)
}

// echo asks for an answer.
func echo(destination string) []byte {
	return icmpv6(destination, 64, 128, []byte("\x12\x34\x00\x01 sixteen bytes "))
}

// traced is a packet with room for this router's node data and another's.
func traced(t *testing.T, destination string) []byte {
	t.Helper()
	trace := ioam.Trace{Namespace: 123, NodeLen: 2, Type: 0xc00000, RemainingLen: 4, Data: make([]byte, 16)}
	header, err := ioam.AppendExtensionHeader(nil, 59, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	return from(destination, 0, 64, append(header, make([]byte, 64)...))
}

// leftovers has every reason that a packet itself can give, at least once.
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
		{name: "a route that encapsulates", packet: from("2001:db8:68::1", 59, 64, some), reason: "route", at: "beta eth0", grown: 40 + 24},

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

// linkLocal is the address of an interface that is good on its link only.
func linkLocal(t *testing.T, n *lab.Node, name string) (address string) {
	t.Helper()
	err := n.Do(func() error {
		device, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		all, err := device.Addrs()
		for _, a := range all {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsLinkLocalUnicast() {
				address = p.Addr().String()
			}
		}
		return err
	})
	if err != nil || address == "" {
		t.Fatalf("%s has no address for the link of %s: %v", n.Name(), name, err)
	}
	return address
}

// exitWatch has what came out of the router, by node and interface, neighbours'
// words apart.
type exitWatch struct {
	mu   sync.Mutex
	came map[string][][]byte
}

func watchExits(t *testing.T, l *lab.Lab) *exitWatch {
	t.Helper()
	w := &exitWatch{came: map[string][][]byte{}}
	for _, at := range []string{"alpha eth0", "beta eth0", "beta eth1", "beta eth2"} {
		node, name, _ := strings.Cut(at, " ")
		capture, err := l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
			if p.Outgoing || len(p.Data) < 14+40 || p.Data[0]&1 != 0 || p.Data[12] != 0x86 || p.Data[13] != 0xdd || p.Data[14+24] == 0xfe {
				return // among them what beta's stack is told over its links
			}
			if p.Data[14+6] == 58 && len(p.Data) > 14+40 && slices.Contains([]byte{135, 137}, p.Data[14+40]) {
				return // of redirects, the stack sends only some
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.came[at] = append(w.came[at], bytes.Clone(p.Data[14:]))
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if stats, err := capture.Stop(); err != nil || stats.Dropped > 0 {
				t.Errorf("the capture at %s missed %d packets: %v", at, stats.Dropped, err)
			}
		})
	}
	return w
}

// take waits until as many have come as are to, and the answer to the last
// packet; it returns them, that one left out.
func (w *exitWatch) take(want map[string]int) map[string][][]byte {
	isLast := func(p []byte) bool { return bytes.Contains(p, lastWords) }
	for deadline := time.Now().Add(patience.Of(5 * time.Second)); ; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		all := slices.ContainsFunc(w.came["alpha eth0"], isLast)
		for at, n := range want {
			came := slices.DeleteFunc(slices.Clone(w.came[at]), isLast)
			all = all && len(came) >= n
		}
		if all || time.Now().After(deadline) {
			break
		}
		w.mu.Unlock()
	}
	defer w.mu.Unlock()
	out := w.came
	out["alpha eth0"] = slices.DeleteFunc(out["alpha eth0"], isLast)
	w.came = map[string][][]byte{}
	return out
}

var lastWords = []byte("end of the packets")

// send sends the packets of a row, and one that the router answers: when the
// answer is there, its stack has seen all.
func (r leftover) send(t *testing.T, l *lab.Lab, w *exitWatch) map[string][][]byte {
	t.Helper()
	if r.before != "" {
		must(t, l.Node("router"), strings.Fields(r.before)...)
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
		if err := inject("eth0", to, slices.Repeat([][]byte{r.packet}, r.count)); err != nil {
			return err
		}
		return inject("eth0", router, [][]byte{last})
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
	return w.take(want)
}

// check wants what came to be what the row says.
func (r leftover) check(t *testing.T, came map[string][][]byte) {
	t.Helper()
	forwarded, answers := 0, 0
	for at, all := range came {
		for _, p := range all {
			if at == "alpha eth0" && bytes.Equal(p[24:40], leftAddress.AsSlice()) && r.answer != nil {
				r.checkAnswer(t, p)
				answers++
				continue
			}
			forwarded++
			sent := 40 + int(binary.BigEndian.Uint16(r.packet[4:]))
			if at != r.at || len(p) != len(r.packet)+r.grown {
				t.Errorf("a packet of %d bytes came to %s, want one of %d at %q\n% x", len(p), at, len(r.packet)+r.grown, r.at, p)
			} else if changed := bytes.Clone(r.packet[:sent]); r.at != "" && len(p) == sent && r.packet[6] != 0 {
				changed[7]--
				if !bytes.Equal(p, changed) {
					t.Errorf("it came as\n% x\nwant\n% x", p, changed)
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
		t.Errorf("the error is about another packet:\n% x", p)
	}
}

// What is not a router's everyday packet, the stack gets, and does with it what
// it does without fast forwarding, to the byte: it forwards, takes, answers or
// drops it. Each is counted once, by its reason.
func TestForwardLeavesToStack(t *testing.T) {
	needRedirection(t)
	l := raiseExits(t)
	w := watchExits(t, l)
	rows := leftovers(t, l)
	came := make([]string, len(rows))
	for i, r := range rows {
		if r.count == 0 {
			r.count = 3
		}
		rows[i] = r
		t.Run(r.name, func(t *testing.T) {
			before := statusInterface(t, l, "router", "eth0")
			all := r.send(t, l, w)
			r.check(t, all)
			r.checkCounted(t, before, statusInterface(t, l, "router", "eth0"))
			came[i] = fmt.Sprintf("%x", all)
		})
	}
	forwarding(t, l, "router", "stack")
	for i, r := range rows {
		if all := fmt.Sprintf("%x", r.send(t, l, w)); all != came[i] {
			t.Errorf("%s: what came is\n%s\nand with forwarding by the stack\n%s", r.name, came[i], all)
		}
	}
}

// checkCounted wants each packet to have been counted once, and the last one.
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
