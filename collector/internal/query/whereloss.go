// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// lossesWhere sums up the blocks, and what edges measured, for which the condition is true.
func lossesWhere(ctx context.Context, r *store.Reading, in Range, ask *LossQuestion, a *Losses) error {
	search := newSearch(OfLosses, &a.Answer)
	s := &lossSums{
		flows: stepped[flowKey, lossSum]{step: ask.Step, of: map[flowKey]*inSteps[lossSum]{}}, edges: map[edgeKey]*EdgeLoss{},
	}
	for _, part := range []struct{ kind, table, at string }{
		{record.KindLoss, "loss", "coalesce(start, time)"},
		{record.KindEdgeFlow, "edge_flow", "time"},
	} {
		p := &parameters{}
		where := part.at + " >= " + p.add(in.From.UTC()) + "::TIMESTAMP_NS AND " + part.at + " < " + p.add(in.Until.UTC()) + "::TIMESTAMP_NS"
		switch {
		case part.kind == record.KindLoss && !ask.Edges.all():
			continue
		case part.kind == record.KindLoss && ask.Flow != "":
			where += " AND flow = " + p.add(ask.Flow)
		case !ask.Edges.all():
			where += " AND " + ask.Edges.recorded(p)
		}
		query := "SELECT * FROM FILE(" + part.table + ") WHERE " + where + " ORDER BY " + part.at + " DESC LIMIT " + p.add(mostSearched+1)
		more := true
		for i := len(r.Files) - 1; i >= 0 && more; i-- { // the latest first
			err := records(ctx, r, part.kind, store.Union(r.Files[i:i+1], query), p.values, func(one record.Record) bool {
				var is bool
				if is, more = ask.Where.selects(search, one, nil); is {
					s.add(one)
				}
				return more
			})
			if err != nil {
				return err
			}
		}
	}
	s.finish(ask.Limit, a)
	return nil
}

// records calls addRecord for the rows of a query of all columns of a kind's table, until it is false.
func records(ctx context.Context, r *store.Reading, kind, query string, values []any, addRecord func(record.Record) bool) error {
	list, err := r.DB.QueryContext(ctx, query, values...)
	if err != nil {
		return err
	}
	defer list.Close()
	names, err := list.Columns()
	if err != nil {
		return err
	}
	kinds := record.Kinds()
	of := kinds[slices.IndexFunc(kinds, func(k record.KindFormat) bool { return k.Name == kind })]
	row, into := make([]any, len(names)), make([]any, len(names))
	for i := range row {
		into[i] = &row[i]
	}
	for list.Next() {
		if err := list.Scan(into...); err != nil {
			return err
		}
		cells := map[string]any{}
		for i, name := range names {
			cells[name] = row[i]
		}
		fields := fieldsOf(of.Columns, "", cells)
		fields["kind"] = kind
		line, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		one, err := record.Parse(line)
		if err != nil || one == nil {
			return errors.Join(err, errors.New("a row of "+kind+" is no record"))
		}
		if l, ok := one.(*record.Loss); ok && l.Lost.Valid && l.Sent.Value > 0 { // a fraction is not kept
			l.Ratio = record.NewField(float64(l.Lost.Value)/float64(l.Sent.Value), true)
		}
		if !addRecord(one) {
			return nil
		}
	}
	return list.Err()
}

// fieldsOf are the fields of a record in JSON, from the columns that the store has for them: those of an object have
// its key before their own, and lists are JSON.
func fieldsOf(columns []record.Column, prefix string, cells map[string]any) map[string]any {
	fields := map[string]any{}
	for _, c := range columns {
		if c.Form == "object" {
			if inner := fieldsOf(c.Columns, prefix+c.Key+"_", cells); len(inner) > 0 {
				fields[c.Key] = inner
			}
			continue
		}
		switch value := cells[prefix+c.Key].(type) {
		case nil:
		case time.Time:
			fields[c.Key] = instant.Format(value)
		case []byte:
			fields[c.Key] = base64.StdEncoding.EncodeToString(value)
		case string:
			if c.Form == "list" {
				fields[c.Key] = json.RawMessage(value)
			} else {
				fields[c.Key] = value
			}
		default:
			fields[c.Key] = value
		}
	}
	return fields
}

// lossSums are those of blocks, and of what edges measured.
type lossSums struct {
	flows stepped[flowKey, lossSum]
	edges map[edgeKey]*EdgeLoss
}

type lossSum struct{ blocks, measured, sent, lost uint64 }

func (s *lossSum) counted() Counted {
	c := Counted{Blocks: s.blocks, Uncertain: s.blocks - s.measured, Sent: s.sent, Lost: s.lost}
	if s.sent > 0 {
		ratio := float64(s.lost) / float64(s.sent)
		c.Ratio = &ratio
	}
	return c
}

// edgeKey says what an edge measured.
type edgeKey struct {
	node, source, destination string
	namespace                 int64
}

func (s *lossSums) add(r record.Record) {
	switch r := r.(type) {
	case *record.Loss:
		k := flowKey{r.Flow, r.Scope.String(), int64(r.FlowID), int64(r.From), int64(r.To)}
		at := r.Start.Time
		if at.IsZero() {
			at = r.Time.Time
		}
		for _, f := range s.flows.at(k, at) {
			f.blocks++
			if r.Lost.Valid {
				f.measured, f.sent, f.lost = f.measured+1, f.sent+r.Sent.Value, f.lost+r.Lost.Value
			}
		}
	case *record.EdgeFlow:
		k := edgeKey{r.Node, addressText(r.Source), addressText(r.Destination), int64(r.Namespace)}
		if s.edges[k] == nil {
			s.edges[k] = &EdgeLoss{Node: k.node, Source: k.source, Destination: k.destination, Namespace: k.namespace}
		}
		e := s.edges[k]
		e.Packets += int64(r.Packets)
		e.Duplicates, e.Reordered = e.Duplicates+int64(r.Duplicates.Value), e.Reordered+int64(r.Reordered.Value)
		if !r.Lost.Valid {
			e.Unknown++
			return
		}
		if e.Lost == nil {
			e.Lost = new(int64)
		}
		*e.Lost += int64(r.Lost.Value)
	}
}

// finish writes them into an answer, in the order of the database.
func (s *lossSums) finish(limit int, a *Losses) {
	for k, f := range s.flows.of {
		one := FlowLoss{MeasuredSegment: MeasuredSegment{Flow: k.flow, FlowID: k.id, Scope: k.scope, From: k.from, To: k.to}}
		one.Counted = f.whole.counted()
		for _, number := range f.numbers() {
			begin := beginOf(number, s.flows.step)
			one.Series = append(one.Series, LossPoint{begin, begin, f.steps[number].counted()})
		}
		a.Flows = append(a.Flows, one)
	}
	for _, e := range s.edges {
		a.Edges = append(a.Edges, *e)
	}
	slices.SortFunc(a.Flows, func(a, b FlowLoss) int {
		return cmp.Or(descending(a.Ratio, b.Ratio), cmp.Compare(a.FlowID, b.FlowID), -strings.Compare(a.Scope, b.Scope),
			cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	slices.SortFunc(a.Edges, func(a, b EdgeLoss) int {
		return cmp.Or(descending(a.Lost, b.Lost), strings.Compare(a.Node, b.Node), strings.Compare(a.Source, b.Source),
			strings.Compare(a.Destination, b.Destination))
	})
	a.Flows, a.Edges = firstOf(&a.Answer, a.Flows, limit), firstOf(&a.Answer, a.Edges, limit)
}

// descending has the greatest first, and what is not known last.
func descending[N int64 | uint64 | float64](a, b *N) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*b, *a)
}
