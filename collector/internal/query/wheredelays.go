// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/record"
)

// OfDelays are delays of measured flows.
var OfDelays = &Subject{"a delay", "delays", append([]string{"kind"}, keysOf(record.KindDelay)...)}

// measuredDelay is a record of a delay, with the difference to the block before, if that was measured.
type measuredDelay struct {
	*record.Delay
	at    time.Time
	since *float64
}

func (d *measuredDelay) key() delayKey {
	return delayKey{flowKey{d.Flow, d.Scope.String(), int64(d.FlowID), int64(d.From), int64(d.To)}, d.Method.String()}
}

// delaysWhere sums up the delays for which the condition is true.
func delaysWhere(ctx context.Context, r *store.Reading, ask *DelayQuestion, a *MeasuredDelays) error {
	p := &parameters{}
	query := "SELECT * FROM FILE(delay) WHERE " + ask.where(p) + " ORDER BY " + delayTime + " DESC LIMIT " + p.add(mostSearched+1)
	var list []measuredDelay
	err := latest(ctx, r, record.KindDelay, query, p.values, ask.Where, newSearch(OfDelays, &a.Answer), func(one record.Record) {
		d := measuredDelay{Delay: one.(*record.Delay)} // of this kind
		if d.at = d.Start.Time; d.at.IsZero() {
			d.at = d.Time.Time
		}
		list = append(list, d)
	})
	if err != nil {
		return err
	}
	joinBlocks(list)
	sums := stepped[delayKey, delaySum]{step: ask.Step, of: map[delayKey]*inSteps[delaySum]{}}
	for i := range list {
		for _, into := range sums.at(list[i].key(), list[i].at) {
			into.add(&list[i])
		}
	}
	for k, f := range sums.of {
		one := MeasuredDelay{
			MeasuredSegment: MeasuredSegment{
				Flow: k.flow, FlowID: k.id, Scope: k.scope, From: k.from, To: k.to, FromNode: f.whole.fromNode, ToNode: f.whole.toNode,
			},
			Method: k.method,
		}
		if one.DelaySums, err = f.whole.sums(); err != nil {
			return err
		}
		for _, number := range f.numbers() {
			sums, err := f.steps[number].sums()
			if err != nil {
				return err
			}
			one.Series = append(one.Series, DelayPoint{beginOf(number, ask.Step), sums})
		}
		a.Delays = append(a.Delays, one)
	}
	finishDelays(ask, a)
	return nil
}

// finishDelays has the order of the database.
func finishDelays(ask *DelayQuestion, a *MeasuredDelays) {
	slices.SortFunc(a.Delays, func(a, b MeasuredDelay) int {
		return cmp.Or(cmp.Compare(b.Mean, a.Mean), cmp.Compare(a.FlowID, b.FlowID), -strings.Compare(a.Scope, b.Scope),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), strings.Compare(a.Method, b.Method), strings.Compare(a.Flow, b.Flow))
	})
	a.Delays = firstOf(&a.Answer, a.Delays, ask.Limit)
	if ask.Step > 0 && len(a.Delays) > 0 {
		a.Step = ask.Step.Nanoseconds()
		cutSeries(&a.Answer, a.Delays, func(d *MeasuredDelay) *[]DelayPoint { return &d.Series })
	}
}

// joinBlocks finds the blocks that follow one another.
func joinBlocks(list []measuredDelay) {
	slices.SortFunc(list, func(a, b measuredDelay) int {
		return cmp.Or(a.key().compare(b.key()), a.at.Compare(b.at), cmp.Compare(a.Mean, b.Mean))
	})
	for i := 1; i < len(list); i++ {
		d, before := &list[i], &list[i-1]
		if d.Samples == 1 && d.key() == before.key() && before.Length <= math.MaxInt64 &&
			before.at.Add(time.Duration(before.Length)).Equal(d.at) {
			since := math.Abs(float64(d.Mean) - float64(before.Mean))
			d.since = &since
		}
	}
}

func (k delayKey) compare(o delayKey) int {
	return cmp.Or(strings.Compare(k.flow, o.flow), cmp.Compare(k.id, o.id), strings.Compare(k.scope, o.scope),
		cmp.Compare(k.from, o.from), cmp.Compare(k.to, o.to), strings.Compare(k.method, o.method))
}

// delaySum is what records say of a delay.
type delaySum struct {
	DelaySums
	fromNode, toNode string
	samples, total   float64
	jitter, jitters  float64
	leastP95         int64
	delays           signedDelays
}

func (s *delaySum) add(d *measuredDelay) {
	first := s.Records == 0
	if first {
		s.delays = signedDelays{}
	}
	n := float64(d.Samples)
	s.Records, s.Samples, s.samples, s.total = s.Records+1, plus(s.Samples, d.Samples), s.samples+n, s.total+float64(d.Mean)*n
	if first || d.Min < s.Min {
		s.Min = d.Min
	}
	if first || d.P95 < s.leastP95 {
		s.leastP95 = d.P95
	}
	if first || d.P95 > s.MaxP95 {
		s.MaxP95 = d.P95
	}
	s.fromNode, s.toNode = max(s.fromNode, d.FromNode), max(s.toNode, d.ToNode)
	s.delays.add(bucketOfP95(d.P95), d.Samples)
	switch {
	case d.Jitter.Valid:
		s.jitter, s.jitters = s.jitter+float64(d.Jitter.Value)*n, s.jitters+n
	case d.since != nil:
		s.jitter, s.jitters = s.jitter+*d.since, s.jitters+1
	}
	if !d.FromClockError.Valid || !d.ToClockError.Valid {
		s.Unknown++
	}
	s.FromClock, s.ToClock = worseKnown(s.FromClock, d.FromClockError), worseKnown(s.ToClock, d.ToClockError)
	if d.Warning != "" {
		s.Beyond++
	}
}

// bucketOfP95 is the bucket that the database has for a delay.
func bucketOfP95(ns int64) int64 {
	switch {
	case ns > 0:
		return int64(exponential.IndexOf(float64(ns), exponential.DelayScale))
	case ns < 0:
		return negativeBucket - 1 - int64(exponential.IndexOf(-float64(ns), exponential.DelayScale))
	}
	return -2
}

// worseKnown is the greater of two clock errors; nil: none is known.
func worseKnown(a *uint64, b record.Field[uint64]) *uint64 {
	if !b.Valid || a != nil && *a >= b.Value {
		return a
	}
	return &b.Value
}

// sums are the sums as answers have them.
func (s *delaySum) sums() (out DelaySums, err error) {
	out = s.DelaySums
	out.Mean = rounded(s.total / s.samples)
	if s.jitters > 0 {
		jitter := rounded(s.jitter / s.jitters)
		out.Jitter = &jitter
	}
	out.P95, err = s.delays.p95(s.leastP95, s.MaxP95)
	return out, err
}
