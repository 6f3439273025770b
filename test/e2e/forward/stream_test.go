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
	// streamBurst is how many datagrams are sent at once when the sender was
	// kept waiting; a veth holds 256 packets.
	streamBurst = 64
)

// stream is a steady flow of numbered datagrams from alpha to beta.
type stream struct {
	label            uint64 // the run's own
	size             int
	thread           chan int // the sender's, once
	sender, receiver *net.UDPConn
	enough           chan struct{}
	done             sync.WaitGroup
	result           streamResult
	fault            error
}

// streamResult is what became of a stream.
type streamResult struct {
	sent   []time.Time // when each was sent, by number
	came   []uint8     // how often it came
	late   int         // came behind a later one
	strays int         // came, but was never sent
}

// startStream sends until stop, for 30 seconds at most.
func startStream(t *testing.T, l *lab.Lab) *stream {
	t.Helper()
	return startStreamOf(t, l, streamSize)
}

// startStreamOf sends datagrams of a size, whatever routers say about it.
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
	number := func(n int) { // at both ends: errors quote the first
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
			if _, err := s.sender.Write(b); err != nil && !errors.Is(err, unix.ENETUNREACH) && !errors.Is(err, unix.EHOSTUNREACH) && !errors.Is(err, unix.EACCES) {
				s.fault = err // beside what a router may say about an earlier one
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

// stay has all be sent from one CPU, which then forwards it, too.
func (s *stream) stay(t *testing.T) {
	t.Helper()
	thread := <-s.thread
	var allowed, one unix.CPUSet
	if err := unix.SchedGetaffinity(thread, &allowed); err != nil {
		t.Fatal(err)
	}
	for cpu := 0; one.Count() == 0; cpu++ {
		if allowed.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	if err := unix.SchedSetaffinity(thread, &one); err != nil {
		t.Fatal(err)
	}
}

// number finds the number of a datagram of the stream in a frame that ends
// with it.
func (s *stream) number(frame []byte) (int, bool) {
	if len(frame) < 16 || binary.BigEndian.Uint64(frame[len(frame)-16:]) != s.label {
		return 0, false
	}
	return int(binary.BigEndian.Uint64(frame[len(frame)-8:])), true
}

// quoted finds the number of a datagram of the stream that an ICMPv6 error
// quotes.
func (s *stream) quoted(packet []byte) (int, bool) {
	const at = 40 + 8 + 40 + 8
	if len(packet) < at+16 {
		return 0, false
	}
	return s.number(packet[at : at+16])
}

// end stops both ends, what is on its way included.
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
		t.Errorf("%d strays came", r.strays)
	}
	if len(r.sent) < streamRate/4 {
		t.Fatalf("only %d datagrams were sent", len(r.sent))
	}
	if i := slices.IndexFunc(r.came, func(n uint8) bool { return n > 1 }); i >= 0 {
		t.Errorf("datagram %d came %d times", i, r.came[i])
	}
	return r
}

// lost are the numbers of datagrams, sent in a time, that did not come.
func (r streamResult) lost(from, to time.Time) (numbers []int) {
	for i, at := range r.sent {
		if !at.Before(from) && at.Before(to) && (i >= len(r.came) || r.came[i] == 0) {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// sentIn counts what was sent in a time.
func (r streamResult) sentIn(from, to time.Time) (n int) {
	for _, at := range r.sent {
		if !at.Before(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// checkWhole wants everything that was sent in a time to have come.
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
	to     [6]byte // its destination at the link
}

// arrivals are those at one interface.
type arrivals struct {
	capture *lab.Capture
	all     []arrival
}

// watchArrivals notes the frames of a stream that arrive at an interface. It is
// to have no XDP program that forwards: captures see what the stack sees.
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
	if errors.Is(err, unix.ENETDOWN) { // until then, all was seen
		err = nil
	}
	if err != nil || stats.Dropped > 0 {
		t.Fatalf("the capture missed %d packets: %v", stats.Dropped, err)
	}
	return a.all
}
