// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"slices"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// gathered are the packets of one path for which a condition is true.
type gathered struct {
	path  Path
	delay exponential.Delays
	hops  []struct{ held, since exponential.Delays }
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
	byPath := map[ID]*gathered{}
	seek := &PacketsQuestion{Range: ask.Range, Flows: ask.Flows, Where: ask.Where}
	err = visitWhere(ctx, r, seek, known, &a.Answer, func(p *Packet, d *definition) (sums int) {
		g := byPath[p.Path]
		if g == nil {
			g = &gathered{path: Path{ID: p.Path, Namespace: d.namespace, Complete: d.complete, Hops: d.describe(known)}}
			g.hops = make([]struct{ held, since exponential.Delays }, len(g.path.Hops))
			byPath[p.Path], sums = g, 1+2*len(g.hops)
		}
		g.add(p)
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
	if len(list) > ask.Limit {
		list = list[:ask.Limit]
		if a.Cut == nil {
			a.Cut = cutAt(ask.Limit)
		}
	}
	for _, g := range list {
		g.path.Share, g.path.Delay = float64(g.path.Packets)/float64(a.Packets), delaysOf(&g.delay)
		a.Paths = append(a.Paths, g.path)
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
