// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// narrowPath is a lab in which each destination is used once, because what is
// known about one does not apply to another.
type narrowPath struct {
	*lab.Lab
	destinations uint16
}

func raiseNarrow(t *testing.T, mode string, attach config.Attach) *narrowPath {
	t.Helper()
	way := "mode: " + mode
	if mode == "auto" {
		way += "\n          tunnel: {source: 2001:db8:71::1, destination: 2001:db8:72::2}"
	}
	source := strings.NewReplacer("MODE", way, "ATTACH", string(attach)).Replace(narrowTopology)
	top, err := lab.Parse("narrow.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	n := &narrowPath{Lab: e2e.Raise(t, top)}
	e2e.Must(t, n.Node("far"), "ip", "-6", "route", "add", "local", "2001:db8:f::/48", "dev", "lo")
	return n
}

// set changes a setting of the host's kernel.
func (n *narrowPath) set(t *testing.T, name, value string) {
	t.Helper()
	if err := n.Node("host").Do(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
	}); err != nil {
		t.Fatal(err)
	}
}

// destination returns an address of far that has not been used before.
func (n *narrowPath) destination() netip.Addr {
	n.destinations++
	a := netip.MustParseAddr("2001:db8:f::").As16()
	binary.BigEndian.PutUint16(a[14:], n.destinations)
	return netip.AddrFrom16(a)
}

// echo sends pings with IPv6 packets of a length and returns how many were
// answered.
func (n *narrowPath) echo(t *testing.T, to netip.Addr, length, count int) (answered int) {
	t.Helper()
	var conn *net.IPConn
	if err := n.Node("host").Do(func() (err error) {
		conn, err = net.DialIP("ip6:ipv6-icmp", nil, &net.IPAddr{IP: to.AsSlice()})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := make([]byte, length-40)
	request[0], request[5] = 128, byte(length)
	answer := make([]byte, 1<<16)
	for i := range count {
		request[7] = byte(i)
		if _, err := conn.Write(request); err != nil {
			t.Errorf("ping of %d bytes: %v", length, err)
			return answered
		}
		if err := conn.SetReadDeadline(time.Now().Add(patience.Of(200 * time.Millisecond))); err != nil {
			t.Fatal(err)
		}
		for {
			got, err := conn.Read(answer)
			if err != nil {
				break
			}
			if got == len(request) && answer[0] == 129 && answer[7] == byte(i) {
				answered++
				break
			}
		}
	}
	return answered
}

// datagrams sends UDP with IPv6 packets of a length, on a socket with a mode of
// path MTU discovery, optionally segmented from one large packet, and returns how
// many arrived.
func (n *narrowPath) datagrams(t *testing.T, to netip.Addr, length, count, discover, segments int) (came int) {
	t.Helper()
	var receiver, sender *net.UDPConn
	if err := n.Node("far").Do(func() (err error) { receiver, err = net.ListenUDP("udp6", nil); return err }); err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	address := &net.UDPAddr{IP: to.AsSlice(), Port: receiver.LocalAddr().(*net.UDPAddr).Port}
	if err := n.Node("host").Do(func() (err error) { sender, err = net.DialUDP("udp6", nil, address); return err }); err != nil {
		t.Fatal(err)
	}
	defer sender.Close()
	if err := e2e.Control(sender, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, discover); err != nil {
		t.Fatal(err)
	}
	if segments > 1 {
		if err := e2e.Control(sender, unix.SOL_UDP, unix.UDP_SEGMENT, length-48); err != nil {
			t.Fatal(err)
		}
	}
	payload, got := make([]byte, segments*(length-48)), make([]byte, 1<<16)
	for range count {
		if _, err := sender.Write(payload); err != nil {
			t.Errorf("UDP of %d bytes: %v", length, err)
			return came
		}
		if err := receiver.SetReadDeadline(time.Now().Add(patience.Of(200 * time.Millisecond))); err != nil {
			t.Fatal(err)
		}
		for range segments {
			if _, err := receiver.Read(got); err == nil {
				came++
			}
		}
	}
	return came
}

// upload is a TCP transfer to far. The receiver's segment size is mss, or its
// interface's if 0. A connection that stalls repeatedly exceeds the limit.
type upload struct {
	from  string
	to    netip.Addr
	mss   int
	bytes int // written at once: several segments in one GSO packet
	limit time.Duration
	times int // 0 is once; they are a millisecond apart
}

// transfer is a host's upload that must not stall.
func (n *narrowPath) transfer(t *testing.T, to netip.Addr, mss int) error {
	t.Helper()
	return n.upload(t, upload{from: "host", to: to, mss: mss, bytes: 4 << 20, limit: 5 * time.Second})
}

func (n *narrowPath) upload(t *testing.T, s upload) error {
	t.Helper()
	limit := patience.Of(s.limit)
	far := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		return errors.Join(raw.Control(func(fd uintptr) {
			if s.mss > 0 {
				set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, s.mss)
			}
		}), set)
	}}
	address := net.JoinHostPort(s.to.String(), "9001")
	var listener net.Listener
	if err := e2e.Bind(n.Node("far"), func() (err error) {
		listener, err = far.Listen(t.Context(), "tcp6", "[::]:9001")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	received := make(chan int64, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			received <- 0
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(limit))
		count, _ := io.Copy(io.Discard, conn)
		received <- count
	}()
	start := time.Now()
	err := n.Node(s.from).Do(func() error {
		conn, err := net.DialTimeout("tcp6", address, limit)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		for i := range max(s.times, 1) {
			if i > 0 {
				time.Sleep(time.Millisecond)
			}
			if _, err := conn.Write(make([]byte, s.bytes)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		listener.Close()
	}
	if want, count := int64(max(s.times, 1)*s.bytes), <-received; count != want || err != nil {
		return fmt.Errorf("%d of %d bytes arrived within %v: %v", count, want, time.Since(start), err)
	}
	return nil
}
