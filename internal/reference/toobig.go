// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"
	"time"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

const (
	minimumMTU      = 1280             // RFC 8200 §5
	pathMTULifetime = 10 * time.Minute // RFC 8201 §4
	icmpv6TooBig    = 2                // RFC 4443 §3.2
	tooBigLen       = 8                // type, code, checksum, MTU
)

// learnedMTU is what a Packet Too Big message reported about the path to a
// destination.
type learnedMTU struct {
	mtu     int
	learned int64 // in the same unit as Frame.Time
}

// insertsInline reports whether some encapsulation may insert a header directly
// after a packet's own IPv6 header.
func (n *Node) insertsInline() bool {
	for _, e := range n.config.Encapsulations {
		if e.Mode != model.ModeEncap {
			return true
		}
	}
	return false
}

// learnPathMTU implements docs/data-plane/path-mtu.md: it learns from a Packet Too Big
// message that quotes a packet with a header that this node inserts.
func (n *Node) learnPathMTU(p packet, now int64) {
	const quotedAt = ipv6.HeaderLen + tooBigLen
	if !n.insertsInline() || p.nextHeader() != ioam.NextHeaderICMPv6 ||
		len(p.ip) < quotedAt+ipv6.HeaderLen+8 || p.ip[ipv6.HeaderLen] != icmpv6TooBig {
		return
	}
	mtu := int64(binary.BigEndian.Uint32(p.ip[ipv6.HeaderLen+4:]))
	quoted := packet{ip: p.ip[quotedAt:]}
	if quoted.ip[0]>>4 != 6 || quoted.source() != p.destination() || !hasGrown(quoted) {
		return
	}
	if mtu < minimumMTU || mtu >= int64(quoted.payloadLength()+ipv6.HeaderLen) {
		return
	}
	destination := quoted.destination()
	if known := n.pathMTU(destination, now); known == 0 || int(mtu) <= known {
		n.learned[destination] = learnedMTU{int(mtu), now}
	}
}

// hasGrown reports whether a quoted packet, of which 48 bytes are there, begins with a header
// into which a node inserts, or has one after its own Hop-by-Hop header.
func hasGrown(quoted packet) bool {
	header := quoted.ip[ipv6.HeaderLen:]
	switch quoted.nextHeader() {
	case ioam.NextHeaderDestination:
		return beginsAsInserted(header)
	case ioam.NextHeaderHopByHop:
		if beginsAsInserted(header) {
			return true
		}
		length := 8 * (int(header[1]) + 1)
		return ioam.NextHeader(header[0]) == ioam.NextHeaderDestination && len(header) >= length+8 && beginsAsInserted(header[length:])
	}
	return false
}

// beginsAsInserted reports whether a header begins as one that a node inserts.
func beginsAsInserted(header []byte) bool {
	grown := header[3] == 4 && binary.BigEndian.Uint32(header[4:]) == 0 // by an incremental trace
	return header[2] == byte(ioam.OptionPadN) &&
		(grown || header[3] == 0 && (header[4] == byte(ioam.OptionIOAM) || header[4] == byte(ioam.OptionIOAMStatic)))
}

// pathMTU is what was reported about the path to a destination within the last
// ten minutes, 0 without a report.
func (n *Node) pathMTU(destination [16]byte, now int64) int {
	known, ok := n.learned[destination]
	if !ok || now-known.learned > int64(pathMTULifetime) {
		return 0
	}
	return known.mtu
}
