// SPDX-License-Identifier: Apache-2.0

package query

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// PathsQuestion asks which paths packets took.
type PathsQuestion struct {
	Range
	Flows
	Passing
	Before *Range        // another time to compare with; nil: none
	Step   time.Duration // of series; 0: none
	Where  *Condition    // nil: none
	Limit  int
}

// Paths are the paths of packets, the one with most packets first.
type Paths struct {
	Answer
	Packets uint64 `json:"packets"`
	Paths   []Path `json:"paths"`

	Nodes    []NodeTotal    `json:"nodes"`
	Segments []SegmentTotal `json:"segments"`

	Before  *Paths   `json:"before,omitempty"`
	Instead *Instead `json:"instead,omitempty"`
}

// Path is one path, and what was measured of its packets.
type Path struct {
	ID         ID           `json:"path"`
	Namespace  uint16       `json:"namespace"`
	Complete   bool         `json:"complete"`
	Packets    uint64       `json:"packets"`
	Share      float64      `json:"share"`
	Bytes      uint64       `json:"bytes"`
	Incomplete uint64       `json:"incomplete"`
	Lost       uint64       `json:"lost"`
	LossKnown  bool         `json:"loss_known"`
	First      instant.Time `json:"first"`
	Last       instant.Time `json:"last"`
	Delay      *Delays      `json:"delay,omitempty"`
	Negative   uint64       `json:"delay_negative,omitempty"`
	Hops       []Hop        `json:"hops"`
	Series     []PathPoint  `json:"series,omitempty"`
}

// Hop is a node of a path.
type Hop struct {
	Node
	Role     string     `json:"role"`
	Ingress  *Interface `json:"ingress,omitempty"`
	Egress   *Interface `json:"egress,omitempty"`
	Hops     *int16     `json:"hops,omitempty"`
	Segment  ID         `json:"segment"`
	Held     *Delays    `json:"held,omitempty"`
	Since    *Delays    `json:"since,omitempty"`
	Negative uint64     `json:"since_negative,omitempty"`
}

// packetsOf is the part of a query that selects packets of a time and of flows. Its first two parameters are
// the times.
func packetsOf(in Range, flows *Flows) (where string, p *parameters) {
	p = &parameters{}
	where = "p.time >= " + p.add(in.From.UTC()) + "::TIMESTAMP_NS AND p.time < " + p.add(in.Until.UTC()) + "::TIMESTAMP_NS"
	if condition := flows.where(p); condition != "" {
		where += " AND " + condition
	}
	return where, p
}

// Paths answers.
func (q *Queries) Paths(ctx context.Context, ask PathsQuestion) (*Paths, error) {
	a, err := q.pathsIn(ctx, ask)
	if err == nil {
		err = q.addInstead(ctx, &ask, a)
	}
	if err != nil || ask.Before == nil {
		return a, err
	}
	ask.Range = *ask.Before
	a.Before, err = q.pathsIn(ctx, ask)
	return a, err
}

// pathsIn answers about one time.
func (q *Queries) pathsIn(ctx context.Context, ask PathsQuestion) (*Paths, error) {
	a := &Paths{Paths: []Path{}, Nodes: []NodeTotal{}, Segments: []SegmentTotal{}}
	err := q.ask(ctx, ask.Range, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		if ask.Where != nil {
			return pathsWhere(ctx, r, &ask, a)
		}
		numbers, err := pathsOf(ctx, r, &ask, a)
		if err != nil || len(a.Paths) == 0 {
			return err
		}
		var ids []uint64
		place := map[uint64]int{}
		for i := range a.Paths {
			a.Paths[i].Share = float64(a.Paths[i].Packets) / float64(max(a.Packets, 1))
			ids = append(ids, uint64(a.Paths[i].ID))
			place[uint64(a.Paths[i].ID)] = i
		}
		known, err := namesIn(ctx, r)
		if err != nil {
			return err
		}
		defined, err := definitions(ctx, r, ids)
		if err != nil {
			return err
		}
		for id, d := range defined {
			p := &a.Paths[place[id]]
			p.Namespace, p.Complete, p.Hops = d.namespace, d.complete, d.describe(known)
		}
		if ask.Step > 0 {
			a.Step = ask.Step.Nanoseconds()
			if err := pathSeries(ctx, r, &ask, a); err != nil {
				return err
			}
		}
		sum := newTotals(a.Paths)
		err = measurePaths(ctx, r, &ask, numbers, func(id uint64, i, what int, h *exponential.Delays, negative uint64) {
			p := &a.Paths[place[id]]
			if what == store.DelayOfPath {
				p.Delay, p.Negative = delaysOf(h), negative
				return
			}
			if i >= len(p.Hops) {
				return
			}
			hop := &p.Hops[i]
			if what == store.DelayHeld {
				hop.Held = delaysOf(h)
				sum.held(hop, h)
			} else if hop.Since, hop.Negative = delaysOf(h), negative; i > 0 {
				sum.since(&p.Hops[i-1], h, negative)
			}
		})
		a.Nodes, a.Segments = sum.list()
		return err
	})
	a.sayKnown()
	return a, err
}

// describe are the nodes of a path, without what was measured.
func (d *definition) describe(known *names) (hops []Hop) {
	for i := range d.node {
		h := Hop{
			Node: known.node(d.exporter[i], d.node[i]), Role: record.NodeRole(d.role[i]).String(),
			Ingress: known.iface(d.exporter[i], d.node[i], d.ingress[i]),
			Egress:  known.iface(d.exporter[i], d.node[i], d.egress[i]), Segment: ID(d.segments[i]),
		}
		if n := int16(d.hops[i]); n >= 0 {
			h.Hops = &n
		}
		hops = append(hops, h)
	}
	return hops
}

// bucketsOf is a query of histograms: of a column of a table that the query names, by keys.
func bucketsOf(keys, column, table string) string {
	return "SELECT " + keys + ", list(b) AS b, list(n) AS n FROM (SELECT " + keys + ", " + store.Bucket(
		column,
	) + " AS b, count(*)::UBIGINT AS n FROM " +
		table + " WHERE " + column + " >= 0 GROUP BY ALL) GROUP BY " + keys
}

// unionOf is the same query of all files, as each of them has its packets.
func unionOf(r *store.Reading, query func(of *store.Stored) string) string {
	var parts []string
	for i := range r.Files {
		of := r.Files[i].Stored()
		parts = append(parts, store.Union(r.Files[i:i+1], query(&of)))
	}
	return strings.Join(parts, "\nUNION ALL\n")
}

// pathsOf finds the paths, and their numbers by file.
func pathsOf(ctx context.Context, r *store.Reading, ask *PathsQuestion, a *Paths) (numbers [][]uint32, err error) {
	s := ask.selection()
	query := "WITH part AS (SELECT file, number, sum(packets) AS packets, sum(bytes) AS bytes, sum(incomplete) AS incomplete, " +
		"sum(lost) AS lost, min(first) AS first, max(last) AS last FROM (" + s.sums(r) + ") GROUP BY file, number), whole AS (" +
		"SELECT id AS path, sum(packets)::UBIGINT AS packets, sum(bytes)::UBIGINT, sum(incomplete)::UBIGINT, sum(lost)::UBIGINT, min(first), " +
		"max(last), list(p.file), list(p.number) FROM part p JOIN (" + numbersOf(r, "path") + ") d " +
		"ON p.file = d.file AND p.number = d.number GROUP BY id) " +
		"SELECT *, (sum(packets) OVER ())::UBIGINT FROM whole ORDER BY packets DESC, path LIMIT " + s.add(ask.Limit+1)
	numbers = make([][]uint32, len(r.Files))
	return numbers, rows(ctx, r.DB, query, s.values, func(scan func(...any) error) error {
		var id uint64
		var one Path
		var files, of any
		err := scan(&id, &one.Packets, &one.Bytes, &one.Incomplete, &one.Lost, &one.First.Time, &one.Last.Time, &files, &of, &a.Packets)
		if err != nil {
			return err
		}
		if len(a.Paths) == ask.Limit {
			a.Cut = cutAt(ask.Limit)
			return nil
		}
		one.ID, one.Hops = ID(id), []Hop{}
		one.First, one.Last = instant.Of(one.First.Time), instant.Of(one.Last.Time)
		a.Paths = append(a.Paths, one)
		for i, file := range list(files) {
			numbers[whole(file)] = append(numbers[whole(file)], uint32(whole(list(of)[i])))
		}
		return nil
	})
}

// measurePaths reads what was measured of paths, and at each of their nodes.
func measurePaths(
	ctx context.Context,
	r *store.Reading,
	ask *PathsQuestion,
	numbers [][]uint32,
	addDelays func(id uint64, i, what int, h *exponential.Delays, negative uint64),
) error {
	s := ask.selection()
	query := s.delays(r, numbers) + `, whole AS (
	SELECT id AS path, i, what, b, sum(n) AS n, sum(negative) AS negative, sum(total) AS total, max(most) AS most
	FROM sums s JOIN (` + numbersOf(r, "path") + `) d ON s.file = d.file AND s.number = d.number GROUP BY ALL)
SELECT path, i, what, sum(negative)::UBIGINT, sum(total)::DOUBLE, max(most), list(b) FILTER (b IS NOT NULL), list(n::UBIGINT) FILTER (b IS NOT NULL)
FROM whole GROUP BY path, i, what`
	return rows(ctx, r.DB, query, s.values, func(scan func(...any) error) error {
		var id uint64
		var i, what int
		var negative uint64
		var total sql.NullFloat64
		var most sql.NullInt64
		var b, n any
		if err := scan(&id, &i, &what, &negative, &total, &most, &b, &n); err != nil {
			return err
		}
		h, err := histogram(total, most, b, n)
		if err == nil {
			addDelays(id, i, what, h, negative)
		}
		return err
	})
}

// GridQuestion asks for the delay and loss between the ends of paths.
type GridQuestion struct {
	Range
	Flows
	Before *Range     // another time to compare with; nil: none
	Where  *Condition // on packets; nil: none
	Limit  int
}

// Grid is node by node.
type Grid struct {
	Answer
	Pairs []Pair `json:"pairs"`
}

// Pair is a first and a last node of paths.
type Pair struct {
	From      Node  `json:"from"`
	To        *Node `json:"to,omitempty"`
	LossKnown bool  `json:"loss_known"`
	PairMeasured
	Before *PairMeasured `json:"before,omitempty"`
}

// PairMeasured is what was measured between two nodes.
type PairMeasured struct {
	Packets  uint64  `json:"packets"`
	Lost     uint64  `json:"lost"`
	Paths    uint64  `json:"paths"`
	Delay    *Delays `json:"delay,omitempty"`
	Negative uint64  `json:"delay_negative,omitempty"`
}

// Grid answers.
func (q *Queries) Grid(ctx context.Context, ask GridQuestion) (*Grid, error) {
	a, err := q.gridIn(ctx, ask.Range, &ask)
	if err != nil || ask.Before == nil {
		return a, err
	}
	before, err := q.gridIn(ctx, *ask.Before, &ask)
	if err != nil {
		return a, err
	}
	a.add(&before.Answer)
	measured := map[string]*PairMeasured{}
	for i := range before.Pairs {
		measured[before.Pairs[i].key()] = &before.Pairs[i].PairMeasured
	}
	for i := range a.Pairs {
		a.Pairs[i].Before = measured[a.Pairs[i].key()]
	}
	return a, nil
}

// key is the same for the same nodes, by what reported them: Direct Exports, which tell losses, or traces.
func (p *Pair) key() string {
	key := strconv.FormatBool(p.LossKnown) + " " + p.From.key()
	if p.To != nil {
		key += " " + p.To.key()
	}
	return key
}

// gridIn answers about one time.
func (q *Queries) gridIn(ctx context.Context, in Range, ask *GridQuestion) (*Grid, error) {
	limit := ask.Limit
	in = in.minutes()
	a := &Grid{Pairs: []Pair{}}
	err := q.ask(ctx, in, &a.Answer, func(ctx context.Context, r *store.Reading) error {
		known, err := namesIn(ctx, r)
		if err != nil {
			return err
		}
		if ask.Where != nil {
			return gridWhere(ctx, r, in, ask, known, a)
		}
		p := times(in)
		of := ask.Flows.of(r, p)
		query := "WITH ends AS (SELECT DISTINCT ON (path) * FROM (" + store.Union(
			r.Files,
			`SELECT path, coalesce(exporter[1], '') AS e1, node[1] AS n1,
	CASE WHEN role[-1] = 3 THEN coalesce(exporter[-1], '') END AS e2, CASE WHEN role[-1] = 3 THEN node[-1] END AS n2 FROM FILE(paths)`,
		) + `)
), part AS ` + once(of) + ` (SELECT e1, n1, e2, n2, r.* FROM ` + rollup(
			of,
			"path",
		) + ` r JOIN ends d ON r.path = d.path
), whole AS (SELECT e1, n1, e2, n2, sum(packets)::UBIGINT AS packets, sum(lost)::UBIGINT AS lost, count(DISTINCT path) AS paths,
	sum(delay_negative)::UBIGINT AS negative, sum(delay_sum) AS total, max(delay_max) AS most FROM part GROUP BY ALL
), delays AS (SELECT e1, n1, e2, n2, list(b) AS b, list(n) AS n FROM (
	SELECT e1, n1, e2, n2, b, sum(n)::UBIGINT AS n FROM (SELECT e1, n1, e2, n2, unnest(delay_b) AS b, unnest(delay_n) AS n FROM part) GROUP BY ALL) GROUP BY ALL)
SELECT w.e1, w.n1, w.e2, w.n2, packets, lost, paths, negative, total, most, b, n FROM whole w LEFT JOIN delays d ON w.e1 = d.e1 AND w.n1 = d.n1 AND w.e2 = d.e2 AND w.n2 = d.n2
ORDER BY packets DESC, w.e1, w.n1 LIMIT ` + p.add(limit+1)
		return rows(ctx, r.DB, query, p.values, func(scan func(...any) error) error {
			one, err := pairOf(known, scan)
			if len(a.Pairs) == limit {
				a.Cut = cutAt(limit)
				return err
			}
			a.Pairs = append(a.Pairs, one)
			return err
		})
	})
	a.sayKnown()
	return a, err
}

func pairOf(known *names, scan func(...any) error) (one Pair, err error) {
	var e1 string
	var e2 sql.NullString
	var n1 uint64
	var n2 sql.Null[uint64]
	var total sql.NullFloat64
	var most sql.NullInt64
	var b, n any
	if err := scan(&e1, &n1, &e2, &n2, &one.Packets, &one.Lost, &one.Paths, &one.Negative, &total, &most, &b, &n); err != nil {
		return one, err
	}
	one.From = known.node(e1, n1)
	if n2.Valid {
		to := known.node(e2.String, n2.V)
		one.To = &to
	}
	var h *exponential.Delays
	h, err = histogram(total, most, b, n)
	one.Delay = delaysOf(h)
	return one, err
}
