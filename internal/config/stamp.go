// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"

	"github.com/waymark-net/waymark/internal/yamlfile"
)

// Stamp is a reflector.
type Stamp struct {
	Listen  Reflector  `key:"listen" default:"[::]:862"`
	Allow   []Allowed  `key:"allow" required:"true"`
	KeyFile string     `key:"key-file" optional:"true"`
	Rate    PacketRate `key:"rate" default:"100000"`
	Return  bool       `key:"return-segments" default:"false"`
}

// stampTexts say what the keys of stamp mean.
var stampTexts = yamlfile.KeyTexts{
	"listen": "Address and UDP port.",
	"allow":  "Prefixes of senders that are answered, 1 to 64, or any: nodes that measure with this one.",
	"key-file": "File with the key of the HMACs in hexadecimal digits, the same at all nodes that measure together, " +
		"mode 0600 or stricter. With it, this node also authenticates its questions to other nodes.",
	"key-file, absent": "packets are not authenticated",
	"rate":             "The most packets per second that are answered.",
	"return-segments":  "Whether replies go through the SRv6 segments that a packet asks for (RFC 9503 §4.1.3).",
}

// Reflector is where a reflector listens.
type Reflector netip.AddrPort

// PacketRate is a number of packets per second.
type PacketRate int

const stampPort = 862

func parseReflector(s string) (Reflector, error) {
	if at, err := netip.ParseAddrPort(s); err == nil && at.Port() > 0 {
		_, err := parseListenAddr(at.Addr().String())
		return Reflector(at), err
	}
	a, err := parseListenAddr(s)
	return Reflector(netip.AddrPortFrom(a, stampPort)), err
}

func formatReflector(r Reflector) string {
	at := netip.AddrPort(r)
	if at.Port() == stampPort && !at.Addr().IsUnspecified() {
		return at.Addr().String()
	}
	return at.String()
}
