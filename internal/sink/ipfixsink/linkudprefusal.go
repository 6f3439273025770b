// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"errors"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refusal is an ICMP error about a datagram that was not delivered.
type refusal struct {
	errno  syscall.Errno
	mtu    int    // of the path, if the datagram was too big for it; 0: unknown
	number uint32 // Sequence Number of the refused message
	quoted bool   // number is known
}

// listen makes the kernel keep ICMP errors, with the datagrams that they quote
// (ip(7), IP_RECVERR).
func (l *udpLink) listen() error {
	return l.control(func(fd int) error {
		if l.v4 {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	})
}

// maxHeard is how many refusals are read at once; the kernel keeps a bounded
// number of them.
const maxHeard = 1024

// readRefusals handles new refusals. It reports whether there was one, and returns an error if
// one of them ends the session.
func (l *udpLink) readRefusals() (heard bool, err error) {
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

// next takes the oldest refusal that the kernel keeps; own means that this host refused
// a datagram before it was sent.
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

// Destination Unreachable of ICMP for IPv4, and its codes for administrative refusals
// (RFC 1812 §5.2.7.1).
const unreachable = 3

var prohibited = []uint8{9, 10, 13}

// refused handles one refusal. Its error ends the session: everything since the refused
// datagram will be sent again. A missing route does not, because it may come back (RFC
// 1122 §3.2.2.1 calls it a hint).
func (l *udpLink) refused(r refusal) error {
	if r.errno == unix.EMSGSIZE {
		l.tooBig(r)
		return nil
	}
	if errors.Is(r.errno, unix.ENETUNREACH) || errors.Is(r.errno, unix.EHOSTUNREACH) {
		return nil
	}
	first := l.from(r.number)
	if !r.quoted { // it may be any datagram; those before the last call are the least likely
		first = slices.IndexFunc(l.unconfirmed, func(d datagram) bool { return d.end > l.before })
		first = max(first, 0)
	}
	l.confirmFirst(first)
	l.unconfirmed = l.unconfirmed[:0]
	return r.errno
}

// from is the index of the first datagram with that Sequence Number or a later one.
func (l *udpLink) from(number uint32) int {
	i := slices.IndexFunc(l.unconfirmed, func(d datagram) bool { return int32(d.number-number) >= 0 })
	if i < 0 {
		return len(l.unconfirmed)
	}
	return i
}

// tooBig handles a Packet Too Big. The path keeps the order of datagrams, so the same
// router dropped all that are too big and were sent since the refused one. If none is
// quoted, any that is too big counts as dropped.
func (l *udpLink) tooBig(r refusal) {
	l.measure()
	limit := l.pathLimit
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
	for i := first; i < len(l.unconfirmed); i++ {
		d := &l.unconfirmed[i]
		d.lost = d.lost || d.length > limit
	}
	l.pathLimit = min(l.pathLimit, max(limit, MinMessageSize))
}
