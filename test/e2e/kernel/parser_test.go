// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
	"github.com/waymark-net/waymark/test/testnet"
)

// parsed is two hosts, with athos and porthos on the way, which insert, grow and remove, and
// aramis, whose kernel is a transit node. The port says what becomes of a packet.
const parsed = `
name: parsed
permanent-neighbours: true
nodes:
  - {name: alpha, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: athos
    routes: [{to: "::/0", via: 2001:db8:12::2}]
    agent:
      node: {id: 7}
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 123, incremental: true}, {id: 456}]
      encapsulations:
        - {name: grown, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9000}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 24, incremental: true}}]}
        - {name: wide, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9001}, mode: inline, options: [{trace: {namespace: 123, type: 0xc00000, size: 24, incremental: true}}]}
        - {name: merged, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9002}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 12}}]}
        - {name: both, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9003}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 24, incremental: true}}]}
        - {name: shrunk, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9004}, mode: inline, options: [{trace: {namespace: 456, type: 0x800000, size: 12}}, {trace: {namespace: 123, type: 0x800000, size: 12}}]}
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: "::/0", via: 2001:db8:23::2}]
    agent:
      node: {id: 8}
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 123, incremental: true}, {id: 456, remove: true}]
  - {name: aramis, routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}]}
  - {name: beta, routes: [{to: "::/0", via: 2001:db8:4::1}]}
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 2000, ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 2000, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:23::2/64}]}
  - {mtu: 2000, ends: [{node: aramis, interface: eth1, addresses: 2001:db8:4::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:4::2/64}]}
`

// own is a Hop-by-Hop header with an option that every node skips, as a socket wants it.
var own = []byte{0, 0, 0x1e, 4, 'o', 'w', 'n', 0}

// The kernel of a transit node and that of a receiver, with its default limits, accept packets
// that have grown, were merged into, or lost some of their options: the payload arrives.
func TestKernelAcceptsChangedHeaders(t *testing.T) {
	t.Parallel()
	l := e2e.RaiseText(t, "parsed", parsed)
	e2e.SetUpKernel(t, l.Node("aramis"))
	for _, tt := range []struct {
		name  string
		port  int
		own   bool
		nodes []ioam.NodeID // in the trace of namespace 123 as it arrives, the newest first
	}{
		{"grown by 4 bytes", 9000, false, []ioam.NodeID{8, 7}},
		{"grown by 8 bytes", 9001, false, []ioam.NodeID{8, 7}},
		{"merged", 9002, true, []ioam.NodeID{2, 8, 7}},
		{"merged and grown", 9003, true, []ioam.NodeID{8, 7}},
		{"merged and shrunk", 9004, true, []ioam.NodeID{2, 8, 7}},
		{"inserted and shrunk", 9004, false, []ioam.NodeID{2, 8, 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var options []byte
			if tt.own {
				options = own
			}
			for _, header := range sendDatagrams(t, l, tt.port, unix.IPV6_HOPOPTS, options) {
				checkArrived(t, header, options, tt.nodes)
			}
			before := e2e.Settled(t, l, "athos", "encap_inserted")
			sendStream(t, l, tt.port, options)
			if n := e2e.Settled(t, l, "athos", "encap_inserted") - before; n < 5 {
				t.Errorf("%d packets of the stream have a trace", n)
			}
		})
	}
	for _, node := range []string{"aramis", "beta"} {
		if n := headerErrors(t, l.Node(node)); n != 0 {
			t.Errorf("%s refused %d headers", node, n)
		}
	}
}

// open opens a socket at a node.
func open[C io.Closer](t *testing.T, l *lab.Lab, node string, network func() (C, error)) (conn C) {
	t.Helper()
	// A child of another test has a copy of a closed socket until it executes its program.
	for end := time.Now().Add(patience.Of(5 * time.Second)); ; time.Sleep(time.Millisecond) {
		err := l.Node(node).Do(func() (err error) { conn, err = network(); return err })
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EADDRINUSE) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// dialer makes sockets that send options in a header of a kind (a socket option), if there
// are any.
func dialer(kind int, options []byte) *net.Dialer {
	return dialerWith(map[int][]byte{kind: options})
}

// dialerWith is the same for headers of several kinds.
func dialerWith(headers map[int][]byte) *net.Dialer {
	return &net.Dialer{Timeout: patience.Of(10 * time.Second), Control: func(_, _ string, raw syscall.RawConn) (err error) {
		err2 := raw.Control(func(fd uintptr) {
			for kind, options := range headers {
				if options != nil {
					err = errors.Join(err, unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, kind, string(options)))
				}
			}
		})
		return errors.Join(err, err2)
	}}
}

// receiving are the socket options with which a socket reports headers of a kind.
var receiving = map[int]int{unix.IPV6_HOPOPTS: unix.IPV6_RECVHOPOPTS, unix.IPV6_DSTOPTS: unix.IPV6_RECVDSTOPTS}

// sendDatagrams sends datagrams of several lengths from alpha to beta, and returns the
// headers of the options' kind with which they arrived.
func sendDatagrams(t *testing.T, l *lab.Lab, port, kind int, options []byte) (headers [][]byte) {
	t.Helper()
	to := &net.UDPAddr{IP: net.ParseIP("2001:db8:4::2"), Port: port}
	in := open(t, l, "beta", func() (*net.UDPConn, error) { return net.ListenUDP("udp6", to) })
	out := open(t, l, "alpha", func() (net.Conn, error) { return dialer(kind, options).Dial("udp6", to.String()) })
	if err := e2e.Control(in, unix.IPPROTO_IPV6, receiving[kind], 1); err != nil {
		t.Fatal(err)
	}
	got, control := make([]byte, 2000), make([]byte, 500)
	for _, size := range []int{0, 1, 2, 999, 1000, 1400} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		if _, err := out.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := in.SetReadDeadline(time.Now().Add(patience.Of(5 * time.Second))); err != nil {
			t.Fatal(err)
		}
		n, c, _, _, err := in.ReadMsgUDP(got, control)
		if err != nil || !bytes.Equal(got[:n], data) {
			t.Fatalf("of a datagram of %d bytes arrived %d: %v", size, n, err)
		}
		messages, err := unix.ParseSocketControlMessage(control[:c])
		if err != nil || len(messages) != 1 {
			t.Fatalf("a datagram of %d bytes arrived with %v: %v", size, messages, err)
		}
		headers = append(headers, messages[0].Data)
	}
	return headers
}

// checkArrived checks that a Hop-by-Hop header has one trace, that of namespace 123 with the
// data of these nodes, and besides it the sender's option, if there is one.
func checkArrived(t *testing.T, header, options []byte, want []ioam.NodeID) {
	t.Helper()
	h, err := ioam.DecodeExtensionHeader(header)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for option, err := range h.Options() {
		if err != nil {
			t.Fatalf("%x: %v", header, err)
		}
		switch carried, err := option.IOAM(); {
		case option.Type == ioam.OptionPadN || option.Type == ioam.OptionPad1:
		case option.Type != ioam.OptionIOAM:
			got = append(got, fmt.Sprintf("%x %s", byte(option.Type), option.Data))
		case err != nil:
			t.Fatal(err)
		default:
			trace, err := carried.Trace()
			if err != nil {
				t.Fatal(err)
			}
			nodes, err := trace.Nodes()
			if err != nil {
				t.Fatal(err)
			}
			var ids []ioam.NodeID
			for _, n := range nodes {
				id, _ := n.NodeID()
				ids = append([]ioam.NodeID{id}, ids...)
			}
			got = append(got, fmt.Sprint(trace.Namespace, ids))
		}
	}
	expected := []string{fmt.Sprint(123, want)}
	if options != nil {
		expected = append(expected, fmt.Sprintf("%x %s", options[2], options[4:8]))
	}
	if strings.Join(got, ", ") != strings.Join(expected, ", ") {
		t.Errorf("%x has %q, want %q", header, got, expected)
	}
}

// sendStream sends a stream by TCP from alpha to beta, and checks that it arrives.
func sendStream(t *testing.T, l *lab.Lab, port int, options []byte) {
	t.Helper()
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	to := fmt.Sprintf("[2001:db8:4::2]:%d", port)
	listener := open(t, l, "beta", func() (net.Listener, error) { return net.Listen("tcp6", to) })
	out := open(t, l, "alpha", func() (net.Conn, error) { return dialer(unix.IPV6_HOPOPTS, options).Dial("tcp6", to) })
	in, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := in.SetReadDeadline(time.Now().Add(patience.Of(20 * time.Second))); err != nil {
		t.Fatal(err)
	}
	go func() {
		out.Write(data)
		out.Close()
	}()
	if got, err := io.ReadAll(in); err != nil || !bytes.Equal(got, data) {
		t.Errorf("of a stream of %d bytes arrived %d: %v", len(data), len(got), err)
	}
}

// headerErrors is how many packets a node's kernel refused for their headers.
func headerErrors(t *testing.T, n *lab.Node) (count uint64) {
	t.Helper()
	if err := n.Do(func() error { count = testnet.Counter(t, "Ip6InHdrErrors"); return nil }); err != nil {
		t.Fatal(err)
	}
	return count
}
