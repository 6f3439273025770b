// SPDX-License-Identifier: Apache-2.0

package icmpv6

import (
	"encoding/binary"
	"errors"
	"fmt"

	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	ipv6HeaderLen = 40
	protocol      = 58
	flowinfoSend  = 33 // IPV6_FLOWINFO_SEND, which x/sys does not have
)

// Sender sends whole IPv6 packets with any source address.
type Sender struct{ fd int }

// NewSender opens a raw socket in the network namespace of the calling thread.
func NewSender() (*Sender, error) {
	// with this protocol, packets bring their own IPv6 headers
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_RAW)
	if err != nil {
		return nil, fmt.Errorf("open a socket for packets: %w", err)
	}
	// The packet's flow label takes part in the choice among equal routes.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, flowinfoSend, 1); err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket for packets: %w", err), unix.Close(fd))
	}
	return &Sender{fd}, nil
}

// Send sends a packet by the route to its destination. A packet for which the
// device has no room is lost, and an error.
func (s *Sender) Send(packet []byte) error {
	if len(packet) < ipv6HeaderLen {
		return errors.New("send a packet: it has no IPv6 header")
	}
	to := unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: [16]byte(packet[24:40])}
	label := [4]byte{0, packet[1] & 0x0f, packet[2], packet[3]}
	to.Flowinfo = binary.NativeEndian.Uint32(label[:])
	errno := s.sendTo(packet, &to)
	if errno == unix.EINVAL && to.Flowinfo != 0 { // another process has a lease of labels
		to.Flowinfo = 0
		errno = s.sendTo(packet, &to)
	}
	if errno != 0 {
		return fmt.Errorf("send a packet: %w", errno)
	}
	return nil
}

// sendTo is sendto, with a flow label, which x/sys does not pass on.
func (s *Sender) sendTo(packet []byte, to *unix.RawSockaddrInet6) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&packet[0])), uintptr(len(packet)), 0,
		uintptr(unsafe.Pointer(to)), unix.SizeofSockaddrInet6)
	return errno
}

// Close ends the sender.
func (s *Sender) Close() error { return unix.Close(s.fd) }

// Seal writes the payload length and the checksum of an ICMPv6 message after an
// IPv6 header (RFC 4443 §2.3).
func Seal(packet []byte) {
	message := packet[ipv6HeaderLen:]
	binary.BigEndian.PutUint16(packet[4:], uint16(len(message)))
	message[2], message[3] = 0, 0
	binary.BigEndian.PutUint16(message[2:], Checksum(packet[8:ipv6HeaderLen], protocol, message))
}

// Checksum is the checksum of a message with a pseudo-header (RFC 8200 §8.1). addresses are
// the source and the destination.
func Checksum(addresses []byte, protocol uint32, message []byte) uint16 {
	sum := uint32(len(message)) + protocol
	for _, b := range [][]byte{addresses, message} {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
