// SPDX-License-Identifier: Apache-2.0

// Package measure computes loss, order and delay from the replies to test packets. It
// is pure arithmetic in bounded memory.
package measure

import (
	"time"

	"github.com/waymark-net/waymark/internal/delay"
)

// Knowledge is what is known about the reflector: only a stateful one counts its
// replies, and only its numbers show the direction of a loss (RFC 8762 §4).
type Knowledge int

const (
	// Guess: stateful once its numbers differ from ours. Before, a loss has no
	// direction, because a stateless reflector copies ours.
	Guess Knowledge = iota
	// Stateless: it is not stateful.
	Stateless
	// Stateful: it is.
	Stateful
)

// Reply is what a reply says. Times are nanoseconds of UTC since 1970, by the clock
// of the node that took them.
type Reply struct {
	Sequence  uint32 // of the test packet, as found by Packet
	Reflected uint32 // of the reply
	Sent      int64  // T1, by this node
	Arrived   int64  // T2, by the reflector
	Returned  int64  // T3, by the reflector
	Received  int64  // T4, by this node
	Steady    int64  // T4, by a clock of this node that is never set
	Timed     bool   // T2 and T3 could be read, and are times
}

// Verdict is what a reply is.
type Verdict int

const (
	// Answered: the first reply to a packet, in time.
	Answered Verdict = iota
	// Duplicate: another reply to a packet.
	Duplicate
	// Late: the packet had been counted as lost.
	Late
	// Foreign: no packet with this number was sent, or too long ago.
	Foreign
)

// slot is the state of a packet that was sent.
type slot struct {
	sequence uint32
	state    uint8 // 0: unused
	replied  uint32
	sent     int64  // by the wall clock, as in the packet
	steady   int64  // by a clock that is never set
	stamp    uint64 // the time of sending as the packet has it
	place    uint64 // among the packets that left this node, counted from 1
}

const (
	waiting = 1 + iota
	answered
	lost
)

// Session is a test session, as its sender sees it.
type Session struct {
	knowledge Knowledge
	timeout   int64
	window    []slot
	next      uint32 // the next packet's number; the first is the caller's choice
	oldest    uint32 // the first packet that may be waiting

	sent, received, lost, late, duplicates, foreign uint64
	reordered, impossible                           uint64
	highest                                         uint32 // of the replies that were received

	direction
	round, twoWay, forward, backward delay.Series
	residence                        delay.Distribution
}

// MaxWindow is the most packets that a session remembers, about 40 MB.
const MaxWindow = 1 << 20

// NewSession makes a session whose packets have numbers from first on. It remembers at
// least `window` packets, MaxWindow at the most, and counts a packet as lost after the
// timeout.
func NewSession(k Knowledge, first uint32, window int, timeout time.Duration) *Session {
	size := 1
	for size < min(window, MaxWindow) {
		size *= 2
	}
	return &Session{
		knowledge: k,
		timeout:   int64(timeout),
		window:    make([]slot, size),
		direction: newDirection(size),
		next:      first,
		oldest:    first,
	}
}

// Send gives the next packet's number. The times are those of the wall clock, as they are
// and as the packet has them, and of a clock that is never set, for timeouts and the round
// trip.
func (s *Session) Send(wall, steady int64, stamp uint64) uint32 {
	n := s.next
	at := &s.window[int(n)&(len(s.window)-1)]
	if at.state == waiting { // the window is too small for the timeout
		s.lost++
	}
	s.next++
	s.sent++
	*at = slot{sequence: n, state: waiting, sent: wall, steady: steady, stamp: stamp, place: s.sent}
	return n
}

// Sent is how many packets were sent.
func (s *Session) Sent() uint64 { return s.sent }

// Unsent takes a Send back: the packet did not leave this node. Its number is used
// again if no later packet left, because a number stands for "each transmitted packet"
// (RFC 8762 §4.2.1). Otherwise it stays unused.
func (s *Session) Unsent(n uint32) {
	at := &s.window[int(n)&(len(s.window)-1)]
	if at.sequence != n || at.state != waiting {
		return
	}
	*at = slot{}
	s.sent--
	for later := n + 1; later != s.next; later++ {
		s.window[int(later)&(len(s.window)-1)].place--
	}
	for s.next != s.oldest && s.window[int(s.next-1)&(len(s.window)-1)].state == 0 {
		s.next--
	}
}

// Expire counts packets as lost whose timeout is over, by the steady clock.
func (s *Session) Expire(steady int64) {
	for s.oldest != s.next {
		at := &s.window[int(s.oldest)&(len(s.window)-1)]
		if at.sequence == s.oldest && at.state == waiting {
			if steady-at.steady < s.timeout {
				return
			}
			at.state = lost
			s.lost++
		}
		s.oldest++
	}
}

// Waiting reports whether a reply may still come in time.
func (s *Session) Waiting(steady int64) bool {
	s.Expire(steady)
	return s.oldest != s.next
}

// Packet is the time of sending that a packet has; false if none with this number was sent,
// or too long ago. A reply must have it, too, before it is received.
func (s *Session) Packet(sequence uint32) (stamp uint64, ok bool) {
	at := &s.window[int(sequence)&(len(s.window)-1)]
	return at.stamp, at.state != 0 && at.sequence == sequence
}

// Foreign counts a reply to no packet of this session.
func (s *Session) Foreign() { s.foreign++ }

// Receive counts a reply. Of a reply that is not Foreign it sets Sent.
func (s *Session) Receive(r *Reply) Verdict {
	at := &s.window[int(r.Sequence)&(len(s.window)-1)]
	if at.state == 0 || at.sequence != r.Sequence {
		s.foreign++
		return Foreign
	}
	r.Sent = at.sent
	r.Steady = max(r.Steady, at.steady) // a step just before it was read makes it too early
	switch {
	case at.state == answered:
		s.duplicates++
		s.duplicate(at.replied, r.Reflected, at.place)
		return Duplicate
	case r.Steady-at.steady >= s.timeout:
		if at.state == waiting {
			s.lost++
		}
		at.state, at.replied = answered, r.Reflected
		s.late++
		s.direction.add(r.Sequence, r.Reflected, at.place) // the network did not lose it
		return Late
	case at.state == lost:
		// It came in time, and this process did not run to read it until Expire had.
		s.lost--
	}
	at.state, at.replied = answered, r.Reflected
	s.received++
	if s.received > 1 && int32(r.Sequence-s.highest) < 0 {
		s.reordered++
	} else {
		s.highest = r.Sequence
	}
	s.direction.add(r.Sequence, r.Reflected, at.place)
	s.measure(r, r.Steady-at.steady)
	return Answered
}

// measure adds the delays of a reply.
func (s *Session) measure(r *Reply, round int64) {
	add := func(d *delay.Series, ns int64) { d.Add(r.Sequence, time.Duration(ns)) }
	add(&s.round, round)
	if !r.Timed {
		return
	}
	held, possible := delay.Held(r.Arrived, r.Returned, time.Duration(round))
	if !possible {
		s.impossible++
		return
	}
	s.residence.Add(held)
	add(&s.twoWay, round-int64(held))
	add(&s.forward, r.Arrived-r.Sent)
	add(&s.backward, r.Received-r.Returned)
}

// Result is the result of a session. Null is what is not known.
type Result struct {
	Sent       uint64 `json:"sent"`
	Received   uint64 `json:"received"`
	Waiting    uint64 `json:"waiting"` // no reply yet, and the timeout is not over
	Lost       uint64 `json:"lost"`
	Late       uint64 `json:"late"` // among the lost: the reply came after the timeout
	Duplicates uint64 `json:"duplicates"`
	Reordered  uint64 `json:"reordered"`
	Foreign    uint64 `json:"foreign"`
	Impossible uint64 `json:"time_impossible"` // received, but the reflector's times cannot be: only the round trip is measured

	Stateful       *bool   `json:"stateful"`
	LostForward    *uint64 `json:"lost_forward"`
	LostBackward   *uint64 `json:"lost_backward"`
	LostUndirected uint64  `json:"lost_undirected"` // lost, in a direction that is not known

	ReflectorRestarts *uint64 `json:"reflector_restarts"` // how often its numbers began again; null if it is not known as stateful

	RoundTrip *delay.Summary `json:"round_trip"`
	TwoWay    *delay.Summary `json:"two_way"` // round trip without the time at the reflector
	Residence *delay.Summary `json:"residence"`
	Forward   *delay.Summary `json:"forward"`
	Backward  *delay.Summary `json:"backward"`
}

// Result is the result until now, by the steady clock.
func (s *Session) Result(steady int64) Result {
	s.Expire(steady)
	r := Result{
		Sent: s.sent, Received: s.received, Lost: s.lost, Late: s.late, Duplicates: s.duplicates, Reordered: s.reordered, Foreign: s.foreign,
		Impossible: s.impossible,
		Waiting:    s.sent - s.received - s.lost, LostUndirected: s.lost,
		RoundTrip: s.round.Summary(), TwoWay: s.twoWay.Summary(), Residence: s.residence.Summary(), Forward: s.forward.Summary(),
		Backward: s.backward.Summary(),
	}
	switch {
	case s.knowledge == Stateful || s.knowledge == Guess && s.differs:
		stateful := true
		r.Stateful = &stateful
		// A late reply was lost in neither direction.
		forward, backward := s.direction.lost(s.lost - min(s.lost, s.late))
		restarts := s.restarts
		r.LostForward, r.LostBackward, r.ReflectorRestarts = &forward, &backward, &restarts
		r.LostUndirected -= forward + backward
	case s.knowledge == Stateless:
		stateful := false
		r.Stateful = &stateful
	}
	return r
}
