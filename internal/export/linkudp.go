// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lengths of messages.
const (
	// MinMessageSize lets the smallest path of IPv4 (RFC 791) be configured; all
	// templates fit.
	MinMessageSize = 508
	// maxMessageSize is that of IPFIX.
	maxMessageSize = 65535
	// maxDatagram is what a jumbo frame leaves. Paths with a greater MTU, the
	// loopback interface's, do not get greater messages: receivers would lose
	// more with each.
	maxDatagram = 9000 - 48
	// minDatagram is what the least MTU of IPv6 leaves (RFC 8200 §5).
	minDatagram = 1280 - 48
)

// maxBatch is how many datagrams the kernel cuts from one buffer.
const maxBatch = 64

// settleTime is how long a refusal may take to come back.
const settleTime = 100 * time.Millisecond

// udpLink is a connected UDP socket. A datagram counts as taken when the network
// has not refused it until the next one was sent or settleTime is over: more
// cannot be known (RFC 7011 §10.3).
type udpLink struct {
	conn     *net.UDPConn
	raw      syscall.RawConn
	v4       bool
	size     int  // the configured limit, 0: none
	now      int  // the limit that the path has now
	plain    bool // the kernel or the device cannot cut buffers
	written  uint64
	settled  uint64
	last     time.Time
	began    time.Time
	segment  []byte // control message
	segments *uint16
	never    chan struct{}
}

func (c CollectorConfig) dialUDP(ctx context.Context) (link, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if c.Source.IsValid() {
		d.LocalAddr = &net.UDPAddr{IP: c.Source.AsSlice()}
	}
	conn, err := d.DialContext(ctx, "udp", c.Address)
	if err != nil {
		return nil, err
	}
	l := &udpLink{conn: conn.(*net.UDPConn), size: c.MessageSize, began: time.Now(), never: make(chan struct{})}
	l.v4 = l.conn.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().Is4()
	l.segment = make([]byte, unix.CmsgSpace(2))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&l.segment[0]))
	header.Level, header.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	l.segments = (*uint16)(unsafe.Pointer(&l.segment[unix.CmsgLen(0)]))
	if l.raw, err = l.conn.SyscallConn(); err == nil {
		err = l.discover(unix.IPV6_PMTUDISC_DO)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.measure()
	return l, nil
}

// control runs a socket call.
func (l *udpLink) control(call func(fd int) error) error {
	var err error
	if outer := l.raw.Control(func(fd uintptr) { err = call(int(fd)) }); outer != nil {
		return outer
	}
	return err
}

// discover says what happens to datagrams that exceed the path MTU. IPv4 and
// IPv6 have the same words for it.
func (l *udpLink) discover(how int) error {
	return l.control(func(fd int) error {
		if l.v4 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, how)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, how)
	})
}

// measure asks for the path MTU.
func (l *udpLink) measure() {
	mtu := 0
	err := l.control(func(fd int) (err error) {
		if l.v4 {
			mtu, err = unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU)
			mtu += 20 // the headers are shorter
		} else {
			mtu, err = unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU)
		}
		return err
	})
	l.now = min(max(mtu-48, MinMessageSize), maxDatagram)
	if err != nil {
		l.now = minDatagram
	}
	if l.size != 0 {
		l.now = min(l.now, l.size)
	}
}

func (l *udpLink) limit() int            { return l.now }
func (l *udpLink) gone() <-chan struct{} { return l.never }
func (l *udpLink) ended() error          { return nil }
func (l *udpLink) finish()               {}
func (l *udpLink) close()                { l.conn.Close() }

func (l *udpLink) write(out []byte, sizes []int) error {
	before := l.written
	for len(sizes) > 0 {
		n, octets := equal(sizes)
		if err := l.send(out[:octets], sizes[0], n); err != nil {
			if !errors.Is(err, unix.ECONNREFUSED) {
				l.settled = l.written // these were not refused
			}
			return err
		}
		l.settled = before
		l.written += uint64(octets)
		out, sizes = out[octets:], sizes[n:]
	}
	l.last = time.Now()
	l.pace(l.written - before)
	return nil
}

// A collector that has just begun to listen would lose what has waited for it,
// if all came at once: the rate begins at firstRate octets a second, and is
// doubled each settleTime until it is as good as none.
const (
	firstRate = 16 << 20
	doublings = 6
)

// pace waits as long as the octets just sent take at the rate of now.
func (l *udpLink) pace(octets uint64) {
	n := l.last.Sub(l.began) / settleTime
	if n >= doublings {
		return
	}
	time.Sleep(time.Duration(octets) * time.Second / (firstRate << n))
}

// equal is how many messages can be cut from one buffer: all are as long as the
// first, but for the last, which may be shorter.
func equal(sizes []int) (n, octets int) {
	for n < len(sizes) && n < maxBatch && sizes[n] <= sizes[0] && octets+sizes[n] <= maxDatagrams {
		octets += sizes[n]
		if n++; sizes[n-1] < sizes[0] {
			break
		}
	}
	return n, octets
}

// maxDatagrams is how many octets a buffer of them has: as if it were one
// datagram of IPv4.
const maxDatagrams = 65507

// send sends n messages of a length in a buffer.
func (l *udpLink) send(b []byte, length, n int) error {
	if n > 1 && !l.plain {
		*l.segments = uint16(length)
		_, _, err := l.conn.WriteMsgUDP(b, l.segment, nil)
		switch {
		case err == nil || errors.Is(err, unix.ECONNREFUSED):
			return err
		case errors.Is(err, unix.EIO), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOPROTOOPT):
			l.plain = true // the device computes no checksums, or the kernel is built without
		case !errors.Is(err, unix.EMSGSIZE):
			return err
		}
	}
	for len(b) > 0 {
		m := b[:binary.BigEndian.Uint16(b[2:])] // the message's own length
		_, err := l.conn.Write(m)
		if errors.Is(err, unix.EMSGSIZE) {
			err = l.fragmented(m)
		}
		if err != nil {
			return err
		}
		b = b[len(m):]
	}
	return nil
}

// fragmented sends a message that was made before the path MTU fell. Those that
// follow are shorter.
func (l *udpLink) fragmented(m []byte) error {
	if err := l.discover(unix.IPV6_PMTUDISC_DONT); err != nil {
		return err
	}
	_, err := l.conn.Write(m)
	if back := l.discover(unix.IPV6_PMTUDISC_DO); err == nil {
		err = back
	}
	l.measure()
	return err
}

func (l *udpLink) confirmed() (uint64, error) {
	refusal := 0
	if err := l.control(func(fd int) (err error) {
		refusal, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		return err
	}); err != nil {
		return l.settled, err
	}
	switch errno := syscall.Errno(refusal); {
	case errno == unix.EMSGSIZE: // a router on the path says so
		l.measure()
	case errno != 0:
		return l.settled, errno
	}
	if time.Since(l.last) > settleTime {
		l.settled = l.written
	}
	return l.settled, nil
}
