// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// mixed is two hosts. athos inserts options of two namespaces into the headers of packets, as
// their port says; porthos removes those of namespace 123.
var mixed = removing("mixed", `
        - {name: edge, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9000}, mode: inline, options: [{e2e: {namespace: 123, type: 0x4000}}]}
        - {name: left, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9001}, mode: inline, options: [{e2e: {namespace: 456, type: 0xb000}}]}
        - {name: edges, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9002}, mode: inline, options: [{e2e: {namespace: 123, type: 0x7000}}, {e2e: {namespace: 456, type: 0x4000}}]}
        - {name: gone, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9003}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 12}}, {e2e: {namespace: 123, type: 0x8000}}]}
        - {name: traced, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9004}, mode: inline, options: [{trace: {namespace: 456, type: 0x800000, size: 12}}, {e2e: {namespace: 123, type: 0x4000}}]}
        - {name: numbered, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9005}, mode: inline, options: [{trace: {namespace: 123, type: 0x800000, size: 8}}, {e2e: {namespace: 456, type: 0x4000}}]}
        - {name: four, interface: eth1, match: {destination: 2001:db8:4::/64, destination-port: 9006}, mode: inline, options: [{trace: {namespace: 456, type: 0xc00000, size: 16}}, {trace: {namespace: 123, type: 0x800000, size: 4}}, {e2e: {namespace: 123, type: 0x8000}}, {e2e: {namespace: 456, type: 0x4000}}]}`)

// carried are the IOAM options of namespace 456 that arrive, by port: in the Hop-by-Hop header,
// and in the Destination Options header.
var carried = map[int][2]int{9000: {0, 0}, 9001: {0, 1}, 9002: {0, 1}, 9003: {0, 0}, 9004: {1, 0}, 9005: {0, 1}, 9006: {1, 1}}

// Random headers of sockets get options, and lose some: the kernels on the way and that of the
// receiver, with their default limits, accept every packet, and the receiver finds the
// sockets' options, in order and aligned. WAYMARK_SEED repeats a run, and WAYMARK_HEADERS sets
// the number of packets.
func TestKernelAcceptsRandomHeaders(t *testing.T) {
	t.Parallel()
	seed, packets := rand.Uint64(), number(t, "WAYMARK_HEADERS", 300)
	seed = number(t, "WAYMARK_SEED", seed)
	t.Logf("seed %d, %d packets in each mode", seed, packets)
	for _, attach := range []string{"xdp", string(e2e.TCModes()[0])} {
		t.Run(attach, func(t *testing.T) {
			top, err := lab.Parse("mixed", []byte(mixed))
			if err != nil {
				t.Fatal(err)
			}
			e2e.Reconfigure(t, top, "porthos", ", role:", ", attach: "+attach+", role:")
			l := e2e.Raise(t, top)
			inserted, removed := e2e.Settled(t, l, "athos", "encap_inserted"), gone(t, l)
			r := rand.New(rand.NewPCG(seed, 0))
			var lost uint64
			for i := range packets {
				port := 9000 + r.IntN(len(carried))
				own := map[int][]byte{unix.IPV6_HOPOPTS: craft.RandomOptions(r, 0), unix.IPV6_DSTOPTS: craft.RandomOptions(r, 0)}
				arrived := exchange(t, l, port, own)
				for j, kind := range []int{unix.IPV6_HOPOPTS, unix.IPV6_DSTOPTS} {
					checkOptions(t, arrived[kind], own[kind], carried[port][j])
				}
				if port != 9001 {
					lost++
				}
				if t.Failed() {
					t.Fatalf("packet %d to port %d: sent with %x, arrived with %x", i, port, own, arrived)
				}
			}
			if n := e2e.Settled(t, l, "athos", "encap_inserted") - inserted; n != packets {
				t.Errorf("athos inserted into %d packets of %d", n, packets)
			}
			if n := gone(t, l) - removed; n != lost {
				t.Errorf("porthos removed options from %d packets, want %d", n, lost)
			}
			for _, node := range []string{"athos", "porthos", "beta"} {
				if n := headerErrors(t, l.Node(node)); n != 0 {
					t.Errorf("%s refused %d headers", node, n)
				}
			}
		})
	}
}

// number is what an environment variable says, or a default.
func number(t *testing.T, name string, or uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return or
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s is no number; set it to one, or unset it", name, text)
	}
	return n
}

// gone is from how many packets porthos has removed something.
func gone(t *testing.T, l *lab.Lab) uint64 {
	t.Helper()
	return e2e.Settled(t, l, "porthos", "options_removed") + e2e.Settled(t, l, "porthos", "inline_removed")
}

// exchange sends a datagram with headers of its own from alpha to beta, and returns those with
// which it arrived, by the socket option that sets them.
func exchange(t *testing.T, l *lab.Lab, port int, own map[int][]byte) map[int][]byte {
	t.Helper()
	to := &net.UDPAddr{IP: net.ParseIP("2001:db8:4::2"), Port: port}
	in := open(t, l, "beta", func() (*net.UDPConn, error) { return net.ListenUDP("udp6", to) })
	defer in.Close()
	for _, kind := range receiving {
		if err := e2e.Control(in, unix.IPPROTO_IPV6, kind, 1); err != nil {
			t.Fatal(err)
		}
	}
	out := open(t, l, "alpha", func() (net.Conn, error) { return dialerWith(own).Dial("udp6", to.String()) })
	defer out.Close()
	data := fmt.Appendf(nil, "%x", own)
	if _, err := out.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := in.SetReadDeadline(time.Now().Add(patience.Of(5 * time.Second))); err != nil {
		t.Fatal(err)
	}
	got, control := make([]byte, 2000), make([]byte, 2000)
	n, c, _, _, err := in.ReadMsgUDP(got, control)
	if err != nil || !bytes.Equal(got[:n], data) {
		t.Fatalf("of a datagram to port %d with %x arrived %q: %v", port, own, got[:n], err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:c])
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(map[int][]byte)
	for _, m := range messages {
		arrived[int(m.Header.Type)] = m.Data
	}
	return arrived
}

// checkOptions checks that a header holds so many options of IOAM, which come first, then those
// of a socket, and nothing else but padding. Without any, it is not there.
func checkOptions(t *testing.T, header, own []byte, carries int) {
	t.Helper()
	options := func(header []byte) (list []ioam.Option) {
		for option, err := range (ioam.ExtensionHeader{Bytes: header}).Options() {
			if err != nil {
				t.Fatalf("%x: %v", header, err)
			}
			if !option.Type.IsPadding() {
				list = append(list, option)
			}
		}
		return list
	}
	want, got := options(own), options(header)
	if len(got) != len(want)+carries || (header != nil) != (len(got) > 0) {
		t.Errorf("%x has %d options, want %d of %x and %d of IOAM", header, len(got), len(want), own, carries)
		return
	}
	for i, option := range got {
		switch {
		case i < carries && !option.IsIOAM():
			t.Errorf("%x begins with %+v, want IOAM", header, option)
		case i >= carries && (option.Type != want[i-carries].Type || !bytes.Equal(option.Data, want[i-carries].Data) ||
			option.Offset%8 != want[i-carries].Offset%8):
			t.Errorf("%x has %+v, want %+v", header, option, want[i-carries])
		}
	}
}
