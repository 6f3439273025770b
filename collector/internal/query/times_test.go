// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/record"
)

// TestTimes writes WAYMARK_PACKETS packets, 198 for each second of their time as 20 million in 28 hours, and measures
// questions about the last hour and the last day, before and after its files are packed. It is a measurement, and is run
// only when it is asked for.
func TestTimes(t *testing.T) {
	packets, err := strconv.Atoi(os.Getenv("WAYMARK_PACKETS"))
	if err != nil {
		t.Skip("a measurement; set WAYMARK_PACKETS=5000000 to write so many")
	}
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	var now atomic.Int64
	now.Store(begin.UnixNano())
	o := store.Options{Directory: t.TempDir(), Quiet: 1, Unpacked: true, Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }}
	s, err := store.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const step = 28 * time.Hour / 20_000_000
	p := storetest.NewPackets(1, 60, 2000, 50_000, begin, step)
	batch := make([]record.Record, 0, 50_000)
	var writing, processor time.Duration
	for n := range packets {
		if batch = append(batch, p.Next()); len(batch) < cap(batch) && n < packets-1 {
			continue
		}
		begun, used := time.Now(), used(t)
		if err := s.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		now.Store(p.At.UnixNano())
		s.Tend(t.Context())
		writing, processor = writing+time.Since(begun), processor+usedSince(t, used)
		batch = batch[:0]
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if s, err = store.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d packets in %d files: %.0f packets a second, %.2f µs of processor each with rollups; %.1f bytes each on disk; opened in %v",
		packets, len(s.Files()), float64(packets)/writing.Seconds(), processor.Seconds()*1e6/float64(packets), octetsEach(s, packets),
		time.Since(begun).Round(time.Millisecond))
	// The hours are over, so that all files are closed.
	now.Store(p.At.Truncate(time.Hour).Add(time.Hour).UnixNano())
	s.Tend(t.Context())
	for slices.ContainsFunc(s.Files(), func(e store.Entry) bool { return e.State == store.Open && e.Packets > 0 }) {
		time.Sleep(10 * time.Millisecond)
	}
	sizes(t, s)
	t.Logf("closed: %.1f bytes each on disk", octetsEach(s, packets))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	compare(t, o, packets, p.At)
}

// octetsEach is how many octets of all files a packet has.
func octetsEach(s *store.Store, packets int) float64 {
	var octets int64
	for _, e := range s.Files() {
		octets += e.Bytes
	}
	return float64(octets) / float64(packets)
}

// compare packs the files of a store, and asks it and a copy whose files are not packed.
func compare(t *testing.T, o store.Options, packets int, end time.Time) {
	same := o
	same.Directory = filepath.Join(t.TempDir(), "same")
	if err := os.CopyFS(same.Directory, os.DirFS(o.Directory)); err != nil {
		t.Fatal(err)
	}
	unpacked, err := store.New(t.Context(), same)
	if err != nil {
		t.Fatal(err)
	}
	defer unpacked.Close()
	s, err := store.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begun, used := time.Now(), used(t)
	if err := s.Pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("packed: %.1f bytes each on disk; %.2f µs of processor each, %.1f s in all, and up to %d MB of memory with all that was before",
		octetsEach(s, packets), usedSince(t, used).Seconds()*1e6/float64(packets), time.Since(begun).Seconds(), mostMemory(t)>>20)
	sizes(t, s)
	measure(t, unpacked, s, end)
}

// measure asks each question of two stores in turn.
func measure(t *testing.T, unpacked, packed *store.Store, end time.Time) {
	site := Flows{Source: netip.MustParsePrefix("2001:db8::/44")}
	flow, sequence := uint32(20), uint32(100)
	ctx := t.Context()
	for _, span := range []time.Duration{time.Hour, 24 * time.Hour} {
		in := Range{end.Add(-span), end}
		for _, one := range []struct {
			name string
			ask  func(*Queries) error
		}{
			{"paths of a prefix", func(q *Queries) error {
				_, err := q.Paths(ctx, PathsQuestion{Range: in, Flows: site, Limit: 20})
				return err
			}},
			{"paths of all", func(q *Queries) error { _, err := q.Paths(ctx, PathsQuestion{Range: in, Limit: 20}); return err }},
			{"segments", func(q *Queries) error {
				_, err := q.Segments(ctx, SegmentsQuestion{Range: in, Order: ByLink, Limit: 50})
				return err
			}},
			{"grid", func(q *Queries) error { _, err := q.Grid(ctx, GridQuestion{Range: in, Limit: 1000}); return err }},
			{"changes of a prefix", func(q *Queries) error { _, err := q.Changes(ctx, changes(in, site)); return err }},
			{"changes of all", func(q *Queries) error { _, err := q.Changes(ctx, changes(in, Flows{})); return err }},
			{"lost packets", func(q *Queries) error {
				_, err := q.Packets(ctx, PacketsQuestion{Range: in, Lost: true, Limit: 100})
				return err
			}},
			{"one packet", func(q *Queries) error {
				_, err := q.Packets(ctx, PacketsQuestion{Range: in, FlowID: &flow, Sequence: &sequence, Limit: 1})
				return err
			}},
			{"the latest packets", func(q *Queries) error { _, err := q.Packets(ctx, PacketsQuestion{Range: in, Limit: 200}); return err }},
		} {
			var times, processor [2][]time.Duration
			rounds := 5
			if span == time.Hour {
				rounds = 20
			}
			for range rounds {
				for i, s := range []*store.Store{unpacked, packed} {
					q := &Queries{Store: s, Time: time.Minute, AtOnce: 4}
					q.Begin()
					begun, used := time.Now(), used(t)
					if err := one.ask(q); err != nil {
						t.Errorf("%s: %v", one.name, err)
					}
					times[i], processor[i] = append(times[i], time.Since(begun)), append(processor[i], usedSince(t, used))
				}
			}
			for i := range 2 {
				slices.Sort(times[i])
				slices.Sort(processor[i])
			}
			middle, most := rounds/2, (rounds-1)*95/100
			t.Logf("%-20s %-8v median %6.0f ms, packed %6.0f ms (%.2f times), 95th percentile %6.0f and %6.0f ms; "+
				"least of processor %6.0f ms, packed %6.0f ms (%.2f times)", one.name, span, ms(times[0][middle]), ms(times[1][middle]),
				float64(times[1][middle])/float64(times[0][middle]), ms(times[0][most]), ms(times[1][most]),
				ms(processor[0][0]), ms(processor[1][0]), float64(processor[1][0])/float64(processor[0][0]))
		}
	}
}

func changes(in Range, flows Flows) ChangesQuestion {
	return ChangesQuestion{Range: in, Flows: flows, Window: max(in.Until.Sub(in.From)/60, time.Minute), Moved: 0.5, Least: 3, Limit: 100}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func used(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mostMemory is what the process had of memory at most.
func mostMemory(t *testing.T) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u.Maxrss << 10
}

func usedSince(t *testing.T, before time.Duration) time.Duration { return used(t) - before }

// sizes says how many octets each packet of the first file takes, by table and column.
func sizes(t *testing.T, s *store.Store) {
	err := s.Read(t.Context(), time.Unix(0, 0), time.Unix(1<<33, 0), func(r *store.Reading) error {
		f := &r.Files[0]
		file := strings.TrimSuffix(f.From("about"), `."about"`)
		list, err := r.DB.Query("SELECT table_name FROM duckdb_tables() WHERE database_name = '" + file + "'")
		if err != nil {
			return err
		}
		defer list.Close()
		var parts []string
		for list.Next() {
			var name string
			if err := list.Scan(&name); err != nil {
				return err
			}
			parts = append(parts, "SELECT '"+name+"' AS t, * FROM pragma_storage_info('"+file+"."+name+"')")
		}
		if err := list.Err(); err != nil {
			return err
		}
		// A segment reaches to the next one in its block, or to the block's end.
		rows, err := r.DB.Query(strings.NewReplacer("FILE", file, "TABLES", strings.Join(parts, " UNION ALL ")).Replace(`
WITH s AS (
	SELECT t, column_name, column_path, block_id, block_offset, len(additional_block_ids) AS more,
		(SELECT block_size - 8 FROM pragma_database_size() WHERE database_name = 'FILE') AS block FROM (TABLES) WHERE block_id >= 0
), o AS (
	SELECT *, coalesce(lead(block_offset) OVER (PARTITION BY block_id ORDER BY block_offset), block) - block_offset + more * block AS n FROM s
)
SELECT t, coalesce(column_name, 'all'), coalesce(column_path, ''), sum(n)::DOUBLE FROM o
GROUP BY GROUPING SETS ((t), (t, column_name, column_path)) ORDER BY ALL`))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var table, column, path string
			var n float64
			if err := rows.Scan(&table, &column, &path, &n); err != nil {
				return err
			}
			if n /= float64(f.Entry.Packets); n > 0.05 {
				t.Logf("%-12s %-20s %-12s %6.2f octets a packet", table, column, path, n)
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Error(err)
	}
}
