// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// nested is a domain with namespace 1, from athos to dartagnan, around one with namespace 2,
// from porthos to aramis. Packets to port 9000 get both traces in one header, those to port
// 9001 a tunnel in a tunnel.
const nested = `
name: nested
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
  - name: athos
    addresses: 2001:db8:ff::1/128
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 1}]
      encapsulations:
        - {name: inline, interface: eth1, match: {destination: 2001:db8:5::/64, destination-port: 9000}, mode: inline, options: [{trace: {namespace: 1, type: 0xc00000, size: 32}}]}
        - {name: tunnel, interface: eth1, match: {destination: 2001:db8:5::/64, destination-port: 9001}, mode: encap, tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::4}, options: [{trace: {namespace: 1, type: 0xc00000, size: 32}}]}
  - name: porthos
    addresses: 2001:db8:ff::2/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: "::/0", via: 2001:db8:23::2}]
    agent:
      node: {id: 2}
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 1}, {id: 2}]
      encapsulations:
        - {name: inline, interface: eth1, match: {destination: 2001:db8:5::/64}, mode: inline, nested: true, options: [{trace: {namespace: 2, type: 0xc00000, size: 16}}]}
        - {name: tunnel, interface: eth1, match: {destination: 2001:db8:ff::4/128}, mode: encap, nested: true, tunnel: {source: 2001:db8:ff::2, destination: 2001:db8:ff::3}, options: [{trace: {namespace: 2, type: 0xc00000, size: 16}}]}
  - name: aramis
    addresses: 2001:db8:ff::3/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}, {to: "::/0", via: 2001:db8:34::2}]
    agent:
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 1}, {id: 2, remove: true}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::3}]
  - name: dartagnan
    addresses: 2001:db8:ff::4/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:34::1}]
    agent:
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1}]
      namespaces: [{id: 1, remove: true}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::4}]
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:5::1}]
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]
  - ends: [{node: porthos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:23::2/64}]
  - ends: [{node: aramis, interface: eth1, addresses: 2001:db8:34::1/64}, {node: dartagnan, interface: eth0, addresses: 2001:db8:34::2/64}]
  - ends: [{node: dartagnan, interface: eth1, addresses: 2001:db8:5::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:5::2/64}]
`

// ownOption is a Hop-by-Hop header with an option that every node skips, as a socket wants it.
var ownOption = []byte{0, 0, 0x1e, 4, 'o', 'w', 'n', 0}

// Each node removes the traces of its own domain only; the kernels on the way and at the end
// accept the packets, and an option of the sender arrives as it was sent.
func TestNestedDomains(t *testing.T) {
	t.Parallel()
	const packets = 20
	l := e2e.RaiseText(t, "nested", nested)
	inner, outer := e2e.Keep(t, l, "aramis"), e2e.Keep(t, l, "dartagnan")
	for _, port := range []uint16{9000, 9001} {
		r, err := l.Send(
			t.Context(),
			lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: packets, Interval: time.Millisecond, Size: 100, Port: port},
		)
		if err != nil || r.Received != packets {
			t.Errorf("port %d: %d of %d packets arrived: %v", port, r.Received, packets, err)
		}
	}
	if came := sendWithOption(t, l, packets); came != packets {
		t.Errorf("%d of %d packets arrived with their own option", came, packets)
	}
	for node, want := range map[string]map[string]uint64{
		"athos":     {"encap_inserted": 2 * packets, "encap_tunneled": packets},
		"porthos":   {"encap_inserted": 2 * packets, "encap_tunneled": packets},
		"aramis":    {"options_removed": 2 * packets, "tunnel_decapsulated": packets, "removal_partial": 0},
		"dartagnan": {"inline_removed": packets, "options_removed": packets, "tunnel_decapsulated": packets, "removal_partial": 0},
	} {
		e2e.CheckCounters(t, l, node, want)
	}
	for _, r := range inner.Read(t, 3*packets) {
		if r.Namespace != 2 || len(r.Nodes) != 2 {
			t.Errorf("aramis removed %s", e2e.Line(t, r))
		}
	}
	for _, r := range outer.Read(t, 3*packets) {
		if r.Namespace != 1 || len(r.Nodes) < 3 {
			t.Errorf("dartagnan removed %s", e2e.Line(t, r))
		}
	}
}

// Domains that overlap, and none is in the other: namespace 1 from athos to aramis, namespace 2
// from porthos to dartagnan. Each node removes the traces of the domain that ends there, and
// those that stay are filled.
func TestOverlappingDomains(t *testing.T) {
	t.Parallel()
	const packets = 20
	l := e2e.RaiseText(t, "overlapping", strings.NewReplacer(
		"namespaces: [{id: 1}, {id: 2, remove: true}]", "namespaces: [{id: 1, remove: true}, {id: 2}]",
		"namespaces: [{id: 1, remove: true}]", "namespaces: [{id: 1}, {id: 2, remove: true}]",
		"trace: {namespace: 2, type: 0xc00000, size: 16}", "trace: {namespace: 2, type: 0xc00000, size: 24}",
	).Replace(nested))
	first, second := e2e.Keep(t, l, "aramis"), e2e.Keep(t, l, "dartagnan")
	beta := e2e.StartScan(t, l, "beta", "eth0")
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: packets, Interval: time.Millisecond, Size: 100, Port: 9000},
	)
	if err != nil || r.Received != packets {
		t.Errorf("%d of %d packets arrived: %v", r.Received, packets, err)
	}
	for node, want := range map[string]map[string]uint64{
		"athos":     {"encap_inserted": packets},
		"porthos":   {"encap_inserted": packets},
		"aramis":    {"options_removed": packets, "inline_removed": 0, "removal_partial": 0},
		"dartagnan": {"options_removed": 0, "inline_removed": packets, "removal_partial": 0},
	} {
		e2e.CheckCounters(t, l, node, want)
	}
	for journal, want := range map[*e2e.Journal]string{first: "1: 63 62 61", second: "2: 62 61 60"} {
		for _, r := range journal.Read(t, packets) {
			got := fmt.Sprintf("%d:", r.Namespace)
			for _, n := range r.Nodes {
				got += fmt.Sprintf(" %d", n.HopLimit.Value)
			}
			if got != want {
				t.Errorf("removed %q, want %q: %s", got, want, e2e.Line(t, r))
			}
		}
	}
	if beta.Stop(t); beta.Packets.Load() < packets || beta.IOAMBytes.Load() > 0 {
		t.Errorf("beta received %d packets with %d bytes of IOAM", beta.Packets.Load(), beta.IOAMBytes.Load())
	}
}

// sendWithOption sends UDP with ownOption from alpha to beta, and counts the packets that
// arrive with it and nothing else in their Hop-by-Hop header.
func sendWithOption(t *testing.T, l *lab.Lab, packets int) (came int) {
	t.Helper()
	var in, out *net.UDPConn
	open := func(node string, conn **net.UDPConn, network func() (*net.UDPConn, error)) {
		err := l.Node(node).Do(func() (err error) { *conn, err = network(); return err })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*conn).Close() })
	}
	to := &net.UDPAddr{IP: net.ParseIP("2001:db8:5::2"), Port: 9000}
	open("beta", &in, func() (*net.UDPConn, error) { return net.ListenUDP("udp6", to) })
	open("alpha", &out, func() (*net.UDPConn, error) { return net.DialUDP("udp6", nil, to) })
	raw, err := out.SyscallConn()
	if err == nil {
		err2 := raw.Control(func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, string(ownOption))
		})
		if err == nil {
			err = err2
		}
	}
	if err == nil {
		err = e2e.Control(in, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPOPTS, 1)
	}
	for range packets {
		if err == nil {
			_, err = out.Write([]byte("with an option"))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	data, control := make([]byte, 100), make([]byte, 200)
	for range packets {
		if err := in.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, n, _, _, err := in.ReadMsgUDP(data, control)
		if err != nil {
			t.Log(err)
			return came
		}
		messages, err := unix.ParseSocketControlMessage(control[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if m.Header.Type == unix.IPV6_HOPOPTS && bytes.Equal(m.Data[1:], ownOption[1:]) {
				came++
			} else {
				t.Errorf("arrived with %x", m.Data)
			}
		}
	}
	return came
}
