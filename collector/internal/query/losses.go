// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// LossQuestion asks for the loss of measured flows.
type LossQuestion struct {
	Range
	Flow   string        // its name; "": all
	Edges  Flows         // only what edges measured of flows with this namespace, source and destination; zero: all
	Step   time.Duration // of series, in whole minutes; 0: none
	Before *Range        // another time to compare with; nil: none
	Where  *Condition    // on blocks and flows; nil: none
	Limit  int
}

// Losses are those of a time.
type Losses struct {
	Answer
	Flows []FlowLoss `json:"flows"`
	Edges []EdgeLoss `json:"edge_flows"`
}

// MeasuredSegment is a flow between two of the points that count it.
type MeasuredSegment struct {
	Flow     string `json:"flow,omitempty"`
	FlowID   int64  `json:"flow_id"`
	Scope    string `json:"scope"`
	From     int64  `json:"from"`
	To       int64  `json:"to"`
	FromNode string `json:"from_node,omitempty"`
	ToNode   string `json:"to_node,omitempty"`
}

// FlowLoss is the loss of one measured flow between two points.
type FlowLoss struct {
	MeasuredSegment
	Counted
	Before *Counted    `json:"before,omitempty"`
	Series []LossPoint `json:"series,omitempty"`
}

// Counted is what blocks of a flow counted.
type Counted struct {
	Blocks    uint64   `json:"blocks"`
	Uncertain uint64   `json:"blocks_uncertain"`
	Sent      uint64   `json:"sent"`
	Lost      uint64   `json:"lost"`
	Ratio     *float64 `json:"ratio,omitempty"`
}

// LossPoint is the loss in one step.
type LossPoint struct {
	Minute instant.Time `json:"minute"`
	Time   instant.Time `json:"time"`
	Counted
}

// EdgeLoss is what the last node counted of a flow by the numbers of its packets.
type EdgeLoss struct {
	Node        string `json:"node,omitempty"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
	Namespace   int64  `json:"namespace"`
	Packets     int64  `json:"packets"`
	Lost        *int64 `json:"lost,omitempty"`
	Unknown     int64  `json:"unknown"`
	Duplicates  int64  `json:"duplicates"`
	Reordered   int64  `json:"reordered"`
}

// counted makes the sums of a row.
func counted(blocks, measured uint64, sent, lost sql.NullFloat64) Counted {
	c := Counted{Blocks: blocks, Uncertain: blocks - min(measured, blocks), Sent: uint64(sent.Float64), Lost: uint64(lost.Float64)}
	if c.Sent > 0 {
		ratio := lost.Float64 / sent.Float64
		c.Ratio = &ratio
	}
	return c
}

// Loss answers.
func (q *Queries) Loss(ctx context.Context, ask LossQuestion) (*Losses, error) {
	in := ask.minutes()
	a := &Losses{Flows: []FlowLoss{}, Edges: []EdgeLoss{}}
	err := q.ask(ctx, in, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		if err := readLosses(ctx, r, in, &ask, a); err != nil {
			return err
		}
		if len(a.Flows) > 0 {
			if err := nameSegments(ctx, r, in, a.Flows); err != nil {
				return err
			}
		}
		if ask.Step > 0 && len(a.Flows) > 0 {
			a.Step = ask.Step.Nanoseconds()
			if ask.Where != nil { // they are made with the sums
				cutSeries(&a.Answer, a.Flows, func(f *FlowLoss) *[]LossPoint { return &f.Series })
				return nil
			}
			if err := lossSeries(ctx, r, in, &ask, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || ask.Before == nil || len(a.Flows) == 0 {
		return a, err
	}
	return a, q.lossBefore(ctx, a, ask)
}

// readLosses sums up the flows, and those that edges measured.
func readLosses(ctx context.Context, r *store.Reading, in Range, ask *LossQuestion, a *Losses) error {
	if ask.Where != nil {
		return lossesWhere(ctx, r, in, ask, a)
	}
	if ask.Edges.all() {
		if err := flowLosses(ctx, r, in, ask, a); err != nil {
			return err
		}
	}
	return edgeLosses(ctx, r, in, ask, a)
}

// lossBefore adds what the same flows lost in the other time.
func (q *Queries) lossBefore(ctx context.Context, a *Losses, ask LossQuestion) error {
	in, place, before := ask.Before.minutes(), placesOfFlows(a.Flows), &Losses{}
	ask.Limit, ask.Step = mostPoints, 0
	read := flowLosses
	if ask.Where != nil {
		read = lossesWhere
	}
	err := q.ask(ctx, in, &before.Answer, func(ctx context.Context, r *store.Reading) error { return read(ctx, r, in, &ask, before) })
	a.add(&before.Answer)
	for _, f := range before.Flows {
		if i, ok := place[f.key()]; ok {
			a.Flows[i].Before = &f.Counted
		}
	}
	return err
}

// flowKey says what the loss is of.
type flowKey struct {
	flow, scope  string
	id, from, to int64
}

func (f *FlowLoss) key() flowKey { return flowKey{f.Flow, f.Scope, f.FlowID, f.From, f.To} }

func placesOfFlows(list []FlowLoss) map[flowKey]int {
	place := map[flowKey]int{}
	for i := range list {
		place[list[i].key()] = i
	}
	return place
}

// lossRows are the rows of rollups of loss, in a time and of a flow.
func lossRows(r *store.Reading, ask *LossQuestion, p *parameters) string {
	query := "SELECT * FROM " + rollup(r, "loss")
	if ask.Flow != "" {
		query += " WHERE flow = " + p.add(ask.Flow)
	}
	return query
}

func flowLosses(ctx context.Context, r *store.Reading, in Range, ask *LossQuestion, a *Losses) error {
	p := times(in)
	query := "WITH part AS (" + lossRows(
		r,
		ask,
		p,
	) + `) SELECT flow, flow_id, scope, "from", "to", sum(blocks)::UBIGINT, sum(measured)::UBIGINT, sum(sent) AS sent_all, sum(lost) AS lost_all FROM part
GROUP BY ALL ORDER BY lost_all / nullif(sent_all, 0) DESC NULLS LAST, flow_id, scope DESC, "from" LIMIT ` + p.add(
		ask.Limit+1,
	)
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var f FlowLoss
		var blocks, measured uint64
		var sent, lost sql.NullFloat64
		if err := scan(&f.Flow, &f.FlowID, &f.Scope, &f.From, &f.To, &blocks, &measured, &sent, &lost); err != nil {
			return err
		}
		if len(a.Flows) == ask.Limit {
			a.Cut = cutAt(ask.Limit)
			return nil
		}
		f.Counted = counted(blocks, measured, sent, lost)
		a.Flows = append(a.Flows, f)
		return nil
	})
}

// nameSegments adds the nodes that are the points of flows.
func nameSegments(ctx context.Context, r *store.Reading, in Range, flows []FlowLoss) error {
	type point struct{ flow, number int64 }
	names := map[point]string{}
	p := &parameters{}
	where := " FROM FILE(loss) WHERE coalesce(start, time) >= " + p.add(
		in.From.UTC(),
	) + "::TIMESTAMP_NS AND coalesce(start, time) < " + p.add(
		in.Until.UTC(),
	) + "::TIMESTAMP_NS"
	query := "SELECT DISTINCT * FROM (" + store.Union(
		r.Files,
		`SELECT flow_id, "from", from_node`+where+" AND from_node IS NOT NULL",
	) + "\nUNION ALL " +
		store.Union(
			r.Files,
			`SELECT flow_id, "to", to_node`+where+" AND to_node IS NOT NULL",
		) + ") LIMIT " + p.add(
		mostNames,
	)
	err := rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var at point
		var name string
		err := scan(&at.flow, &at.number, &name)
		names[at] = name
		return err
	})
	for i := range flows {
		f := &flows[i]
		f.FromNode, f.ToNode = names[point{f.FlowID, f.From}], names[point{f.FlowID, f.To}]
	}
	return err
}

func lossSeries(ctx context.Context, r *store.Reading, in Range, ask *LossQuestion, a *Losses) error {
	place := placesOfFlows(a.Flows)
	p := steps(in, ask.Step)
	query := "WITH part AS (" + lossRows(
		r,
		ask,
		p,
	) + `) SELECT epoch_us(minute) // ` + p.add(
		ask.Step.Microseconds(),
	) + `::BIGINT AS w, flow, flow_id, scope, "from", "to", sum(blocks)::UBIGINT, sum(measured)::UBIGINT, sum(sent), sum(lost) FROM part
GROUP BY ALL ORDER BY w LIMIT ` + p.add(
		mostPoints+1,
	)
	points := 0
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var k flowKey
		var number int64
		var at LossPoint
		var blocks, measured uint64
		var sent, lost sql.NullFloat64
		if err := scan(&number, &k.flow, &k.id, &k.scope, &k.from, &k.to, &blocks, &measured, &sent, &lost); err != nil {
			return err
		}
		if points++; points > mostPoints {
			a.Cut = cutAt(mostPoints)
			return nil
		}
		at.Time, at.Counted = beginOf(number, ask.Step), counted(blocks, measured, sent, lost)
		at.Minute = at.Time
		if i, ok := place[k]; ok {
			a.Flows[i].Series = append(a.Flows[i].Series, at)
		}
		return nil
	})
}

func edgeLosses(ctx context.Context, r *store.Reading, in Range, ask *LossQuestion, a *Losses) error {
	p := &parameters{}
	where := "time >= " + p.add(in.From.UTC()) + "::TIMESTAMP_NS AND time < " + p.add(in.Until.UTC()) + "::TIMESTAMP_NS"
	if !ask.Edges.all() {
		where += " AND " + ask.Edges.recorded(p)
	}
	query := "WITH part AS (" + store.Union(
		r.Files,
		"SELECT node, source, destination, namespace, packets, lost, duplicates, reordered FROM FILE(edge_flow) WHERE "+where,
	) + `)
SELECT coalesce(node, ''), coalesce(source, ''), coalesce(destination, ''), namespace, coalesce(sum(packets), 0)::BIGINT, sum(lost)::BIGINT AS missing, count(*) FILTER (lost IS NULL),
	coalesce(sum(duplicates), 0)::BIGINT, coalesce(sum(reordered), 0)::BIGINT FROM part GROUP BY 1, 2, 3, 4 ORDER BY missing DESC NULLS LAST LIMIT ` + p.add(
		ask.Limit+1,
	)
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var e EdgeLoss
		var lost sql.NullInt64
		if err := scan(&e.Node, &e.Source, &e.Destination, &e.Namespace, &e.Packets, &lost, &e.Unknown, &e.Duplicates, &e.Reordered); err != nil {
			return err
		}
		if lost.Valid {
			e.Lost = &lost.Int64
		}
		if len(a.Edges) == ask.Limit {
			a.Cut = cutAt(ask.Limit)
			return nil
		}
		a.Edges = append(a.Edges, e)
		return nil
	})
}
