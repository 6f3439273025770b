// SPDX-License-Identifier: Apache-2.0

package measure

// direction finds the direction of losses. Of the packets between two that were
// answered, the reflector's numbers tell how many it answered; the others were lost on
// the way to it. A reflector that restarts, or whose session timed out, numbers from 0
// again: each stretch between restarts is counted by itself, and what was lost between
// two stretches has no direction.
type direction struct {
	stretch
	differs  bool      // the reflector's numbers are not copies of ours
	restarts uint64    // of the reflector, or of its session
	previous uint64    // the last number before the last restart
	past     [2]uint64 // lost before the last restart: forward, backward
	seen     []uint64  // a bit for each of the last numbers of this stretch, by number modulo their count
}

// stretch is what is known since the reflector began to number.
type stretch struct {
	any         bool
	firstSent   uint64 // of the packets that left this node, counted from 1
	lastSent    uint64
	firstReply  uint64 // numbers are extended to 64 bits, because those of long sessions wrap
	lastReply   uint64
	answers     uint64 // packets of which a reply arrived
	repeatedOut uint64 // packets that came twice to the reflector
}

// newDirection makes a direction that expects replies to be at most that number of packets out
// of order. It has a word more for these, because the newest word is filled bit by bit.
func newDirection(window int) direction { return direction{seen: make([]uint64, (window+63)/64+1)} }

// add takes the first reply to a packet. Place is the packet's number among those that left this node;
// sequence also counts packets that the kernel refused to send.
func (d *direction) add(sequence, reflected uint32, place uint64) {
	d.differs = d.differs || sequence != reflected
	switch {
	case !d.any:
		d.begin(reflected, place)
	case d.isNew(reflected, place) && d.isOfThisStretch(reflected, place):
		d.answers++
		d.firstSent, d.lastSent = min(d.firstSent, place), max(d.lastSent, place)
		d.extendRange(reflected)
	case place > d.lastSent: // a later packet has an earlier number
		d.restarts++
		forward, backward := d.stretch.lost()
		d.past[0], d.past[1] = d.past[0]+forward, d.past[1]+backward
		d.previous = d.lastReply
		d.begin(reflected, place)
	}
	// What remains is a reply from before the restart. It changes no direction.
}

// begin begins a stretch.
func (d *direction) begin(reflected uint32, place uint64) {
	clear(d.seen)
	// 2^32 more, so that earlier numbers are not negative.
	n := 1<<32 + uint64(reflected)
	d.stretch = stretch{any: true, firstSent: place, lastSent: place, firstReply: n, lastReply: n, answers: 1}
	d.mark(n)
}

// isNew reports whether the reflector can have given the number after those that are
// known: it gives each once, and not more numbers than it got packets. Twice as many
// leave room for packets that the network duplicates.
func (d *direction) isNew(reflected uint32, place uint64) bool {
	n, window := extend(d.lastReply, reflected), uint64(len(d.seen)-1)*64
	if n > d.lastReply {
		return n-d.lastReply <= 2*(max(place, d.lastSent)-d.lastSent)+window
	}
	return d.lastReply-n < window && d.seen[n/64%uint64(len(d.seen))]&(1<<(n%64)) == 0
}

// isOfThisStretch reports whether the number is from after the last restart. A reply to
// an earlier packet than this stretch's first can be from before it.
func (d *direction) isOfThisStretch(reflected uint32, place uint64) bool {
	if d.restarts == 0 || place >= d.firstSent {
		return true
	}
	distance := func(from uint64) uint64 { n := extend(from, reflected); return max(n, from) - min(n, from) }
	return distance(d.lastReply) < distance(d.previous)
}

// extend is the number nearest to another one that has these 32 bits.
func extend(near uint64, n uint32) uint64 { return near + uint64(int64(int32(n-uint32(near)))) }

// extendRange widens the range of the reflector's numbers.
func (d *direction) extendRange(reflected uint32) {
	n := extend(d.lastReply, reflected)
	words := uint64(len(d.seen))
	for word := d.lastReply/64 + 1; word <= n/64 && word <= d.lastReply/64+words; word++ {
		d.seen[word%words] = 0 // its bits were of numbers long ago
	}
	d.firstReply, d.lastReply = min(d.firstReply, n), max(d.lastReply, n)
	d.mark(n)
}

func (d *direction) mark(n uint64) { d.seen[n/64%uint64(len(d.seen))] |= 1 << (n % 64) }

// duplicate takes another reply to a packet: with the same number it was duplicated on
// the way back, otherwise the packet came twice to the reflector.
func (d *direction) duplicate(first, reflected uint32, place uint64) {
	if first == reflected {
		return
	}
	d.differs = true
	if d.any && d.isNew(reflected, place) && d.isOfThisStretch(reflected, place) {
		d.repeatedOut++
		d.extendRange(reflected)
	}
}

// lost is how many packets were lost in each direction within the stretch. What was lost
// before its first answered packet or after its last has no direction.
func (s *stretch) lost() (forward, backward uint64) {
	if !s.any {
		return 0, 0
	}
	sent := s.lastSent - s.firstSent + 1
	replies := s.lastReply - s.firstReply + 1
	replies -= min(replies, s.repeatedOut)
	if sent > replies {
		forward = sent - replies
	}
	if replies > s.answers {
		backward = replies - s.answers
	}
	return forward, backward
}

// lost is how many packets were lost in each direction, of a total.
func (d *direction) lost(total uint64) (forward, backward uint64) {
	forward, backward = d.stretch.lost()
	forward = min(forward+d.past[0], total)
	return forward, min(backward+d.past[1], total-forward)
}
