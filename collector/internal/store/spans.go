// SPDX-License-Identifier: Apache-2.0

package store

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

const (
	// apart is how far times are from each other that are not in one span.
	apart = 3 * time.Hour
	// mostSpans bounds how many there are: forged records may have any times.
	mostSpans = 8
)

// span is a time, with both ends.
type span struct {
	First instant.Time `json:"first"`
	Last  instant.Time `json:"last"`
}

func spanOf(first, last time.Time) span { return span{instant.Of(first.UTC()), instant.Of(last.UTC())} }

// overlaps reports whether some of it is in a time, from the first one on until before the second one.
func (s span) overlaps(from, until time.Time) bool {
	return s.First.Before(until) && !s.Last.Before(from)
}

// spans are the times of records, in order and apart from each other. With one span from the first to the last record, a
// file with a record of a clock that is years ahead would be read for every question about later times.
type spans []span

// add adds one, and is the result; it changes what it is given.
func (s spans) add(one span) spans {
	i := 0
	for i < len(s) && s[i].Last.Add(apart).Before(one.First.Time) {
		i++
	}
	end := i
	for ; end < len(s) && !one.Last.Add(apart).Before(s[end].First.Time); end++ {
		if s[end].First.Before(one.First.Time) {
			one.First = s[end].First
		}
		if s[end].Last.After(one.Last.Time) {
			one.Last = s[end].Last
		}
	}
	if end == i+1 {
		s[i] = one
		return s
	}
	return slices.Replace(s, i, end, one)
}

// with adds others, of a file that was begun at a time, and changes none.
func (s spans) with(others spans, begun time.Time) spans {
	all := slices.Clone(s)
	for _, one := range others {
		all = all.add(one).bounded(begun)
	}
	return all
}

// bounded makes one of two neighbours while there are too many: those nearest to each other, and the hours of the file
// last, about which most questions are.
func (s spans) bounded(begun time.Time) spans {
	for len(s) > mostSpans {
		own := func(one span) bool { return one.overlaps(begun.Add(-apart), begun.Add(longest+apart)) }
		best, least, bestOwn := 0, time.Duration(0), true
		for i := range len(s) - 1 {
			gap, isOwn := s[i+1].First.Sub(s[i].Last.Time), own(s[i]) || own(s[i+1])
			if i == 0 || bestOwn && !isOwn || bestOwn == isOwn && gap < least {
				best, least, bestOwn = i, gap, isOwn
			}
		}
		s[best].Last = s[best+1].Last
		s = slices.Delete(s, best+1, best+2)
	}
	return s
}
