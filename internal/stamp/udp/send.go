// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
)

// Send sends datagrams, and sets Err of those that the kernel refuses. The error is
// that of a closed socket. It never sends more at a time than the socket's batch.
func (s *Socket) Send(list []Datagram) error {
	for len(list) > 0 {
		n := s.sendable(list)
		var err error
		if len(list[0].Segments) > 0 {
			err = s.sendThrough(&list[0])
		} else {
			err = s.sendBatch(list[:n])
		}
		if err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// sendable is how many datagrams one system call can send: one through segments, or
// several others.
func (s *Socket) sendable(list []Datagram) int {
	if len(list[0].Segments) > 0 {
		return 1
	}
	n := 1
	for n < len(list) && n < len(s.send.messages) && len(list[n].Segments) == 0 {
		n++
	}
	return n
}

func (s *Socket) sendBatch(list []Datagram) error {
	b := &s.send
	for i := range list {
		d := &list[i]
		if n := len(d.SendHopByHop); n > 0 && unix.CmsgSpace(n) > b.each-controlLen {
			return fmt.Errorf("send a Hop-by-Hop header of %d octets: the socket has no room for it", n)
		}
		d.Err = nil
		b.names[i] = unix.RawSockaddrInet6{
			Family:   unix.AF_INET6,
			Port:     swap(d.Peer.Port()),
			Flowinfo: swapLong(d.FlowLabel),
			Addr:     d.Peer.Addr().As16(),
			Scope_id: d.Scope,
		}
		b.vectors[i].Base = unsafe.SliceData(d.Data)
		b.vectors[i].SetLen(len(d.Data))
		h := &b.messages[i].header
		h.Control = &b.control(i)[0]
		h.SetControllen(d.putControl(b.control(i)))
	}
	for done := 0; done < len(list); {
		s.sending = b.messages[done:len(list)]
		if err := s.raw.Write(s.sent); err != nil {
			return err
		}
		if s.sendErrno != 0 { // of the first one; the others were not tried
			list[done].Err = s.sendErrno
			done++
			continue
		}
		done += s.written
	}
	return nil
}

// sendmmsg is called by the runtime when the socket may have room; false waits for it.
func (s *Socket) sendmmsg(fd uintptr) bool {
	for tries := 1; ; tries++ {
		n, _, errno := unix.Syscall6(
			unix.SYS_SENDMMSG,
			fd,
			uintptr(unsafe.Pointer(&s.sending[0])),
			uintptr(len(s.sending)),
			unix.MSG_DONTWAIT,
			0,
			0,
		)
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno == unix.EINTR || s.refused != nil && tries < sendTries && isRefusal(errno):
			continue
		}
		s.written, s.sendErrno = int(n), errno
		return true
	}
}

// routingTypeSegments is the Routing Type of a Segment Routing Header (RFC 8754 §2).
const routingTypeSegments = 4

// segmentsHeader is the Segment Routing Header that the kernel completes with the
// destination (RFC 8754 §2): SIDs in reverse order, after the place of the last
// segment.
func segmentsHeader(sids []byte) []byte {
	n := len(sids) / 16
	b := make([]byte, 8+16*(n+1))
	b[1] = byte(2 * (n + 1)) // Hdr Ext Len
	b[2] = routingTypeSegments
	b[3], b[4] = byte(n), byte(n) // Segments Left, Last Entry
	for i := range n {
		copy(b[8+16*(n-i):], sids[16*i:][:16])
	}
	return b
}

// MaxSegments is the most SIDs that a datagram can be sent through.
const MaxSegments = 16

// CheckSegments reports why datagrams cannot be sent through segments.
func (s *Socket) CheckSegments() error {
	if err := s.option(segmentsHeader(make([]byte, 16))); err != nil {
		return problem.Wrap(
			fmt.Errorf("send through segments: %w", err),
			"this kernel takes no segment routing header from programs: leave --return-segments out",
		)
	}
	return s.option(nil)
}

// sendThrough sends a datagram through SRv6 segments. The kernel takes a Segment
// Routing Header as an option of the socket only, so it is set for this datagram.
func (s *Socket) sendThrough(d *Datagram) error {
	if n := len(d.Segments) / 16; n > MaxSegments {
		d.Err = fmt.Errorf("%d segments, the most are %d", n, MaxSegments)
		return nil
	}
	one := [1]Datagram{*d}
	one[0].Segments = nil
	header := segmentsHeader(d.Segments)
	if err := s.option(header); err != nil {
		d.Err = fmt.Errorf("send through segments: %w", err)
		return nil
	}
	err := s.sendBatch(one[:])
	d.Err = one[0].Err
	if reset := s.option(nil); reset != nil && err == nil {
		err = fmt.Errorf("end sending through segments: %w", reset) // replies would go on through them
	}
	return err
}

// option sets the routing header of all that the socket sends; none if it is empty.
func (s *Socket) option(header []byte) error {
	var err error
	if fault := s.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(header))
	}); fault != nil {
		return fault
	}
	return err
}
