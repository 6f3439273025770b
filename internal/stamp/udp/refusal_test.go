// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"errors"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/icmpv6"
)

// closedPort is a port of this machine at which nothing listens.
func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	s := open(t, Config{Batch: 1, Size: 100})
	at := s.Local()
	s.Close()
	return at
}

// The kernel reports each datagram to a closed port, and those to others are sent all the same.
func TestRefusals(t *testing.T) {
	const n = 20
	heard := make(chan Refusal, 2*n)
	a := open(t, Config{Batch: 4, Size: 100, Refused: func(r Refusal) { heard <- r }})
	b, closed := open(t, Config{Batch: 4, Size: 100}), closedPort(t)
	good, bad := Datagram{Data: []byte("x"), Peer: b.Local()}, Datagram{Data: []byte("x"), Peer: closed}
	for range n { // over the loopback interface the error is there at once, before the next one is sent
		for _, d := range []Datagram{bad, good} {
			one := []Datagram{d}
			if err := a.Send(one); err != nil || one[0].Err != nil {
				t.Fatalf("to %v: %v, %v", d.Peer, err, one[0].Err)
			}
		}
	}
	collect(t, b, n)
	ended := make(chan error, 1)
	go func() {
		_, err := a.Receive() // nothing arrives until the deadline
		ended <- err
	}()
	want := Refusal{Type: uint8(icmpv6.Unreachable), Code: icmpv6.PortUnreachable, From: loopback, Peer: closed}
	for range n {
		if got := <-heard; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	a.SetDeadline(time.Unix(1, 0))
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || len(heard) != 0 {
		t.Errorf("%v, %d more errors", err, len(heard))
	}
	nowhere := []Datagram{{Data: make([]byte, 70_000), Peer: b.Local()}} // what is wrong with a datagram itself stays its error
	if err := a.Send(nowhere); err != nil || !errors.Is(nowhere[0].Err, unix.EMSGSIZE) {
		t.Errorf("%v, %v", err, nowhere[0].Err)
	}
}

// A socket that does not ask for errors hears of none, and receives on.
func TestWithoutRefusals(t *testing.T) {
	a := open(t, Config{Batch: 1, Size: 100})
	list := []Datagram{{Data: []byte("x"), Peer: closedPort(t)}, {Data: []byte("x"), Peer: a.Local()}}
	if err := a.Send(list); err != nil || list[0].Err != nil || list[1].Err != nil {
		t.Errorf("%v, %+v", err, list)
	}
	collect(t, a, 1)
}
