// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// EventsQuestion asks for events and warnings.
type EventsQuestion struct {
	Range
	Node, Name string // "": all
	Limit      int
}

// Events are what happened in a time, the latest first.
type Events struct {
	Answer
	Events []Event `json:"events"`
}

// Event is something that happened at a time.
type Event struct {
	Kind     string             `json:"kind"`
	Time     instant.Time       `json:"time"`
	Node     string             `json:"node,omitempty"`
	Name     string             `json:"event"`
	Severity string             `json:"severity"`
	Subject  string             `json:"subject,omitempty"`
	Text     string             `json:"text"`
	Cure     string             `json:"cure,omitempty"`
	Since    *instant.Time      `json:"since,omitempty"`
	Labels   map[string]string  `json:"labels,omitempty"`
	Values   map[string]float64 `json:"values,omitempty"`
}

// Events answers.
func (q *Queries) Events(ctx context.Context, ask EventsQuestion) (*Events, error) {
	a := &Events{Events: []Event{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		p := &parameters{}
		where := " WHERE time >= " + p.add(ask.From.UTC()) + "::TIMESTAMP_NS AND time < " + p.add(ask.Until.UTC()) + "::TIMESTAMP_NS"
		query := "WITH one AS (" + store.Union(
			r.Files,
			`SELECT 'event' AS kind, time, coalesce(node, '') AS node, coalesce(event, '') AS name, coalesce(severity, '') AS severity,
	coalesce(subject, '') AS subject, coalesce(text, '') AS text, '' AS cure, since, labels, "values" FROM FILE(event)`+where,
		) +
			"\nUNION ALL " + store.Union(
			r.Files,
			`SELECT 'warning', time, '', coalesce(code, ''), CASE WHEN beyond THEN 'warning' ELSE 'info' END,
	coalesce(flow, CASE WHEN flow_id > 0 THEN flow_id::VARCHAR END, ''), coalesce(text, ''), coalesce(cure, ''), NULL, NULL, NULL FROM FILE(warning)`+where,
		) +
			") SELECT * FROM one WHERE true"
		if ask.Node != "" {
			query += " AND node = " + p.add(ask.Node)
		}
		if ask.Name != "" {
			query += " AND name = " + p.add(ask.Name)
		}
		query += " ORDER BY time DESC LIMIT " + p.add(ask.Limit+1)
		return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
			e, err := eventOf(scan)
			if err != nil {
				return err
			}
			if len(a.Events) == ask.Limit {
				a.Cut = cutAt(ask.Limit)
				return nil
			}
			a.Events = append(a.Events, e)
			return nil
		})
	})
	return a, err
}

func eventOf(scan func(...any) error) (e Event, err error) {
	var since sql.NullTime
	var labels, values sql.NullString
	if err := scan(&e.Kind, &e.Time.Time, &e.Node, &e.Name, &e.Severity, &e.Subject, &e.Text, &e.Cure, &since, &labels, &values); err != nil {
		return e, err
	}
	e.Time = instant.Of(e.Time.Time)
	if since.Valid {
		at := instant.Of(since.Time)
		e.Since = &at
	}
	// Both were written as JSON; what a later version has otherwise is left out.
	if labels.Valid && json.Unmarshal([]byte(labels.String), &e.Labels) != nil {
		e.Labels = nil
	}
	if values.Valid && json.Unmarshal([]byte(values.String), &e.Values) != nil {
		e.Values = nil
	}
	return e, nil
}
