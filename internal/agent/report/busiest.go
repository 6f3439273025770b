// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
)

// choosePeriod is how often the busiest series are chosen anew.
const choosePeriod = time.Minute

// busiest chooses the series of delays that have labels of their own. A series keeps them until another
// one of its kind has counted more than twice as many delays in a period. What a series counts while it
// has no labels stays in the rest, so no counter goes back.
type busiest struct {
	mu     sync.Mutex
	chosen time.Time
	known  map[datapath.DelayKey]*labelledSeries
}

// labelledSeries is what is known of a series.
type labelledSeries struct {
	fresh  bool             // it is seen for the first time
	own    bool             // it has labels of its own
	before uint64           // delays, when the busiest were chosen
	recent uint64           // since then
	other  *datapath.Delays // what it counted with labels, if it has none, and the reverse; nil: nothing
}

// split reads the series, and gives those that have labels of their own, in their order, and one of each kind for
// the rest. Who has labels changes after that, so that nothing is lost between two calls.
func (b *busiest) split(read func() ([]datapath.Delays, error), room int, now time.Time) (own, rest []datapath.Delays, err error) {
	b.mu.Lock() // what is read later is newer
	defer b.mu.Unlock()
	list, err := read()
	if err != nil {
		return nil, nil, err
	}
	b.follow(list)
	for _, kind := range datapath.DelayKinds {
		with, without := b.ofKind(list, kind)
		b.fill(with, without, room)
	}
	own, rest = b.parts(list)
	anew := now.Sub(b.chosen) >= choosePeriod
	for _, kind := range datapath.DelayKinds {
		with, without := b.ofKind(list, kind)
		b.change(with, without, room, anew)
	}
	for i := range list {
		if k := b.known[list[i].Key]; k != nil && anew {
			k.before = list[i].Count()
		}
	}
	if anew {
		b.chosen = now
	}
	return own, rest, nil
}

// parts are what has labels, and the rest.
func (b *busiest) parts(list []datapath.Delays) (own, rest []datapath.Delays) {
	all := make(map[datapath.DelayKind]*datapath.Delays)
	for _, kind := range datapath.DelayKinds {
		all[kind] = &datapath.Delays{Key: datapath.DelayKey{Kind: kind, Other: true}}
	}
	for _, s := range list {
		k := b.known[s.Key]
		if k == nil { // the data plane's rest
			all[s.Kind].Add(&s)
			continue
		}
		had := s
		if k.other != nil {
			had.Sub(k.other)
		}
		switch {
		case !k.own:
			all[s.Kind].Add(&had)
			continue
		case k.other != nil:
			all[s.Kind].Add(k.other)
		}
		own = append(own, had)
	}
	for _, kind := range datapath.DelayKinds {
		if all[kind].Counted() {
			rest = append(rest, *all[kind])
		}
	}
	return own, rest
}

// follow takes over which series there are. A data plane that counts anew has other ones.
func (b *busiest) follow(list []datapath.Delays) {
	there := make(map[datapath.DelayKey]*labelledSeries, len(list))
	for i := range list {
		s := &list[i]
		if s.Other {
			continue
		}
		k, count := b.known[s.Key], s.Count()
		if k == nil || count < k.before || k.other != nil && !s.Includes(k.other) {
			k = &labelledSeries{fresh: true}
		}
		k.recent = count - k.before
		there[s.Key] = k
	}
	b.known = there
}

// ofKind are the series of a kind with labels and without, the busiest first.
func (b *busiest) ofKind(list []datapath.Delays, kind datapath.DelayKind) (with, without []*datapath.Delays) {
	for i := range list {
		s := &list[i]
		k := b.known[s.Key]
		switch {
		case k == nil || s.Kind != kind:
		case k.own:
			with = append(with, s)
		default:
			without = append(without, s)
		}
	}
	for _, some := range [][]*datapath.Delays{with, without} {
		slices.SortStableFunc(some, func(x, y *datapath.Delays) int { return cmp.Compare(b.known[y.Key].recent, b.known[x.Key].recent) })
	}
	return with, without
}

// fill gives labels to series that are seen for the first time, while there is room.
func (b *busiest) fill(with, without []*datapath.Delays, room int) {
	for n := len(with); len(without) > 0; without = without[1:] {
		if k := b.known[without[0].Key]; k.fresh {
			k.fresh = false
			if k.own = n < room; k.own {
				n++
			}
		}
	}
}

// change gives the busiest series of a kind labels, and if it may, takes them from others.
func (b *busiest) change(with, without []*datapath.Delays, room int, mayTake bool) {
	for ; len(with) > room; with = with[:len(with)-1] {
		b.turn(with[len(with)-1])
	}
	for n := len(with); len(without) > 0; without = without[1:] {
		if n == room {
			if !mayTake || len(with) == 0 {
				return
			}
			last := with[len(with)-1]
			if b.known[without[0].Key].recent <= 2*b.known[last.Key].recent {
				return
			}
			b.turn(last)
			with, n = with[:len(with)-1], n-1
		}
		b.turn(without[0])
		n++
	}
}

// turn gives a series labels, or takes them away.
func (b *busiest) turn(s *datapath.Delays) {
	k, now := b.known[s.Key], *s
	if k.other != nil {
		now.Sub(k.other)
	}
	k.own, k.other = !k.own, &now
}
