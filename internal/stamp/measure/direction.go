// SPDX-License-Identifier: Apache-2.0

package measure

// direction finds the direction of losses. Of the packets between two that were
// answered, the reflector's numbers tell how many it answered; the others were lost on
// the way to it.
type direction struct {
	any         bool
	differs     bool   // the reflector's numbers are not copies of ours
	firstSent   uint64 // of the packets that left this node, counted from 1
	lastSent    uint64
	firstReply  uint64 // numbers are extended to 64 bits, because those of long sessions wrap
	lastReply   uint64
	answers     uint64 // packets of which a reply arrived
	repeatedOut uint64 // packets that came twice to the reflector
}

// add takes the first reply to a packet. Place says which of all packets that left this
// node it was: some numbers are of packets that did not.
func (d *direction) add(sequence, reflected uint32, place uint64) {
	d.differs = d.differs || sequence != reflected
	d.answers++
	if !d.any {
		// 2^32 more, so that earlier numbers are not negative.
		d.any, d.lastReply = true, 1<<32+uint64(reflected)
		d.firstSent, d.lastSent, d.firstReply = place, place, d.lastReply
		return
	}
	d.firstSent, d.lastSent = min(d.firstSent, place), max(d.lastSent, place)
	d.span(reflected)
}

// extend is the number nearest to another one that has these 32 bits.
func extend(near uint64, n uint32) uint64 { return near + uint64(int64(int32(n-uint32(near)))) }

// span widens the range of the reflector's numbers.
func (d *direction) span(reflected uint32) {
	n := extend(d.lastReply, reflected)
	d.firstReply, d.lastReply = min(d.firstReply, n), max(d.lastReply, n)
}

// duplicate takes another reply to a packet: with the same number it was duplicated on
// the way back, otherwise the packet came twice to the reflector.
func (d *direction) duplicate(first, reflected uint32) {
	if first == reflected {
		return
	}
	d.differs = true
	d.repeatedOut++
	d.span(reflected)
}

// lost is how many packets were lost in each direction, of a total. What was lost
// before the first answered packet or after the last has no direction.
func (d *direction) lost(total uint64) (forward, backward uint64) {
	if !d.any {
		return 0, 0
	}
	sent := d.lastSent - d.firstSent + 1
	replies := d.lastReply - d.firstReply + 1
	replies -= min(replies, d.repeatedOut)
	if sent > replies {
		forward = sent - replies
	}
	if replies > d.answers {
		backward = replies - d.answers
	}
	forward = min(forward, total)
	return forward, min(backward, total-forward)
}
