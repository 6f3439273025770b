// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// A packed file also has rollups of hours by flow: by the number of a key, which stands for a flow id, too, and by path.
// They answer questions about the packets of some addresses, which rollups by path or segment cannot. Most packets are of
// few flows, and only these have rows here. Keys are numbered by their packets, those with most first, so that packets
// that a rollup lacks are those of greater numbers.
const (
	tableFlows  = "flow_1h"       // sums of packets
	tableDelays = "flow_delay_1h" // delays, also at each node of their path
	// tableWays has for each key and namespace one of the complete paths that packets took, and how many these are: whether
	// a pair of addresses can have moved is known from it.
	tableWays = "flow_paths"
)

// summedFrom and measuredFrom are how many packets a flow has in an hour, on average, for rows in these rollups. Rows for
// quieter flows are many, and their packets are few: they would take more of the disk than they save of time.
const (
	summedFrom   = 32
	measuredFrom = 1024
)

// Flows says which packets of a file are in its rollups by flow: those of keys with numbers below these.
type Flows struct {
	Summed   uint32 // in FILE(flow_1h); 0: the file has none
	Measured uint32 // in FILE(flow_delay_1h)
	Ways     bool   // it has FILE(flow_paths)
}

// flowsOf reads what rollups by flow a file has.
func flowsOf(ctx context.Context, conn *sql.Conn, alias string) (f Flows, err error) {
	if f.Ways, err = hasTable(ctx, conn, alias, tableWays); err != nil || !f.Ways {
		return f, err
	}
	return f, conn.QueryRowContext(ctx, "SELECT summed, measured FROM "+alias+"."+tablePacking).Scan(&f.Summed, &f.Measured)
}

// countFlows finds out which flows get rollups. A file of several hours has as many as its packets fill as the busiest one
// does: the few that came late count little.
func (p *packing) countFlows(ctx context.Context) error {
	var hours float64
	query := "SELECT coalesce(sum(n) / max(n), 1) FROM (SELECT count(*) AS n FROM old.packets GROUP BY date_trunc('hour', time::TIMESTAMP))"
	if err := p.conn.QueryRowContext(ctx, query).Scan(&hours); err != nil {
		return err
	}
	return p.conn.QueryRowContext(ctx, "SELECT count(*) FILTER (packets >= $1), count(*) FILTER (packets >= $2) FROM flows",
		summedFrom*hours, measuredFrom*hours).Scan(&p.rolled.Summed, &p.rolled.Measured)
}

// flowsError is the error of making rollups by flow. A file can be packed without them.
type flowsError struct{ error }

func (e *flowsError) Unwrap() error { return e.error }

// rollFlows makes the rollups by flow of the packets that were written.
func (p *packing) rollFlows(ctx context.Context) error {
	if p.flowless {
		return nil
	}
	if err := p.countFlows(ctx); err != nil {
		return &flowsError{err}
	}
	fill := strings.NewReplacer("SUMMED", fmt.Sprint(p.rolled.Summed), "MEASURED", fmt.Sprint(p.rolled.Measured))
	for _, statement := range []string{flowWays, flowSums, flowDelays} {
		if err := p.run(ctx, fill.Replace(statement)); err != nil {
			return &flowsError{fmt.Errorf("roll up flows: %w", err)}
		}
	}
	return nil
}

// Rollups by flow. Rows of flows with few packets are together, and their lists have small numbers.
var (
	flowWays = `
CREATE TABLE fresh.` + tableWays + ` AS SELECT key, namespace, min(path) AS path, count(DISTINCT path)::UINTEGER AS paths
FROM fresh.packed WHERE reason = 0 AND time IS NOT NULL GROUP BY key, namespace ORDER BY key, namespace`
	flowSums = `
CREATE TABLE fresh.` + tableFlows + ` AS SELECT date_trunc('hour', time::TIMESTAMP) AS hour, key, path, namespace,
	count(*)::UINTEGER AS packets, count(*) FILTER (reason <> 0)::UINTEGER AS incomplete, count(*) FILTER (verdict = 2)::UINTEGER AS lost, sum(length)::UBIGINT AS bytes,
	min(time) AS first, max(time) AS last
FROM fresh.packed WHERE key < SUMMED AND time IS NOT NULL GROUP BY ALL ORDER BY key DESC, path, hour`
	flowDelays = `
CREATE TABLE fresh.` + tableDelays + ` AS
SELECT hour, key, path, namespace, i, what, sum(negative)::UINTEGER AS negative, sum(total)::DOUBLE AS total, max(most) AS most,
	list(b) FILTER (b IS NOT NULL) AS b, list(n::UINTEGER) FILTER (b IS NOT NULL) AS n
FROM (` + Buckets("hour, key, path, namespace", func(what int) string {
		return Values(what, "date_trunc('hour', p.time::TIMESTAMP) AS hour, p.key, p.path, p.namespace", restored,
			"fresh.packed p WHERE p.key < MEASURED AND p.time IS NOT NULL")
	}) + `)
GROUP BY hour, key, path, namespace, i, what ORDER BY key DESC, path, what, i, hour`
)

// compareFlows makes sure that the rollups by flow have each packet of their flows once.
func (p *packing) compareFlows(ctx context.Context) error {
	if !p.dictionary || p.flowless {
		return nil
	}
	fill := strings.NewReplacer(
		"SUMMED", fmt.Sprint(p.rolled.Summed), "MEASURED", fmt.Sprint(p.rolled.Measured), "HELD", fmt.Sprint(DelayHeld))
	for table, query := range map[string]string{
		tableFlows: `
SELECT (SELECT coalesce(sum(packets), 0) FROM fresh.flow_1h) = (SELECT count(*) FROM fresh.packed WHERE key < SUMMED AND time IS NOT NULL)`,
		tableDelays: `
SELECT (SELECT coalesce(sum(list_sum(n)), 0) FROM fresh.flow_delay_1h WHERE what = HELD) =
	(SELECT coalesce(sum(list_count(held_ns)), 0) FROM fresh.packed WHERE key < MEASURED AND time IS NOT NULL)`,
	} {
		var same bool
		if err := p.conn.QueryRowContext(ctx, fill.Replace(query)).Scan(&same); err != nil || !same {
			return &flowsError{errors.Join(err, fmt.Errorf("table %s has not the packets of its flows", table))}
		}
	}
	return nil
}

// What a histogram is of.
const (
	DelayOfPath = iota // from the first node to the last
	DelayHeld          // at the node i of the path
	DelaySince         // from the node before it
)

// Values is a query of what was measured of packets p, a row for each value: columns, i, value. since is the list of times
// since the previous node. Each kind is a query of its own, which reads only its columns: rows of all kinds together, one for
// each node of each packet, took more memory than the database may have.
func Values(what int, columns, since, from string) string {
	list := "p.held_ns"
	switch what {
	case DelayOfPath:
		return "SELECT " + columns + ", 0 AS i, p.delay_ns AS value FROM " + from
	case DelaySince:
		list = since
	}
	return "SELECT " + columns + ", unnest(range(len(p.held_ns))) AS i, unnest(" + list + ")::BIGINT AS value FROM " + from
}

// Buckets is a query of sums of Values by their buckets b: columns, i, what, b, n, negative, total, most. b is NULL for
// values that are negative or not known.
func Buckets(columns string, values func(what int) string) string {
	var list []string
	for _, what := range []int{DelayOfPath, DelayHeld, DelaySince} {
		list = append(list, fmt.Sprintf("SELECT %s, i, %d AS what, CASE WHEN value >= 0 THEN %s END AS b, count(value) AS n, "+
			"count(*) FILTER (value < 0) AS negative, sum(value) FILTER (value >= 0) AS total, max(value) AS most FROM (%s) GROUP BY ALL",
			columns, what, Bucket("value"), values(what)))
	}
	return strings.Join(list, " UNION ALL ")
}
