// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
)

// Order is by what segments are sorted, the worst first.
type Order string

// The orders.
const (
	ByLink    Order = "link"    // 99th percentile of the delay of the link
	ByHeld    Order = "held"    // 99th percentile of how long the node held packets
	ByLoss    Order = "loss"    // packets that were lost after the node
	ByPackets Order = "packets" // the busiest
)

// Orders are all of them.
var Orders = []Order{ByLink, ByHeld, ByLoss, ByPackets}

// SegmentsQuestion asks for the segments of a time.
type SegmentsQuestion struct {
	Range
	Flows
	Order    Order
	Baseline time.Duration // before From, to compare with; 0: none
	Before   *Range        // another time to compare with; nil: none
	Step     time.Duration // of series, in whole minutes; 0: none
	Where    *Condition    // on packets; nil: none
	Limit    int
}

// Segments are those of a time, the worst first.
type Segments struct {
	Answer
	Segments []Segment `json:"segments"`
}

// Segment is the way from one node to the next that reported.
type Segment struct {
	ID        ID         `json:"segment"`
	Namespace uint16     `json:"namespace"`
	From      Node       `json:"from"`
	Egress    *Interface `json:"egress,omitempty"`
	To        *Node      `json:"to,omitempty"`
	Ingress   *Interface `json:"ingress,omitempty"`
	Hops      *int16     `json:"hops,omitempty"`
	LossKnown bool       `json:"loss_known"`
	SegmentMeasured
	Baseline *SegmentMeasured `json:"baseline,omitempty"`
	Series   []SegmentPoint   `json:"series,omitempty"`
}

// SegmentMeasured is what was measured of a segment.
type SegmentMeasured struct {
	Packets  uint64  `json:"packets"`
	Lost     uint64  `json:"lost"`
	Held     *Delays `json:"held,omitempty"`
	Link     *Delays `json:"link,omitempty"`
	Negative uint64  `json:"link_negative,omitempty"`
}

// Segments answers.
func (q *Queries) Segments(ctx context.Context, ask SegmentsQuestion) (*Segments, error) {
	in := ask.minutes()
	a := &Segments{Segments: []Segment{}}
	err := q.ask(ctx, in, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		list, err := segmentsFor(ctx, r, in, &ask, &a.Answer)
		if err != nil {
			return err
		}
		list = firstOf(&a.Answer, list, ask.Limit)
		a.Segments = list
		if err := describeSegments(ctx, r, list); err != nil || ask.Step == 0 || len(list) == 0 {
			return err
		}
		a.Step = ask.Step.Nanoseconds()
		if ask.Where != nil { // they are made with the sums
			cutSeries(&a.Answer, list, func(s *Segment) *[]SegmentPoint { return &s.Series })
			return nil
		}
		return segmentSeries(ctx, r, in, &ask, a)
	})
	a.sayKnown()
	switch {
	case err != nil || len(a.Segments) == 0:
	case ask.Before != nil:
		err = q.baseline(ctx, a, &ask, *ask.Before)
	case ask.Baseline > 0:
		err = q.baseline(ctx, a, &ask, Range{in.From.Add(-ask.Baseline), in.From})
	}
	return a, err
}

// baseline adds what the same segments were before.
func (q *Queries) baseline(ctx context.Context, a *Segments, ask *SegmentsQuestion, before Range) error {
	place, ids := placesOf(a.Segments)
	before = before.minutes()
	var other Answer
	err := q.ask(ctx, before, &other, func(ctx context.Context, r *store.Reading) (err error) {
		var list []Segment
		if ask.Where != nil {
			whole := *ask
			whole.Step = 0
			list, err = segmentsWhere(ctx, r, before, &whole, &other)
		} else {
			list, err = segmentsOf(ctx, r, before, &ask.Flows, ByPackets, len(ids), ids)
		}
		for _, s := range list {
			if i, ok := place[s.ID]; ok {
				measured := s.SegmentMeasured
				a.Segments[i].Baseline = &measured
			}
		}
		return err
	})
	a.add(&other)
	return err
}

// segmentsFor are those that are asked for, in their order: one more than the limit, if there are.
func segmentsFor(ctx context.Context, r *store.Reading, in Range, ask *SegmentsQuestion, a *Answer) ([]Segment, error) {
	if ask.Where == nil {
		return segmentsOf(ctx, r, in, &ask.Flows, ask.Order, ask.Limit+1, nil)
	}
	list, err := segmentsWhere(ctx, r, in, ask, a)
	sortSegments(list, ask.Order)
	return list, err
}

// countsOf is a query of the counts of buckets by segment.
func countsOf(of, where string) string {
	return "SELECT segment, b, sum(n)::UBIGINT AS n FROM (SELECT segment, unnest(" + of + "_b) AS b, unnest(" + of +
		"_n) AS n FROM part" + where + ") GROUP BY ALL"
}

// ranked is the histogram by which segments are sorted; "": none.
func (o Order) ranked() string {
	switch o {
	case ByHeld:
		return "held"
	case ByLoss, ByPackets:
		return ""
	default:
		return "link"
	}
}

// percentiles is a query of the 99th percentile's bucket by segment.
const percentiles = "SELECT segment, min(b) FILTER (c >= ceil(t * 0.99)) AS rank FROM (SELECT segment, b, " +
	"sum(n) OVER (PARTITION BY segment ORDER BY b) AS c, sum(n) OVER (PARTITION BY segment) AS t FROM counted) GROUP BY segment"

// rankOf is a query of what segments are sorted by, the greatest first.
func rankOf(order Order) string {
	switch order {
	case ByLoss:
		return "SELECT segment, lost / packets AS rank FROM whole"
	case ByPackets:
		return "SELECT segment, packets AS rank FROM whole"
	default:
		return percentiles
	}
}

// segmentsOf sums up rollups. only, unless nil, are the segments that are asked for.
func segmentsOf(
	ctx context.Context,
	r *store.Reading,
	in Range,
	flows *Flows,
	order Order,
	limit int,
	only []uint64,
) (found []Segment, err error) {
	p := times(in)
	of := flows.of(r, p)
	chosen := ""
	if only != nil {
		chosen = " WHERE segment = ANY(" + p.add(only) + ")"
	}
	// Histograms are added up of all segments only if their order needs it: this takes most of the time.
	counts := func(name string) string {
		if order.ranked() == name {
			return "SELECT * FROM counted WHERE segment IN (SELECT segment FROM top)"
		}
		return countsOf(name, " WHERE segment IN (SELECT segment FROM top)")
	}
	counted := ""
	if name := order.ranked(); name != "" {
		counted = "), counted AS (" + countsOf(name, "")
	}
	query := `WITH part AS ` + once(of) + ` (SELECT * FROM ` + rollup(of, "segment") + chosen + `), whole AS (
	SELECT segment, sum(packets)::UBIGINT AS packets, sum(lost)::UBIGINT AS lost, sum(held_sum) AS held_sum, max(held_max) AS held_max,
		sum(link_negative)::UBIGINT AS negative, sum(link_sum) AS link_sum, max(link_max) AS link_max FROM part GROUP BY segment
` + counted + `), rank AS (` + rankOf(order) + `
), top AS (SELECT w.*, rank FROM whole w LEFT JOIN rank r ON w.segment = r.segment ORDER BY rank DESC NULLS LAST, packets DESC, w.segment LIMIT ` + p.add(limit) + `
), holds AS (SELECT segment, list(b) AS b, list(n) AS n FROM (` + counts("held") + `) GROUP BY segment
), links AS (SELECT segment, list(b) AS b, list(n) AS n FROM (` + counts("link") + `) GROUP BY segment)
SELECT t.segment, packets, lost, held_sum, held_max, h.b, h.n, negative, link_sum, link_max, l.b, l.n
FROM top t LEFT JOIN holds h ON t.segment = h.segment LEFT JOIN links l ON t.segment = l.segment ORDER BY rank DESC NULLS LAST, packets DESC, t.segment`
	err = rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		id, measured, err := segmentRow(scan)
		found = append(found, Segment{ID: id, SegmentMeasured: measured})
		return err
	})
	return found, err
}

// describeSegments adds the nodes and interfaces of segments.
func describeSegments(ctx context.Context, r *store.Reading, list []Segment) error {
	known, err := namesIn(ctx, r)
	if err != nil {
		return err
	}
	place, ids := placesOf(list)
	query := store.Union(
		r.Files,
		"SELECT segment, namespace, from_exporter, from_node, egress, to_exporter, to_node, ingress, hops FROM FILE(segments) "+
			"WHERE segment = ANY($1)",
	)
	return rows(ctx, r.DB, query, []any{ids}, func(scan func(...any) error) error {
		var id, from uint64
		var namespace uint16
		var fromExporter, toExporter sql.NullString
		var egress uint32
		var to sql.Null[uint64]
		var ingress sql.Null[uint32]
		var hops sql.Null[int16]
		if err := scan(&id, &namespace, &fromExporter, &from, &egress, &toExporter, &to, &ingress, &hops); err != nil {
			return err
		}
		s := &list[place[ID(id)]]
		s.Namespace, s.From, s.Egress = namespace, known.node(text(fromExporter), from), known.iface(text(fromExporter), from, egress)
		if !to.Valid {
			return nil
		}
		node := known.node(text(toExporter), to.V)
		s.To, s.Ingress = &node, known.iface(text(toExporter), to.V, ingress.V)
		if hops.Valid && hops.V >= 0 {
			s.Hops = &hops.V
		}
		return nil
	})
}
