// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// ChangesQuestion asks for what moved from one path to another.
type ChangesQuestion struct {
	Range
	Flows
	Window time.Duration // over which shares are taken
	Moved  float64       // the least share that counts as a change
	Least  int           // packets that a window must have
	Where  *Condition    // on packets; nil: none
	Limit  int
}

// Changes are those of a time, the latest first.
type Changes struct {
	Answer
	Changes []Change `json:"changes"`
}

// Change is a pair of addresses whose packets with options of a namespace moved to other paths.
type Change struct {
	Time        instant.Time `json:"time"`
	Before      instant.Time `json:"before"`
	Source      string       `json:"source,omitempty"`
	Destination string       `json:"destination,omitempty"`
	Namespace   uint16       `json:"namespace"`
	Moved       float64      `json:"moved"`
	Was         []Share      `json:"was"`
	Became      []Share      `json:"became"`
}

// Share is a path's share of a window's packets.
type Share struct {
	Path    ID      `json:"path"`
	Nodes   []Node  `json:"nodes"`
	Packets uint64  `json:"packets"`
	Share   float64 `json:"share"`
	Delay   *int64  `json:"delay_mean_ns,omitempty"`
}

// mostShares bounds what one question looks at: paths of pairs in windows.
const mostShares = 1_000_000

// window is what one pair had in one window.
type window struct {
	at     time.Time
	whole  uint64
	shares map[uint64]taken
}

type taken struct {
	packets uint64
	delay   *int64
}

// pair are the addresses that are watched. Namespaces are apart: one may be in other packets than another, and be
// reported in another way.
type pair struct {
	source, destination netip.Addr
	namespace           uint16
}

// Changes answers. Only packets whose whole path is known count.
func (q *Queries) Changes(ctx context.Context, ask ChangesQuestion) (*Changes, error) {
	a := &Changes{Changes: []Change{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		c := &comparison{ask: &ask, answer: a}
		read := sharesOf
		if ask.Where != nil {
			read = sharesWhere
		}
		err := read(ctx, r, &ask, a, c.addShare)
		if c.finish(); err != nil {
			return err
		}
		slices.SortStableFunc(a.Changes, func(a, b Change) int { return b.Time.Compare(a.Time.Time) })
		a.Changes = firstOf(&a.Answer, a.Changes, ask.Limit)
		return nameShares(ctx, r, a.Changes)
	})
	return a, err
}

// sharesOf reads how many packets of which pair took which path in which window: pairs after one another, and windows
// of a pair in their order. Pairs of which all packets took one path are left out, and windows with too few packets.
func sharesOf(ctx context.Context, r *store.Reading, ask *ChangesQuestion, a *Changes, addShare func(pair, int64, uint64, taken)) error {
	s := selected(ask.Range, &ask.Flows)
	query := s.shares(r, s.add(ask.Window.Nanoseconds())+"::BIGINT", s.add(ask.Least)) + " LIMIT " + s.add(mostShares+1)
	seen := 0
	return rows(ctx, r.DB, query, s.values, func(scan func(...any) error) error {
		var source, destination []byte
		var namespace uint16
		var number int64
		var path, n uint64
		var delay sql.NullFloat64
		if err := scan(&source, &destination, &namespace, &number, &path, &n, &delay); err != nil {
			return err
		}
		if seen++; seen > mostShares {
			a.Cut = cutAt(mostShares)
			return nil
		}
		t := taken{packets: n}
		if delay.Valid {
			mean := int64(math.Round(delay.Float64))
			t.delay = &mean
		}
		addShare(pair{addressOf(source), addressOf(destination), namespace}, number, path, t)
		return nil
	})
}

// comparison compares the windows of pairs, which come in their order.
type comparison struct {
	ask    *ChangesQuestion
	answer *Changes

	now                      pair
	earlier, before, current *window // earlier: the one before, unless a change was found since
}

// addShare adds the packets of a pair that took a path in the window with a number.
func (c *comparison) addShare(who pair, number int64, path uint64, t taken) {
	at := time.Unix(0, number*c.ask.Window.Nanoseconds()).UTC()
	if who != c.now || c.current == nil || !c.current.at.Equal(at) {
		c.finish()
		if c.current = (&window{at: at, shares: map[uint64]taken{}}); who != c.now {
			c.now, c.earlier, c.before = who, nil, nil
		}
	}
	c.current.shares[path], c.current.whole = t, c.current.whole+t.packets
}

// finish compares the present window with those before.
func (c *comparison) finish() {
	if c.current == nil || c.current.whole < uint64(c.ask.Least) {
		return // too few say nothing
	}
	found := false
	add := func(was *window, at time.Time) {
		if moved := distance(was, c.current); moved >= c.ask.Moved {
			one := changeOf(c.now, was, c.current, moved)
			one.Time = instant.Of(at)
			c.answer.Changes, found = append(c.answer.Changes, one), true
		}
	}
	if c.before != nil {
		add(c.before, c.current.at)
	}
	if !found && c.earlier != nil { // they moved within the window between, which has a part of both
		add(c.earlier, c.before.at)
	}
	c.earlier, c.before = c.before, c.current
	if found {
		c.earlier = nil
	}
}

// distance is which share of packets takes another path: half the sum of the differences. Sums of whole numbers have no
// order, so that the same windows always have the same distance.
func distance(a, b *window) float64 {
	sum := 0.0
	for path, t := range a.shares {
		sum += math.Abs(float64(t.packets)*float64(b.whole) - float64(b.shares[path].packets)*float64(a.whole))
	}
	for path, t := range b.shares {
		if _, both := a.shares[path]; !both {
			sum += float64(t.packets) * float64(a.whole)
		}
	}
	return sum / (2 * float64(a.whole) * float64(b.whole))
}

func changeOf(who pair, before, after *window, moved float64) Change {
	c := Change{
		Time: instant.Of(after.at), Before: instant.Of(before.at), Namespace: who.namespace,
		Moved: moved, Was: before.list(), Became: after.list(),
	}
	if who.source.IsValid() {
		c.Source = who.source.String()
	}
	if who.destination.IsValid() {
		c.Destination = who.destination.String()
	}
	return c
}

// list are the shares, the greatest first.
func (w *window) list() (list []Share) {
	for _, path := range slices.Sorted(maps.Keys(w.shares)) {
		t := w.shares[path]
		list = append(
			list,
			Share{Path: ID(path), Nodes: []Node{}, Packets: t.packets, Share: float64(t.packets) / float64(w.whole), Delay: t.delay},
		)
	}
	slices.SortStableFunc(list, func(a, b Share) int { return cmp.Compare(b.Packets, a.Packets) })
	return list
}

// nameShares adds the nodes of the paths.
func nameShares(ctx context.Context, r *store.Reading, changes []Change) error {
	ids := map[uint64]struct{}{}
	for _, c := range changes {
		for _, s := range slices.Concat(c.Was, c.Became) {
			ids[uint64(s.Path)] = struct{}{}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	known, err := namesIn(ctx, r)
	if err != nil {
		return err
	}
	defined, err := definitions(ctx, r, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	for i := range changes {
		for _, list := range [][]Share{changes[i].Was, changes[i].Became} {
			for k := range list {
				if d := defined[uint64(list[k].Path)]; d != nil {
					for n := range d.node {
						list[k].Nodes = append(list[k].Nodes, known.node(d.exporter[n], d.node[n]))
					}
				}
			}
		}
	}
	return nil
}
