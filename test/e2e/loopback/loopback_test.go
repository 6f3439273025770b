// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// topology is the path alpha, athos, porthos, aramis, beta. athos asks for copies of each
// packet in namespace 7; aramis also ends probes of namespace 8, and answers those of 9.
const topology = `
name: loopback
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
  - name: athos
    addresses: 2001:db8:ff::1/128
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:12::2}, {to: 2001:db8:ff::3/128, via: 2001:db8:12::2}]
    agent:
      node: {id: 1}
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress], attach: ATTACH}]
      namespaces: [{id: 7GROWS}]
      encapsulations:
        - {name: all, interface: eth1, match: {destination: "2001:db8:2::/64"}, mode: auto, tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}, options: [{trace: {namespace: 7, type: 0x800000, size: 40, loopback: 1/1GROWS}}]}
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: 2001:db8:ff::1/128, via: 2001:db8:12::1}, {to: 2001:db8:2::/64, via: 2001:db8:23::2}, {to: 2001:db8:ff::3/128, via: 2001:db8:23::2}]
    agent:
      node: {id: 2}
      interfaces: [{name: eth0, role: [ingress, egress], attach: ATTACH, forwarding: FORWARDING}, {name: eth1, role: [ingress, egress], attach: ATTACH, forwarding: FORWARDING}]
      namespaces: [{id: 7, loopback: trueGROWS}, {id: 8}, {id: 9, loopback: true}]
  - name: aramis
    addresses: 2001:db8:ff::3/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}, {to: 2001:db8:12::/64, via: 2001:db8:23::1}, {to: 2001:db8:ff::1/128, via: 2001:db8:23::1}]
    agent:
      node: {id: 3}
      interfaces: [{name: eth0, role: [ingress, egress], attach: ATTACH}, {name: eth1}]
      namespaces: [{id: 7, loopback: true, terminate-active: trueGROWS}, {id: 8, remove: true, terminate-active: true}, {id: 9, loopback: true}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::3}]
      path-trace: {allow: ["2001:db8:12::/64"]}
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:2::1}]
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 1700, ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 1700, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:23::2/64}]}
  - ends: [{node: aramis, interface: eth1, addresses: 2001:db8:2::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}]
`

// Packets arrive, and their copies come back from both nodes. Probes end. A trace by
// copies says where packets are lost.
func TestFlags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, attach, forwarding, option string }{
		{"tc", string(e2e.TCModes()[0]), "stack", "pre-allocated"}, {"fast", "xdp", "fast", "pre-allocated"},
		{"tc, incremental", string(e2e.TCModes()[0]), "stack", "incremental"}, {"fast, incremental", "xdp", "fast", "incremental"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := e2e.RaiseText(t, "loopback", strings.NewReplacer("ATTACH", test.attach, "FORWARDING", test.forwarding,
				"GROWS", map[string]string{"incremental": ", incremental: true"}[test.option]).Replace(topology))
			if test.forwarding == "fast" {
				e2e.AwaitRouting(t, l)
			}
			if test.forwarding == "fast" { // no capture sees what XDP redirects
				checkCopies(t, l, test.option)
				checkProbes(t, l)
			} else {
				wire := e2e.StartWire(t, l, "porthos", "eth0")
				checkCopies(t, l, test.option)
				checkProbes(t, l)
				wire.Stop(t)
				checkDissected(t, wire.Path, test.option)
			}
			if test.option == "incremental" { // probes have a pre-allocated trace
				return
			}
			checkTrace(t, l)
		})
	}
}

func checkCopies(t *testing.T, l *lab.Lab, option string) {
	t.Helper()
	const packets = 20
	journal := e2e.Keep(t, l, "athos")
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: packets, Interval: 2 * time.Millisecond, Size: 100, Port: 9000},
	)
	if err != nil || r.Received != packets {
		t.Errorf("%d of %d packets arrived, %v", r.Received, packets, err)
	}
	ways := map[string]int{}
	for _, one := range journal.Read(t, 2*packets) {
		var ids []string
		for _, n := range one.Nodes {
			ids = append(ids, fmt.Sprint(n.NodeID.Value))
		}
		ways[fmt.Sprintf("%v %s %v %s", one.Copy, one.Option, one.Packet.Source, strings.Join(ids, " "))]++
	}
	porthos, aramis := "true "+option+" 2001:db8:12::2 1 2", "true "+option+" 2001:db8:23::2 1 2 3 2"
	if len(ways) != 2 || ways[porthos] != packets || ways[aramis] != packets {
		t.Errorf("copies: %v", ways)
	}
	if n := e2e.Settled(t, l, "athos", "loopback_received"); n != 2*packets {
		t.Errorf("%d copies were received", n)
	}
	for node, want := range map[string]map[string]uint64{"athos": {"asked": packets}, "porthos": {"returned": packets},
		"aramis": {"returned": packets}} {
		got := map[string]uint64{}
		for _, i := range e2e.StatusOf(t, l, node).Interfaces {
			for what, n := range i.Loopback {
				got[what] += n
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s counted %v, want %v", node, got, want)
		}
	}
	if copies := e2e.StatusOf(t, l, "porthos").LoopbackCopies; copies["sent"] != packets || len(copies) != 1 {
		t.Errorf("porthos: %v", copies)
	}
}

// sharedProbe is a Hop-by-Hop header as a socket wants it, with an active trace of namespace 8
// and an option that every node skips.
const sharedProbe = "0004 0100 31160000 00080903 80000000 000000000000000000000000 1e06 736861726564 01020000"

// sendShared sends a probe whose header keeps an option where its trace is removed.
func sendShared(t *testing.T, l *lab.Lab) {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		fault := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, string(craft.Hex(t, sharedProbe)))
		})
		return errors.Join(err, fault)
	}}
	err := l.Node("athos").Do(func() error {
		conn, err := dialer.Dial("udp6", "[2001:db8:ff::3]:33434")
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte("shared"))
		return errors.Join(err, conn.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkProbes sends probes of a namespace in which they end before the destination's stack.
func checkProbes(t *testing.T, l *lab.Lab) {
	t.Helper()
	journal := e2e.Keep(t, l, "aramis")
	if r, err := trace(t, l, "--namespace", "8", "--paths", "3"); e2e.ExitCode(err) != 1 || r.Lost != 3 {
		t.Errorf("probes that end on the way: %v\n%s", err, r.Text(columns.Screen{ASCII: true}))
	}
	sendShared(t, l)
	for _, one := range journal.Read(t, 4) {
		if !one.Active || one.Namespace != 8 || *one.Packet.DestinationPort != 33434 {
			t.Errorf("%+v", one)
		}
	}
	if n := e2e.Settled(t, l, "aramis", "active_terminated"); n != 4 {
		t.Errorf("%d probes ended", n)
	}
}

// checkDissected reads the flags of the traces on the link between athos and porthos: packets
// ask for copies, copies do not, and probes are active. Wireshark itself knows these flags in
// pre-allocated traces; our dissector leaves them to it, and reads the incremental ones.
func checkDissected(t *testing.T, path, option string) {
	t.Helper()
	got, flags := map[string]int{}, strings.NewReplacer("True", "1", "False", "0")
	for _, p := range e2e.Dissect(t, path, "ipv6.opt.ioam.opt_type == 0", "ipv6.opt.ioam.trace.ns", "ipv6.opt.ioam.trace.flag.l",
		"ipv6.opt.ioam.trace.flag.a", "ioam.type") {
		got[flags.Replace(strings.Join(p, " "))]++
	}
	for _, p := range e2e.Dissect(t, path, "ioam.type == 1", "ioam.namespace", "ioam.trace.loopback", "ioam.trace.active",
		"ioam.trace.remaining", "_ws.malformed") {
		got["incremental "+flags.Replace(strings.Join(p, " "))]++
	}
	want := map[string]int{"7 1 0 ": 20, "7 0 0 ": 40, "8 0 1 ": 4}
	if option == "incremental" { // aramis and porthos have written on the way back; porthos sees its own copy, too
		want = map[string]int{"incremental 7 1 0 9 ": 20, "incremental 7 0 0 8 ": 20, "incremental 7 0 0 6 ": 20, "8 0 1 ": 4}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the dissector reads %v, want %v", got, want)
	}
}

// trace runs the command at athos, without hop limits that end on the way.
func trace(t *testing.T, l *lab.Lab, args ...string) (*paths.Report, error) {
	t.Helper()
	args = append(
		[]string{
			"trace",
			"2001:db8:ff::3",
			"--source",
			"2001:db8:12::1",
			"--json",
			"--interval",
			"2ms",
			"--timeout",
			"1s",
			"--count",
			"1",
			"--max-hops",
			"0",
		},
		args...)
	out, err := l.Node("athos").Command(t.Context(), e2e.Program, args...).Output()
	r := &paths.Report{}
	if fault := json.NewDecoder(bytes.NewReader(out)).Decode(r); fault != nil {
		t.Fatalf("%v: %v: %s", args, fault, out)
	}
	return r, err
}

func checkTrace(t *testing.T, l *lab.Lab) {
	t.Helper()
	r, err := trace(t, l, "--namespace", "9", "--loopback", "--paths", "4")
	if err != nil || len(r.Paths) != 1 || r.Lost != 0 || r.Copies != 8 || r.Paths[0].Hops[0].Address == nil ||
		r.Paths[0].Hops[0].Address.String() != "2001:db8:12::2" {
		t.Errorf("%v\n%s", err, r.Text(columns.Screen{ASCII: true}))
	}
	e2e.Must(t, l.Node("porthos"), "ip", "-6", "route", "replace", "blackhole", "2001:db8:ff::3/128")
	r, err = trace(t, l, "--namespace", "9", "--loopback", "--icmp", "--paths", "4")
	if e2e.ExitCode(err) != 1 || len(r.Broken) != 4 || r.Copies != 4 {
		t.Fatalf("%v\n%s", err, r.Text(columns.Screen{ASCII: true}))
	}
	for _, b := range r.Broken {
		if len(b.Hops) != 1 || *b.Hops[0].NodeID != 2 || b.Hops[0].Address.String() != "2001:db8:12::2" {
			t.Errorf("%+v", b)
		}
	}
	checkAtOnce(t, l)
}

// checkAtOnce asks for copies with a long --timeout: which hop was not passed is said long
// before.
func checkAtOnce(t *testing.T, l *lab.Lab) {
	t.Helper()
	const timeout, bound = "30s", 3 * time.Second
	for _, more := range [][]string{nil, {"--icmp"}} {
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(bound))
		args := append(
			[]string{
				"trace",
				"2001:db8:ff::3",
				"--source",
				"2001:db8:12::1",
				"--namespace",
				"9",
				"--loopback",
				"--paths",
				"4",
				"--count",
				"1",
				"--max-hops",
				"0",
				"--timeout",
				timeout,
			},
			more...)
		cmd := l.Node("athos").Command(ctx, e2e.Program, args...)
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// a busy machine may tell of some flows a moment later
		const want = "; last seen at hop 1, node 2 (2001:db8:12::2), and not at hop 2\n"
		lines := bufio.NewReader(errs)
		for flows := 0; flows < 4; {
			line, err := lines.ReadString('\n')
			var n int
			if _, scanned := fmt.Sscanf(line, "%d flow", &n); err != nil || scanned != nil || n < 1 || !strings.HasSuffix(line, want) ||
				!strings.Contains(line, ": no answer within ") {
				t.Errorf("%v: after %v: %q, %v; want an end of %q within %v", more, time.Since(began), line, err, want, bound)
				break
			}
			flows += n
		}
		cancel()
		_ = cmd.Wait() // it was interrupted
	}
}
