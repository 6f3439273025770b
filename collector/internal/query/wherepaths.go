// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// gathered are the packets of one path for which a condition is true.
type gathered struct {
	path  Path
	delay exponential.Delays
	hops  []struct{ held, since exponential.Delays }
	steps map[int64]*pathSums
}

// pathSums are those of a path in one step.
type pathSums struct {
	packets, incomplete, lost uint64
	delay                     sum
}

func (s *pathSums) add(p *Packet) {
	s.packets++
	if p.Reason != record.PathComplete.String() {
		s.incomplete++
	}
	if p.Verdict == record.PathLost.String() {
		s.lost++
	}
	if p.Delay != nil {
		s.delay.add(*p.Delay)
	}
}

// inStep counts a packet in its step, of which all have as many packets. It says whether the step is a new one.
func (g *gathered) inStep(p *Packet, step time.Duration, all map[int64]uint64) (isNew bool) {
	number := windowOf(p.Time.UnixNano(), step.Nanoseconds())
	all[number]++
	s := g.steps[number]
	if isNew = s == nil; isNew {
		s = &pathSums{}
		g.steps[number] = s
	}
	s.add(p)
	return isNew
}

// series are the steps, with shares of all packets in each.
func (g *gathered) series(step time.Duration, all map[int64]uint64) (list []PathPoint) {
	for _, number := range slices.Sorted(maps.Keys(g.steps)) {
		s := g.steps[number]
		list = append(list, PathPoint{
			Time: beginOf(number, step), Packets: s.packets, Share: float64(s.packets) / float64(all[number]),
			Incomplete: s.incomplete, Lost: s.lost, Delay: delaysOf(&s.delay.delays), Negative: s.delay.negative,
		})
	}
	return list
}

// add counts a packet.
func (g *gathered) add(p *Packet) {
	one := &g.path
	one.Packets, one.Bytes = one.Packets+1, one.Bytes+uint64(p.Length)
	if p.Reason != record.PathComplete.String() {
		one.Incomplete++
	}
	if p.Verdict == record.PathLost.String() {
		one.Lost++
	}
	if one.First.IsZero() || p.Time.Before(one.First.Time) {
		one.First = p.Time
	}
	if p.Time.After(one.Last.Time) {
		one.Last = p.Time
	}
	if p.Delay != nil {
		if *p.Delay < 0 {
			one.Negative++
		} else {
			g.delay.Add(*p.Delay)
		}
	}
	for i := range p.Nodes[:min(len(p.Nodes), len(g.hops))] {
		n := &p.Nodes[i]
		if n.Held != nil {
			g.hops[i].held.Add(int64(*n.Held))
		}
		if n.Since != nil && *n.Since < 0 {
			one.Hops[i].Negative++
		} else if n.Since != nil {
			g.hops[i].since.Add(*n.Since)
		}
	}
}

// pathsWhere are the paths of packets for which the condition is true.
func pathsWhere(ctx context.Context, r *store.Reading, ask *PathsQuestion, a *Paths) error {
	known, err := namesIn(ctx, r)
	if err != nil {
		return err
	}
	byPath, inStep := map[ID]*gathered{}, map[int64]uint64{}
	seek := &PacketsQuestion{Range: ask.Range, Flows: ask.Flows, Passing: ask.Passing, Where: ask.Where}
	err = visitWhere(ctx, r, seek, known, &a.Answer, func(p *Packet, d *definition) (sums int) {
		g := byPath[p.Path]
		if g == nil {
			whole := Path{ID: p.Path, Namespace: d.namespace, Complete: d.complete, Hops: d.describe(known)}
			g = &gathered{path: whole, steps: map[int64]*pathSums{}}
			g.hops = make([]struct{ held, since exponential.Delays }, len(g.path.Hops))
			byPath[p.Path], sums = g, 1+2*len(g.hops)
		}
		g.add(p)
		if ask.Step > 0 && g.inStep(p, ask.Step, inStep) {
			sums++
		}
		a.Packets++
		return sums
	})
	if err != nil {
		return err
	}
	list := []*gathered{}
	for _, g := range byPath {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *gathered) int {
		return cmp.Or(cmp.Compare(b.path.Packets, a.path.Packets), cmp.Compare(a.path.ID, b.path.ID))
	})
	list = firstOf(&a.Answer, list, ask.Limit)
	for _, g := range list {
		g.path.Share, g.path.Delay = float64(g.path.Packets)/float64(a.Packets), delaysOf(&g.delay)
		if ask.Step > 0 {
			g.path.Series = g.series(ask.Step, inStep)
		}
		a.Paths = append(a.Paths, g.path)
	}
	if ask.Step > 0 && len(list) > 0 {
		a.Step = ask.Step.Nanoseconds()
		cutSeries(&a.Answer, a.Paths, func(p *Path) *[]PathPoint { return &p.Series })
	}
	sum := newTotals(a.Paths)
	for k, g := range list {
		hops := a.Paths[k].Hops
		for i := range hops {
			hops[i].Held, hops[i].Since = delaysOf(&g.hops[i].held), delaysOf(&g.hops[i].since)
			sum.held(&hops[i], &g.hops[i].held)
			if i > 0 {
				sum.since(&hops[i-1], &g.hops[i].since, hops[i].Negative)
			}
		}
	}
	a.Nodes, a.Segments = sum.list()
	return nil
}
