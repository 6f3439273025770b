// SPDX-License-Identifier: Apache-2.0

package loss

import "time"

// Slowness is what shows how slow a block's packets are on a part of the way.
type Slowness struct {
	From, To PointID
	Delay    time.Duration // mean, or at least
	AtLeast  bool          // it is a lower bound, because packets were lost
	Tested   bool          // of test packets that took the flow's way
}

// Delay is the mean delay of all packets; without it, that of the packets with a second
// mark.
func (s *Segment) Delay() Sample {
	if s.Mean.Packets > 0 {
		return s.Mean
	}
	return s.DoubleMarked
}

// SlowerThan reports whether the block's packets took longer than a limit on average; known
// is false if that cannot be said. Where the mean of the whole way is known, it decides.
// Where it is not, because packets were lost, whatever is certain shows that they did: a
// bound of the mean, the mean on a part of the way, or test packets. That they did not is
// shown by a bound of the whole way alone.
func (r *Result) SlowerThan(limit time.Duration) (slower, known bool) {
	if d := r.Whole.Delay(); d.Packets > 0 {
		return d.Delay > limit, true
	}
	if s, ok := r.Slowness(); ok && s.Delay > limit {
		return true, true
	}
	bound := r.Whole.MeanRange
	return false, bound.Packets > 0 && bound.Most <= limit
}

// Slowness is the mean delay of the whole way, if that is known, and else the greatest delay
// that is certain; false without any.
func (r *Result) Slowness() (most Slowness, ok bool) {
	if d := r.Whole.Delay(); d.Packets > 0 {
		return r.Whole.slowness(d.Delay, false), true
	}
	keepSlower := func(s Slowness) {
		if !ok || s.Delay > most.Delay {
			most, ok = s, true
		}
	}
	if r.Tested.Packets > 0 {
		s := r.Whole.slowness(r.Tested.Delay, false)
		s.Tested = true
		keepSlower(s)
	}
	if bound := r.Whole.MeanRange; bound.Packets > 0 {
		keepSlower(r.Whole.slowness(bound.Least, true))
	}
	for i := range r.Segments {
		s := &r.Segments[i]
		if d := s.Delay(); d.Packets > 0 {
			keepSlower(s.slowness(d.Delay, false))
		} else if s.MeanRange.Packets > 0 {
			keepSlower(s.slowness(s.MeanRange.Least, true))
		}
		for end, sum := i, time.Duration(0); end < len(r.Segments) && r.Segments[end].Mean.Packets > 0 &&
			r.Segments[end].Mean.Packets == s.Mean.Packets; end++ {
			sum += r.Segments[end].Mean.Delay // of the same packets, on segments that follow one another
			if _, near := r.Timing.Apart(s.From.ClockError, r.Segments[end].To.ClockError); !near {
				continue
			}
			keepSlower(Slowness{From: s.From.Point, To: r.Segments[end].To.Point, Delay: sum})
		}
	}
	return most, ok
}

func (s *Segment) slowness(d time.Duration, atLeast bool) Slowness {
	return Slowness{From: s.From.Point, To: s.To.Point, Delay: d, AtLeast: atLeast}
}

// ClocksOf is how far the clocks of both ends of a part of the way may be apart. They are
// known where a delay is.
func (r *Result) ClocksOf(s Slowness) (apart time.Duration) {
	if s.Tested {
		return r.Tested.Clocks
	}
	for _, part := range append([]Segment{r.Whole}, r.Segments...) {
		if part.From.Point == s.From {
			apart += time.Duration(max(part.From.ClockError, 0))
			break
		}
	}
	for _, part := range append([]Segment{r.Whole}, r.Segments...) {
		if part.To.Point == s.To {
			return apart + time.Duration(max(part.To.ClockError, 0))
		}
	}
	return apart
}
