// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/patience"
)

var loopback = netip.IPv6Loopback()

func open(t testing.TB, c Config) *Socket {
	t.Helper()
	if !c.Local.Addr().IsValid() {
		c.Local = netip.AddrPortFrom(loopback, 0)
	}
	s, err := Listen(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.SetDeadline(time.Now().Add(patience.Of(10 * time.Second))); err != nil {
		t.Fatal(err)
	}
	return s
}

// collect receives n datagrams, and keeps copies.
func collect(t *testing.T, s *Socket, n int) (list []Datagram) {
	t.Helper()
	for len(list) < n {
		got, err := s.Receive()
		if err != nil {
			t.Fatalf("after %d datagrams: %v", len(list), err)
		}
		for _, d := range got {
			d.Data = slices.Clone(d.Data)
			list = append(list, d)
		}
	}
	return list
}

func TestSocket(t *testing.T) {
	a, b := open(t, Config{Batch: 4, Size: 100}), open(t, Config{Batch: 3, Size: 100})
	var out []Datagram
	for i := range 10 { // several batches of either
		out = append(out, Datagram{Data: bytes.Repeat([]byte{byte(i)}, i), Peer: b.Local(), Local: loopback, TrafficClass: uint8(4 * i)})
	}
	began := time.Now().UnixNano()
	if err := a.Send(out); err != nil {
		t.Fatal(err)
	}
	for i, d := range collect(t, b, len(out)) {
		if !bytes.Equal(d.Data, out[i].Data) || d.Peer != a.Local() || d.Local != loopback || d.TrafficClass != out[i].TrafficClass ||
			d.HopLimit != 255 ||
			d.Cut ||
			out[i].Err != nil {
			t.Errorf("%+v, want %+v", d, out[i])
		}
		if d.Received < began || d.Received > time.Now().UnixNano() || d.Interface == 0 {
			t.Errorf("received at %d by interface %d; the test began at %d", d.Received, d.Interface, began)
		}
	}
}

// What came before the deadline can be read after it.
func TestTake(t *testing.T) {
	a, b := open(t, Config{Batch: 4, Size: 100}), open(t, Config{Batch: 2, Size: 100})
	if list, err := b.TryReceive(); len(list) != 0 || err != nil {
		t.Errorf("%d datagrams of none, %v", len(list), err)
	}
	one := Datagram{Data: []byte("x"), Peer: b.Local()}
	if err := a.Send([]Datagram{one, one, one}); err != nil { // over the loopback interface they are there at once
		t.Fatal(err)
	}
	b.SetDeadline(time.Unix(1, 0))
	for _, want := range []int{2, 1, 0} {
		if list, err := b.TryReceive(); len(list) != want || err != nil {
			t.Errorf("%d datagrams, want %d; %v", len(list), want, err)
		}
	}
	b.Close()
	if _, err := b.TryReceive(); err == nil {
		t.Error("a closed socket gives datagrams")
	}
}

// A socket that the runtime does not watch gives what came, sends, waits where that is wanted, and
// is closed once.
func TestUnpolled(t *testing.T) {
	var list [2]*Socket
	for i := range list {
		s, err := Listen(Config{Local: netip.AddrPortFrom(loopback, 0), Batch: 4 - 2*i, Size: 100, Unpolled: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		list[i] = s
	}
	a, b := list[0], list[1]
	one := Datagram{Data: []byte("x"), Peer: b.Local()}
	if err := a.Send([]Datagram{one, one, one}); err != nil {
		t.Fatal(err)
	}
	if list, err := b.Receive(); len(list) != 2 || err != nil || list[0].Peer != a.Local() {
		t.Errorf("%+v, %v", list, err)
	}
	for _, want := range []int{1, 0} {
		if list, err := b.TryReceive(); len(list) != want || err != nil {
			t.Errorf("%d datagrams, want %d; %v", len(list), want, err)
		}
	}
	if err := b.SetDeadline(time.Unix(1, 0)); err == nil {
		t.Error("it takes a deadline")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.TryReceive(); err == nil {
		t.Error("a closed socket gives datagrams")
	}
	if err := b.Close(); err == nil {
		t.Error("it is closed twice") // another file may have its number by then
	}
}

func TestLongDatagramIsCut(t *testing.T) {
	a, b := open(t, Config{Batch: 1, Size: 100}), open(t, Config{Batch: 1, Size: 100})
	if err := a.Send([]Datagram{{Data: make([]byte, 101), Peer: b.Local()}}); err != nil {
		t.Fatal(err)
	}
	if d := collect(t, b, 1)[0]; !d.Cut || len(d.Data) != 100 {
		t.Errorf("%d octets, cut %v", len(d.Data), d.Cut)
	}
}

// One datagram that the kernel refuses does not keep the others back.
func TestRefusedDatagram(t *testing.T) {
	a, b := open(t, Config{Batch: 8, Size: 100}), open(t, Config{Batch: 8, Size: 100})
	good := Datagram{Data: []byte("x"), Peer: b.Local()}
	bad := good
	bad.Local = netip.MustParseAddr("2001:db8::77") // not this machine's
	tooLong := good
	tooLong.Data = make([]byte, 70_000)
	through := good
	through.Segments = make([]byte, 16*(MaxSegments+1))
	list := []Datagram{good, bad, good, tooLong, through, good}
	if err := a.Send(list); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, b, 3); len(got) != 3 {
		t.Errorf("%d datagrams arrived", len(got))
	}
	for i, d := range list {
		if failed := i == 1 || i == 3 || i == 4; failed != (d.Err != nil) {
			t.Errorf("datagram %d: %v", i, d.Err)
		}
	}
	if !errors.Is(list[3].Err, unix.EMSGSIZE) {
		t.Errorf("%v", list[3].Err)
	}
}

func TestEnd(t *testing.T) {
	a := open(t, Config{Batch: 1, Size: 100})
	a.SetDeadline(time.Unix(1, 0))
	if _, err := a.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	_, err := Listen(Config{Local: a.Local(), Batch: 1, Size: 100})
	if want := fmt.Sprintf("another program uses port %d: stop it, or choose another port", a.Local().Port()); err == nil ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v, want …%s", err, want)
	}
	if _, err := Listen(Config{Local: netip.MustParseAddrPort("[2001:db8::77]:0"), Batch: 1, Size: 100}); !errors.Is(err, unix.EADDRNOTAVAIL) {
		t.Errorf("an address of another machine: %v", err)
	}
	a.Close()
	if err := a.Send([]Datagram{{Data: []byte("x"), Peer: a.Local()}}); err == nil {
		t.Error("a closed socket sends")
	}
}

// SIDs are in reverse order, after the place of the destination (RFC 8754 §2).
func TestSegmentsHeader(t *testing.T) {
	first, second := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 16)
	want := slices.Concat([]byte{0, 6, 4, 2, 2, 0, 0, 0}, make([]byte, 16), second, first)
	if got := segmentsHeader(slices.Concat(first, second)); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// The kernel takes the header, and afterwards datagrams go the direct way.
func TestCheckSegments(t *testing.T) {
	a, b := open(t, Config{Batch: 1, Size: 100}), open(t, Config{Batch: 1, Size: 100})
	if err := a.CheckSegments(); err != nil {
		t.Error(err)
	}
	list := []Datagram{{Data: []byte("x"), Peer: b.Local()}}
	if err := a.Send(list); err != nil || list[0].Err != nil {
		t.Errorf("%v, %v", err, list[0].Err)
	}
	collect(t, b, 1)
}

// Receiving and sending batches takes no memory.
func TestAllocations(t *testing.T) {
	a, b := open(t, Config{Batch: 4, Size: 100}), open(t, Config{Batch: 4, Size: 100})
	list := make([]Datagram, 3)
	for i := range list {
		list[i] = Datagram{Data: make([]byte, 44), Peer: b.Local(), Local: loopback}
	}
	if n := testing.AllocsPerRun(100, func() {
		if err := a.Send(list); err != nil {
			t.Error(err)
		}
		for n := 0; n < len(list); {
			got, err := b.Receive()
			if err != nil {
				t.Error(err)
				return
			}
			n += len(got)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
