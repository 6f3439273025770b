// SPDX-License-Identifier: Apache-2.0

package icmpv6

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	ipv6HeaderLen = 40
	protocol      = 58
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
	return &Sender{fd}, nil
}

// Send sends a packet by the route to its destination. A packet for which the
// device has no room is lost, and an error.
func (s *Sender) Send(packet []byte) error {
	if len(packet) < ipv6HeaderLen {
		return errors.New("send a packet: it has no IPv6 header")
	}
	to := unix.SockaddrInet6{Addr: [16]byte(packet[24:40])}
	if err := unix.Sendto(s.fd, packet, 0, &to); err != nil {
		return fmt.Errorf("send a packet: %w", err)
	}
	return nil
}

// Close ends the sender.
func (s *Sender) Close() error { return unix.Close(s.fd) }

// Seal writes the payload length and the checksum of an ICMPv6 message after an
// IPv6 header (RFC 4443 §2.3).
func Seal(packet []byte) {
	message := packet[ipv6HeaderLen:]
	binary.BigEndian.PutUint16(packet[4:], uint16(len(message)))
	message[2], message[3] = 0, 0
	sum := uint32(len(message)) + protocol // of the pseudo-header (RFC 8200 §8.1)
	for _, b := range [][]byte{packet[8:ipv6HeaderLen], message} {
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
	binary.BigEndian.PutUint16(message[2:], ^uint16(sum))
}
