// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestArgument marks bits of the last SID's argument: the kernel's End copies them into
// the destination, its route for the SID's prefix takes packets with any of them, and
// beta gets every datagram.
func TestArgument(t *testing.T) {
	t.Parallel()
	const last, prefix = "fc00:3:0:0:0:d6::", "fc00:3:0:0:0:d6::/96"
	for i, mode := range []string{"encap", "encap.red"} {
		for _, attach := range []string{"tcx", "xdp"}[i : i+1] { // each mode and each hook once
			t.Run(mode+", "+attach, func(t *testing.T) {
				l := raiseMarked(
					t,
					mode,
					attach,
					last,
					prefix,
					", carrier: argument, octet: 14, mask: 0xc0, unmarked: 0x00, even: 0x40, odd: 0x80",
					asking{},
				)
				arguments := seenAt(t, l, "egress", "eth0", false, func(outer []byte) string { return string(outer[24+14 : 24+15]) })
				out, transit, in := read(t, l, "ingress"), read(t, l, "middle"), read(t, l, "egress")
				for _, r := range []*reader{out, transit, in} {
					r.awaitComplete(t)
				}
				const count = 3000
				for range 3 { // more than one block
					send(t, l, count/3, 100, 64)
					time.Sleep(700 * time.Millisecond)
				}
				for name, r := range map[string]*reader{"ingress": out, "middle": transit, "egress": in} {
					awaitSum(t, r, name, count)
				}
				checkLoss(t, l, count, 0)
				if sum := in.sum(t); sum.Unmarked+sum.Late+sum.Early > 0 {
					t.Errorf("%+v", sum)
				}
				if got := arguments(); !slices.Equal(got, []string{"\x40", "\x80"}) {
					t.Errorf("arguments %q", got)
				}
				if drops := e2e.Must(t, l.Node("beta"), "nstat", "-asz", "Udp6NoPorts"); !strings.Contains(drops, "Udp6NoPorts") ||
					!strings.Contains(drops, "3000") {
					t.Errorf("beta: %s", drops)
				}
			})
		}
	}
}

// seenAt captures what arrives or leaves in a tunnel or with segments, and returns the
// different values of something in the outer header.
func seenAt(t *testing.T, l *lab.Lab, node, device string, outgoing bool, value func(outer []byte) string) func() []string {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	c, err := l.Capture(node, device, lab.CaptureOptions{Each: func(p lab.Packet) {
		if p.Outgoing != outgoing || len(p.Data) < 54 || p.Data[20] != 41 && p.Data[20] != 43 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if v := value(p.Data[14:]); !slices.Contains(seen, v) {
			seen = append(seen, v)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Stop() })
	return func() []string {
		if _, err := c.Stop(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(seen)
		return seen
	}
}

// TestUnmonitored sends packets of a policy that is no flow, with the marked bits set:
// they leave as they are, or cleared, and keep all other bits.
func TestUnmonitored(t *testing.T) {
	t.Parallel()
	for _, attach := range []string{"tcx", "xdp"} {
		t.Run(attach, func(t *testing.T) {
			l := raiseMarked(t, "encap", attach, lastSID, lastSID, ", unmonitored: keep", asking{})
			e2e.Must(t, l.Node("ingress"), strings.Fields("ip -6 route add 2001:db8:2::3/128 encap seg6 mode encap segs fc00:3::d6 dev eth1")...)
			e2e.Must(t, l.Node("beta"), "ip", "address", "add", "2001:db8:2::3/64", "dev", "eth0", "nodad")
			t.Run("keep", func(t *testing.T) { checkUnmonitored(t, l, 0xbd) })
			reconfigure(t, l, []string{"ingress", "egress"}, "unmonitored: keep", "unmonitored: clear")
			t.Run("clear", func(t *testing.T) { checkUnmonitored(t, l, 0xb1) })
		})
	}
}

func checkUnmonitored(t *testing.T, l *lab.Lab, want byte) {
	t.Helper()
	in := readFlowsFrom(t, l, "egress", nextBlock(), "red")["red"]
	in.awaitComplete(t)
	flow := classes(t, l, "fc00:2::e", "2001:db8:2::2")
	other := classes(t, l, "fc00:3::d6", "2001:db8:2::3")
	// Ours has the bits of a colour, and of none: ingress gives it those of the block.
	for range 3 {
		sendClass(t, l, "2001:db8:2::2", 0xbd, 100)
		sendClass(t, l, "2001:db8:2::3", 0xbd, 100)
		time.Sleep(700 * time.Millisecond)
	}
	awaitSum(t, in, "egress", 300)
	outer, inner := other()
	if outer != string([]byte{want}) || inner != "\xbd" {
		t.Errorf("packets of no flow have the outer class %x, the inner %x", outer, inner)
	}
	if outer, inner := flow(); outer != "\xb5\xbd" || inner != "\xbd" {
		t.Errorf("packets of the flow have the outer classes %x, the inner %x", outer, inner)
	}
}

// classes captures the traffic classes of packets that leave ingress for an outer and an
// inner destination. (Where they arrive, the kernel's End may have changed the destination
// of the captured packet, too.)
func classes(t *testing.T, l *lab.Lab, outer, inner string) func() (outer, inner string) {
	t.Helper()
	from, to := netip.MustParseAddr(outer).As16(), netip.MustParseAddr(inner).As16()
	class := func(header []byte) string { return string([]byte{header[0]<<4 | header[1]>>4}) }
	tunnel := func(packet []byte) (inside []byte) {
		if string(packet[24:40]) != string(from[:]) {
			return nil
		}
		at := 40
		if packet[6] == 43 {
			at += 8 + int(packet[41])*8
		}
		if inside = packet[at:]; len(inside) < 40 || string(inside[24:40]) != string(to[:]) {
			return nil
		}
		return inside
	}
	seen := seenAt(t, l, "ingress", "eth1", true, func(packet []byte) string {
		inside := tunnel(packet)
		if inside == nil {
			return ""
		}
		return class(packet) + class(inside)
	})
	return func() (outer, inner string) {
		for _, pair := range seen() {
			if len(pair) == 2 {
				outer += pair[:1]
				if !strings.Contains(inner, pair[1:]) {
					inner += pair[1:]
				}
			}
		}
		return outer, inner
	}
}

// sendClass sends datagrams from alpha with a traffic class.
func sendClass(t *testing.T, l *lab.Lab, to string, class, count int) {
	t.Helper()
	err := l.Node("alpha").Do(func() error {
		conn, err := net.ListenUDP("udp6", nil)
		if err != nil {
			return err
		}
		defer conn.Close()
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, class) }); cerr != nil ||
			err != nil {
			return err
		}
		for range count {
			if _, err := conn.WriteToUDPAddrPort([]byte("class"), netip.AddrPortFrom(netip.MustParseAddr(to), 9)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
