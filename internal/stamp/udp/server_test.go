// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// A server passes on what arrives until its context ends, or its function fails, and closes its
// socket in both cases.
func TestServer(t *testing.T) {
	broken := errors.New("broken")
	for _, fails := range []bool{false, true} {
		var s Server
		if err := s.Open(Config{Local: netip.AddrPortFrom(netip.IPv6Loopback(), 0), Batch: 4, Size: 100}); err != nil {
			t.Fatal(err)
		}
		address := net.UDPAddrFromAddrPort(s.Local())
		peer, err := net.DialUDP("udp6", nil, address)
		if err != nil {
			t.Fatal(err)
		}
		defer peer.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- s.Serve(ctx, func(list []Datagram) error {
				if fails {
					return broken
				}
				return s.Socket().Send(list)
			})
		}()
		if _, err := peer.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		if !fails {
			b := make([]byte, 100)
			peer.SetReadDeadline(time.Now().Add(patience.Of(10 * time.Second)))
			if n, err := peer.Read(b); err != nil || string(b[:n]) != "question" {
				t.Errorf("%q, %v", b[:n], err)
			}
			cancel()
		}
		select {
		case err := <-ended:
			if fails != errors.Is(err, broken) || !fails && err != nil {
				t.Errorf("fails %v: it ended with %v", fails, err)
			}
		case <-time.After(patience.Of(10 * time.Second)):
			t.Fatalf("fails %v: it does not end", fails)
		}
		again, err := net.ListenUDP("udp6", address)
		if err != nil {
			t.Fatalf("fails %v: the port is still taken: %v", fails, err)
		}
		again.Close()
		if s.Dropped() != 0 {
			t.Errorf("%d were dropped", s.Dropped())
		}
	}
	var s Server
	if err := s.Open(Config{Local: netip.MustParseAddrPort("[2001:db8:ffff::1]:1"), Batch: 1, Size: 1}); err == nil || s.Socket() != nil {
		t.Errorf("another machine's address: %v", err)
	}
}
