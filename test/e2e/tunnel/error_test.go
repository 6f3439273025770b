// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	messages "github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

var (
	roadsBegin = netip.MustParseAddr("2001:db8:1::1") // alpha
	athosEnd   = netip.MustParseAddr("2001:db8:2::1")
	porthosEnd = netip.MustParseAddr("2001:db8:2::2")
)

// TestTunnelErrors has errors come to athos in several ways.
func TestTunnelErrors(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"encap", "auto"} {
		t.Run(mode, func(t *testing.T) {
			l := raiseFirstDomain(t, treatment{mode, "xdp", "stack"})
			t.Run("reach sockets", func(t *testing.T) { errorsReachSockets(t, l) })
			if mode == "encap" {
				t.Run("from outside", func(t *testing.T) { errorsFromOutside(t, l) })
				t.Run("by another way", func(t *testing.T) { errorsByAnotherWay(t, l) }) // the last one, which leaves that way
			}
		})
	}
}

// A socket's owner gets the ICMPv6 error about its packet, on a host and on the
// encapsulating node itself.
func errorsReachSockets(t *testing.T, l *lab.Lab) {
	t.Helper()
	for node, from := range map[string]netip.Addr{"alpha": roadsBegin, "athos": athosEnd} {
		hops := 2
		if node == "athos" {
			hops = 1
		}
		kind, code, offender := socketError(t, l.Node(node), from, hops)
		if kind != byte(messages.TimeExceeded) || code != 0 || offender != porthosEnd {
			t.Errorf("%s: type %d, code %d from %v; want 3, 0 from %v", node, kind, code, offender, porthosEnd)
		}
	}
}

// socketError sends a datagram to the road's end from a socket, and returns the
// error that the kernel queues for the socket (RFC 3542, IPV6_RECVERR of Linux).
func socketError(t *testing.T, n *lab.Node, from netip.Addr, hops int) (kind, code byte, offender netip.Addr) {
	t.Helper()
	var fd int
	if err := n.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for option, value := range map[int]int{unix.IPV6_RECVERR: 1, unix.IPV6_UNICAST_HOPS: hops} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, option, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet6{Addr: from.As16()}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(fd, []byte("a datagram"), 0, &unix.SockaddrInet6{Addr: roadsEnd.As16(), Port: 33434}); err != nil {
		t.Fatal(err)
	}
	e2e.Await(t, "the socket has an error", 5*time.Second, func() bool {
		payload, control := make([]byte, 256), make([]byte, 512)
		_, length, _, _, err := unix.Recvmsg(fd, payload, control, unix.MSG_ERRQUEUE)
		if err != nil {
			return false
		}
		list, err := unix.ParseSocketControlMessage(control[:length])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			// struct sock_extended_err, then the address of the error's sender
			if c.Header.Level == unix.IPPROTO_IPV6 && c.Header.Type == unix.IPV6_RECVERR && len(c.Data) >= 16+28 {
				kind, code = c.Data[5], c.Data[6]
				offender = netip.AddrFrom16([16]byte(c.Data[24:40]))
			}
		}
		return true
	})
	return kind, code, offender
}

// quotedBy makes porthos send athos an error about a tunneled datagram of
// alpha's, and returns its body.
func quotedBy(t *testing.T, l *lab.Lab) []byte {
	t.Helper()
	e := listen(t, l.Node("athos"))
	if kind, _, _ := socketError(t, l.Node("alpha"), roadsBegin, 2); kind != byte(messages.TimeExceeded) {
		t.Fatalf("type %d", kind)
	}
	e2e.Await(t, "athos hears porthos", 2*time.Second, func() bool { return len(e.soFar()) > 0 })
	heard := e.stop(t)
	if len(heard) != 1 || heard[0].Source != porthosEnd {
		t.Fatalf("athos heard %+v, want one error of porthos", heard)
	}
	return heard[0].Body
}

// fromPorthos is a packet with an ICMPv6 message from porthos to athos' tunnel
// end.
func fromPorthos(body []byte) []byte {
	h := craft.IPv6{Next: craft.ICMPv6, HopLimit: 64, Source: porthosEnd, Destination: netip.MustParseAddr("2001:db8:ff::1")}
	return craft.Seal(h.With(body))
}

// An error that quotes no packet encapsulated by athos is not relayed; of a flood
// of valid errors, a bounded number is. All are counted.
func TestForgedTunnelErrors(t *testing.T) {
	t.Parallel()
	l := raiseFirstDomain(t, treatment{"encap", "xdp", "fast"})
	right := quotedBy(t, l)
	e2e.Await(t, "the first error is counted", 5*time.Second, func() bool { return e2e.StatusOf(t, l, "athos").TunnelErrors["relayed"] == 1 })

	var sender *messages.Sender
	if err := l.Node("porthos").Do(func() (err error) { sender, err = messages.NewSender(); return err }); err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	const hbh, inner = 8 + 40, 8 + 40 + 80
	changed := func(at int, b ...byte) []byte {
		m := bytes.Clone(right)
		copy(m[at:], b)
		return m
	}
	forged := map[string][]byte{
		"the bare packet":                     append(right[:8:8], right[inner:]...),
		"another source of the tunnel":        changed(8+23, 9),
		"another destination of the tunnel":   changed(8+39, 9),
		"another namespace":                   changed(hbh+9, 7),
		"a shorter header":                    changed(hbh+1, 8),
		"another option":                      changed(hbh+4, 0x1e),
		"another destination inside":          changed(inner+24, 0x20, 1, 0x0d, 0xb8, 0, 9),
		"this node's source in another's way": changed(inner+8, 0xff, 0x0e),
		"an error inside":                     changed(inner+6, 58, 2),
		"another length inside":               changed(inner+4, 0, 99),
	}
	forged["an error inside"][inner+40] = 1
	alpha := listen(t, l.Node("alpha"))
	before := e2e.StatusOf(t, l, "athos").TunnelErrors["foreign"]
	for _, m := range forged {
		if err := sender.Send(fromPorthos(m)); err != nil {
			t.Fatal(err)
		}
	}
	e2e.Await(t, "forged errors are foreign", 5*time.Second, func() bool {
		return e2e.StatusOf(t, l, "athos").TunnelErrors["foreign"] == before+uint64(len(forged))
	})
	if heard := alpha.soFar(); len(heard) > 0 {
		t.Errorf("alpha heard %+v", heard)
	}

	const flood = 4000
	begin := time.Now()
	for i := range flood {
		binary.BigEndian.PutUint16(right[inner+40:], uint16(i)) // another source port each time
		if err := sender.Send(fromPorthos(right)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(patience.Of(200 * time.Millisecond))
	var counts map[string]uint64
	e2e.Await(t, "the flood is over", 10*time.Second, func() bool {
		last := counts
		counts = e2e.StatusOf(t, l, "athos").TunnelErrors
		return last != nil && counts["relayed"]+counts["limited"] == last["relayed"]+last["limited"]
	})
	most := 101 + int(time.Since(begin).Seconds()*1000)
	heard := alpha.stop(t)
	if len(heard) < 10 || len(heard) > most || uint64(len(heard)) != counts["relayed"]-1 {
		t.Errorf("alpha heard %d errors, want 10 to %d; athos counts %v", len(heard), most, counts)
	}
	if counts["limited"] == 0 || counts["foreign"] != before+uint64(len(forged)) {
		t.Errorf("athos counts %v", counts)
	}
	for _, m := range heard {
		if m.Source != porthosEnd || !bytes.Equal(m.Body[8+8:8+40], right[inner+8:inner+40]) {
			t.Fatalf("alpha heard %+v", m)
		}
	}
}

// Errors that quote real tunneled packets but come from alpha, outside the
// domain, do not make athos send anything.
func errorsFromOutside(t *testing.T, l *lab.Lab) {
	t.Helper()
	relayed := func() uint64 { return e2e.StatusOf(t, l, "athos").TunnelErrors["relayed"] }
	before := relayed()
	right := quotedBy(t, l)
	e2e.Await(t, "the first error is counted", 5*time.Second, func() bool { return relayed() == before+1 })
	var sender *messages.Sender
	if err := l.Node("alpha").Do(func() (err error) { sender, err = messages.NewSender(); return err }); err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	alpha := listen(t, l.Node("alpha"))
	const forged = 3
	for range forged {
		if err := sender.Send(fromPorthos(right)); err != nil {
			t.Fatal(err)
		}
	}
	e2e.Await(t, "they are refused", 5*time.Second, func() bool { return e2e.StatusOf(t, l, "athos").TunnelErrors["outside"] == forged })
	if heard, n := alpha.stop(t), relayed(); len(heard) > 0 || n != before+1 {
		t.Errorf("alpha heard %+v; athos relayed %d", heard, n-before)
	}
}

// An error that arrives through an interface that is not served is relayed, too.
func errorsByAnotherWay(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Must(t, l.Node("athos"), "ip", "link", "add", "aside", "type", "veth", "peer", "name", "aside", "netns", l.Node("porthos").Namespace())
	for node, address := range map[string]string{"athos": "2001:db8:99::1/64", "porthos": "2001:db8:99::2/64"} {
		e2e.Must(t, l.Node(node), "ip", "address", "add", address, "dev", "aside", "nodad")
		e2e.Must(t, l.Node(node), "ip", "link", "set", "aside", "up")
	}
	e2e.Must(t, l.Node("porthos"), "ip", "-6", "route", "replace", "2001:db8:ff::1/128", "via", "2001:db8:99::1")
	kind, _, offender := socketError(t, l.Node("alpha"), roadsBegin, 2)
	if kind != byte(messages.TimeExceeded) || !netip.MustParsePrefix("2001:db8::/32").Contains(offender) {
		t.Errorf("type %d from %v", kind, offender)
	}
}
