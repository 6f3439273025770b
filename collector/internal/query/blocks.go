// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// BlocksQuestion asks for single blocks of measured flows.
type BlocksQuestion struct {
	Range
	Flow   string  // its name; "": all
	FlowID *uint32 // its number
	Limit  int
}

// Blocks are the blocks that were asked for, the latest first.
type Blocks struct {
	Answer
	Blocks []Block `json:"blocks"`
}

// Block is one block of a flow between two points.
type Block struct {
	MeasuredSegment
	Number   *int64       `json:"block,omitempty"`
	Start    instant.Time `json:"start"`
	Length   int64        `json:"length_ns"`
	Verdict  string       `json:"verdict"`
	Reasons  []string     `json:"reasons,omitempty"`
	Sent     *int64       `json:"sent,omitempty"`
	Received *int64       `json:"received,omitempty"`
	Lost     *int64       `json:"lost,omitempty"`
	LostMin  *int64       `json:"lost_min,omitempty"`
}

// Blocks answers.
func (q *Queries) Blocks(ctx context.Context, ask BlocksQuestion) (*Blocks, error) {
	a := &Blocks{Blocks: []Block{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		p := &parameters{}
		where := "coalesce(start, time) >= " + p.add(
			ask.From.UTC(),
		) + "::TIMESTAMP_NS AND coalesce(start, time) < " + p.add(
			ask.Until.UTC(),
		) + "::TIMESTAMP_NS"
		if ask.Flow != "" {
			where += " AND flow = " + p.add(ask.Flow)
		}
		if ask.FlowID != nil {
			where += " AND flow_id = " + p.add(*ask.FlowID)
		}
		query := "SELECT * FROM (" + store.Union(
			r.Files,
			`SELECT coalesce(flow, ''), flow_id, scope, "from", "to", coalesce(from_node, ''), coalesce(to_node, ''), block,
	coalesce(start, time) AS began, coalesce(length_ns, 0), verdict, coalesce(from_reasons, '[]'), coalesce(to_reasons, '[]'), sent, received, lost, lost_min FROM FILE(loss) WHERE `+where,
		) +
			") ORDER BY began DESC, 1, 2, 3 DESC, 4 LIMIT " + p.add(
			ask.Limit+1,
		)
		return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
			b, err := blockOf(scan)
			if err != nil {
				return err
			}
			if len(a.Blocks) == ask.Limit {
				a.Cut = cutAt(ask.Limit)
				return nil
			}
			a.Blocks = append(a.Blocks, b)
			return nil
		})
	})
	return a, err
}

func blockOf(scan func(...any) error) (b Block, err error) {
	var reasons [2]string
	var numbers [5]sql.NullInt64
	err = scan(
		&b.Flow,
		&b.FlowID,
		&b.Scope,
		&b.From,
		&b.To,
		&b.FromNode,
		&b.ToNode,
		&numbers[0],
		&b.Start.Time,
		&b.Length,
		&b.Verdict,
		&reasons[0],
		&reasons[1],
		&numbers[1],
		&numbers[2],
		&numbers[3],
		&numbers[4],
	)
	if err != nil {
		return b, err
	}
	b.Start = instant.Of(b.Start.Time)
	for i, into := range []**int64{&b.Number, &b.Sent, &b.Received, &b.Lost, &b.LostMin} {
		if numbers[i].Valid {
			*into = &numbers[i].Int64
		}
	}
	for _, text := range reasons {
		var list []string
		if json.Unmarshal([]byte(text), &list) != nil {
			continue // of a later version
		}
		for _, reason := range list {
			if !slices.Contains(b.Reasons, reason) {
				b.Reasons = append(b.Reasons, reason)
			}
		}
	}
	return b, nil
}
