// SPDX-License-Identifier: Apache-2.0

package icmpv6

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/testnet"
)

// alone runs a function in its own network namespace, with a loopback interface.
func alone(t *testing.T, f func() error) {
	t.Helper()
	err := testnet.New(t).Do(func() error {
		testnet.SetUp(t, "lo")
		return f()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// loopback is the index of lo in a new network namespace.
const loopback = 1

// message is an error of some type, with some bytes after its header.
func message(kind Type, last byte) []byte {
	return append([]byte{byte(kind), 0, 0, 0, 0, 0, 5, 0}, bytes.Repeat([]byte{last}, 60)...)
}

// TestListen sends messages of several types to this host: the socket passes two,
// with what the kernel reports about them.
func TestListen(t *testing.T) {
	var l *Listener
	var sender net.PacketConn
	alone(t, func() (err error) {
		if l, err = Listen(64, 1000, TooBig, TimeExceeded); err != nil {
			return err
		}
		sender, err = net.ListenPacket("ip6:ipv6-icmp", "::1")
		return err
	})
	defer sender.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, ended := make(chan Message, 10), make(chan error, 1)
	go func() {
		ended <- l.Read(ctx, func(m Message) { m.Body = bytes.Clone(m.Body); heard <- m })
	}()
	raw, err := sender.(*net.IPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(raw.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 7),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 0xb8))
	}), err); err != nil {
		t.Fatal(err)
	}
	first, last := message(TooBig, 1), message(TimeExceeded, 2)
	for _, m := range [][]byte{first, message(Unreachable, 3), {128, 0, 0, 0, 0, 1, 0, 1}, message(ParameterProblem, 4), last} {
		if _, err := sender.WriteTo(m, &net.IPAddr{IP: net.IPv6loopback}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range [][]byte{first[:64], last[:64]} {
		select {
		case got := <-heard:
			copy(got.Body[2:4], want[2:4]) // the kernel's checksum
			if !bytes.Equal(got.Body, want) || got.Source != netip.IPv6Loopback() || got.Interface != loopback || got.HopLimit != 7 ||
				got.TrafficClass != 0xb8 {
				t.Errorf("heard %+v, want %x by interface %d with hop limit 7 and traffic class 0xb8", got, want, loopback)
			}
		case <-time.After(patience.Of(5 * time.Second)):
			t.Fatal("nothing was heard")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	if len(heard) > 0 {
		t.Errorf("%d messages too many", len(heard))
	}
}

// Messages of a flood that are not heard are counted.
func TestListenUnderFlood(t *testing.T) {
	var l *Listener
	var sender net.PacketConn
	alone(t, func() (err error) {
		if l, err = Listen(64, 100_000, TooBig); err != nil {
			return err
		}
		sender, err = net.ListenPacket("ip6:ipv6-icmp", "::1")
		return err
	})
	defer sender.Close()
	const flood = 2000
	long := append(message(TooBig, 1), make([]byte, 1000)...)
	for range flood {
		if _, err := sender.WriteTo(long, &net.IPAddr{IP: net.IPv6loopback}); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := l.Dropped()
	if err != nil || lost == 0 || lost >= flood {
		t.Fatalf("%d of %d messages were lost, %v", lost, flood, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
	defer cancel()
	heard := uint32(0)
	if err := l.Read(ctx, func(Message) {
		if heard++; heard+lost == flood {
			cancel()
		}
	}); err != nil {
		t.Error(err)
	}
	if heard+lost != flood {
		t.Errorf("%d were heard and %d lost of %d", heard, lost, flood)
	}
}

// TestListenWithoutRight opens a socket as an agent without CAP_NET_RAW would.
func TestListenWithoutRight(t *testing.T) {
	alone(t, func() error {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		data[0].Effective &^= 1 << unix.CAP_NET_RAW // of this thread, which ends
		if err := unix.Capset(&header, &data[0]); err != nil {
			return err
		}
		l, err := Listen(64, 1000, TooBig)
		if err == nil {
			l.Close()
			return errors.New("a raw socket without CAP_NET_RAW")
		}
		if !errors.Is(err, os.ErrPermission) {
			return err
		}
		return nil
	})
}

// A packet is sent unchanged, with any source; the listener hears it, so its
// checksum is right.
func TestSend(t *testing.T) {
	var l *Listener
	var s *Sender
	alone(t, func() (err error) {
		if l, err = Listen(1280, 1000, TimeExceeded); err != nil {
			return err
		}
		s, err = NewSender()
		return err
	})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan Message, 10), make(chan error, 1)
	go func() {
		ended <- l.Read(ctx, func(m Message) { m.Body = bytes.Clone(m.Body); heard <- m })
	}()
	from := netip.MustParseAddr("2001:db8:77::1")
	for _, length := range []int{60, 61, 1240} { // even, odd, the longest
		packet := append([]byte{0x6b, 0x80, 0, 0, 0, 0, 58, 9}, from.AsSlice()...)
		packet = append(packet, netip.IPv6Loopback().AsSlice()...)
		packet = append(packet, 3, 0, 0, 0, 0, 0, 0, 0)
		packet = append(packet, bytes.Repeat([]byte{0xab}, length-HeaderLen)...)
		Seal(packet)
		if err := s.Send(packet); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if !bytes.Equal(got.Body, packet[40:]) || got.Source != from || got.HopLimit != 9 || got.TrafficClass != 0xb8 {
				t.Errorf("%d bytes: heard %+v, want %x from %v", length, got, packet[40:], from)
			}
		case <-time.After(patience.Of(5 * time.Second)):
			t.Fatalf("%d bytes: nothing was heard", length)
		}
	}
	nowhere := append(make([]byte, 24), netip.MustParseAddr("2001:db8:99::1").AsSlice()...)
	if err := s.Send(nowhere); !errors.Is(err, unix.ENETUNREACH) {
		t.Errorf("without a route: %v", err)
	}
	if err := s.Send(nowhere[:39]); err == nil {
		t.Error("sent less than a header")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
