// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Lengths of messages.
const (
	// MinMessageSize fits the smallest path of IPv4 (RFC 791), and has room for all
	// templates.
	MinMessageSize = 508
	// maxMessageSize is the limit of IPFIX.
	maxMessageSize = 65535
	// maxDatagram fits a jumbo frame. Paths with a larger MTU, such as the loopback
	// interface's, do not get larger messages: each lost one would lose more records.
	maxDatagram = 9000 - 48
	// minDatagram fits the minimum MTU of IPv6 (RFC 8200 §5).
	minDatagram = 1280 - 48
)

// maxBatch is how many datagrams the kernel can cut from one buffer.
const maxBatch = 64

// settleTime is how long to wait for a refusal, unless maxUnsettled octets, a part of
// the queue, were sent meanwhile.
const (
	settleTime   = 100 * time.Millisecond
	maxUnsettled = 1 << 20
)

// udpLink is a connected UDP socket. A datagram counts as delivered when the network
// has not refused it within settleTime: UDP does not confirm more (RFC 7011 §10.3).
type udpLink struct {
	conn            *net.UDPConn
	raw             syscall.RawConn
	v4              bool
	size            int  // the configured limit, 0: none
	pathLimit       int  // the current limit of the path
	noSegmentation  bool // the kernel or the device cannot cut buffers
	written         uint64
	before          uint64     // octets written before the last call of write
	unconfirmed     []datagram // sent, and not yet counted as delivered
	confirmedOctets uint64
	lost            []uint64 // see confirmed
	last            time.Time
	began           time.Time
	segment         []byte // control message
	segments        *uint16
	neverClosed     chan struct{}
	mustNotWait     atomic.Bool // write must no longer wait
}

// datagram is a message that was sent, and may still be refused.
type datagram struct {
	end    uint64 // octets of all messages up to here
	length int
	number uint32 // its Sequence Number (RFC 7011 §3.1)
	at     time.Time
	lost   bool // a router on the path had no room for it
}

func (c Config) dialUDP(ctx context.Context, spare control) (link, error) {
	d := net.Dialer{Timeout: dialTimeout, ControlContext: spare}
	if c.Source.IsValid() {
		d.LocalAddr = &net.UDPAddr{IP: c.Source.AsSlice()}
	}
	conn, err := d.DialContext(ctx, "udp", c.Address)
	if err != nil {
		return nil, err
	}
	l := &udpLink{conn: conn.(*net.UDPConn), size: c.MessageSize, began: time.Now(), neverClosed: make(chan struct{})}
	l.v4 = l.conn.RemoteAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().Is4()
	l.segment = make([]byte, unix.CmsgSpace(2))
	header := (*unix.Cmsghdr)(unsafe.Pointer(&l.segment[0]))
	header.Level, header.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	header.SetLen(unix.CmsgLen(2))
	l.segments = (*uint16)(unsafe.Pointer(&l.segment[unix.CmsgLen(0)]))
	if l.raw, err = l.conn.SyscallConn(); err == nil {
		err = errors.Join(l.discover(unix.IPV6_PMTUDISC_DO), l.listen())
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

// discover sets how the kernel handles datagrams that exceed the path MTU. IPv4 and
// IPv6 have the same constants for that.
func (l *udpLink) discover(how int) error {
	return l.control(func(fd int) error {
		if l.v4 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, how)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, how)
	})
}

// measure reads the path MTU from the kernel.
func (l *udpLink) measure() {
	mtu := 0
	err := l.control(func(fd int) (err error) {
		if l.v4 {
			mtu, err = unix.GetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU)
			mtu += 20 // IPv4 headers are shorter
		} else {
			mtu, err = unix.GetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU)
		}
		return err
	})
	l.pathLimit = min(max(mtu-48, MinMessageSize), maxDatagram)
	if err != nil {
		l.pathLimit = minDatagram
	}
	if l.size != 0 {
		l.pathLimit = min(l.pathLimit, l.size)
	}
}

func (l *udpLink) peer() net.Addr        { return l.conn.RemoteAddr() }
func (l *udpLink) limit() int            { return l.pathLimit }
func (l *udpLink) unread() uint64        { return 0 } // UDP has no acknowledgements
func (l *udpLink) gone() <-chan struct{} { return l.neverClosed }
func (l *udpLink) ended() error          { return nil }
func (l *udpLink) finish()               { time.AfterFunc(closingTime, func() { l.mustNotWait.Store(true) }) }
func (l *udpLink) close()                { l.conn.Close() }

func (l *udpLink) write(out []byte, sizes []int) error {
	before := l.written
	for len(sizes) > 0 {
		n, octets := equal(sizes)
		if err := l.send(out[:octets], sizes[0], n); err != nil {
			l.confirmFirst(len(l.unconfirmed)) // refused datagrams are no longer among them
			return err
		}
		l.before = before
		out, sizes = out[octets:], sizes[n:]
	}
	l.last = time.Now()
	l.pace(l.written - before)
	return nil
}

// recordSent remembers messages of a length that were sent.
func (l *udpLink) recordSent(b []byte, length int) {
	now := time.Now()
	for ; len(b) > 0; b = b[length:] {
		l.written += uint64(length)
		l.unconfirmed = append(l.unconfirmed, datagram{end: l.written, length: length, number: sequence(b), at: now})
	}
}

// sequence is a message's Sequence Number.
func sequence(message []byte) uint32 { return binary.BigEndian.Uint32(message[8:]) }

// A collector that has just started would lose messages if all queued ones came at
// once: the rate starts at firstRate octets a second, and doubles each settleTime until
// it no longer limits.
const (
	firstRate = 16 << 20
	doublings = 6
)

// pace waits as long as the octets just sent take at the current rate.
func (l *udpLink) pace(octets uint64) {
	n := l.last.Sub(l.began) / settleTime
	if n >= doublings {
		return
	}
	time.Sleep(time.Duration(octets) * time.Second / (firstRate << n))
}

// equal is how many messages can be cut from one buffer. All have the same length:
// between virtual devices a router gets the buffer uncut, and refuses all of it or
// nothing.
func equal(sizes []int) (n, octets int) {
	for n < len(sizes) && n < maxBatch && sizes[n] == sizes[0] && octets+sizes[n] <= maxDatagrams {
		octets += sizes[n]
		n++
	}
	return n, octets
}

// maxDatagrams is how many octets a buffer of datagrams may have: as many as one IPv4
// datagram.
const maxDatagrams = 65507

// send sends n messages of the same length.
func (l *udpLink) send(b []byte, length, n int) error {
	if n > 1 && !l.noSegmentation {
		*l.segments = uint16(length)
		switch err := l.try(b, l.segment); {
		case err == nil:
			l.recordSent(b, length)
			return nil
		case errors.Is(err, unix.EMSGSIZE), errors.Is(err, unix.EINVAL) && l.exceeded(length): // Linux before 6.14 returns EINVAL for it
		case errors.Is(err, unix.EIO), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOPROTOOPT):
			l.noSegmentation = true // the device computes no checksums, or the kernel lacks UDP segmentation
		case errors.Is(err, unix.ENOBUFS):
			l.noSegmentation = true // a queue that cuts buffers may drop part of one without an error
		default:
			return err
		}
	}
	for ; len(b) > 0; b = b[length:] {
		err := l.wait(b[:length])
		if errors.Is(err, unix.EMSGSIZE) {
			err = l.fragmented(b[:length])
		}
		if err != nil {
			return err
		}
		l.recordSent(b[:length], length)
	}
	return nil
}

// Waits while the queue of our own device is full: at most crowdedTime for a datagram.
const (
	crowdedWait = time.Millisecond
	crowdedTime = time.Second
)

// wait sends a datagram as soon as our own host has room for it.
func (l *udpLink) wait(b []byte) error {
	for began := time.Now(); ; time.Sleep(crowdedWait) {
		if err := l.try(b, nil); !errors.Is(err, unix.ENOBUFS) || l.mustNotWait.Load() || time.Since(began) > crowdedTime {
			return err
		}
	}
}

// maxTries is how often a datagram is tried while errors of others prevent it.
const maxTries = 16

// try sends a buffer. A call that fails because the network had refused another
// datagram has sent nothing, and is repeated.
func (l *udpLink) try(b, control []byte) (err error) {
	for range maxTries {
		if _, _, err = l.conn.WriteMsgUDP(b, control, nil); err == nil {
			return nil
		}
		heard, refused := l.readRefusals()
		if refused != nil {
			return refused
		}
		if !heard {
			return err // our own host refuses this one
		}
	}
	return err
}

// exceeded reports whether messages of a length are too long for the current path.
func (l *udpLink) exceeded(length int) bool {
	l.measure()
	return length > l.pathLimit
}

// fragmented sends a message that was made before the path MTU fell, and that our own
// host therefore refused. Later messages are shorter.
func (l *udpLink) fragmented(m []byte) error {
	if err := l.discover(unix.IPV6_PMTUDISC_WANT); err != nil {
		return err
	}
	err := l.try(m, nil)
	if back := l.discover(unix.IPV6_PMTUDISC_DO); err == nil {
		err = back
	}
	l.measure()
	return err
}

func (l *udpLink) confirmed() (end uint64, lost []uint64, err error) {
	pending := 0
	if err = l.control(func(fd int) (err error) {
		pending, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		return err
	}); err == nil && pending != 0 {
		var heard bool
		if heard, err = l.readRefusals(); !heard { // the kernel had no memory to keep it
			err = l.refused(refusal{errno: syscall.Errno(pending)})
		}
	}
	n := 0
	for now := time.Now(); n < len(l.unconfirmed); n++ {
		if d := &l.unconfirmed[n]; now.Sub(d.at) <= settleTime && l.written-d.end < maxUnsettled {
			break
		}
	}
	l.confirmFirst(n)
	lost, l.lost = l.lost, nil
	return l.confirmedOctets, lost, err
}

// confirmFirst stops waiting for refusals of the first n datagrams.
func (l *udpLink) confirmFirst(n int) {
	for _, d := range l.unconfirmed[:n] {
		l.confirmedOctets = d.end
		if d.lost {
			l.lost = append(l.lost, d.end)
		}
	}
	l.unconfirmed = append(l.unconfirmed[:0], l.unconfirmed[n:]...)
}
