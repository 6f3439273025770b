// SPDX-License-Identifier: Apache-2.0

// Package query asks the store: for paths, their changes, segments, losses and packets. Values of a question
// are parameters of the database's statements, never a part of their text. Each question is bounded in time,
// in how many are asked at once, and in rows; an answer says when it was cut.
package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	"github.com/waymark-net/waymark/collector/internal/live"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
)

// Queries answers questions about a store.
type Queries struct {
	Store  *store.Store
	Time   time.Duration // of one question
	AtOnce int
	Live   func() Live             // nil: no collector runs
	Hub    *live.Hub               // nil: nothing is written that could be watched
	Names  func() []nodenames.Node // that exporters said; nil: no collector runs

	Settings any // what admins may see of the collector's settings, as JSON; nil: nothing

	turns chan struct{}
	held  *room
}

// Live is what only the running collector knows.
type Live struct {
	Collector *record.Statistics
	Sink      sink.Stats // of the store
	Outputs   []Output   // all, that one too
	Exporters []collect.Exporter
	Ignored   uint64 // messages of exporters that are not listed
	Buffers   []collect.Buffer
	Began     time.Time
}

// Output is something that gets records.
type Output struct {
	Name  string
	Stats sink.Stats
}

// Begin makes it ready to be asked.
func (q *Queries) Begin() {
	n := max(q.AtOnce, 1)
	q.turns, q.held = make(chan struct{}, n), newRoom(heldEach*n)
}

// Working is how many questions are worked on.
func (q *Queries) Working() int { return len(q.turns) }

// Errors of questions.
var (
	ErrBusy error = problem.New(
		"too many questions at a time, or clients that read their answers slowly", "ask again later, or set api.queries")
	ErrSlow = errors.New("the question took too long")
)

// Range is a time: from From on, until before Until.
type Range struct {
	From, Until time.Time
}

// MostTime is how long a question may reach.
const MostTime = 3660 * 24 * time.Hour

// minutes widens a range to whole minutes, of which rollups are.
func (r Range) minutes() Range {
	until := r.Until.Truncate(time.Minute)
	if until.Before(r.Until) {
		until = until.Add(time.Minute)
	}
	return Range{r.From.Truncate(time.Minute), until}
}

// hours are the whole hours in a range; none: both are the same.
func (r Range) hours() (from, until time.Time) {
	from, until = r.From.Truncate(time.Hour), r.Until.Truncate(time.Hour)
	if from.Before(r.From) {
		from = from.Add(time.Hour)
	}
	if until.Before(from) {
		until = from
	}
	return from, until
}

// Answer is what all answers begin with.
type Answer struct {
	From      instant.Time `json:"from"`
	Until     instant.Time `json:"until"`
	Files     int          `json:"files"`
	Gaps      []Gap        `json:"gaps,omitempty"`
	Step      int64        `json:"step_ns,omitempty"`
	Undecided uint64       `json:"undecided,omitempty"`
	Cut       *Cut         `json:"cut,omitempty"`
}

// add adds what the answer about another time lacks.
func (a *Answer) add(other *Answer) {
	a.Gaps, a.Undecided = append(a.Gaps, other.Gaps...), a.Undecided+other.Undecided
	if a.Cut == nil {
		a.Cut = other.Cut
	}
}

// Gap is a time of which something is missing: files have left or cannot be read, or records were not written.
type Gap struct {
	From   instant.Time `json:"from"`
	Until  instant.Time `json:"until"`
	Reason string       `json:"reason"`
}

// Cut says that an answer is not whole.
type Cut struct {
	Reason  string `json:"reason"`
	Text    string `json:"text"` // of both below
	Problem string `json:"problem"`
	Cure    string `json:"cure"`
	also    string // what the cure ends with
}

// newCut makes advice that begins with asking for less time or fewer addresses, and goes on with also.
func newCut(reason, text, also string) *Cut {
	c := &Cut{Reason: reason, Problem: text, also: also}
	c.advise("fewer addresses")
	return c
}

// advise says what can be asked for less of, besides time; "": nothing.
func (c *Cut) advise(fewer string) {
	c.Cure = "ask for less time"
	if fewer != "" {
		c.Cure += " or " + fewer
	}
	c.Cure += c.also
	c.Text = problem.New(c.Problem, c.Cure).Error()
}

// Advise gives advice that fits a question that cannot select addresses: fewer is what it can ask for less of, or "".
func (a *Answer) Advise(fewer string) {
	if a.Cut != nil {
		a.Cut.advise(fewer)
	}
}

func cutAt(limit int) *Cut {
	return newCut("limit", fmt.Sprintf("there are more than %d", limit), ", or raise limit")
}

// Delays sums up delays, in nanoseconds. Percentiles are those of an exponential histogram: within 2.2% of
// the exact ones.
type Delays struct {
	Count uint64 `json:"count"`
	Mean  int64  `json:"mean_ns"`
	P50   int64  `json:"p50_ns"`
	P95   int64  `json:"p95_ns"`
	P99   int64  `json:"p99_ns"`
	Max   int64  `json:"max_ns"`
}

// delaysOf is the summary of a histogram; nil: it has none.
func delaysOf(h *exponential.Delays) *Delays {
	if h == nil || h.Count() == 0 {
		return nil
	}
	return &Delays{
		Count: h.Count(), Mean: int64(float64(h.Sum()) / float64(h.Count())),
		P50: h.Quantile(0.5), P95: h.Quantile(0.95), P99: h.Quantile(0.99), Max: h.Max(),
	}
}

// Confined reports whether a question may only be about a part of what the store has.
func Confined(ctx context.Context) bool { return store.ScopeOf(ctx) != nil }

// Passes reports whether somebody may see a record.
func Passes(ctx context.Context, r record.Record) bool { return store.ScopeOf(ctx).Passes(r) }

// ask answers one question: when its turn comes, and within its time.
func (q *Queries) ask(ctx context.Context, in Range, answer *Answer, do func(context.Context, *store.Reading) error) error {
	ctx, cancel := context.WithTimeout(ctx, q.Time)
	defer cancel()
	select {
	case q.turns <- struct{}{}:
		defer func() { <-q.turns }()
	case <-ctx.Done():
		return ErrBusy
	}
	answer.From, answer.Until = instant.Of(in.From), instant.Of(in.Until)
	err := q.Store.Read(ctx, in.From, in.Until, func(r *store.Reading) error {
		answer.Files = len(r.Files)
		for _, g := range r.Gaps {
			switch {
			case Confined(ctx) && g.Left:
				g.Reason = "older records are not kept any more"
			case Confined(ctx):
				g.Reason = "something is missing" // where it is concerns others
			}
			answer.Gaps = append(answer.Gaps, Gap{instant.Of(g.From), instant.Of(g.Until), g.Reason})
		}
		if len(r.Files) == 0 {
			return nil
		}
		return do(ctx, r)
	})
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrSlow
	}
	return err
}

// rows calls a function for each row of a query.
func rows(ctx context.Context, db *sql.DB, query string, args []any, row func(scan func(...any) error) error) error {
	list, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer list.Close()
	for list.Next() {
		if err := row(list.Scan); err != nil {
			return err
		}
	}
	return list.Err()
}

// parameters collects the values of a query, which names them by number.
type parameters struct{ values []any }

// add adds a value, and is its name in the query.
func (p *parameters) add(value any) string {
	p.values = append(p.values, value)
	return fmt.Sprintf("$%d", len(p.values))
}

// times are the parameters of a rollup's rows, in their order; see store.File.Rows.
func times(in Range) *parameters {
	hourFrom, hourUntil := in.hours()
	return &parameters{[]any{in.From.UTC(), in.Until.UTC(), hourFrom.UTC(), hourUntil.UTC()}}
}

// histogram makes one from the lists of a row.
func histogram(sum sql.NullFloat64, greatest sql.NullInt64, indexes, counts any) (*exponential.Delays, error) {
	bs, ok := indexes.([]any)
	ns, also := counts.([]any)
	if !ok || !also || len(bs) != len(ns) {
		return nil, nil
	}
	var zero uint64
	var list []exponential.Bucket
	for i := range bs {
		index, n := whole(bs[i]), whole(ns[i])
		if index < -1 {
			zero += uint64(n)
			continue
		}
		list = append(list, exponential.Bucket{Index: int(index), Count: uint64(n)})
	}
	h, err := exponential.Restored(uint64(max(min(sum.Float64, math.MaxInt64), 0)), greatest.Int64, zero, list)
	return &h, err
}

// whole is a number of any of the database's types of whole numbers.
func whole(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	case uint64:
		return int64(min(v, math.MaxInt64))
	case uint32:
		return int64(v)
	case uint16:
		return int64(v)
	case uint8:
		return int64(v)
	}
	return 0
}

// addressOf is an address from its octets; invalid: there is none.
func addressOf(octets []byte) netip.Addr {
	a, ok := netip.AddrFromSlice(octets)
	if !ok {
		return netip.Addr{}
	}
	return a.Unmap()
}

// ID is the number of a path or a segment, which JSON has in 16 hexadecimal digits.
type ID uint64

// MarshalText writes it.
func (id ID) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%016x", uint64(id)), nil
}

// UnmarshalText reads it.
func (id *ID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || len(text) != 16 {
		return errors.New("want 16 hexadecimal digits")
	}
	*id = ID(n)
	return nil
}
