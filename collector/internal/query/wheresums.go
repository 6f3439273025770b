// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// Rollups do not know which packets they are made of: with a condition, the same sums are made here, of the packets
// for which it is true.

// sum is a histogram of delays, and how many were negative.
type sum struct {
	delays   exponential.Delays
	negative uint64
}

func (s *sum) add(ns int64) {
	if ns < 0 {
		s.negative++
		return
	}
	s.delays.Add(ns)
}

// segmentSums are what was measured of a segment.
type segmentSums struct {
	packets, lost uint64
	held, link    sum
}

func (s *segmentSums) measured() SegmentMeasured {
	return SegmentMeasured{
		Packets: s.packets, Lost: s.lost, Held: delaysOf(&s.held.delays), Link: delaysOf(&s.link.delays), Negative: s.link.negative,
	}
}

// segmentsWhere are the segments of packets for which a condition is true, in any order, with their steps if they are
// asked for.
func segmentsWhere(ctx context.Context, r *store.Reading, in Range, ask *SegmentsQuestion, a *Answer) (list []Segment, err error) {
	const each = 2 // histograms
	bySegment := stepped[uint64, segmentSums]{step: ask.Step, of: map[uint64]*inSteps[segmentSums]{}}
	seek := &PacketsQuestion{Range: in, Flows: ask.Flows, Where: ask.Where}
	err = visitWhere(ctx, r, seek, &names{}, a, func(p *Packet, d *definition) int {
		before := bySegment.made
		for i := range p.Nodes[:min(len(p.Nodes), len(d.segments))] {
			n := &p.Nodes[i]
			for _, m := range bySegment.at(d.segments[i], p.Time.Time) {
				m.packets++
				if i == len(p.Nodes)-1 && p.Verdict == record.PathLost.String() {
					m.lost++
				}
				if n.Held != nil {
					m.held.add(int64(*n.Held))
				}
			}
			if i > 0 && n.Since != nil {
				for _, m := range bySegment.at(d.segments[i-1], p.Time.Time) {
					m.link.add(*n.Since)
				}
			}
		}
		return each * (bySegment.made - before)
	})
	for id, m := range bySegment.of {
		one := Segment{ID: ID(id), SegmentMeasured: m.whole.measured()}
		for _, number := range m.numbers() {
			one.Series = append(one.Series, SegmentPoint{beginOf(number, ask.Step), m.steps[number].measured()})
		}
		list = append(list, one)
	}
	return list, err
}

// sortSegments sorts them as the database does.
func sortSegments(list []Segment, by Order) {
	p99 := func(d *Delays) float64 {
		if d == nil {
			return math.Inf(-1)
		}
		return float64(d.P99)
	}
	rank := func(s *Segment) float64 {
		switch by {
		case ByHeld:
			return p99(s.Held)
		case ByLoss:
			return float64(s.Lost) / float64(s.Packets)
		case ByPackets:
			return float64(s.Packets)
		default:
			return p99(s.Link)
		}
	}
	slices.SortFunc(list, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.ID, b.ID))
	})
}

// gridWhere are the pairs of packets for which the condition is true.
func gridWhere(ctx context.Context, r *store.Reading, in Range, ask *GridQuestion, known *names, a *Grid) error {
	type measured struct {
		Pair
		delay sum
		paths map[ID]struct{}
	}
	byEnds := map[string]*measured{}
	seek := &PacketsQuestion{Range: in, Flows: ask.Flows, Where: ask.Where}
	err := visitWhere(ctx, r, seek, known, &a.Answer, func(p *Packet, d *definition) (sums int) {
		if len(p.Nodes) == 0 {
			return 0
		}
		ends := Pair{From: p.Nodes[0].Node}
		if last := len(p.Nodes) - 1; d.role[last] == uint8(record.Decapsulating) {
			ends.To = &p.Nodes[last].Node
		}
		key := ends.key()
		m := byEnds[key]
		if m == nil {
			m = &measured{Pair: ends, paths: map[ID]struct{}{}}
			byEnds[key], sums = m, 1
		}
		m.Packets++
		if p.Verdict == record.PathLost.String() {
			m.Lost++
		}
		m.paths[p.Path] = struct{}{}
		if p.Delay != nil {
			m.delay.add(*p.Delay)
		}
		return sums
	})
	for _, m := range byEnds {
		m.Paths, m.Delay, m.Negative = uint64(len(m.paths)), delaysOf(&m.delay.delays), m.delay.negative
		a.Pairs = append(a.Pairs, m.Pair)
	}
	slices.SortFunc(a.Pairs, func(a, b Pair) int { return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.key(), b.key())) })
	a.Pairs = firstOf(&a.Answer, a.Pairs, ask.Limit)
	return err
}

// sharesWhere reads the same as sharesOf, of packets for which the condition is true.
func sharesWhere(ctx context.Context, r *store.Reading, ask *ChangesQuestion, a *Changes, addShare func(pair, int64, uint64, taken)) error {
	type key struct {
		pair
		number int64
		path   uint64
	}
	type measured struct {
		packets, timed uint64
		total          int64
	}
	found := map[key]*measured{}
	seek := &PacketsQuestion{Range: ask.Range, Flows: ask.Flows, Where: ask.Where}
	err := visitWhere(ctx, r, seek, &names{}, &a.Answer, func(p *Packet, _ *definition) int {
		if p.Reason != record.PathComplete.String() {
			return 0
		}
		k := key{pair{addressIn(p.From), addressIn(p.To), p.Namespace}, windowOf(p.Time.UnixNano(), ask.Window.Nanoseconds()), uint64(p.Path)}
		if found[k] == nil {
			found[k] = &measured{}
		}
		m := found[k]
		m.packets++
		if p.Delay != nil {
			m.timed, m.total = m.timed+1, m.total+*p.Delay
		}
		return 0 // shares are small, and no more than the packets
	})
	keys := make([]key, 0, len(found))
	for k := range found {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(
			a.source.Compare(b.source),
			a.destination.Compare(b.destination),
			cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.number, b.number),
			cmp.Compare(a.path, b.path),
		)
	})
	for _, k := range keys {
		m := found[k]
		t := taken{packets: m.packets}
		if m.timed > 0 {
			mean := int64(math.Round(float64(m.total) / float64(m.timed)))
			t.delay = &mean
		}
		addShare(k.pair, k.number, k.path, t)
	}
	return err
}

// windowOf is the number of the window that has a time; the first one before 1970 is -1.
func windowOf(at, width int64) int64 {
	n := at / width
	if at%width < 0 {
		n--
	}
	return n
}
