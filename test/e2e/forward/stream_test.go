// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

const (
	streamRate  = 3000 // datagrams per second
	streamLimit = 30 * time.Second
	streamSize  = 100
	// streamBurst is how many datagrams are sent at once to catch up after a
	// delay; a veth holds 256 packets.
	streamBurst = 64
)

// stream is a steady flow of numbered datagrams from alpha to beta.
type stream struct {
	label            uint64 // unique to this run
	size             int
	thread           chan int // receives the sender's thread id once
	sender, receiver *net.UDPConn
	enough           chan struct{}
	done             sync.WaitGroup
	result           streamResult
	fault            error
}

// streamResult is how many datagrams of a stream arrived, and how.
type streamResult struct {
	sent   []time.Time // when each was sent, by number
	came   []uint8     // how often each arrived
	late   int         // arrived after a later one
	strays int         // arrived, but were never sent
}

// startStream sends until stop, for at most 30 seconds.
func startStream(t *testing.T, l *lab.Lab) *stream {
	t.Helper()
	return startStreamOf(t, l, streamSize)
}

// startStreamOf sends datagrams of a size, and ignores errors from routers.
func startStreamOf(t *testing.T, l *lab.Lab, size int) *stream {
	t.Helper()
	from, _ := l.Topology().Address("alpha")
	to, _ := l.Topology().Address("beta")
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, 9000))
	s := &stream{label: rand.Uint64(), size: size, thread: make(chan int, 1), enough: make(chan struct{})}
	err := e2e.Bind(l.Node("beta"), func() (err error) { s.receiver, err = net.ListenUDP("udp6", at); return err })
	if err == nil {
		err = e2e.Control(s.receiver, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}
	if err == nil {
		err = l.Node("alpha").Do(func() (err error) {
			s.sender, err = net.DialUDP("udp6", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), at)
			return err
		})
	}
	if err == nil {
		err = e2e.Control(s.sender, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_INTERFACE)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.done.Add(2)
	go s.send()
	go s.receive()
	t.Cleanup(func() { s.end() })
	return s
}

func (s *stream) send() {
	defer s.done.Done()
	runtime.LockOSThread() // it ends with the goroutine
	s.thread <- unix.Gettid()
	b := make([]byte, s.size)
	number := func(n int) { // at both ends: errors quote only the first bytes
		for _, at := range []int{0, len(b) - 16} {
			binary.BigEndian.PutUint64(b[at:], s.label)
			binary.BigEndian.PutUint64(b[at+8:], uint64(n))
		}
	}
	start := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for skipped := 0; time.Since(start) < streamLimit; {
		select {
		case <-s.enough:
			return
		case <-tick.C:
		}
		due := int(time.Since(start).Seconds()*streamRate) - skipped - len(s.result.sent)
		if due > streamBurst {
			skipped, due = skipped+due-streamBurst, streamBurst
		}
		for range due {
			number(len(s.result.sent))
			s.result.sent = append(s.result.sent, time.Now())
			if _, err := s.sender.Write(b); err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) &&
				!errors.Is(err, unix.EACCES) {
				s.fault = err // the excluded errors may come from a router's message about an earlier datagram
				return
			}
		}
	}
}

func (s *stream) receive() {
	defer s.done.Done()
	b, highest := make([]byte, 2*s.size), -1
	for {
		n, err := s.receiver.Read(b)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
				s.result.strays++
			}
			return
		}
		number, ok := s.number(b[:n])
		if !ok || number >= streamRate*int(streamLimit/time.Second) {
			s.result.strays++
			continue
		}
		if missing := number + 1 - len(s.result.came); missing > 0 {
			s.result.came = append(s.result.came, make([]uint8, missing)...)
		}
		s.result.came[number]++
		if number < highest {
			s.result.late++
		}
		highest = max(highest, number)
	}
}

// stay pins the sender to one CPU, which then also forwards.
func (s *stream) stay(t *testing.T) {
	t.Helper()
	stayOn(t, <-s.thread)
}

// number reads the number of a datagram of the stream from the end of a frame.
func (s *stream) number(frame []byte) (int, bool) {
	if len(frame) < 16 || binary.BigEndian.Uint64(frame[len(frame)-16:]) != s.label {
		return 0, false
	}
	return int(binary.BigEndian.Uint64(frame[len(frame)-8:])), true
}

// quoted reads the number of a datagram of the stream that an ICMPv6 error
// quotes.
func (s *stream) quoted(packet []byte) (int, bool) {
	const at = 40 + 8 + 40 + 8
	if len(packet) < at+16 {
		return 0, false
	}
	return s.number(packet[at : at+16])
}

// end stops both ends after datagrams in flight have arrived.
func (s *stream) end() {
	select {
	case <-s.enough:
		return
	default:
	}
	close(s.enough)
	_ = s.receiver.SetReadDeadline(time.Now().Add(patience.Of(300 * time.Millisecond)))
	s.done.Wait()
	s.sender.Close()
	s.receiver.Close()
}

func (s *stream) stop(t *testing.T) streamResult {
	t.Helper()
	s.end()
	if s.fault != nil {
		t.Fatal(s.fault)
	}
	r := s.result
	if r.strays > 0 || len(r.came) > len(r.sent) {
		t.Errorf("%d strays arrived", r.strays)
	}
	if len(r.sent) < streamRate/4 {
		t.Fatalf("only %d datagrams were sent", len(r.sent))
	}
	if i := slices.IndexFunc(r.came, func(n uint8) bool { return n > 1 }); i >= 0 {
		t.Errorf("datagram %d arrived %d times", i, r.came[i])
	}
	return r
}

// lost returns the numbers of the datagrams sent in a period that did not arrive.
func (r streamResult) lost(from, to time.Time) (numbers []int) {
	for i, at := range r.sent {
		if !at.Before(from) && at.Before(to) && (i >= len(r.came) || r.came[i] == 0) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// sentIn counts what was sent in a period.
func (r streamResult) sentIn(from, to time.Time) (n int) {
	for _, at := range r.sent {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// checkWhole checks that everything sent in a period arrived.
func (r streamResult) checkWhole(t *testing.T, from, to time.Time) {
	t.Helper()
	if lost := r.lost(from, to); len(lost) > 0 {
		t.Errorf("%d of %d datagrams were lost, from number %d, sent %v after %v, to %d", len(lost), len(r.sent),
			lost[0], r.sent[lost[0]].Sub(r.sent[0]), from.Sub(r.sent[0]), lost[len(lost)-1])
	}
}

// arrival is a frame of a stream at an interface.
type arrival struct {
	number int
	at     time.Time
	to     [6]byte // its link-layer destination
}

// arrivals are the frames at one interface.
type arrivals struct {
	capture *lab.Capture
	all     []arrival
}

// watchArrivals records the frames of a stream that arrive at an interface. The
// interface must have no XDP program that forwards, because captures only see
// what the stack sees.
func watchArrivals(t *testing.T, l *lab.Lab, s *stream, node, name string) *arrivals {
	t.Helper()
	a := &arrivals{}
	var err error
	a.capture, err = l.Capture(node, name, lab.CaptureOptions{Each: func(p lab.Packet) {
		if number, ok := s.number(p.Data); ok && !p.Outgoing && len(p.Data) >= 6 {
			a.all = append(a.all, arrival{number, p.Time, [6]byte(p.Data)})
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *arrivals) stop(t *testing.T) []arrival {
	t.Helper()
	stats, err := a.capture.Stop()
	if errors.Is(err, unix.ENETDOWN) { // everything before that was captured
		err = nil
	}
	if err != nil || stats.Dropped > 0 {
		t.Fatalf("the capture missed %d packets: %v", stats.Dropped, err)
	}
	return a.all
}
