// SPDX-License-Identifier: Apache-2.0

// Package admit decides, before it looks into a datagram, whether a responder answers it:
// by its source, and by a rate.
package admit

import (
	"net/netip"
	"slices"

	"github.com/waymark-net/waymark/internal/stamp/udp"
)

// Verdict is why a datagram is not answered.
type Verdict int

// Verdicts, in the order in which they are decided.
const (
	Admitted     Verdict = iota
	NotAllowed           // the source is outside the allowed prefixes
	Unanswerable         // the source has no port, or an address is no unicast address
	Oversized            // longer than the buffer
)

// Check judges a datagram by its addresses. Without prefixes, all sources are allowed.
func Check(d *udp.Datagram, allowed []netip.Prefix) Verdict {
	peer := d.Peer.Addr()
	switch {
	case len(allowed) > 0 && !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(peer) }):
		return NotAllowed
	case d.Peer.Port() == 0 || peer.IsMulticast() || peer.IsUnspecified() || d.Local.IsMulticast():
		return Unanswerable
	case d.Cut:
		return Oversized
	}
	return Admitted
}

// Bucket limits a rate. It holds the packets of a tenth of a second, at least one.
type Bucket struct {
	Rate   int // a second; 0: no limit
	tokens float64
	at     int64
}

// Allow reports whether another packet is within the rate, at a time of a steady clock.
func (b *Bucket) Allow(now int64) bool {
	if b.Rate == 0 {
		return true
	}
	depth := max(float64(b.Rate)/10, 1)
	switch elapsed := now - b.at; {
	case b.at == 0:
		b.tokens = depth
	case elapsed > 0:
		b.tokens = min(depth, b.tokens+float64(elapsed)/1e9*float64(b.Rate))
	}
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
