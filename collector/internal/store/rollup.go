// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// zeroBucket is the bucket of delays that are not above 0, before that of 1 ns, which is -1.
const zeroBucket = -2

// Bucket is the index, in SQL, of a delay's bucket, of base 2 and scale 4: the one that ends at 2^((index+1)/16). It is
// NULL for NULL.
func Bucket(of string) string {
	return fmt.Sprintf("CASE WHEN %s > 0 THEN (ceil(log2(%s) * 16) - 1)::SMALLINT WHEN %s <= 0 THEN %d::SMALLINT END", of, of, of, zeroBucket)
}

// Rollups of minutes are made of the facts whose number is at least LOW and below HIGH, those of hours of
// minutes in the same way. FILE is the file, PART the number of the transaction. The two lists of a histogram are
// made by one aggregation, so that they have one order, which is any: sorting each list took most of the time.
var (
	minuteRollups = map[string]string{
		"segment_1m": `
WITH hop AS (
	SELECT date_trunc('minute', time::TIMESTAMP) AS minute, path, unnest(range(1, len(held_ns) + 1))::UTINYINT AS i, unnest(held_ns) AS held, unnest(since_ns) AS since,
		CASE WHEN verdict = 2 THEN len(held_ns) END AS last
	FROM FILE.packets WHERE batch >= LOW AND batch < HIGH AND time IS NOT NULL
), place AS (
	SELECT d.path, d.i, s.number AS segment FROM (SELECT number AS path, unnest(range(1, len(segments) + 1)) AS i, unnest(segments) AS id FROM FILE.paths) d
		JOIN FILE.segments s ON d.id = s.segment
), held AS (
	SELECT minute, segment, b, sum(n)::UBIGINT AS n, sum(lost)::UBIGINT AS lost, sum(total) AS total, max(most) AS most FROM (
		SELECT minute, path, i, ` + Bucket("held") + ` AS b, count(*) AS n, count(*) FILTER (i = last) AS lost, sum(held)::DOUBLE AS total, max(held) AS most
		FROM hop GROUP BY ALL) h JOIN place p ON h.path = p.path AND h.i = p.i GROUP BY ALL
), link AS (
	SELECT minute, segment, b, sum(n)::UBIGINT AS n, sum(total) AS total, max(most) AS most FROM (
		SELECT minute, path, i - 1 AS i, CASE WHEN since < 0 THEN NULL ELSE ` + Bucket("since") + ` END AS b, count(*) AS n, sum(since)::DOUBLE AS total, max(since) AS most
		FROM hop WHERE since IS NOT NULL GROUP BY ALL) h JOIN place p ON h.path = p.path AND h.i = p.i GROUP BY ALL
), holds AS (
	SELECT minute, segment, sum(n)::UBIGINT AS packets, sum(lost)::UBIGINT AS lost, sum(total) AS total, max(most) AS most,
		list(b) FILTER (b IS NOT NULL) AS b, list(n) FILTER (b IS NOT NULL) AS n FROM held GROUP BY ALL
), links AS (
	SELECT minute, segment, sum(n) FILTER (b IS NULL)::UBIGINT AS negative, sum(total) FILTER (b IS NOT NULL) AS total, max(most) FILTER (b IS NOT NULL) AS most,
		list(b) FILTER (b IS NOT NULL) AS b, list(n) FILTER (b IS NOT NULL) AS n FROM link GROUP BY ALL
)
SELECT PART, h.minute, h.segment, h.packets, h.lost, h.total, h.most, h.b, h.n, coalesce(l.negative, 0), l.total, l.most, l.b, l.n
FROM holds h LEFT JOIN links l ON h.minute = l.minute AND h.segment = l.segment ORDER BY h.segment, h.minute`,

		"path_1m": `
WITH one AS (
	SELECT date_trunc('minute', time::TIMESTAMP) AS minute, path, reason, verdict, length, delay_ns AS delay
	FROM FILE.packets WHERE batch >= LOW AND batch < HIGH AND time IS NOT NULL
), whole AS (
	SELECT minute, path, count(*) AS packets, count(*) FILTER (reason <> 0) AS incomplete, count(*) FILTER (verdict = 2) AS lost, sum(length)::UBIGINT AS bytes,
		count(*) FILTER (delay < 0) AS negative, sum(delay) FILTER (delay >= 0)::DOUBLE AS total, max(delay) FILTER (delay >= 0) AS most
	FROM one GROUP BY ALL
), delays AS (
	SELECT minute, path, list(b) AS b, list(n) AS n FROM (
		SELECT minute, path, ` + Bucket("delay") + ` AS b, count(*)::UBIGINT AS n FROM one WHERE delay >= 0 GROUP BY ALL) GROUP BY ALL
)
SELECT PART, w.minute, w.path, w.packets, w.incomplete, w.lost, w.bytes, w.negative, w.total, w.most, d.b, d.n
FROM whole w LEFT JOIN delays d ON w.minute = d.minute AND w.path = d.path ORDER BY w.path, w.minute`,

		"loss_1m": `
SELECT PART, date_trunc('minute', coalesce(start, time)::TIMESTAMP) AS minute, flow_id, coalesce(flow, ''), scope, "from", "to",
	count(*), count(*) FILTER (lost IS NOT NULL), sum(sent) FILTER (lost IS NOT NULL)::DOUBLE, sum(lost)::DOUBLE
FROM FILE.loss WHERE batch >= LOW AND batch < HIGH AND coalesce(start, time) IS NOT NULL
GROUP BY minute, flow_id, coalesce(flow, ''), scope, "from", "to"`,
	}
	hourRollups = map[string]string{
		"segment_1h": `
WITH part AS (SELECT * REPLACE (date_trunc('hour', minute) AS minute) FROM FILE.segment_1m WHERE part >= LOW AND part < HIGH
), whole AS (
	SELECT minute, segment, sum(packets)::UBIGINT AS packets, sum(lost)::UBIGINT AS lost, sum(held_sum) AS held_sum, max(held_max) AS held_max,
		sum(link_negative)::UBIGINT AS link_negative, sum(link_sum) AS link_sum, max(link_max) AS link_max
	FROM part GROUP BY ALL
), held AS (
	SELECT minute, segment, list(b) AS b, list(n) AS n FROM (
		SELECT minute, segment, b, sum(n)::UBIGINT AS n FROM (SELECT minute, segment, unnest(held_b) AS b, unnest(held_n) AS n FROM part) GROUP BY ALL) GROUP BY ALL
), link AS (
	SELECT minute, segment, list(b) AS b, list(n) AS n FROM (
		SELECT minute, segment, b, sum(n)::UBIGINT AS n FROM (SELECT minute, segment, unnest(link_b) AS b, unnest(link_n) AS n FROM part) GROUP BY ALL) GROUP BY ALL
)
SELECT PART, w.minute, w.segment, w.packets, w.lost, w.held_sum, w.held_max, h.b, h.n, w.link_negative, w.link_sum, w.link_max, l.b, l.n
FROM whole w LEFT JOIN held h ON w.minute = h.minute AND w.segment = h.segment LEFT JOIN link l ON w.minute = l.minute AND w.segment = l.segment
ORDER BY w.segment, w.minute`,

		"path_1h": `
WITH part AS (SELECT * REPLACE (date_trunc('hour', minute) AS minute) FROM FILE.path_1m WHERE part >= LOW AND part < HIGH
), whole AS (
	SELECT minute, path, sum(packets)::UBIGINT AS packets, sum(incomplete)::UBIGINT AS incomplete, sum(lost)::UBIGINT AS lost, sum(bytes)::UBIGINT AS bytes,
		sum(delay_negative)::UBIGINT AS negative, sum(delay_sum) AS total, max(delay_max) AS most
	FROM part GROUP BY ALL
), delays AS (
	SELECT minute, path, list(b) AS b, list(n) AS n FROM (
		SELECT minute, path, b, sum(n)::UBIGINT AS n FROM (SELECT minute, path, unnest(delay_b) AS b, unnest(delay_n) AS n FROM part) GROUP BY ALL) GROUP BY ALL
)
SELECT PART, w.minute, w.path, w.packets, w.incomplete, w.lost, w.bytes, w.negative, w.total, w.most, d.b, d.n
FROM whole w LEFT JOIN delays d ON w.minute = d.minute AND w.path = d.path ORDER BY w.path, w.minute`,

		"loss_1h": `
SELECT PART, date_trunc('hour', minute) AS minute, flow_id, flow, scope, "from", "to", sum(blocks)::UBIGINT, sum(measured)::UBIGINT, sum(sent), sum(lost)
FROM FILE.loss_1m WHERE part >= LOW AND part < HIGH
GROUP BY ALL`,
	}
)

// What rollups were made of already.
const (
	ofMinutes = "minutes"
	ofHours   = "hours"
)

// rollUp makes the rollups of minutes of all that was written since it was called before.
func (f *open) rollUp(ctx context.Context) error { return f.rollUpMinutes(ctx, f.conn, f.batch) }

// rollUpMinutes makes those of the transactions below upto. They are
// sums: what comes late has rows of its own. Because the numbers of the rows that they are made of are
// written in the same transaction, no row is counted twice or left out, whenever the collector ends.
func (f *open) rollUpMinutes(ctx context.Context, conn *sql.Conn, upto uint32) error {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	return f.rollUpTo(ctx, conn, ofMinutes, minuteRollups, upto)
}

// rollUpHours makes those of hours of the minutes that are not in one yet.
func (f *open) rollUpHours(ctx context.Context) error {
	f.rolling.Lock()
	defer f.rolling.Unlock()
	return f.rollUpTo(ctx, f.conn, ofHours, hourRollups, f.rolled[ofMinutes])
}

// rollUpTo makes rollups of the rows whose number is below upto. The parts of minutes are numbered by
// the number that the facts had.
func (f *open) rollUpTo(ctx context.Context, conn *sql.Conn, of string, rollups map[string]string, upto uint32) (err error) {
	from := f.rolled[of]
	if from >= upto {
		return nil
	}
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return err
	}
	committed := false
	defer func() {
		if !committed {
			_, fault := conn.ExecContext(context.Background(), "ROLLBACK")
			err = errors.Join(err, fault)
		}
	}()
	for name, query := range rollups {
		statement := "INSERT INTO " + f.alias + "." + name + " " + rollupOf(query, f.alias, from, fmt.Sprint(from), fmt.Sprint(upto))
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("roll up %s: %w", name, err)
		}
		f.progressed()
	}
	if _, err := conn.ExecContext(ctx, "INSERT INTO "+f.alias+".progress VALUES ($1, $2)", of, upto); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
		return err
	}
	f.rolled[of], committed = upto, true
	return nil
}

// mostFresh is how many packets may be in no rollup: questions make theirs of them.
const mostFresh = 1 << 19

// due reports whether a minute has ended since rollups were made, or they lack many packets.
func (f *open) due(now time.Time) bool {
	if f.entry.Packets-f.rolledPackets > mostFresh {
		return true
	}
	minute := now.Truncate(time.Minute)
	if f.minute.IsZero() || minute.Before(f.minute) { // begun, or the clock was set back
		f.minute = minute
	}
	if !minute.After(f.minute) {
		return false
	}
	f.minute = minute
	return true
}

// rollupOf is a query for a file, with the number of its rows and those of the facts that they are made of.
func rollupOf(query, alias string, part uint32, low, high string) string {
	return strings.NewReplacer("FILE", alias, "PART", fmt.Sprintf("%d::UINTEGER", part), "LOW", low, "HIGH", high).Replace(query)
}

// Rows is a query of the rows of a rollup, such as segment, with its columns but part: the rows of hours for whole
// hours, those of minutes besides, and what is in no rollup yet. Times are the parameters $1 (from) and $2 (until,
// exclusive), and whole hours are between $3 and $4; all are whole minutes. Segments and paths have their numbers in the
// file.
func (f *File) Rows(rollup string) string {
	minutes, hours := f.From(rollup+"_1m"), f.From(rollup+"_1h")
	done := func(of string) string {
		return "(SELECT coalesce(max(upto), 0) FROM " + f.From("progress") + " WHERE of = " + literal(of) + ")"
	}
	query := "SELECT * EXCLUDE (part) FROM " + hours + " WHERE minute >= $3 AND minute < $4 AND minute >= $1 AND minute < $2" +
		"\nUNION ALL SELECT * EXCLUDE (part) FROM " + minutes + " WHERE minute >= $1 AND minute < $2 " +
		"AND NOT (minute >= $3 AND minute < $4 AND part < " + done(ofHours) + ")"
	switch {
	case rollup != "loss" && f.packets != "":
		query = "SELECT * FROM (" + query + ") WHERE false" + f.fresh(rollup, "0")
	case rollup != "loss" && !f.scope.rolledUp(): // they are made of the rows that are in the scope
		query += f.fresh(rollup, "0")
	case f.Entry.State == Open:
		query += f.fresh(rollup, done(ofMinutes))
	}
	return query
}

// Selects reports whether rows of rollups by path and segment are made of packets when they are asked for, because those
// of the file have other packets, too.
func (f *File) Selects() bool { return f.packets != "" || !f.scope.rolledUp() }

// fresh is a query of rollups that are made now, of the rows whose number is at least low.
func (f *File) fresh(rollup, low string) string {
	values := []string{"LOW", low, "HIGH", "4294967295", "PART", "0::UINTEGER"}
	if f.scope != nil || f.packets != "" {
		packets := "(SELECT p.* FROM " + f.From(tablePackets) + " p WHERE p.time >= $1::TIMESTAMP_NS AND p.time < $2::TIMESTAMP_NS"
		if f.packets != "" {
			packets += " AND " + f.in(f.packets)
		}
		packets += ")"
		values = append(
			values,
			"FILE.packets",
			packets,
			"FILE.paths",
			f.From(tablePaths),
			"FILE.segments",
			f.From(tableSegments),
			"FILE.loss",
			f.From("loss"),
		)
	}
	query := strings.NewReplacer(append(values, "FILE", f.Alias)...).Replace(minuteRollups[rollup+"_1m"])
	return "\nUNION ALL SELECT * EXCLUDE (part) FROM (SELECT * FROM " + f.From(
		rollup+"_1m",
	) + " WHERE false UNION ALL (" + query + ")) WHERE minute >= $1 AND minute < $2"
}
