// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net/netip"

	"github.com/waymark-net/waymark/test/e2e"
)

// from is a packet from alpha that beta does not answer.
func from(destination string, next, hopLimit byte, body []byte) []byte {
	p := e2e.Packet(1, hopLimit, nil, body)
	p[6] = next
	to := netip.MustParseAddr(destination).As16()
	copy(p[24:], to[:])
	return p
}

func icmpv6(destination string, hopLimit, kind byte, body []byte) []byte {
	return seal(from(destination, 58, hopLimit, append([]byte{kind, 0, 0, 0}, body...)), 2)
}

// toPort is a datagram to a port where nobody listens.
func toPort(destination string) []byte {
	return seal(from(destination, 17, 64, []byte{0, 9, 0, 9, 0, 12, 0, 0, 'a', 'b', 'c', 'd'}), 6)
}
