// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/instant"
)

// mostPoints bounds the points of all series of an answer.
const mostPoints = 200_000

// SegmentPoint is what was measured of a segment in one step.
type SegmentPoint struct {
	Time instant.Time `json:"time"`
	SegmentMeasured
}

// PathPoint is what was measured of a path in one step.
type PathPoint struct {
	Time       instant.Time `json:"time"`
	Packets    uint64       `json:"packets"`
	Share      float64      `json:"share"`
	Incomplete uint64       `json:"incomplete"`
	Lost       uint64       `json:"lost"`
	Delay      *Delays      `json:"delay,omitempty"`
	Negative   uint64       `json:"delay_negative,omitempty"`
}

// beginOf is the begin of the step with a number.
func beginOf(number int64, step time.Duration) instant.Time {
	return instant.Of(time.Unix(0, number*step.Nanoseconds()))
}

// steps are the parameters of a rollup's rows that are to be divided in steps: rows of hours are of use only for
// steps of whole hours.
func steps(in Range, step time.Duration) *parameters {
	p := times(in)
	if step%time.Hour != 0 {
		p.values[2], p.values[3] = in.From.UTC(), in.From.UTC() // no whole hour
	}
	return p
}

// rollup is a query of the rows of a rollup in all files. Segments and paths have the numbers that are the same in all.
func rollup(r *store.Reading, name string) string {
	var list []string
	for i := range r.Files {
		list = append(list, fmt.Sprintf("SELECT %d AS file, * FROM (%s)", i, r.Files[i].Rows(name)))
	}
	if name == "loss" {
		return "(SELECT * EXCLUDE (file) FROM (" + united(list) + "))"
	}
	return "(SELECT r.* EXCLUDE (file) REPLACE (d.id AS " + name + ") FROM (" + united(list) + ") r JOIN (" + numbersOf(r, name) +
		") d ON r.file = d.file AND r." + name + " = d.number)"
}

// once says whether the rows of rollups are kept for a query that reads them several times: those that are made of packets
// now take longer to make than to keep. Of others, each time reads only the columns that it needs.
func once(r *store.Reading) string {
	if slices.ContainsFunc(r.Files, func(f store.File) bool { return f.Selects() }) {
		return "MATERIALIZED"
	}
	return "NOT MATERIALIZED"
}

// listsOf is a query of the buckets of a rollup's histogram, in steps.
func listsOf(of string) string {
	return "SELECT segment, w, list(b) AS b, list(n) AS n FROM (SELECT segment, w, b, sum(n)::UBIGINT AS n FROM (" +
		"SELECT segment, w, unnest(" + of + "_b) AS b, unnest(" + of + "_n) AS n FROM part) GROUP BY ALL) GROUP BY ALL"
}

// segmentSeries adds the steps of segments.
func segmentSeries(ctx context.Context, r *store.Reading, in Range, ask *SegmentsQuestion, a *Segments) error {
	place, ids := placesOf(a.Segments)
	step := ask.Step
	p := steps(in, step)
	of := ask.Flows.of(r, p)
	query := "WITH part AS " + once(of) + " (SELECT *, epoch_us(minute) // " + p.add(
		step.Microseconds(),
	) + "::BIGINT AS w FROM " + rollup(
		of,
		"segment",
	) + " WHERE segment = ANY(" + p.add(
		ids,
	) + `)
), whole AS (
	SELECT segment, w, sum(packets)::UBIGINT AS packets, sum(lost)::UBIGINT AS lost, sum(held_sum) AS held_sum, max(held_max) AS held_max,
		sum(link_negative)::UBIGINT AS negative, sum(link_sum) AS link_sum, max(link_max) AS link_max FROM part GROUP BY ALL
), holds AS (` + listsOf("held") + `), links AS (` + listsOf("link") + `)
SELECT t.segment, t.w, packets, lost, held_sum, held_max, h.b, h.n, negative, link_sum, link_max, l.b, l.n
FROM whole t LEFT JOIN holds h ON t.segment = h.segment AND t.w = h.w LEFT JOIN links l ON t.segment = l.segment AND t.w = l.w ORDER BY t.w LIMIT ` + p.add(
		mostPoints+1,
	)
	points := 0
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var number int64
		id, m, err := segmentRow(scan, &number)
		if points++; err != nil || points > mostPoints {
			a.Cut = cutAt(mostPoints)
			return err
		}
		s := &a.Segments[place[id]]
		s.Series = append(s.Series, SegmentPoint{beginOf(number, step), m})
		return nil
	})
}

// placesOf are the places of segments in a list, and their numbers.
func placesOf(list []Segment) (place map[ID]int, ids []uint64) {
	place = map[ID]int{}
	for i, s := range list {
		place[s.ID] = i
		ids = append(ids, uint64(s.ID))
	}
	return place, ids
}

// segmentRow reads what was measured of a segment; more are columns after its number.
func segmentRow(scan func(...any) error, more ...any) (ID, SegmentMeasured, error) {
	var id uint64
	var m SegmentMeasured
	var heldSum, linkSum sql.NullFloat64
	var heldMax, linkMax sql.NullInt64
	var heldB, heldN, linkB, linkN any
	into := append([]any{&id}, more...)
	into = append(into, &m.Packets, &m.Lost, &heldSum, &heldMax, &heldB, &heldN)
	into = append(into, &m.Negative, &linkSum, &linkMax, &linkB, &linkN)
	if err := scan(into...); err != nil {
		return 0, m, err
	}
	held, err := histogram(heldSum, heldMax, heldB, heldN)
	if err != nil {
		return 0, m, err
	}
	link, err := histogram(linkSum, linkMax, linkB, linkN)
	m.Held, m.Link = delaysOf(held), delaysOf(link)
	return ID(id), m, err
}

// pathSeries adds the steps of paths. Shares are of all packets that were asked for.
func pathSeries(ctx context.Context, r *store.Reading, ask *PathsQuestion, a *Paths) error {
	where, p := ask.selected()
	width := p.add(ask.Step.Nanoseconds())
	place := map[uint64]int{}
	var ids []uint64
	for i := range a.Paths {
		place[uint64(a.Paths[i].ID)] = i
		ids = append(ids, uint64(a.Paths[i].ID))
	}
	query := "WITH one AS (" + unionOf(r, func(of *store.Stored) string {
		return "SELECT d.path, epoch_ns(p.time) // " + width + "::BIGINT AS w, p.reason, p.verdict, p.delay_ns AS delay FROM " + of.Rows +
			" p JOIN FILE(paths) d ON p.path = d.number WHERE " + where
	}) + `), whole AS (
	SELECT path, w, count(*) AS packets, count(*) FILTER (reason <> 0) AS incomplete, count(*) FILTER (verdict = 2) AS lost,
		count(*) FILTER (delay < 0) AS negative, sum(delay) FILTER (delay >= 0)::DOUBLE AS total, max(delay) AS most FROM one GROUP BY ALL
), shared AS (SELECT *, packets / sum(packets) OVER (PARTITION BY w) AS share FROM whole), delays AS (` + bucketsOf(
		"path, w",
		"delay",
		"one",
	) + `)
SELECT t.path, t.w, packets, share, incomplete, lost, negative, total, most, b, n FROM shared t LEFT JOIN delays d ON t.path = d.path AND t.w = d.w
WHERE t.path = ANY(` + p.add(ids) + `) ORDER BY t.w LIMIT ` + p.add(mostPoints+1)
	points := 0
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var id uint64
		var number int64
		var at PathPoint
		var total sql.NullFloat64
		var most sql.NullInt64
		var b, n any
		if err := scan(&id, &number, &at.Packets, &at.Share, &at.Incomplete, &at.Lost, &at.Negative, &total, &most, &b, &n); err != nil {
			return err
		}
		if points++; points > mostPoints {
			a.Cut = cutAt(mostPoints)
			return nil
		}
		h, err := histogram(total, most, b, n)
		at.Time, at.Delay = beginOf(number, ask.Step), delaysOf(h)
		one := &a.Paths[place[id]]
		one.Series = append(one.Series, at)
		return err
	})
}
