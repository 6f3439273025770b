// SPDX-License-Identifier: Apache-2.0

package join

import (
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// firstRoom is how many postcards a new packet has room for: a flood of single
// postcards must not take more memory.
const firstRoom = 2

// packet is what is known of one packet.
type packet struct {
	key          Key
	order        uint64 // of the first postcard
	cards        []Postcard
	reports      []report  // of all postcards
	since        time.Time // of the first postcard
	begun, ended bool      // an encapsulating, a decapsulating node reported
	allHopLimits bool      // every postcard has one
	highest      uint8     // hop limit
	lowest       uint8     // hop limit
	from, to     uint8     // hop limits of the encapsulating and decapsulating node
	seen         [4]uint64 // hop limits, a bit each
	distinct     int       // bits in seen
	next, prev   *packet
}

func (p *packet) add(c *Postcard, r report) {
	if len(p.reports) == 0 {
		p.allHopLimits, p.highest, p.lowest = true, c.HopLimit, c.HopLimit
	}
	p.cards, p.reports = append(p.cards, *c), append(p.reports, r)
	p.allHopLimits = p.allHopLimits && c.HasHopLimit
	p.highest, p.lowest = max(p.highest, c.HopLimit), min(p.lowest, c.HopLimit)
	if !p.has(c.HopLimit) {
		p.seen[c.HopLimit/64] |= 1 << (c.HopLimit % 64)
		p.distinct++
	}
	switch c.Role {
	case record.Encapsulating:
		p.begun, p.from = true, c.HopLimit
	case record.Decapsulating:
		p.ended, p.to = true, c.HopLimit
	}
}

func (p *packet) has(hopLimit uint8) bool { return p.seen[hopLimit/64]&(1<<(hopLimit%64)) != 0 }

// complete reports whether certainly nothing is missing. Without hop limits, only the
// wait decides.
func (p *packet) complete() bool {
	return p.begun && p.ended && p.allHopLimits && p.even() && p.distinct == int(p.from-p.to)+1
}

// even reports whether all hop limits lie between those of the ends.
func (p *packet) even() bool { return p.from == p.highest && p.to == p.lowest }

// reason is why the packet's path is incomplete when its wait is over.
func (p *packet) reason() record.PathReason {
	switch {
	case !p.ended:
		return record.PathNotSeenFurther
	case !p.begun:
		return record.PathNoEncapsulating
	case !p.allHopLimits:
		return record.PathComplete
	case !p.even():
		return record.PathHopLimitsUneven
	default:
		return record.PathHopMissing // otherwise the path would be complete
	}
}

// missing lists the hop limits between the highest and lowest that no node reported.
func (p *packet) missing() []uint8 {
	if !p.allHopLimits {
		return nil
	}
	var list []uint8
	for h := p.highest; h > p.lowest; h-- {
		if !p.has(h) {
			list = append(list, h)
		}
	}
	return list
}

// fit is how a postcard relates to those of a packet.
type fit uint8

const (
	another    fit = iota // from a node that has not reported yet
	duplicate             // the same postcard again
	repeated              // the packet, or another segment of it, came to the node again
	nextPacket            // of a later packet with the same numbers
	late                  // of an earlier packet with the same numbers
)

// fitOf relates a postcard to those of a packet. A node encapsulates a packet once, and a
// postcard that is more than the wait later belongs to another packet: sequence numbers
// wrap and restart.
func fitOf(reports []report, r *report, wait time.Duration) fit {
	for i := range reports {
		known := &reports[i]
		if !known.sameNode(r) {
			continue
		}
		after := r.time().Sub(known.time())
		switch {
		case after == 0:
			return duplicate
		case after > wait, after > 0 && r.role == record.Encapsulating:
			return nextPacket
		case r.role == record.Encapsulating:
			return late
		default:
			return repeated
		}
	}
	return another
}

// list is a queue from which any packet can be removed.
type list struct {
	first, last *packet
	length      int
}

func (l *list) push(p *packet) {
	p.prev, p.next = l.last, nil
	if l.last != nil {
		l.last.next = p
	} else {
		l.first = p
	}
	l.last = p
	l.length++
}

func (l *list) remove(p *packet) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.last = p.prev
	}
	p.prev, p.next = nil, nil
	l.length--
}
