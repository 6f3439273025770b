// SPDX-License-Identifier: Apache-2.0

package ipfix

import "time"

// restartLen is how many messages in a row with a lower number than expected mean that
// the exporter has restarted; fewer are late or duplicate.
const restartLen = 8

// A number below restartNumber that seems to be more than restartGap ahead also means a
// restart: numbers wrap, so half of all restarts would otherwise look like a gap of up
// to 2³¹ records.
const (
	restartNumber = 1 << 16
	restartGap    = 1 << 24
)

// Over UDP, records are missed only when their message has not come for reorderTime:
// datagrams change places on their way (RFC 7011 §10.3.2). More than maxGaps such gaps
// at once are no change of places; the oldest is then missed.
const (
	reorderTime = time.Second
	maxGaps     = 64
)

// SequenceState counts data records of an observation domain by their sequence numbers
// (RFC 7011 §3.1), since its first message in the session.
type SequenceState struct {
	Gaps   uint64 // that did not come in their turn
	Filled uint64 // of these, that came later
	Missed uint64 // of these, that did not come in time
	// Breaks are the messages before which any number of records may not have come, besides
	// those: the ones after records that could not be counted, and after new numbers.
	Breaks uint64
}

// Awaited is how many records have not come in their turn, but may still come.
func (s SequenceState) Awaited() uint64 { return s.Gaps - s.Filled - s.Missed }

// gap is a range of sequence numbers whose records have not come.
type gap struct {
	from, to uint32 // without to
	since    time.Time
}

func (g gap) length() uint32 { return g.to - g.from }

// sequence follows the sequence numbers of a domain.
type sequence struct {
	started bool
	counted bool   // all records of the message before, so next is known
	next    uint32 // expected in the next message
	behind  int    // messages in a row that had a lower number
	resume  uint32 // expected after them
	gaps    []gap  // that may still be filled, the oldest first
	state   SequenceState
}

// follow takes the sequence number and the number of records of a message, and returns
// how many records are missed now, and whether the message came out of its turn. Over
// ordered transports, records cannot come late.
func (q *sequence) follow(number, records uint32, counted, ordered bool, now time.Time) (missed uint32, outOfOrder bool) {
	missed = q.giveUpOld(now)
	ahead := int32(number - q.next) // modulo 2³² (RFC 7011 §3.1)
	switch {
	case !q.started:
	case !q.counted:
		q.state.Breaks++
	case ahead > restartGap && number < restartNumber:
		outOfOrder = true
		q.state.Breaks++
		missed += q.giveUp(len(q.gaps))
	case ahead > 0:
		missed += q.await(gap{q.next, number, now}, ordered)
	case ahead < 0:
		if q.fill(number, records) {
			return missed, true
		}
		if number != q.resume {
			q.behind = 0
		}
		q.behind, q.resume, outOfOrder = q.behind+1, number+records, true
		if q.behind < restartLen {
			return missed, outOfOrder
		}
		q.state.Breaks++
		missed += q.giveUp(len(q.gaps))
	}
	q.started, q.counted, q.next, q.behind = true, counted, number+records, 0
	return missed, outOfOrder
}

// await notes a gap, and returns how many records are missed now.
func (q *sequence) await(g gap, ordered bool) uint32 {
	q.state.Gaps += uint64(g.length())
	q.gaps = append(q.gaps, g)
	switch {
	case ordered:
		return q.giveUp(len(q.gaps))
	case len(q.gaps) > maxGaps:
		return q.giveUp(1)
	}
	return 0
}

// fill reports whether a late message has records of a gap, which are then not missed.
func (q *sequence) fill(number, records uint32) bool {
	for i, g := range q.gaps {
		at := number - g.from
		if at >= g.length() {
			continue
		}
		n := min(records, g.length()-at)
		q.state.Filled += uint64(n)
		before, after := gap{g.from, number, g.since}, gap{number + n, g.to, g.since}
		rest := make([]gap, 0, len(q.gaps)+1)
		rest = append(rest, q.gaps[:i]...)
		for _, part := range []gap{before, after} {
			if part.length() > 0 {
				rest = append(rest, part)
			}
		}
		q.gaps = append(rest, q.gaps[i+1:]...)
		return true
	}
	return false
}

// giveUpOld gives up the gaps that are older than reorderTime.
func (q *sequence) giveUpOld(now time.Time) uint32 {
	n := 0
	for n < len(q.gaps) && now.Sub(q.gaps[n].since) > reorderTime {
		n++
	}
	return q.giveUp(n)
}

// giveUp counts the records of the n oldest gaps as missed.
func (q *sequence) giveUp(n int) (missed uint32) {
	for _, g := range q.gaps[:n] {
		missed += g.length()
	}
	if q.gaps = q.gaps[n:]; len(q.gaps) == 0 {
		q.gaps = nil
	}
	q.state.Missed += uint64(missed)
	return missed
}

// CountMissed counts, as of now, the records that sessions missed and that no [Message] has
// reported: of gaps that were not filled in time, and of sessions that ended. Call it
// regularly, and with a time an hour ahead at the end.
func (d *Decoder) CountMissed(now time.Time) (missed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		missed += s.giveUpOldGaps(now)
	}
	return missed + d.missed.Swap(0)
}

func (s *Session) giveUpOldGaps(now time.Time) (missed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.domains {
		missed += uint64(d.sequence.giveUpOld(now))
	}
	return missed
}

// leave passes on what a domain has missed when it ends.
func (s *Session) leave(d *domain) {
	s.decoder.missed.Add(uint64(d.sequence.giveUp(len(d.sequence.gaps))))
}
