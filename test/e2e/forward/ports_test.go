// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net/netip"

	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// from is a packet from alpha that beta does not answer.
func from(destination string, next, hopLimit byte, body []byte) []byte {
	h := craft.IPv6{Label: 1, Next: next, HopLimit: hopLimit, Source: e2e.LeftAddress, Destination: netip.MustParseAddr(destination)}
	return h.With(body)
}

func icmpv6(destination string, hopLimit, kind byte, body []byte) []byte {
	return craft.Seal(from(destination, craft.ICMPv6, hopLimit, craft.Message(kind, 0, body...)))
}

// toPort is a datagram to a port without a listener.
func toPort(destination string) []byte {
	return craft.Seal(from(destination, craft.UDP, 64, craft.Datagram(9, 9, []byte("abcd")...)))
}
