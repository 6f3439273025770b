// SPDX-License-Identifier: Apache-2.0

// Package udp receives and sends UDP datagrams over IPv6 in batches, with what the
// IPv6 header says about them and the time at which the kernel received them.
package udp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/socketdrops"
)

const (
	// hopLimit is the one of every datagram that is sent: the receiver then sees the
	// number of hops (RFC 5357 §4.1.2, RFC 8762 §4.3.1).
	hopLimit = 255
	// controlLen holds the control messages of one datagram.
	controlLen = 192
	// headerLen is room for a Hop-by-Hop header with the longest IOAM option.
	headerLen = 320
	// bufferLen is the receive buffer that is asked for: some ten milliseconds of
	// small datagrams at full rate.
	bufferLen = 4 << 20
	// flowinfoSend is IPV6_FLOWINFO_SEND, which x/sys does not have: flow labels of a
	// socket's datagrams; 0 is still the kernel's choice.
	flowinfoSend = 33
)

// Config configures a socket.
type Config struct {
	Local netip.AddrPort // zero address: all; port 0: any
	Batch int            // the most datagrams of one system call
	Size  int            // the longest datagram; longer ones are cut

	// Headers asks for the Hop-by-Hop headers of datagrams that arrive.
	Headers bool
	// HopByHop is the Hop-by-Hop header of all datagrams that are sent (RFC 3542 §6); its
	// Next Header is the kernel's to set.
	HopByHop []byte
	// Refused is called for each ICMPv6 error about what was sent, by the goroutine that
	// receives; nil: the kernel does not report them.
	Refused func(Refusal)
	// Unpolled is a socket of one goroutine, which looks for datagrams by TryReceive: they wake no thread.
	// It has no deadline.
	Unpolled bool
}

// Datagram is a datagram with fields of its IPv6 header. The sender and the receiver
// of the packet are Peer and Local, or the other way round when it is sent.
type Datagram struct {
	Data         []byte
	Peer         netip.AddrPort
	Scope        uint32 // the interface of a link-local Peer
	Local        netip.Addr
	Interface    uint32 // on which it arrived; by which it is sent, 0 for any
	TrafficClass uint8
	HopLimit     uint8  // of what arrived
	SendHopLimit uint8  // of what is sent; 0: 255
	FlowLabel    uint32 // of what is sent; 0: the kernel's choice
	HopByHop     []byte // of what arrived, if the socket asks for it; a header that found no room is cut
	SendHopByHop []byte // of what is sent, instead of the socket's own
	Cut          bool   // it was longer than Config.Size
	Received     int64  // nanoseconds of UTC since 1970, 0 if the kernel does not say
	Segments     []byte // SRv6 SIDs to send it through, the first to visit first
	Err          error  // why it was not sent
}

// Socket is a UDP socket. One goroutine may receive while another sends.
type Socket struct {
	conn            *net.UDPConn // nil of an unpolled one
	local           netip.AddrPort
	close           func() error
	raw             syscall.RawConn
	size            int
	receive, send   batch
	datagrams       []Datagram
	receiving, sent func(fd uintptr) bool // kept, because a new closure would be allocated at each call
	count           int                   // what the last recvmmsg or sendmmsg returned
	errno           syscall.Errno
	written         int
	sendErrno       syscall.Errno
	sending         []message
	refused         func(Refusal)
}

// message is struct mmsghdr, which x/sys does not have.
type message struct {
	header unix.Msghdr
	length uint32
}

// batch is the memory of the datagrams of one system call.
type batch struct {
	messages []message
	vectors  []unix.Iovec
	names    []unix.RawSockaddrInet6
	controls []byte
	each     int // octets of controls for one datagram
}

func newBatch(n, each int) batch {
	b := batch{make([]message, n), make([]unix.Iovec, n), make([]unix.RawSockaddrInet6, n), make([]byte, n*each), each}
	for i := range b.messages {
		h := &b.messages[i].header
		h.Name, h.Namelen = (*byte)(unsafe.Pointer(&b.names[i])), unix.SizeofSockaddrInet6
		h.Iov = &b.vectors[i]
		h.SetIovlen(1)
	}
	return b
}

func (b *batch) control(i int) []byte { return b.controls[i*b.each : (i+1)*b.each] }

// Listen opens a socket in the network namespace of the calling thread.
func Listen(c Config) (*Socket, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if fault := raw.Control(func(fd uintptr) { err = prepare(int(fd), &c) }); fault != nil {
			return fault
		}
		return err
	}}
	if !c.Local.Addr().IsValid() {
		c.Local = netip.AddrPortFrom(netip.IPv6Unspecified(), c.Local.Port())
	}
	conn, err := config.ListenPacket(context.Background(), "udp6", c.Local.String())
	if err != nil {
		return nil, fmt.Errorf("open a UDP socket: %w", cure(err, c.Local.Port()))
	}
	received, sent := controlLen, controlLen
	if c.Headers {
		received += headerLen
	}
	if c.HopByHop != nil {
		sent += headerLen
	}
	s := &Socket{
		conn:      conn.(*net.UDPConn),
		size:      c.Size,
		refused:   c.Refused,
		receive:   newBatch(c.Batch, received),
		send:      newBatch(c.Batch, sent),
		datagrams: make([]Datagram, c.Batch),
	}
	s.receiving, s.sent = s.recvmmsg, s.sendmmsg
	buffers := make([]byte, c.Batch*c.Size)
	for i := range s.receive.vectors {
		s.receive.vectors[i].Base = &buffers[i*c.Size]
		s.receive.vectors[i].SetLen(c.Size)
	}
	s.local, s.close = s.conn.LocalAddr().(*net.UDPAddr).AddrPort(), s.conn.Close
	if s.raw, err = s.conn.SyscallConn(); err != nil {
		return nil, errors.Join(fmt.Errorf("open a UDP socket: %w", err), conn.Close())
	}
	if !c.Unpolled {
		return s, nil
	}
	quiet, err := detach(s.raw)
	if err = errors.Join(err, conn.Close()); err != nil {
		return nil, fmt.Errorf("open a UDP socket: %w", err)
	}
	s.conn, s.raw, s.close = nil, quiet, quiet.Close
	return s, nil
}

// cure adds what to do about an error of opening a socket.
func cure(err error, port uint16) error {
	switch {
	case errors.Is(err, unix.EACCES):
		return problem.Wrap(err, "ports below 1024 need root or CAP_NET_BIND_SERVICE: run as root, or choose a higher port")
	case errors.Is(err, unix.EADDRINUSE):
		return problem.Wrap(err, fmt.Sprintf("another program uses port %d: stop it, or choose another port", port))
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return problem.Wrap(err, "this machine does not have the address: give one of 'ip address'")
	}
	return err
}

// prepare asks for the fields of the IPv6 header and the time of reception.
func prepare(fd int, c *Config) error {
	if c.Headers {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPOPTS, 1); err != nil {
			return fmt.Errorf("ask for Hop-by-Hop headers: %w", err)
		}
	}
	if c.HopByHop != nil {
		if err := errors.Join(
			unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, string(c.HopByHop)),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, flowinfoSend, 1)); err != nil {
			return problem.Wrap(fmt.Errorf("set a Hop-by-Hop header: %w", err), "it needs root or CAP_NET_RAW")
		}
	}
	if c.Refused != nil {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1); err != nil {
			return fmt.Errorf("ask for ICMPv6 errors: %w", err)
		}
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bufferLen) != nil {
		// Without the privilege, the kernel's limit applies; it is no error.
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, bufferLen)
	}
	return errors.Join(
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1),
		unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, hopLimit),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
}

// Local is the socket's address and port.
func (s *Socket) Local() netip.AddrPort { return s.local }

// Close ends the socket, and a Receive that waits.
func (s *Socket) Close() error { return s.close() }

// SetDeadline ends a Receive that waits at that time, with os.ErrDeadlineExceeded.
func (s *Socket) SetDeadline(t time.Time) error {
	if s.conn == nil {
		return os.ErrNoDeadline
	}
	return s.conn.SetReadDeadline(t)
}

// Dropped is how many datagrams found no room in the socket's buffer; it wraps.
func (s *Socket) Dropped() (uint32, error) { return socketdrops.Total(s.raw) }

// Receive waits for datagrams. They are valid until the next call.
func (s *Socket) Receive() ([]Datagram, error) {
	for {
		err := s.raw.Read(s.receiving)
		switch {
		case err == nil:
			return s.received()
		case s.refused == nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed):
			return nil, err
		}
		// The runtime does not wait for a socket that has an ICMPv6 error and no room to send.
		if fault := s.raw.Control(func(fd uintptr) { s.drainRefusals(int(fd)) }); fault != nil {
			return nil, fault
		}
		time.Sleep(time.Millisecond)
	}
}

// TryReceive gives datagrams that came already, none if there are none. It does not wait, and
// heeds no deadline. It must not run at the same time as Receive.
func (s *Socket) TryReceive() ([]Datagram, error) {
	if err := s.raw.Control(func(fd uintptr) {
		if !s.recvmmsg(fd) {
			s.count, s.errno = 0, 0
		}
	}); err != nil {
		return nil, err
	}
	return s.received()
}

// received are the datagrams that recvmmsg read.
func (s *Socket) received() ([]Datagram, error) {
	if s.errno != 0 {
		return nil, fmt.Errorf("receive datagrams: %w", s.errno)
	}
	for i := range s.count {
		s.decode(i)
	}
	return s.datagrams[:s.count], nil
}

// recvmmsg is called by the runtime when the socket may have something to read; false
// waits for it.
func (s *Socket) recvmmsg(fd uintptr) bool {
	b := &s.receive
	for i := range b.messages {
		h := &b.messages[i].header
		h.Namelen = unix.SizeofSockaddrInet6
		h.Control = &b.controls[i*b.each]
		h.SetControllen(b.each)
	}
	for {
		n, _, errno := unix.Syscall6(
			unix.SYS_RECVMMSG,
			fd,
			uintptr(unsafe.Pointer(&b.messages[0])),
			uintptr(len(b.messages)),
			unix.MSG_DONTWAIT,
			0,
			0,
		)
		switch {
		case errno == unix.EAGAIN:
			s.drainRefusals(int(fd))
			return false
		case errno == unix.EINTR:
			continue
		case isRefusal(errno): // an ICMP error about what was sent; the next call reads on
			continue
		}
		s.count, s.errno = int(n), errno
		return true
	}
}

// decode fills a datagram from its message.
func (s *Socket) decode(i int) {
	m, name := &s.receive.messages[i], &s.receive.names[i]
	d := &s.datagrams[i]
	*d = Datagram{
		Data:  unsafe.Slice(s.receive.vectors[i].Base, s.size)[:m.length],
		Peer:  netip.AddrPortFrom(netip.AddrFrom16(name.Addr), swap(name.Port)),
		Scope: name.Scope_id,
		Cut:   m.header.Flags&unix.MSG_TRUNC != 0,
	}
	d.readControl(s.receive.control(i)[:m.header.Controllen])
}

// swap converts a port between the order of the network and that of this machine.
func swap(port uint16) uint16 {
	octets := (*[2]byte)(unsafe.Pointer(&port))
	return uint16(octets[0])<<8 | uint16(octets[1])
}

// swapLong converts a flow label between the order of the network and that of this
// machine.
func swapLong(label uint32) uint32 {
	octets := (*[4]byte)(unsafe.Pointer(&label))
	return binary.BigEndian.Uint32(octets[:])
}
