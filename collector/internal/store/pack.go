// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// A packed file is a closed file that was written anew, with the same rows, so that it takes less of the disk:
//
//   - It is written at once, with methods of compression that earlier versions of DuckDB lack, and has no empty blocks.
//   - A row of packets has no flow id: its key says it. Rows stay in the order of their time, so that a question about
//     minutes reads only these.
//   - The list of times since the previous node lacks its first element, which is always NULL, and its last one, which
//     is the delay less the others.
//   - A minute has one row in each rollup for a segment or path, and those with few packets are next to each other: their
//     lists have small numbers.
//
// Views make of this the tables that other files have, so that every query can read both.
const (
	tablePacked  = "packed"  // the rows of packets
	tablePacking = "packing" // it is there in each file that was packed
)

// packedStorage are the blocks of a packed file: with smaller ones, fewer octets stay empty in the last block of each
// column. Blocks of 32 kB are too small for some methods of compression.
const packedStorage = "STORAGE_VERSION 'v1.5.0', BLOCK_SIZE 65536"

// errPacked is the error of packing a file that is packed.
var errPacked = errors.New("the file is packed")

// packing writes the packed file of a file. old and fresh are their names in the database.
type packing struct {
	conn       *sql.Conn
	old        File
	dictionary bool // flow ids are in the table of keys
	flowless   bool // without rollups by flow
	rolled     Flows
}

const (
	oldAlias   = "old"
	freshAlias = "fresh"
)

// packFile writes the packed file of a file, with rollups by flow or without, and compares both.
func packFile(ctx context.Context, db *sql.DB, from, into string, flowless bool) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	p := &packing{conn: conn, old: File{Alias: oldAlias}, flowless: flowless}
	err = p.run(ctx,
		"ATTACH "+literal(from)+" AS "+oldAlias+" (READ_ONLY)",
		"ATTACH "+literal(into)+" AS "+freshAlias+" ("+packedStorage+")")
	if err == nil {
		err = p.write(ctx)
	}
	if err == nil { // as it is on the disk
		err = p.run(ctx, "DETACH "+freshAlias, "ATTACH "+literal(into)+" AS "+freshAlias+" (READ_ONLY)")
	}
	if err == nil {
		err = p.compare(ctx)
	}
	ended := context.WithoutCancel(ctx)
	for _, s := range []string{
		"DROP TABLE IF EXISTS flows", "DROP TABLE IF EXISTS twice", "DROP TABLE IF EXISTS busy",
		"DETACH DATABASE IF EXISTS " + oldAlias, "DETACH DATABASE IF EXISTS " + freshAlias,
	} {
		if fault := p.run(ended, s); err == nil {
			err = fault
		}
	}
	err = errors.Join(err, conn.Close())
	if err == nil {
		err = settleFile(into)
	}
	return err
}

// settleFile makes sure that a file is on the disk, and lets only a process of root write it.
func settleFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Chmod(0o440), f.Close())
}

func (p *packing) run(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := p.conn.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// write writes all tables in one transaction.
func (p *packing) write(ctx context.Context) (err error) {
	if err := p.examine(ctx); err != nil {
		return err
	}
	if err := p.run(ctx, "BEGIN"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.run(context.WithoutCancel(ctx), "ROLLBACK"))
		}
	}()
	for _, t := range tables() {
		if err := p.table(ctx, t); err != nil {
			return fmt.Errorf("pack %s: %w", t.name, err)
		}
	}
	err = p.run(ctx,
		"INSERT INTO fresh.about SELECT "+fmt.Sprint(Version)+", min(opened) FROM old.about",
		"INSERT INTO fresh.progress VALUES ("+literal(ofMinutes)+", 1), ("+literal(ofHours)+", 1)",
		fmt.Sprintf("CREATE TABLE fresh.%s AS SELECT %v AS dictionary, %d::UINTEGER AS summed, %d::UINTEGER AS measured",
			tablePacking, p.dictionary, p.rolled.Summed, p.rolled.Measured),
		"COMMIT")
	if err != nil {
		return err
	}
	return p.run(ctx, "CHECKPOINT fresh")
}

// examine finds out whether the file can be packed: rollups were made of all that it has, so that the numbers of
// transactions are needed no more.
func (p *packing) examine(ctx context.Context) error {
	packed, err := isPacked(ctx, p.conn, oldAlias)
	switch {
	case err != nil:
		return err
	case packed:
		return errPacked
	}
	version, err := versionOf(ctx, p.conn, oldAlias)
	if err != nil || version != Version {
		return errors.Join(err, fmt.Errorf("its tables are of version %d, and files of version %d are packed", version, Version))
	}
	for _, t := range tables() {
		of := ofMinutes
		switch number := t.columns[0].name; {
		case number == "part" && strings.HasSuffix(t.name, "_1m"):
			of = ofHours
		case number != "batch":
			continue
		}
		var open bool
		query := "SELECT coalesce(max(" + t.columns[0].name + ") >= (SELECT coalesce(max(upto), 0) FROM old.progress WHERE of = " +
			literal(of) + "), false) FROM old." + quoted(t.name)
		if err := p.conn.QueryRowContext(ctx, query).Scan(&open); err != nil {
			return err
		}
		if open {
			return fmt.Errorf("table %s has rows that are in no rollup of %s", t.name, of)
		}
	}
	var packets, keys, flows uint64
	err = p.conn.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT key), count(DISTINCT (key, flow_id)) FROM old.packets").
		Scan(&packets, &keys, &flows)
	// A row of keys takes more than ten times what it saves in a row of packets.
	p.dictionary = flows-min(keys, flows) <= packets/16 && flows <= packets/4
	return err
}

// isPacked reports whether a file is packed, whatever form its packets have.
func isPacked(ctx context.Context, conn *sql.Conn, alias string) (packed bool, err error) {
	return hasTable(ctx, conn, alias, tablePacking)
}

func hasTable(ctx context.Context, conn *sql.Conn, alias, table string) (has bool, err error) {
	row := conn.QueryRowContext(ctx, "SELECT count(*) > 0 FROM duckdb_tables() WHERE database_name = $1 AND table_name = $2", alias, table)
	return has, row.Scan(&has)
}

// table makes and fills one table.
func (p *packing) table(ctx context.Context, t table) error {
	if t.name == tablePackets && p.dictionary {
		return p.flows(ctx, t)
	}
	switch {
	case t.name == tableKeys && p.dictionary:
		return nil // with the packets
	case t.name == "segment_1m":
		return p.rollup(ctx, t, "segment", "held", "link")
	case t.name == "path_1m":
		return p.rollup(ctx, t, "path", "delay")
	}
	if err := p.run(ctx, t.create(freshAlias)); err != nil {
		return err
	}
	switch t.name {
	case "about", "progress":
		return nil
	case tablePackets:
		return p.rows(ctx, tablePackets, "p.* REPLACE (0::UINTEGER AS batch)", "")
	}
	query := "INSERT INTO fresh." + quoted(t.name) + " SELECT "
	if number := t.columns[0].name; number == "batch" || number == "part" {
		query += "* REPLACE (0::UINTEGER AS " + number + ")"
	} else {
		query += "*"
	}
	return p.run(ctx, query+" FROM old."+quoted(t.name))
}

// flows makes the tables of packets and keys. A key has a row for each flow id of its packets.
func (p *packing) flows(ctx context.Context, t table) error {
	var rows, view []string
	for _, c := range t.columns {
		switch c.name {
		case "batch":
			view = append(view, "0::UINTEGER AS batch")
		case "key":
			rows, view = append(rows, "f.number AS key"), append(view, "p.key")
		case "flow_id":
			view = append(view, "k.flow_id")
		case "since_ns":
			rows, view = append(rows, shortened+" AS since_ns"), append(view, restored+" AS since_ns")
		default:
			rows, view = append(rows, "p."+c.name), append(view, "p."+c.name)
		}
	}
	columns := strings.Join(rows, ", ")
	err := p.run(ctx, `
CREATE TEMP TABLE flows AS SELECT (row_number() OVER (ORDER BY packets DESC, key, flow_id) - 1)::UINTEGER AS number, key, flow_id, packets
FROM (SELECT key, flow_id, count(*) AS packets FROM old.packets GROUP BY ALL)`, `
CREATE TABLE fresh.keys AS SELECT k.* REPLACE (f.number AS number), f.flow_id
FROM flows f JOIN old.keys k ON f.key = k.number ORDER BY f.number`,
		"CREATE TABLE fresh."+tablePacked+" AS SELECT "+columns+" FROM old.packets p, flows f LIMIT 0",
		"CREATE VIEW fresh.packets AS SELECT "+strings.Join(view, ", ")+" FROM "+tablePacked+" p JOIN keys k ON p.key = k.number")
	if err != nil {
		return err
	}
	if err := p.rows(ctx, tablePacked, columns, " JOIN flows f ON p.key = f.key AND p.flow_id IS NOT DISTINCT FROM f.flow_id"); err != nil {
		return err
	}
	return p.rollFlows(ctx)
}

// slice is how many rows are sorted at a time: two groups of rows, so that sorting needs no room on the disk.
const slice = 2 * 122_880

// rows copies the rows of packets in the order of their time; they came nearly in it. The latest is the first one of a
// slice, so that a question about the latest packets reads the other values of few.
func (p *packing) rows(ctx context.Context, into, columns, join string) error {
	var rows int64
	if err := p.conn.QueryRowContext(ctx, "SELECT coalesce(max(rowid) + 1, 0) FROM old.packets").Scan(&rows); err != nil {
		return err
	}
	for from := int64(0); from < rows; from += slice {
		query := fmt.Sprintf("INSERT INTO fresh.%s SELECT %s FROM old.packets p%s WHERE p.rowid >= %d AND p.rowid < %d "+
			"ORDER BY p.time DESC", into, columns, join, from, from+slice)
		if err := p.run(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// shortened is the list of times since the previous node without its first and its last element, if these follow from
// the rest.
const shortened = "CASE WHEN len(p.since_ns) > 1 AND len(p.since_ns) = len(p.held_ns) AND p.since_ns[1] IS NULL AND " +
	"list_count(p.since_ns) = len(p.since_ns) - 1 AND list_sum(p.since_ns) = p.delay_ns THEN p.since_ns[2:-2] ELSE p.since_ns END"

// restored is that list of a row of a packed file with all its elements.
const restored = "CASE WHEN len(p.since_ns) + 2 = len(p.held_ns) THEN list_append(list_prepend(NULL, p.since_ns), " +
	"(p.delay_ns - coalesce(list_sum(p.since_ns), 0))::BIGINT) ELSE p.since_ns END"

// rollup copies rollups of minutes, into a table with the number of the minute, which is shorter than its time; a view
// makes of it the table that other files have. Rows of the same minute become one: packets that came late have rows of
// their own. Rows of the same segment or path are next to each other, which makes sums fast, the busiest last.
func (p *packing) rollup(ctx context.Context, t table, of string, histograms ...string) error {
	var sums, rest, view []string
	joins := ""
	for _, c := range t.columns {
		name := quoted(c.name)
		histogram, list := strings.CutSuffix(c.name, "_b")
		switch c.name {
		case "part":
			view = append(view, "0::UINTEGER AS part")
		case "minute":
			view = append(view, "make_timestamp(minute::BIGINT * 60000000) AS minute")
		default:
			view = append(view, name)
		}
		switch {
		case c.name == "part" || c.name == "minute" || c.name == of || strings.HasSuffix(c.name, "_n"):
		case list && slices.Contains(histograms, histogram):
			rest = append(rest, histogram+".b AS "+histogram+"_b", histogram+".n AS "+histogram+"_n")
			joins += strings.NewReplacer("ID", of, "HISTOGRAM", histogram).Replace(histogramsAdded)
		case strings.HasSuffix(c.name, "_max"):
			sums, rest = append(sums, "max("+name+") AS "+name), append(rest, "w."+name)
		default:
			sums, rest = append(sums, "sum("+name+")::"+c.kind+" AS "+name), append(rest, "w."+name)
		}
	}
	fill := strings.NewReplacer("ROLLUP", t.name, "ID", of,
		"SUMS", strings.Join(sums, ", "), "REST", strings.Join(rest, ", "), "JOINS", joins)
	return p.run(ctx,
		fill.Replace("CREATE OR REPLACE TEMP TABLE twice AS SELECT minute, ID FROM old.ROLLUP GROUP BY ALL HAVING count(*) > 1"),
		fill.Replace("CREATE OR REPLACE TEMP TABLE busy AS SELECT ID, sum(packets) AS total FROM old.ROLLUP GROUP BY ALL"),
		fill.Replace(minutesAdded),
		"CREATE VIEW fresh."+t.name+" AS SELECT "+strings.Join(view, ", ")+" FROM packed_"+t.name)
}

// minutesAdded makes the table of a rollup, with the rows that are the only ones of their minute, and the sums of others.
// histogramsAdded are their histograms.
const (
	minutesAdded = `
CREATE TABLE fresh.packed_ROLLUP AS WITH several AS (
	SELECT t.* FROM old.ROLLUP t SEMI JOIN twice d ON t.minute = d.minute AND t.ID = d.ID
), w AS (SELECT minute, ID, SUMS FROM several GROUP BY ALL
), r AS (
	SELECT t.* EXCLUDE (part) FROM old.ROLLUP t ANTI JOIN twice d ON t.minute = d.minute AND t.ID = d.ID
	UNION ALL SELECT w.minute, w.ID, REST FROM wJOINS
)
SELECT r.* REPLACE ((epoch_us(r.minute) // 60000000)::INTEGER AS minute) FROM r JOIN busy b ON r.ID = b.ID
ORDER BY b.total, r.ID, r.minute`

	histogramsAdded = ` LEFT JOIN (
	SELECT minute, ID, list(b) AS b, list(n) AS n FROM (
		SELECT minute, ID, b, sum(n)::UBIGINT AS n FROM (
			SELECT minute, ID, unnest(HISTOGRAM_b) AS b, unnest(HISTOGRAM_n) AS n FROM several) GROUP BY ALL) GROUP BY ALL
) HISTOGRAM ON w.minute = HISTOGRAM.minute AND w.ID = HISTOGRAM.ID`
)

// compare makes sure that both files have the same rows, and the same sums in rollups.
func (p *packing) compare(ctx context.Context) error {
	for _, t := range tables() {
		query := ""
		switch number := t.columns[0].name; {
		case t.name == "about" || t.name == "progress":
			continue
		case t.name == tableKeys:
			query = "SELECT count(DISTINCT key), '' FROM FILE(keys)"
		case t.name == tablePackets:
			query = "SELECT count(*), sum(hash(" + hashed(t) +
				", k.key))::VARCHAR FROM FILE(packets) p JOIN FILE(keys) k ON p.key = k.number"
		case number == "part" && t.columns[3].name == "packets":
			query = "SELECT coalesce(sum(packets), 0)::UBIGINT, coalesce(sum(lost), 0)::VARCHAR FROM FILE(" + t.name + ")"
		default:
			query = "SELECT count(*), coalesce(sum(hash(" + hashed(t) + "))::VARCHAR, '') FROM FILE(" + t.name + ") p"
		}
		var rows [2]uint64
		var digest [2]sql.NullString
		for i, f := range []File{p.old, {Alias: freshAlias}} {
			if err := p.conn.QueryRowContext(ctx, Union([]File{f}, query)).Scan(&rows[i], &digest[i]); err != nil {
				return fmt.Errorf("compare %s: %w", t.name, err)
			}
		}
		if rows[0] != rows[1] || digest[0] != digest[1] {
			return fmt.Errorf("table %s has %d rows instead of %d, or others", t.name, rows[1], rows[0])
		}
	}
	return p.compareFlows(ctx)
}

// hashed are the columns of a table that stay the same.
func hashed(t table) string {
	var list []string
	for _, c := range t.columns {
		if c.name == "batch" || c.name == "part" || t.name == tablePackets && c.name == "key" {
			continue
		}
		list = append(list, "p."+quoted(c.name))
	}
	return strings.Join(list, ", ")
}
