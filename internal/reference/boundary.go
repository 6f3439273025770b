// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/internal/ipv6"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// isEdgeThatDrops reports whether an interface drops everything in a direction
// that is not proven to be free of IOAM (docs/data-plane/edge.md).
func isEdgeThatDrops(i *model.Interface, direction model.Role) bool {
	return i.Roles&direction == 0 && i.Strictest() == model.BoundaryDrop
}

// isUnproven reports whether a frame at which parsing stopped may contain IOAM.
func isUnproven(f Frame, parsed model.Outcome) bool {
	if parsed == model.OutcomeNotIPv6 {
		return f.Link == LinkEthernet && isBuried(f.Data)
	}
	return parsed == model.OutcomeMalformedHeader || parsed == model.OutcomeMalformedTooManyOptions
}

func dropUnproven(f Frame) Result {
	result := unchanged(f, model.OutcomeBoundaryUnprovenDropped)
	result.Verdict = Drop
	return result
}

// isFollowed reports whether a Hop-by-Hop header is after the headers that were read,
// where none is valid (RFC 8200 §4.1).
func (p *packet) isFollowed() bool { return p.nextAfter() == ioam.NextHeaderHopByHop }

// mayHideHopByHop reports whether the extension headers after the first
// Hop-by-Hop header, or after the IPv6 header, contain a Hop-by-Hop header or
// could not be read to their end. A Hop-by-Hop header is not valid there (RFC
// 8200 §4.1), but nodes on the path may remove what is before it, or insert
// something. A later fragment is harmless, because without the first one it is
// not reassembled.
func (p *packet) mayHideHopByHop() bool {
	u := p.walkBehind()
	return u.HopByHop || !u.Known && !u.Fragment
}

// walkBehind walks the extension headers after the first Hop-by-Hop header.
func (p *packet) walkBehind() ipv6.UpperLayer {
	return ipv6.Walk(p.ip, p.nextAfter(), ipv6.HeaderLen+p.headersLen())
}

// isBuried reports whether IPv6, or another tag, follows a third VLAN tag.
func isBuried(frame []byte) bool {
	const first, depth = 12, 3
	if len(frame) < first+4*depth+2 {
		return false
	}
	for i := range depth {
		if !isTag(binary.BigEndian.Uint16(frame[first+4*i:])) {
			return false
		}
	}
	etherType := binary.BigEndian.Uint16(frame[first+4*depth:])
	return etherType == etherTypeIPv6 || isTag(etherType)
}

func isTag(etherType uint16) bool { return etherType == etherTypeVLAN || etherType == etherTypeQinQ }

// isWholeTunnel reports whether a tunnel's packet is complete, and the inner
// packet is not longer than it.
func (p *packet) isWholeTunnel() bool {
	inner := p.ip[ipv6.HeaderLen+p.headersLen():]
	length := ipv6.HeaderLen + int(binary.BigEndian.Uint16(inner[4:]))
	if outer := p.payloadLength(); outer != 0 {
		return ipv6.HeaderLen+outer <= len(p.ip) && p.headersLen()+length <= outer
	}
	return length <= len(inner) // a jumbogram, accepted as for the Hop-by-Hop header
}
