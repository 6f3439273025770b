// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"strconv"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// losses finds segments, and pairs of prefixes, that lose packets.
type losses struct{ begun map[lossKey]*losing }

// What decides that losses began, and ended.
const (
	leastLost     = 2
	lossIntervals = 3 // without such a loss
	mostLosing    = 1024
)

// lossKey is a segment of paths, that of a measured flow, or the ends of what is lost where the hop is not known.
type lossKey struct {
	place, next Place // of paths: each node of them has an id or a name
	ends              // of the others
	FlowSegment
}

// FlowSegment is the stretch between two neighbouring points of a measured flow. Records from IPFIX have the numbers of
// points alone, so the names are no part of it: nameless points of all flows would be the same.
type FlowSegment struct {
	Flow   string // its name, if it has one
	FlowID uint32
	To     int // number of its second point, which comes after the first one; 0: it is none
}

// flow is the name of the flow, or its number if it has no name.
func (s *FlowSegment) flow() string {
	if s.Flow == "" && s.To > 0 {
		return strconv.FormatUint(uint64(s.FlowID), 10)
	}
	return s.Flow
}

// place is a point by its name, else by its number.
func (s *FlowSegment) place(p *Place, number int) string {
	if s.To > 0 && *p == (Place{}) {
		return "point " + strconv.Itoa(number)
	}
	return p.String()
}

type losing struct {
	Finding
	lost          uint64 // in intervals that ended
	clean, unseen int
}

// lossSum is what is known of a key in one interval, with the traffic that loses most.
type lossSum struct {
	Loss
	most uint64
	ends
	place, next Place
}

// sumLosses adds up the losses of an interval.
func sumLosses(of map[lossKey]*lossSum, p *Pair) {
	between := ends{p.Source, p.Destination}
	add := func(key lossKey, l Loss, place, next Place) {
		if l.Sent == 0 {
			return
		}
		one := of[key]
		if one == nil {
			one = &lossSum{place: place, next: next}
			of[key] = one
		}
		if one.Sent == 0 || l.Lost > one.most {
			one.most, one.ends = l.Lost, between
		}
		one.add(l)
	}
	add(lossKey{ends: between}, p.Loss, Place{}, Place{})
	for _, path := range p.Paths {
		for i := range path.Hops {
			place, next := segmentPlaces(path.Hops, i)
			key := lossKey{place: place, next: next}
			if path.measured() {
				key = lossKey{ends: between, FlowSegment: FlowSegment{path.Flow, path.FlowID, i + 1}}
			}
			add(key, path.Hops[i].Loss, place, next)
		}
	}
}

// loses reports whether it is enough to say that packets are lost.
func (l Loss) loses() bool {
	ratio, _ := l.Ratio()
	return l.Sent >= leastPackets && l.Lost >= leastLost && ratio >= losesFrom
}

// lookLosses looks at the open interval.
func (e *Engine) lookLosses(now time.Time) {
	of := make(map[lossKey]*lossSum)
	for _, p := range e.pairs {
		sumLosses(of, &p.Pair)
	}
	sumLosses(of, &e.rest.Pair)
	for key, one := range of {
		if one.loses() {
			e.beginLoss(key, one, now)
		}
	}
}

func (e *Engine) beginLoss(key lossKey, one *lossSum, now time.Time) {
	l := &e.watches.losses
	if l.begun[key] != nil || len(l.begun) >= mostLosing {
		return
	}
	if l.begun == nil {
		l.begun = make(map[lossKey]*losing)
	}
	f := Finding{
		Event:       record.EventLoss,
		At:          now,
		Since:       now,
		Source:      one.source,
		Destination: one.destination,
		FlowSegment: key.FlowSegment,
		Place:       one.place,
		Next:        one.next,
		Loss:        one.Loss,
	}
	l.begun[key] = &losing{Finding: f}
	e.watches.add(f)
}

// closeLosses looks at an interval that ended.
func (e *Engine) closeLosses(v *Interval, end time.Time) {
	of := make(map[lossKey]*lossSum)
	for _, p := range v.Pairs {
		sumLosses(of, p)
	}
	for key, one := range of {
		if one.loses() {
			e.beginLoss(key, one, end)
		}
	}
	for key, one := range e.watches.losses.begun {
		sum := of[key]
		switch {
		case sum == nil || sum.Sent < leastPackets:
			if one.unseen++; one.unseen >= unseenIntervals {
				e.endLoss(key, one, record.EventNotSeen, end)
			}
			continue
		case sum.loses():
			one.clean = 0
		default:
			one.clean++
		}
		one.unseen = 0
		one.lost += sum.Lost
		if one.clean >= lossIntervals {
			e.endLoss(key, one, record.EventLossEnded, end)
		}
	}
}

func (e *Engine) endLoss(key lossKey, one *losing, event string, end time.Time) {
	f := endOf(one.Finding, event, end)
	f.Loss.Lost = one.lost
	e.watches.add(f)
	delete(e.watches.losses.begun, key)
}
