// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"maps"
	"slices"
	"time"
)

// View makes an engine for a part of the same records, from a time on: with the same prefixes and clocks, and with
// what is usual by now, but without any interval.
func (e *Engine) View(keep time.Duration, now time.Time) *Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.settings
	s.Keep, s.Octets = keep, s.Octets/8
	v := New(s, now)
	v.clock, v.watching = e.clock, e.watching
	v.baselines = baselines{of: maps.Clone(e.baselines.of), interval: e.baselines.interval}
	for key, one := range v.baselines.of {
		c := *one
		c.held.p95, c.held.slow = slices.Clone(c.held.p95), slices.Clone(c.held.slow)
		c.toNext.p95, c.toNext.slow = slices.Clone(c.toNext.p95), slices.Clone(c.toNext.slow)
		v.baselines.of[key] = &c
	}
	return v
}

// Select leaves the paths in a report for which keep is true, with their shares, and the pairs that have some. What
// is known of all paths of a pair together is left out where one of them goes.
func (r *Report) Select(keep func(*PathReport) bool) {
	r.Pairs = slices.DeleteFunc(r.Pairs, func(p PairReport) bool {
		return !slices.ContainsFunc(p.Paths, func(path PathReport) bool { return keep(&path) })
	})
	for i := range r.Pairs {
		p := &r.Pairs[i]
		all := len(p.Paths)
		p.Paths = slices.DeleteFunc(p.Paths, func(path PathReport) bool { return !keep(&path) })
		if len(p.Paths) == all {
			continue
		}
		p.Packets, p.Loss = 0, Loss{}
		for _, path := range p.Paths {
			p.Packets += path.Packets
		}
		for k := range p.Paths {
			p.Paths[k].Share = 0
			if p.Packets > 0 {
				p.Paths[k].Share = float64(p.Paths[k].Packets) / float64(p.Packets)
			}
		}
	}
}
