// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
)

// selection is what a question selects: packets of a time, and of flows. Of whole hours, packets of busy flows are in
// rollups of packed files; all others are counted one by one.
type selection struct {
	*parameters
	Range
	hourFrom, hourUntil time.Time
	times, hours        [2]string // names of parameters; "": they have none yet
	flows               string    // a condition on rows p of packets or of a rollup by flow; "": none
}

func selected(in Range, flows *Flows) *selection {
	s := &selection{parameters: &parameters{}, Range: in}
	s.hourFrom, s.hourUntil = in.hours()
	s.flows = flows.where(s.parameters)
	return s
}

// within is the condition that a column is within a time, whose parameters have names after it was called.
func (s *selection) within(column string, names *[2]string, from, until time.Time) string {
	if names[0] == "" {
		names[0], names[1] = s.add(from.UTC())+"::TIMESTAMP_NS", s.add(until.UTC())+"::TIMESTAMP_NS"
	}
	return column + " >= " + names[0] + " AND " + column + " < " + names[1]
}

// whole reports whether all packets of a file are of whole hours.
func (s *selection) whole(f *store.File) bool {
	return !f.Entry.First.Before(s.hourFrom) && f.Entry.Last.Before(s.hourUntil)
}

// packets is the condition on the packets p of a file that are selected. Packets of whole hours whose key is below rolled
// are left out: rollups have them.
func (s *selection) packets(f *store.File, rolled uint32) string {
	var list []string
	if rolled > 0 {
		others := fmt.Sprintf("p.key >= %d", rolled)
		if !s.whole(f) {
			others = "(" + others + " OR NOT (" + s.within("p.time", &s.hours, s.hourFrom, s.hourUntil) + "))"
		}
		list = append(list, others)
	}
	list = append(list, s.within("p.time", &s.times, s.From, s.Until))
	if s.flows != "" {
		list = append(list, s.flows)
	}
	return strings.Join(list, " AND ")
}

// rolled is the condition on rows p of a rollup by flow.
func (s *selection) rolled() string {
	condition := s.within("p.hour", &s.hours, s.hourFrom, s.hourUntil)
	if s.flows != "" {
		condition += " AND " + s.flows
	}
	return condition
}

// A rowsQuery is a query of rows p of one file, with a condition on them.
type rowsQuery func(file int, of *store.Stored, where string) string

// rolledIn is of how many keys a rollup has the packets of whole hours of a file.
func (s *selection) rolledIn(f *store.File, keys func(*store.Stored) uint32) uint32 {
	if !f.Entry.First.Before(s.hourUntil) || f.Entry.Last.Before(s.hourFrom) {
		return 0 // it has no whole hour
	}
	of := f.Stored()
	return keys(&of)
}

// ofPackets are queries of the packets of all files that a rollup lacks.
func (s *selection) ofPackets(r *store.Reading, keys func(*store.Stored) uint32, query rowsQuery) (list []string) {
	for i := range r.Files {
		f := &r.Files[i]
		of := f.Stored()
		list = append(list, store.Union(r.Files[i:i+1], query(i, &of, s.packets(f, s.rolledIn(f, keys)))))
	}
	return list
}

// ofRollups are queries of a rollup, of the files that have it.
func (s *selection) ofRollups(r *store.Reading, keys func(*store.Stored) uint32, query rowsQuery) (list []string) {
	for i := range r.Files {
		f := &r.Files[i]
		of := f.Stored()
		if s.rolledIn(f, keys) > 0 {
			list = append(list, store.Union(r.Files[i:i+1], query(i, &of, s.rolled())))
		}
	}
	return list
}

// Which rollup a question reads.
func keysOfSums(of *store.Stored) uint32   { return of.Summed }
func keysOfDelays(of *store.Stored) uint32 { return of.Measured }

func united(lists ...[]string) string { return strings.Join(slices.Concat(lists...), "\nUNION ALL\n") }

// numbersOf is a query of the numbers of paths or segments in each file, and of those that are the same in all files:
// file, number, id. Rows have the former and are counted by them, so that only sums are joined: each join takes megabytes
// of memory for each file.
func numbersOf(r *store.Reading, what string) string {
	var list []string
	for i := range r.Files {
		list = append(list, store.Union(r.Files[i:i+1], fmt.Sprintf("SELECT %d AS file, number, %s AS id FROM FILE(%ss)", i, what, what)))
	}
	return united(list)
}

// sums are packets by path, several rows for each: file, number, packets, bytes, incomplete, lost, first, last.
func (s *selection) sums(r *store.Reading) string {
	packets := s.ofPackets(r, keysOfSums, func(file int, of *store.Stored, where string) string {
		return fmt.Sprintf("SELECT %d AS file, p.path AS number, 1::UBIGINT AS packets, p.length::UBIGINT AS bytes, "+
			"(p.reason <> 0)::UBIGINT AS incomplete, (p.verdict = 2)::UBIGINT AS lost, p.time AS first, p.time AS last FROM %s p WHERE ",
			file, of.Rows) + where
	})
	return united(packets, s.ofRollups(r, keysOfSums, func(file int, _ *store.Stored, where string) string {
		return fmt.Sprintf("SELECT %d, p.path, p.packets, p.bytes, p.incomplete, p.lost, p.first, p.last FROM FILE(flow_1h) p WHERE ",
			file) + where
	}))
}

// delays begins a query that has, in a table sums, the delays of packets of paths by buckets: file, number, i, what, b, n,
// negative, total, most. numbers are those of the paths, by file.
func (s *selection) delays(r *store.Reading, numbers [][]uint32) string {
	chosen := func(file int) string {
		if len(numbers[file]) == 0 {
			return " AND false"
		}
		var list []string
		for _, n := range numbers[file] {
			list = append(list, strconv.FormatUint(uint64(n), 10))
		}
		return " AND p.path IN (" + strings.Join(list, ", ") + ")"
	}
	sums := store.Buckets("file, number", func(what int) string {
		return united(s.ofPackets(r, keysOfDelays, func(file int, of *store.Stored, where string) string {
			return store.Values(what, fmt.Sprintf("%d AS file, p.path AS number", file), of.Since, of.Rows+" p WHERE "+where+chosen(file))
		}))
	})
	rolled := s.ofRollups(r, keysOfDelays, func(file int, _ *store.Stored, where string) string {
		return fmt.Sprintf("SELECT %d AS file, p.path AS number, p.i, p.what, p.negative, p.total, p.most, p.b, p.n "+
			"FROM FILE(flow_delay_1h) p WHERE ", file) + where + chosen(file)
	})
	if len(rolled) == 0 {
		return "WITH sums AS (" + sums + ")"
	}
	return "WITH rolled AS MATERIALIZED (" + united(rolled) + "), sums AS (" + sums +
		" UNION ALL SELECT file, number, i, what, unnest(b), unnest(n), 0, NULL, NULL FROM rolled" +
		" UNION ALL SELECT file, number, i, what, NULL, 0, negative, total, most FROM rolled)"
}

// ways are the complete paths that packets of pairs of addresses took, and others of theirs at other times, too: source,
// destination, namespace, file, number, paths.
func (s *selection) ways(r *store.Reading) string {
	var list []string
	for i := range r.Files {
		of := r.Files[i].Stored()
		from := "SELECT DISTINCT p.key, p.namespace, p.path, 1 AS paths FROM " + of.Rows +
			" p WHERE p.reason = 0 AND " + s.packets(&r.Files[i], 0)
		if of.Ways {
			from = "SELECT p.* FROM FILE(flow_paths) p"
			if s.flows != "" {
				from += " WHERE " + s.flows
			}
		}
		list = append(list, store.Union(r.Files[i:i+1], fmt.Sprintf("SELECT k.source, k.destination, w.namespace, %d AS file, "+
			"w.path AS number, w.paths FROM (%s) w JOIN FILE(keys) k ON w.key = k.number", i, from)))
	}
	return united(list)
}

// shares are the packets of pairs, with at least two paths, by window and path.
func (s *selection) shares(r *store.Reading, width, least string) string {
	moving := s.ways(r)
	var keys, packets []string
	for i := range r.Files {
		of := r.Files[i].Stored()
		keys = append(keys, store.Union(r.Files[i:i+1], fmt.Sprintf("SELECT %d AS file, number, source, destination FROM FILE(keys)", i)))
		packets = append(packets, store.Union(r.Files[i:i+1], fmt.Sprintf("SELECT v.pair, %d AS file, p.path AS number, "+
			"epoch_ns(p.time) // %s AS w, p.delay_ns AS delay FROM %s p JOIN (SELECT * FROM watched WHERE file = %d) v "+
			"ON p.key = v.number AND p.namespace = v.namespace WHERE p.reason = 0 AND ", i, width, of.Rows, i)+s.packets(&r.Files[i], 0)))
	}
	return "WITH paths AS MATERIALIZED (" + numbersOf(r, "path") + `), moving AS MATERIALIZED (
	SELECT row_number() OVER (ORDER BY source, destination, namespace) AS pair, source, destination, namespace
	FROM (` + moving + `) m JOIN paths d ON m.file = d.file AND m.number = d.number
	GROUP BY source, destination, namespace HAVING max(paths) > 1 OR min(id) <> max(id)
), watched AS MATERIALIZED (SELECT k.file, k.number, m.namespace, m.pair FROM (` + united(keys) + `) k JOIN moving m
	ON k.source IS NOT DISTINCT FROM m.source AND k.destination IS NOT DISTINCT FROM m.destination
), part AS (SELECT pair, w, file, number, count(*) AS n, sum(delay) AS total, count(delay) AS timed FROM (` + united(packets) + `) GROUP BY ALL
), share AS (SELECT pair, w, id AS path, sum(n)::UBIGINT AS n, sum(total)::DOUBLE / sum(timed) AS delay
	FROM part p JOIN paths d ON p.file = d.file AND p.number = d.number GROUP BY ALL)
SELECT m.source, m.destination, m.namespace, w, path, n, delay
FROM (SELECT * FROM share QUALIFY sum(n) OVER (PARTITION BY pair, w) >= ` + least + `) s JOIN moving m ON s.pair = m.pair ORDER BY s.pair, w`
}
