// SPDX-License-Identifier: Apache-2.0

package join

import (
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// firstRoom is for how many postcards a packet begins with room: a flood of
// single ones must not take more.
const firstRoom = 2

// packet is what is known of one packet.
type packet struct {
	key          Key
	cards        []Postcard
	since        time.Time // of the first postcard; once given, of that
	given        bool
	begun, ended bool      // an encapsulating, a decapsulating node reported
	allHopLimits bool      // every postcard has one
	highest      uint8     // hop limit
	lowest       uint8     // hop limit
	from, to     uint8     // hop limits of the encapsulating and decapsulating node
	seen         [4]uint64 // hop limits, a bit each
	distinct     int       // bits in seen
	next, prev   *packet
}

func (p *packet) add(c Postcard) {
	if p.cards == nil {
		p.cards = make([]Postcard, 0, firstRoom)
	}
	if len(p.cards) == 0 {
		p.allHopLimits, p.highest, p.lowest = true, c.HopLimit, c.HopLimit
	}
	p.cards = append(p.cards, c)
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

// complete tells whether nothing is missing for sure. Without hop limits only
// time tells.
func (p *packet) complete() bool {
	return p.begun && p.ended && p.allHopLimits && p.even() && p.distinct == int(p.from-p.to)+1
}

// even tells whether all hop limits lie between those of the ends.
func (p *packet) even() bool { return p.from == p.highest && p.to == p.lowest }

// reason is what is to be said of the packet when its time is over.
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
		return record.PathHopMissing // else it were complete
	}
}

// missing are the hop limits between the highest and lowest that nobody
// reported.
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

// fit is how a postcard relates to those that a packet has.
type fit uint8

const (
	another    fit = iota // of a node that has not reported
	duplicate             // the same postcard again
	repeated              // the packet, or another segment of it, came to the node again
	nextPacket            // of a later packet with the same numbers
	late                  // of an earlier packet with the same numbers
)

// fit relates a postcard to the packet. A node encapsulates a packet once, and
// what comes a waiting time later is none of its copies: sequence numbers wrap,
// and begin anew.
func (p *packet) fit(c *Postcard, wait time.Duration) fit {
	for i := range p.cards {
		known := &p.cards[i]
		if !known.sameNode(c) {
			continue
		}
		after := c.Time.Sub(known.Time)
		switch {
		case after == 0:
			return duplicate
		case after > wait, after > 0 && c.Role == record.Encapsulating:
			return nextPacket
		case c.Role == record.Encapsulating:
			return late
		default:
			return repeated
		}
	}
	return another
}

// list is a queue of packets, each of which can be taken out.
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
