// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/instant"
)

// DelayQuestion asks for the delays of measured flows.
type DelayQuestion struct {
	Range
	Flow   string        // its name; "": all
	Step   time.Duration // of series; 0: none
	Before *Range        // another time to compare with; nil: none
	Where  *Condition    // on delays; nil: none
	Limit  int
}

// MeasuredDelays are those of a time.
type MeasuredDelays struct {
	Answer
	Delays []MeasuredDelay `json:"delays"`
}

// MeasuredDelay is the delay of one measured flow between two points, by one method.
type MeasuredDelay struct {
	MeasuredSegment
	Method string `json:"method"`
	DelaySums
	Warnings []string     `json:"warnings,omitempty"`
	Before   *DelaySums   `json:"before,omitempty"`
	Series   []DelayPoint `json:"series,omitempty"`
}

// DelaySums sum up delays, in nanoseconds. By two clocks, they may be negative.
type DelaySums struct {
	Records   uint64  `json:"records"`
	Samples   uint64  `json:"samples"`
	Min       int64   `json:"min_ns"`
	Mean      int64   `json:"mean_ns"`
	P95       int64   `json:"p95_ns"`
	MaxP95    int64   `json:"p95_max_ns"`
	Jitter    *int64  `json:"jitter_ns,omitempty"`
	FromClock *uint64 `json:"from_clock_error_ns,omitempty"`
	ToClock   *uint64 `json:"to_clock_error_ns,omitempty"`
	Unknown   uint64  `json:"clock_unknown"`
	Beyond    uint64  `json:"beyond"`
}

// DelayPoint is the delay in one step.
type DelayPoint struct {
	Time instant.Time `json:"time"`
	DelaySums
}

// delayKey says what a delay is of.
type delayKey struct {
	flowKey
	method string
}

// delayKeys are the columns of a delayKey, in the order of delayRow.
const delayKeys = `flow, flow_id, scope, "from", "to", method`

// key says what the delay is of.
func (d *MeasuredDelay) key() delayKey {
	return delayKey{flowKey{d.Flow, d.Scope, d.FlowID, d.From, d.To}, d.Method}
}

// Delay answers.
func (q *Queries) Delay(ctx context.Context, ask DelayQuestion) (*MeasuredDelays, error) {
	a := &MeasuredDelays{Delays: []MeasuredDelay{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error { return readDelays(ctx, r, &ask, a) })
	if err != nil {
		return a, err
	}
	for i := range a.Delays {
		d := &a.Delays[i]
		d.Warnings = d.warnings()
	}
	if ask.Before == nil || len(a.Delays) == 0 {
		return a, nil
	}
	place, before := map[delayKey]int{}, &MeasuredDelays{}
	for i := range a.Delays {
		place[a.Delays[i].key()] = i
	}
	ask.Range, ask.Limit, ask.Step = *ask.Before, mostPoints, 0
	err = q.ask(ctx, ask.Range, &before.Answer, func(ctx context.Context, r *store.Reading) error { return readDelays(ctx, r, &ask, before) })
	a.add(&before.Answer)
	for i := range before.Delays {
		d := &before.Delays[i]
		if k, ok := place[d.key()]; ok {
			a.Delays[k].Before = &d.DelaySums
		}
	}
	return a, err
}

func readDelays(ctx context.Context, r *store.Reading, ask *DelayQuestion, a *MeasuredDelays) error {
	if ask.Where != nil {
		return delaysWhere(ctx, r, ask, a)
	}
	if err := delayTotals(ctx, r, ask, a); err != nil || ask.Step == 0 || len(a.Delays) == 0 {
		return err
	}
	a.Step = ask.Step.Nanoseconds()
	return delaySeries(ctx, r, ask, a)
}

// delayTime is the column with the time of a delay: the begin of its block or period.
const delayTime = "coalesce(start, time)"

// where is the condition on the rows of the table of delays.
func (d *DelayQuestion) where(p *parameters) string {
	text := "samples > 0 AND " + d.timed(delayTime, p)
	if d.Flow != "" {
		text += " AND flow = " + p.add(d.Flow)
	}
	return text
}

// negativeBucket is the bucket of -1 ns; those of longer negative delays are below it. It is below the one of 0.
const negativeBucket = -10

// delayParts is a query of the delays that are asked for, with a part for each bucket of their 95th percentiles.
// Consecutive blocks have no jitter of their own, as each has one delay: it is the difference to the block before.
// step is a column for the steps of series, before the key; "": none.
func delayParts(r *store.Reading, ask *DelayQuestion, step string, p *parameters) string {
	one := store.Union(r.Files, `SELECT coalesce(flow, '') AS flow, coalesce(flow_id, 0) AS flow_id, coalesce(scope, '') AS scope,
	coalesce("from", 0) AS "from", coalesce("to", 0) AS "to", coalesce(method, '') AS method, from_node, to_node, epoch_ns(`+delayTime+`) AS began,
	length_ns::HUGEINT AS length, samples, min_ns, mean_ns, p95_ns, jitter_ns, from_clock_error_ns, to_clock_error_ns, warning
FROM FILE(delay) WHERE `+ask.where(p))
	return fmt.Sprintf(`WITH one AS (%s), joined AS (
	SELECT *, CASE WHEN samples = 1 AND lag(began) OVER w + lag(length) OVER w = began THEN abs(mean_ns::HUGEINT - lag(mean_ns) OVER w) END AS since
	FROM one WINDOW w AS (PARTITION BY %s ORDER BY began, mean_ns)
), part AS (
	SELECT *, CASE WHEN p95_ns < 0 THEN %d - (%s) ELSE %s END AS b, jitter_ns IS NULL AND since IS NOT NULL AS stepped FROM joined
), bucket AS (
	SELECT %s%s, b, max(from_node) AS from_node, max(to_node) AS to_node, count(*) AS records, sum(samples) AS samples,
		min(min_ns) AS least, sum(mean_ns::DOUBLE * samples) AS total, min(p95_ns) AS p95_least, max(p95_ns) AS p95_most,
		sum(CASE WHEN stepped THEN since::DOUBLE ELSE jitter_ns::DOUBLE * samples END) AS jitter,
		sum(CASE WHEN stepped THEN 1 WHEN jitter_ns IS NOT NULL THEN samples END) AS jitters,
		max(from_clock_error_ns) AS from_clock, max(to_clock_error_ns) AS to_clock,
		count(*) FILTER (from_clock_error_ns IS NULL OR to_clock_error_ns IS NULL) AS unknown, count(warning) AS beyond
	FROM part GROUP BY ALL
)`, one, delayKeys, negativeBucket-1, store.Bucket("(-greatest(p95_ns, -9223372036854775807))"), store.Bucket("p95_ns"), step, delayKeys)
}

// delaySums are the columns of DelaySums, of buckets.
var delaySums = `max(from_node), max(to_node), sum(records)::BIGINT, ` + capped("sum(samples)") + `, min(least),
	sum(total) / sum(samples)::DOUBLE AS mean, min(p95_least), max(p95_most), list(b), list(` + capped("samples") + `), sum(jitter), sum(jitters)::DOUBLE,
	max(from_clock), max(to_clock), sum(unknown)::BIGINT, sum(beyond)::BIGINT`

func delayTotals(ctx context.Context, r *store.Reading, ask *DelayQuestion, a *MeasuredDelays) error {
	p := &parameters{}
	query := delayParts(r, ask, "", p) + " SELECT " + delayKeys + ", " + delaySums + " FROM bucket GROUP BY " + delayKeys +
		` ORDER BY mean DESC, flow_id, scope DESC, "from", "to", method, flow LIMIT ` + p.add(ask.Limit+1)
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		d, err := delayRow(scan)
		if err != nil {
			return err
		}
		if len(a.Delays) == ask.Limit {
			a.Cut = cutAt(ask.Limit)
			return nil
		}
		a.Delays = append(a.Delays, d)
		return nil
	})
}

func delaySeries(ctx context.Context, r *store.Reading, ask *DelayQuestion, a *MeasuredDelays) error {
	place := map[delayKey]int{}
	for i := range a.Delays {
		place[a.Delays[i].key()] = i
	}
	p := &parameters{}
	step := "began // " + p.add(ask.Step.Nanoseconds()) + "::BIGINT AS w, "
	query := delayParts(r, ask, step, p) + " SELECT w, " + delayKeys + ", " + delaySums + " FROM bucket GROUP BY w, " + delayKeys +
		" ORDER BY w, " + delayKeys + " LIMIT " + p.add(mostPoints+1)
	points := 0
	return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
		var number int64
		d, err := delayRow(scan, &number)
		if err != nil {
			return err
		}
		if points++; points > mostPoints {
			a.Cut = cutAt(mostPoints)
			return nil
		}
		if i, ok := place[d.key()]; ok {
			a.Delays[i].Series = append(a.Delays[i].Series, DelayPoint{beginOf(number, ask.Step), d.DelaySums})
		}
		return nil
	})
}

// delayRow reads a delay; before are columns before its key.
func delayRow(scan func(...any) error, before ...any) (d MeasuredDelay, err error) {
	var fromNode, toNode sql.NullString
	var mean, jitter, jitters sql.NullFloat64
	var least, most, fromClock, toClock sql.NullInt64
	var b, n any
	into := append(before, &d.Flow, &d.FlowID, &d.Scope, &d.From, &d.To, &d.Method, &fromNode, &toNode, &d.Records, &d.Samples, &d.Min,
		&mean, &least, &most, &b, &n, &jitter, &jitters, &fromClock, &toClock, &d.Unknown, &d.Beyond)
	if err = scan(into...); err != nil {
		return d, err
	}
	d.FromNode, d.ToNode, d.Mean = fromNode.String, toNode.String, rounded(mean.Float64)
	if jitters.Float64 > 0 {
		mean := rounded(jitter.Float64 / jitters.Float64)
		d.Jitter = &mean
	}
	d.FromClock, d.ToClock, d.MaxP95 = unsigned(fromClock), unsigned(toClock), most.Int64
	h := signedDelays{}
	bs, _ := b.([]any)
	ns, _ := n.([]any)
	for i := range min(len(bs), len(ns)) {
		h.add(whole(bs[i]), uint64(whole(ns[i])))
	}
	d.P95, err = h.p95(least.Int64, most.Int64)
	return d, err
}

// rounded is a fraction as a whole number, if there is one.
func rounded(f float64) int64 {
	return int64(min(max(f, math.MinInt64), math.MaxInt64-1024)) // the greatest fraction that is a whole number
}

// signedDelays is a histogram of delays that may be negative: how many there are in the buckets of the database.
type signedDelays map[int64]uint64

// mostInBucket bounds numbers from the network, so that no sum of them overflows.
const mostInBucket = 1 << 50

func (s signedDelays) add(bucket int64, n uint64) {
	s[bucket] = min(s[bucket]+min(n, mostInBucket), mostInBucket)
}

// p95 is the 95th percentile by the nearest rank, between the least and the greatest.
func (s signedDelays) p95(least, most int64) (int64, error) {
	var negative, other []exponential.Bucket
	zero := uint64(0)
	for bucket, n := range s {
		switch {
		case bucket <= negativeBucket: // that of -1 ns, as that of 1 ns has the index -1
			negative = append(negative, exponential.Bucket{Index: int(negativeBucket - 1 - bucket), Count: n})
		case bucket < -1:
			zero = n
		default:
			other = append(other, exponential.Bucket{Index: int(bucket), Count: n})
		}
	}
	low, err := exponential.Restored(0, -max(least, -math.MaxInt64), 0, negative)
	if err != nil {
		return 0, err
	}
	high, err := exponential.Restored(0, max(most, 0), zero, other)
	if err != nil {
		return 0, err
	}
	below, above := float64(low.Count()), float64(high.Count())
	rank := math.Ceil(0.95*(below+above)) - 0.5 // in the middle, so that no rounding gives another one
	value := int64(0)
	if rank < below { // of the negative ones, the longest is the least
		value = -low.Quantile((below - rank) / below)
	} else {
		value = high.Quantile((rank - below) / above)
	}
	return min(max(value, least), most), nil
}
