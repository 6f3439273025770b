// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// silence finds nodes that write nothing any more, although packets pass them: a path that was there is
// gone, and one with the same nodes but for some in its middle, at whose place hop limits have a gap, came.
type silence struct{ begun map[Place]*silent }

type silent struct {
	Finding
	gaps, spoke uint64 // packets of the open interval, or of the one that ended
	unseen      int
}

const mostSilent = 256

// without finds the nodes of a path that another one lacks: some in a row between its ends.
func without(path []Place, hops []Hop) (first, n int, ok bool) {
	n = len(path) - len(hops)
	if n <= 0 || len(hops) < 2 {
		return 0, 0, false
	}
	for first < len(hops) && path[first] == hops[first].Place {
		first++
	}
	for i := first; i < len(hops); i++ {
		if path[i+n] != hops[i].Place {
			return 0, 0, false
		}
	}
	return first, n, first > 0 && first < len(hops)
}

// lookSilent looks at the open interval of a pair for paths with gaps.
func (e *Engine) lookSilent(p *pair, now time.Time) {
	for _, gap := range p.Paths {
		if gap.Incomplete < leastPackets || gap.Incomplete < gap.Packets || gap.measured() || len(gap.Hops) < 2 {
			continue
		}
		for id, before := range p.known.paths {
			first, n, ok := without(before.places, gap.Hops)
			// Interfaces tell that packets still pass the nodes: without their ids, they may go round them.
			if !ok || !before.complete || before.packets < leastPackets || before.places[first-1].EgressID == 0 ||
				before.places[first+n].IngressID == 0 {
				continue
			}
			if spoken := p.packetsOf(id); !before.looked || spoken != before.lastPackets || gap.Packets < before.since {
				before.looked, before.lastPackets, before.since = true, spoken, gap.Packets // it wrote until now
				continue
			}
			if gap.Packets-before.since >= leastPackets {
				for i := first; i < first+n; i++ {
					e.beginSilent(p, before.places, i, gap, now)
				}
			}
		}
	}
}

// packetsOf is how many packets of the open interval took a path.
func (p *pair) packetsOf(id string) (n uint64) {
	for _, path := range p.Paths {
		if path.ID == id && !path.measured() {
			n += path.Packets
		}
	}
	return n
}

func (e *Engine) beginSilent(p *pair, places []Place, i int, gap *Path, now time.Time) {
	s := &e.watches.silent
	if s.begun[places[i]] != nil || len(s.begun) >= mostSilent {
		return
	}
	if s.begun == nil {
		s.begun = make(map[Place]*silent)
	}
	f := Finding{
		Event: record.EventNodeSilent, At: now, Since: now, Source: p.Source, Destination: p.Destination,
		Place: places[i], Before: places[i-1], Next: places[i+1], Packets: gap.Packets,
	}
	s.begun[places[i]] = &silent{Finding: f}
	e.watches.add(f)
}

// closeSilent looks at an interval that ended: who wrote in enough packets is heard again.
func (e *Engine) closeSilent(v *Interval, end time.Time) {
	s := &e.watches.silent
	if len(s.begun) == 0 {
		return
	}
	for _, p := range v.Pairs {
		for _, path := range p.Paths {
			for i := range path.Hops {
				if one := s.begun[path.Hops[i].Place]; one != nil && !path.measured() {
					one.spoke += path.Packets
				}
				if i == 0 || path.Incomplete == 0 {
					continue
				}
				for _, one := range s.begun {
					if one.Before == path.Hops[i-1].Place && one.Next == path.Hops[i].Place {
						one.gaps += path.Incomplete
					}
				}
			}
		}
	}
	for place, one := range s.begun {
		spoke, gaps := one.spoke, one.gaps
		one.spoke, one.gaps = 0, 0
		switch {
		case v.Start.Before(one.At):
			continue
		case spoke >= leastPackets && gaps == 0:
			e.watches.add(endOf(one.Finding, record.EventNodeHeard, end))
		case gaps > 0:
			one.unseen = 0
			continue
		default:
			if one.unseen++; one.unseen < unseenIntervals {
				continue
			}
			e.watches.add(endOf(one.Finding, record.EventNotSeen, end))
		}
		delete(s.begun, place)
	}
}
