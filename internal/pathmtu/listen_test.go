// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// alone runs a function in a network namespace of its own, with a loopback
// interface.
func alone(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		done <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return err
			}
			lo, err := netlink.LinkByName("lo")
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(lo); err != nil {
				return err
			}
			return f()
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestListen sends messages of several types to this host: the socket lets one
// type through.
func TestListen(t *testing.T) {
	var l *Listener
	var sender net.PacketConn
	alone(t, func() (err error) {
		if l, err = Listen(); err != nil {
			return err
		}
		sender, err = net.ListenPacket("ip6:ipv6-icmp", "::1")
		return err
	})
	defer sender.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, ended := make(chan []byte, 10), make(chan error, 1)
	go func() { ended <- l.Read(ctx, func(m []byte) { heard <- bytes.Clone(m) }) }()
	first, last := tooBig(1500), tooBig(1400)
	for _, m := range [][]byte{first, {1, 0, 0, 0, 0, 0, 0, 0}, {128, 0, 0, 0, 0, 1, 0, 1}, last} {
		if _, err := sender.WriteTo(m, &net.IPAddr{IP: net.IPv6loopback}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range [][]byte{first, last} {
		select {
		case got := <-heard:
			copy(got[2:4], want[2:4]) // the kernel's checksum
			if !bytes.Equal(got, want) {
				t.Errorf("heard %x, want %x", got, want)
			}
		case <-time.After(5 * time.Second):
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
		l, err := Listen()
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
