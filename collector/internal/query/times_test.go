// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/record"
)

// TestTimes writes WAYMARK_PACKETS packets, 198 for each second of their time as 20 million in 28 hours, and measures
// questions about the last hour and the last day. It is a measurement, and is run only when it is asked for.
func TestTimes(t *testing.T) {
	packets, err := strconv.Atoi(os.Getenv("WAYMARK_PACKETS"))
	if err != nil {
		t.Skip("a measurement; set WAYMARK_PACKETS=5000000 to write so many")
	}
	begin := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	var now atomic.Int64
	now.Store(begin.UnixNano())
	o := store.Options{Directory: t.TempDir(), Quiet: 1, Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }}
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
	defer s.Close()
	var octets int64
	for _, e := range s.Files() {
		octets += e.Bytes
	}
	t.Logf(
		"%d packets in %d files: %.0f packets a second, %.2f µs of processor each with rollups; %.1f bytes each on disk; opened in %v",
		packets,
		len(s.Files()),
		float64(
			packets,
		)/writing.Seconds(),
		processor.Seconds()*1e6/float64(packets),
		float64(octets)/float64(packets),
		time.Since(begun).Round(time.Millisecond),
	)
	sizes(t, s)
	measure(t, s, p.At)
}

// measure asks each question five times.
func measure(t *testing.T, s *store.Store, end time.Time) {
	q := &Queries{Store: s, Time: time.Minute, AtOnce: 4}
	q.Begin()
	site := Flows{Source: netip.MustParsePrefix("2001:db8::/44")}
	flow, sequence := uint32(20), uint32(100)
	for _, span := range []time.Duration{time.Hour, 24 * time.Hour} {
		in := Range{end.Add(-span), end}
		ctx := t.Context()
		for name, ask := range map[string]func() error{
			"paths of a prefix": func() error { _, err := q.Paths(ctx, PathsQuestion{Range: in, Flows: site, Limit: 20}); return err },
			"paths of all":      func() error { _, err := q.Paths(ctx, PathsQuestion{Range: in, Limit: 20}); return err },
			"segments": func() error {
				_, err := q.Segments(ctx, SegmentsQuestion{Range: in, Order: ByLink, Limit: 50})
				return err
			},
			"grid":                func() error { _, err := q.Grid(ctx, GridQuestion{Range: in, Limit: 1000}); return err },
			"changes of a prefix": func() error { _, err := q.Changes(ctx, changes(in, site)); return err },
			"changes of all":      func() error { _, err := q.Changes(ctx, changes(in, Flows{})); return err },
			"lost packets":        func() error { _, err := q.Packets(ctx, PacketsQuestion{Range: in, Lost: true, Limit: 100}); return err },
			"one packet": func() error {
				_, err := q.Packets(ctx, PacketsQuestion{Range: in, FlowID: &flow, Sequence: &sequence, Limit: 1})
				return err
			},
			"the latest packets": func() error { _, err := q.Packets(ctx, PacketsQuestion{Range: in, Limit: 200}); return err },
		} {
			var times []time.Duration
			for range 5 {
				begun := time.Now()
				if err := ask(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				times = append(times, time.Since(begun))
			}
			slices.Sort(times)
			fmt.Printf("%-22s %-8v median %6.0f ms, greatest %6.0f ms\n", name, span, ms(times[2]), ms(times[4]))
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

func usedSince(t *testing.T, before time.Duration) time.Duration { return used(t) - before }

// sizes says how many rows and blocks the tables of the first file have.
func sizes(t *testing.T, s *store.Store) {
	err := s.Read(t.Context(), time.Unix(0, 0), time.Unix(1<<33, 0), func(r *store.Reading) error {
		for _, name := range []string{"packets", "keys", "paths", "segment_1m", "path_1m", "segment_1h", "path_1h"} {
			var n, blocks int64
			table := r.Files[0].From(name)
			err := r.DB.QueryRow("SELECT (SELECT count(*) FROM "+table+"), (SELECT count(DISTINCT block_id) FROM pragma_storage_info('"+table+"'))").
				Scan(&n, &blocks)
			if err != nil {
				return err
			}
			t.Logf("%-12s %9d rows, %4d blocks of 256 kB, some of them shared", name, n, blocks)
		}
		return nil
	})
	if err != nil {
		t.Log(err)
	}
}
