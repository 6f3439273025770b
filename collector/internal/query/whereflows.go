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
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// OfFlowRecords are records about flows: aggregated ones, and single postcards.
var OfFlowRecords = &Subject{
	"a record of a flow", "records of flows", append([]string{"kind"}, keysOf(record.KindFlow, record.KindPostcard)...),
}

// flowsWhere sums up the records for which the condition is true.
func flowsWhere(ctx context.Context, r *store.Reading, ask *FlowsQuestion, a *AggregatedFlows) error {
	search := newSearch(OfFlowRecords, &a.Answer)
	sums := stepped[flowRecordKey, flowSum]{step: ask.Step, of: map[flowRecordKey]*inSteps[flowSum]{}}
	for _, kind := range []string{record.KindFlow, record.KindPostcard} {
		p := &parameters{}
		query := "SELECT * FROM FILE(" + kind + ") WHERE " + ask.where(kind, p) + " ORDER BY time DESC LIMIT " + p.add(mostSearched+1)
		err := latest(ctx, r, kind, query, p.values, ask.Where, search, func(one record.Record) {
			key, at, s := summed(one)
			for _, into := range sums.at(key, at) {
				into.add(&s)
			}
		})
		if err != nil {
			return err
		}
	}
	for k, f := range sums.of {
		one := k.flow(f.whole.sums())
		for _, number := range f.numbers() {
			one.Series = append(one.Series, FlowPoint{beginOf(number, ask.Step), f.steps[number].sums()})
		}
		a.Flows = append(a.Flows, one)
	}
	slices.SortFunc(a.Flows, func(a, b AggregatedFlow) int { return cmp.Or(ask.Order.compare(&a, &b), a.key().compare(b.key())) })
	a.Flows = firstOf(&a.Answer, a.Flows, ask.Limit)
	if ask.Step > 0 && len(a.Flows) > 0 {
		a.Step = ask.Step.Nanoseconds()
		cutSeries(&a.Answer, a.Flows, func(f *AggregatedFlow) *[]FlowPoint { return &f.Series })
	}
	return nil
}

// latest calls addRecord for the rows of a query of a kind's table for which a condition is true, those of the latest
// file first.
func latest(
	ctx context.Context, r *store.Reading, kind, query string, values []any, where *Condition, search *searched, addRecord func(record.Record),
) error {
	more := true
	for i := len(r.Files) - 1; i >= 0 && more; i-- {
		err := records(ctx, r, kind, store.Union(r.Files[i:i+1], query), values, func(one record.Record) bool {
			var is bool
			if is, more = where.selects(search, one, nil); is {
				addRecord(one)
			}
			return more
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// flowSum is what records say of a flow: FlowSums, and how long packets were held by flows and by postcards.
type flowSum struct {
	FlowSums
	held [2]HeldFor
	time [2]float64 // their sums
}

// summed are the key, the time and the sums of one record.
func summed(r record.Record) (k flowRecordKey, at time.Time, s flowSum) {
	switch r := r.(type) {
	case *record.Flow:
		k = keyOf(r.Node, r.Role, uint16(r.Namespace), r.FlowID, &r.Packet)
		at, s.Records, s.Packets, s.Bytes = r.Time.Time, 1, r.Packets, r.Bytes
		s.First, s.Last = cmpTime(r.First, r.Time), cmpTime(r.Last, r.Time)
		if d := r.TransitDelay; d != nil {
			s.held[0] = HeldFor{Count: d.Count, Min: int64(d.Min), Max: int64(d.Max)}
			s.time[0] = float64(d.Sum)
		}
		if r.SequenceGaps.Valid {
			s.Missing = &r.SequenceGaps.Value
		}
		if r.Reordered.Valid {
			if s.Late = &r.Reordered.Value; s.Missing == nil {
				s.Unknown = 1
			}
		}
	case *record.Postcard:
		k = keyOf(r.Node, r.Role, uint16(r.Namespace), r.FlowID, &r.Packet)
		at, s.Postcards, s.First, s.Last = r.Time.Time, 1, r.Time, r.Time
		if d := r.Data.TransitDelay; d.Valid {
			s.held[1] = HeldFor{Count: 1, Min: int64(d.Value), Max: int64(d.Value)}
			s.time[1] = float64(d.Value)
		}
	}
	return k, at, s
}

// cmpTime is a time, or another one if it is absent.
func cmpTime(t, other instant.Time) instant.Time {
	if t.IsZero() {
		return other
	}
	return t
}

func keyOf(node string, role record.NodeRole, namespace uint16, flow record.Field[uint32], p *record.Packet) flowRecordKey {
	k := flowRecordKey{
		node: node, role: role.String(), namespace: int64(namespace), flowID: -1, source: addressText(p.Source),
		destination: addressText(p.Destination), nextHeader: int64(p.NextHeader), sourcePort: absent(p.SourcePort),
		destinationPort: absent(p.DestinationPort), label: int64(p.FlowLabel),
	}
	if flow.Valid {
		k.flowID = int64(flow.Value)
	}
	return k
}

// add adds the sums of a record.
func (s *flowSum) add(o *flowSum) {
	s.Records, s.Postcards, s.Unknown = s.Records+o.Records, s.Postcards+o.Postcards, s.Unknown+o.Unknown
	s.Packets, s.Bytes = plus(s.Packets, o.Packets), plus(s.Bytes, o.Bytes)
	if s.First.IsZero() || o.First.Before(s.First.Time) {
		s.First = o.First
	}
	if o.Last.After(s.Last.Time) {
		s.Last = o.Last
	}
	for i := range s.held {
		h, more := &s.held[i], &o.held[i]
		if more.Count == 0 {
			continue
		}
		if h.Count == 0 || more.Min < h.Min {
			h.Min = more.Min
		}
		h.Count, h.Max, s.time[i] = plus(h.Count, more.Count), max(h.Max, more.Max), s.time[i]+o.time[i]
	}
	s.Missing, s.Late = plusKnown(s.Missing, o.Missing), plusKnown(s.Late, o.Late)
}

// sums are the sums as answers have them.
func (s *flowSum) sums() FlowSums {
	out := s.FlowSums
	for i := range s.held {
		if h := s.held[i]; h.Count > 0 && out.Held == nil {
			h.Mean = int64(s.time[i] / float64(h.Count))
			out.Held = &h
		}
	}
	return out
}

// plus is a sum of numbers from the network, at most the greatest one that the database has.
func plus(a, b uint64) uint64 {
	return min(min(a, math.MaxInt64)+min(b, math.MaxInt64), math.MaxInt64)
}

// plusKnown is a sum of what is known; nil: nothing is.
func plusKnown(a, b *uint64) *uint64 {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	sum := plus(*a, *b)
	return &sum
}

// compare has the greater one first.
func (o FlowOrder) compare(a, b *AggregatedFlow) int {
	byPackets := cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(b.Postcards, a.Postcards))
	switch o {
	case FlowsByBytes:
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), byPackets)
	case FlowsByMissing:
		return cmp.Or(descending(a.Missing, b.Missing), byPackets)
	}
	return byPackets
}

// compare is the order of the database.
func (k flowRecordKey) compare(o flowRecordKey) int {
	return cmp.Or(strings.Compare(k.node, o.node), strings.Compare(k.role, o.role), cmp.Compare(k.namespace, o.namespace),
		cmp.Compare(k.flowID, o.flowID), strings.Compare(k.source, o.source), strings.Compare(k.destination, o.destination),
		cmp.Compare(k.nextHeader, o.nextHeader), cmp.Compare(k.sourcePort, o.sourcePort),
		cmp.Compare(k.destinationPort, o.destinationPort), cmp.Compare(k.label, o.label))
}
