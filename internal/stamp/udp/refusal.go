// SPDX-License-Identifier: Apache-2.0

package udp

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Refusal is an ICMPv6 error about a datagram that was sent. Anybody who knows the socket's
// port can forge one, so it explains a loss, and is no measurement.
type Refusal struct {
	Type, Code uint8
	From       netip.Addr     // the node that says so
	Peer       netip.AddrPort // where the datagram was sent
}

// mostRefusals are read at a time, so that a flood of them does not keep datagrams waiting.
const mostRefusals = 256

// sendTries is how often a system call is made that fails for a reason that may be an error
// about an earlier datagram: such a one is reported once.
const sendTries = 3

// isRefusal reports whether an error may be about a datagram that was sent earlier, which the
// kernel reports at the next call, whichever that is.
func isRefusal(errno syscall.Errno) bool {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPROTO, unix.ENOPROTOOPT, unix.EACCES:
		return true
	}
	return false
}

// drainRefusals passes on the errors that the kernel keeps. A full queue would take the room
// of datagrams.
func (s *Socket) drainRefusals(fd int) {
	if s.refused == nil {
		return
	}
	var control [256]byte
	for range mostRefusals {
		_, n, _, from, err := unix.Recvmsg(fd, nil, control[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		if r, ok := readRefusal(control[:n]); ok {
			if to, ok := from.(*unix.SockaddrInet6); ok {
				r.Peer = netip.AddrPortFrom(netip.AddrFrom16(to.Addr), uint16(to.Port))
			}
			s.refused(r)
		}
	}
}

// readRefusal finds an ICMPv6 error among control messages.
func readRefusal(control []byte) (r Refusal, ok bool) {
	const length = int(unsafe.Sizeof(unix.SockExtendedErr{}))
	for len(control) >= unix.SizeofCmsghdr {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return r, false
		}
		control = rest
		if header.Level != unix.IPPROTO_IPV6 || header.Type != unix.IPV6_RECVERR || len(data) < length+unix.SizeofSockaddrInet6 {
			continue
		}
		about := (*unix.SockExtendedErr)(unsafe.Pointer(&data[0]))
		node := data[length:] // struct sockaddr_in6
		if about.Origin != unix.SO_EE_ORIGIN_ICMP6 || binary.NativeEndian.Uint16(node) != unix.AF_INET6 {
			continue
		}
		return Refusal{Type: about.Type, Code: about.Code, From: netip.AddrFrom16([16]byte(node[8:24]))}, true
	}
	return r, false
}
