// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/exponential"
)

// What decides that a hop is slow, or loses packets.
const (
	// leastPackets is how many values an interval, or a window, needs for a quantile that is compared.
	leastPackets = 20
	// slowFactor and slowExcess: the 95th percentile is slow from this multiple of what is usual on, if it is
	// also this many ns more, and more than the clocks may differ.
	slowFactor = 2
	slowExcess = int64(100 * time.Microsecond)
	// baselineIntervals is how many intervals the baseline is of: five minutes of 10 s.
	baselineIntervals = 30
	// steadyIntervals is how many of them an event needs: the first ones of an agent, or of a measurement
	// that has just begun, may be of an idle node.
	steadyIntervals = 2
	// newNormal is after how many slow intervals in a row these are what is usual: ten minutes.
	newNormal = 60
	// losesFrom is the part of the packets from which on a hop loses.
	losesFrom = 0.001
	// mostBaselines bounds the hops that are remembered: each takes about 600 octets.
	mostBaselines = 4096
)

// baseline is what is usual at a hop: the lower quartile of the 95th percentiles of its last 30
// intervals with 20 values or more that were not slow. An interval that is slow does not change it,
// until 60 are slow in a row: then these are usual.
type baseline struct {
	held, toNext usual
	used         int // the interval in which it was used last
}

type usual struct {
	p95  []int64 // of the last intervals, in turn
	next int
	slow []int64 // of slow intervals in a row
}

// value is what is usual, if it is known.
func (u *usual) value() *int64 {
	if len(u.p95) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(u.p95))
	return &sorted[(len(sorted)-1)/4]
}

// learn takes over the quantile of an interval.
func (u *usual) learn(d *exponential.Delays, clock int64) {
	if d.Count() < leastPackets {
		return
	}
	p95 := d.Quantile(0.95)
	if before := u.value(); before != nil && isSlow(p95, *before, clock) {
		if u.slow = append(u.slow, p95); len(u.slow) < newNormal {
			return
		}
		*u = usual{p95: u.slow[newNormal-baselineIntervals:]}
		return
	}
	u.slow = nil
	if len(u.p95) < baselineIntervals {
		u.p95 = append(u.p95, p95)
		return
	}
	u.p95[u.next%baselineIntervals] = p95
	u.next++
}

// isSlow reports whether a 95th percentile is beyond what is usual.
func isSlow(p95, usual, clock int64) bool {
	return p95 >= slowFactor*usual && p95-usual >= max(slowExcess, clock)
}

// hopKey is a hop of a path of a pair.
type hopKey struct {
	ends
	path string
	hop  int
}

// baselines are those of all hops.
type baselines struct {
	of       map[hopKey]*baseline
	interval int
}

// learn sets what was usual before an interval in its hops, and takes the interval over.
func (b *baselines) learn(v *Interval, clock int64) {
	if b.of == nil {
		b.of = make(map[hopKey]*baseline)
	}
	b.interval++
	for _, p := range v.Pairs {
		for _, path := range p.Paths {
			for i := range path.Hops {
				h := &path.Hops[i]
				if h.Held.Count() == 0 && h.ToNext.Count() == 0 {
					continue
				}
				one := b.find(hopKey{ends{p.Source, p.Destination}, path.ID, i})
				h.Baseline = one.now()
				one.held.learn(&h.Held, 0)
				one.toNext.learn(&h.ToNext, clock)
			}
		}
	}
}

// show sets what is usual in the hops of an interval that is not over.
func (b *baselines) show(v *Interval) {
	for _, p := range v.Pairs {
		for _, path := range p.Paths {
			for i := range path.Hops {
				if one := b.of[hopKey{ends{p.Source, p.Destination}, path.ID, i}]; one != nil {
					path.Hops[i].Baseline = one.now()
				}
			}
		}
	}
}

func (b *baselines) find(key hopKey) *baseline {
	one := b.of[key]
	if one == nil {
		if len(b.of) >= mostBaselines {
			b.forget()
		}
		one = &baseline{}
		b.of[key] = one
	}
	one.used = b.interval
	return one
}

// forget removes the baselines that were not used for the longest time, a quarter of all.
func (b *baselines) forget() {
	ages := make([]int, 0, len(b.of))
	for _, one := range b.of {
		ages = append(ages, one.used)
	}
	slices.Sort(ages)
	limit := ages[len(ages)/4]
	for key, one := range b.of {
		if one.used <= limit {
			delete(b.of, key)
		}
	}
}

// now is the baseline as it is shown, nil when nothing is known.
func (b *baseline) now() *Baseline {
	out := Baseline{Held: b.held.value(), ToNext: b.toNext.value()}
	if out.Held == nil && out.ToNext == nil {
		return nil
	}
	return &out
}

// steady leaves of a baseline what is known well enough to tell somebody.
func (b *baselines) steady(key hopKey, of *Baseline) *Baseline {
	one := b.of[key]
	if one == nil || of == nil {
		return nil
	}
	out := *of
	if len(one.held.p95) < steadyIntervals {
		out.Held = nil
	}
	if len(one.toNext.p95) < steadyIntervals {
		out.ToNext = nil
	}
	return &out
}
