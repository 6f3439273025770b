// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"errors"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusal is what the network says of a datagram that it did not deliver.
type refusal struct {
	errno  syscall.Errno
	mtu    int    // of the path, where the datagram was too big for it; 0: unknown
	number uint32 // Sequence Number of the refused message
	quoted bool   // number is known
}

// listen makes the kernel keep what ICMP says, with the datagram that it quotes
// (ip(7), IP_RECVERR).
func (l *udpLink) listen() error {
	return l.control(func(fd int) error {
		if l.v4 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	})
}

// maxHeard is how many refusals are heard at once; the kernel keeps a bounded
// number of them.
const maxHeard = 1024

// hear heeds what the network has said since. It tells whether that was anything,
// and the error that ends the session.
func (l *udpLink) hear() (heard bool, err error) {
	for range maxHeard {
		r, own, fault := l.next()
		if fault != nil {
			return heard, err
		}
		if own {
			continue
		}
		heard = true
		if err == nil {
			err = l.refused(r)
		}
	}
	return heard, err
}

// next takes the oldest of what the kernel keeps; own: our own host has said it,
// to one who was about to send.
func (l *udpLink) next() (r refusal, own bool, err error) {
	var quote [16]byte // a message's header
	var control [256]byte
	n, size := 0, 0
	if err = l.control(func(fd int) (err error) {
		n, size, _, _, err = unix.Recvmsg(fd, quote[:], control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		return err
	}); err != nil {
		return r, false, err
	}
	if r.quoted = n == len(quote); r.quoted {
		r.number = sequence(quote[:])
	}
	messages, err := unix.ParseSocketControlMessage(control[:size])
	for _, m := range messages {
		if len(m.Data) < int(unsafe.Sizeof(unix.SockExtendedErr{})) ||
			(m.Header.Level != unix.IPPROTO_IP || m.Header.Type != unix.IP_RECVERR) &&
				(m.Header.Level != unix.IPPROTO_IPV6 || m.Header.Type != unix.IPV6_RECVERR) {
			continue
		}
		e := (*unix.SockExtendedErr)(unsafe.Pointer(&m.Data[0]))
		own = e.Origin != unix.SO_EE_ORIGIN_ICMP && e.Origin != unix.SO_EE_ORIGIN_ICMP6
		if r.errno = syscall.Errno(e.Errno); r.errno == unix.EMSGSIZE {
			r.mtu = int(e.Info)
		} else if e.Origin == unix.SO_EE_ORIGIN_ICMP && e.Type == unreachable && slices.Contains(prohibited, e.Code) {
			r.errno = unix.EACCES
		}
	}
	return r, own, err
}

// Destination Unreachable of ICMP for IPv4, and those of its codes by which an
// administrator refuses (RFC 1812 §5.2.7.1).
const unreachable = 3

var prohibited = []uint8{9, 10, 13}

// refused heeds one refusal. The error is one that ends the session: everything
// since the refused datagram will be sent again. A route that is missing may come
// back (a hint, says RFC 1122 §3.2.2.1).
func (l *udpLink) refused(r refusal) error {
	if r.errno == unix.EMSGSIZE {
		l.tooBig(r)
		return nil
	}
	if errors.Is(r.errno, unix.ENETUNREACH) || errors.Is(r.errno, unix.EHOSTUNREACH) {
		return nil
	}
	first := l.from(r.number)
	if !r.quoted { // it may be any; those before the last call are the least likely
		first = slices.IndexFunc(l.unsettled, func(d datagram) bool { return d.end > l.before })
		first = max(first, 0)
	}
	l.settle(first)
	l.unsettled = l.unsettled[:0]
	return r.errno
}

// from is the first datagram with a Sequence Number or a later one.
func (l *udpLink) from(number uint32) int {
	i := slices.IndexFunc(l.unsettled, func(d datagram) bool { return int32(d.number-number) >= 0 })
	if i < 0 {
		return len(l.unsettled)
	}
	return i
}

// tooBig heeds a Packet Too Big. The path keeps the order of datagrams: all that
// are too big for it and were sent since the refused one met the same router. If
// none is quoted, they may be any.
func (l *udpLink) tooBig(r refusal) {
	l.measure()
	limit := l.now
	switch {
	case r.mtu == 0:
	case l.v4:
		limit = r.mtu - 28
	default:
		limit = max(r.mtu-48, minDatagram)
	}
	first := 0
	if r.quoted {
		first = l.from(r.number)
	}
	for i := first; i < len(l.unsettled); i++ {
		d := &l.unsettled[i]
		d.lost = d.lost || d.length > limit
	}
	l.now = min(l.now, max(limit, MinMessageSize))
}
