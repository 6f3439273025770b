// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// losses finds segments, and pairs of prefixes, that lose packets.
type losses struct{ begun map[lossKey]*losing }

// What decides that losses began, and ended.
const (
	leastLost     = 2
	lossIntervals = 3 // without such a loss
	mostLosing    = 256
)

// lossKey is a segment, or the ends of what is lost where the hop is not known.
type lossKey struct {
	place, next Place
	ends        // without places
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
	flow string
}

// sumLosses adds up the losses of an interval.
func sumLosses(of map[lossKey]*lossSum, p *Pair) {
	add := func(key lossKey, l Loss, flow string) {
		if l.Sent == 0 {
			return
		}
		one := of[key]
		if one == nil {
			one = &lossSum{}
			of[key] = one
		}
		if one.Sent == 0 || l.Lost > one.most {
			one.most, one.ends, one.flow = l.Lost, ends{p.Source, p.Destination}, flow
		}
		one.add(l)
	}
	add(lossKey{ends: ends{p.Source, p.Destination}}, p.Loss, "")
	for _, path := range p.Paths {
		for i := range path.Hops {
			place, next := segmentPlaces(path.Hops, i)
			add(lossKey{place: place, next: next}, path.Hops[i].Loss, path.Flow)
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
		Flow:        one.flow,
		Place:       key.place,
		Next:        key.next,
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
