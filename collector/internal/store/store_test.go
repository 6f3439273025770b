// SPDX-License-Identifier: Apache-2.0

package store

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

var start = time.Date(2026, 11, 21, 12, 0, 5, 0, time.UTC)

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

// notes are what a store said.
type notes struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *notes) add(level slog.Level, text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.WriteString(level.String() + " " + text + "\n")
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// opened opens a store that closes with the test.
func opened(t *testing.T, o Options) (*Store, *notes) {
	t.Helper()
	said := &notes{}
	o.Log = said.add
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, said
}

// some are packets from a time on, a millisecond apart.
func some(n int, from time.Time) (list []record.Record) {
	p := storetest.NewPackets(1, 20, 30, 50, from, time.Millisecond)
	for range n {
		list = append(list, p.Next())
	}
	return list
}

func put(t *testing.T, s *Store, list []record.Record) {
	t.Helper()
	if err := s.Write(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// ask is the result of a query of one number over all files of a time.
func ask(t *testing.T, s *Store, query string) float64 {
	t.Helper()
	var answer float64
	err := s.Read(t.Context(), time.Unix(0, 0), start.Add(1000*time.Hour), func(r *Reading) error {
		if len(r.Files) == 0 {
			return nil
		}
		var got *float64
		if err := r.DB.QueryRow("SELECT sum(n)::DOUBLE FROM (" + Union(r.Files, query) + ")").Scan(&got); err != nil {
			return err
		}
		if got != nil {
			answer = *got
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

const countPackets = "SELECT count(*) AS n FROM FILE(packets)"

// What was written is there after another start, and the tables of keys, paths and names have each thing once.
func TestKept(t *testing.T) {
	o := Options{Directory: t.TempDir()}
	s, _ := opened(t, o)
	list := some(3000, start)
	put(t, s, list[:1000])
	put(t, s, list[1000:2000])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = opened(t, o)
	put(t, s, list[2000:])
	for query, want := range map[string]float64{
		countPackets: 3000,
		"SELECT count(*) AS n FROM FILE(packets) p JOIN FILE(paths) d ON p.path = d.number JOIN FILE(keys) k ON p.key = k.number": 3000,
		"SELECT count(*) - count(DISTINCT key) AS n FROM FILE(keys)":                                                              0,
		"SELECT count(*) - count(DISTINCT path) AS n FROM FILE(paths)":                                                            0,
		"SELECT count(*) - count(DISTINCT segment) AS n FROM FILE(segments)":                                                      0,
		"SELECT count(*) AS n FROM FILE(nodes)":                                                                                   20,
	} {
		if got := ask(t, s, query); got != want {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	if e := s.Files()[0]; e.Packets != 3000 || !e.First.Equal(start) {
		t.Errorf("%+v", e)
	}
}

// While rollups are made, records are written and questions answered; who closes the store waits.
func TestWrittenDuringRollup(t *testing.T) {
	c := &clock{at: start}
	s, said := opened(t, Options{Directory: t.TempDir(), Now: c.now, byHand: true})
	put(t, s, some(1000, start))
	s.Tend(t.Context()) // the minute begins
	c.set(start.Add(time.Minute))
	f := s.file
	f.rolling.Lock() // as long as the rollup takes
	tended := make(chan struct{})
	go func() {
		defer close(tended)
		s.Tend(t.Context())
	}()
	for begun := time.Now(); f.using.TryLock(); time.Sleep(time.Millisecond) { // until the rollup holds it
		if f.using.Unlock(); time.Since(begun) > patience.Of(10*time.Second) {
			t.Fatal("no rollup begins")
		}
	}
	put(t, s, some(500, start.Add(time.Minute)))
	packets := func() (n int) {
		err := s.Read(t.Context(), start, start.Add(time.Hour), func(r *Reading) error {
			return r.DB.QueryRowContext(t.Context(), Union(r.Files, "SELECT count(*) FROM FILE(packets)")).Scan(&n)
		})
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := packets(); n != 1500 {
		t.Errorf("%d packets of 1500 during a rollup", n)
	}
	select {
	case <-tended:
		t.Error("Tend does not wait for the rollup")
	default:
	}
	f.rolling.Unlock()
	<-tended
	var rolled int
	if err := s.db.QueryRow("SELECT sum(packets)::INTEGER FROM " + f.alias + ".path_1m").Scan(&rolled); err != nil || rolled != 1000 {
		t.Errorf("rollups of %d packets instead of 1000: %v", rolled, err)
	}
	if err := s.Close(); err != nil || said.String() != "" {
		t.Errorf("%v %s", err, said)
	}
	list, _, err := Check(t.Context(), s.options.Directory, 1<<28)
	if err != nil || len(list) != 1 || list[0].Fault != nil || list[0].Packets != 1500 {
		t.Errorf("%+v %v", list, err)
	}
}

// Many packets do not wait for the end of the minute: a question would have to look at each of them.
func TestRollupOfManyPackets(t *testing.T) {
	c := &clock{at: start}
	s, _ := opened(t, Options{Directory: t.TempDir(), Now: c.now, byHand: true})
	put(t, s, some(1000, start))
	rolled := func() (n int) {
		s.Tend(t.Context())
		if err := s.db.QueryRow("SELECT coalesce(sum(packets), 0)::INTEGER FROM " + s.file.alias + ".path_1m").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := rolled(); n != 0 {
		t.Errorf("%d packets are in rollups of a minute that has not ended", n)
	}
	s.file.entry.Packets += mostFresh // as if so many packets had been written
	if n := rolled(); n != 1000 {
		t.Errorf("%d packets of 1000 are in rollups", n)
	}
	put(t, s, some(1000, start.Add(time.Second)))
	if n := rolled(); n != 1000 {
		t.Errorf("%d packets are in rollups, of which there are few new ones", n)
	}
}

// Rollups count each packet once, whenever they are made, and have the buckets of exact delays.
func TestRollups(t *testing.T) {
	c := &clock{at: start}
	s, _ := opened(t, Options{Directory: t.TempDir(), Now: c.now})
	list := some(130_000, start) // more than two minutes
	hops, held, greatest := 0, 0.0, int64(0)
	for i := 0; i < len(list); i += 26_000 {
		put(t, s, list[i:i+26_000])
		c.set(start.Add(time.Duration(i/1000) * time.Second))
		s.Tend(t.Context())
	}
	s.writing.Lock()
	if err := s.file.rollUp(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.file.rollUp(t.Context()); err != nil { // nothing is left
		t.Error(err)
	}
	if err := s.file.rollUpHours(t.Context()); err != nil {
		t.Error(err)
	}
	s.writing.Unlock()
	for _, r := range list {
		p := r.(*record.Path)
		hops += len(p.Nodes)
		for _, n := range p.Nodes {
			held += float64(n.TransitDelay.Value)
		}
		if p.Delay != nil {
			greatest = max(greatest, *p.Delay)
		}
	}
	for query, want := range map[string]float64{
		"SELECT packets AS n FROM FILE(segment_1m)":                                                      float64(hops),
		"SELECT packets AS n FROM FILE(segment_1h)":                                                      float64(hops),
		"SELECT held_sum AS n FROM FILE(segment_1h)":                                                     held,
		"SELECT unnest(held_n) AS n FROM FILE(segment_1m)":                                               float64(hops),
		"SELECT unnest(link_n) AS n FROM FILE(segment_1h)":                                               float64(hops - len(list)),
		"SELECT packets AS n FROM FILE(path_1m)":                                                         float64(len(list)),
		"SELECT packets AS n FROM FILE(path_1h)":                                                         float64(len(list)),
		"SELECT max(delay_max) AS n FROM FILE(path_1h)":                                                  float64(greatest),
		"SELECT lost - (SELECT sum(lost) FROM FILE(path_1m)) / count(*) OVER () AS n FROM FILE(path_1h)": 0,
	} {
		if got := ask(t, s, query); math.Abs(got-want) > 1e-6*math.Abs(want)+1e-6 {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

// Every kind of records has a table with the values of its fields.
func TestRecords(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir()})
	delay := &record.Delays{Min: 1, Max: 9, Sum: 10, Count: 2}
	at := instant.Of(start)
	put(t, s, []record.Record{
		&record.Flow{
			Time:         at,
			Node:         "a'; DROP TABLE flow; --",
			Packets:      1 << 63,
			TransitDelay: delay,
			Packet:       record.Packet{Source: storetest.Source(7)},
		},
		&record.Loss{Measurement: record.Measurement{Time: at, FlowID: 5, Scope: record.WholeWay}, Verdict: loss.Measured, FromReasons: 3,
			Sent: record.NewField(uint64(10), true), Lost: record.NewField(uint64(2), true)},
		&record.Trace{Time: at, Nodes: []record.NodeData{{NodeID: record.NewField(ioam.NodeID(1), true)}}},
		&record.Warning{}, &record.Other{}, &record.Statistics{},
	})
	var text string
	for query, want := range map[string]string{
		"SELECT node FROM FILE(flow)":                                           "a'; DROP TABLE flow; --",
		"SELECT packets::VARCHAR FROM FILE(flow)":                               "9223372036854775807",
		"SELECT transit_delay_ns_sum::VARCHAR FROM FILE(flow)":                  "10",
		"SELECT packet_source FROM FILE(flow)":                                  storetest.Source(7).String(),
		"SELECT from_reasons FROM FILE(loss)":                                   `["missing","contradicting"]`,
		"SELECT verdict || lost || sent FROM FILE(loss)":                        "measured210",
		"SELECT nodes FROM FILE(trace)":                                         `[{"node_id":1}]`,
		"SELECT count(*)::VARCHAR FROM FILE(warning)":                           "1",
		"SELECT strftime(time::TIMESTAMP, '%Y-%m-%dT%H:%M:%S') FROM FILE(flow)": "2026-11-21T12:00:05",
	} {
		err := s.Read(t.Context(), start, start.Add(time.Hour), func(r *Reading) error {
			return r.DB.QueryRow(Union(r.Files, query)).Scan(&text)
		})
		if err != nil || text != want {
			t.Errorf("%s: %q, %v", query, text, err)
		}
	}
}

// The database reaches no other file, and its settings stay.
func TestClosedDatabase(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir()})
	secret := filepath.Join(t.TempDir(), "secret.csv")
	if err := os.WriteFile(secret, []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		"SELECT * FROM read_csv(" + literal(secret) + ")", "COPY (SELECT 1) TO " + literal(secret), "ATTACH " + literal(secret),
		"INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true", "SET memory_limit = '100GB'",
	} {
		if _, err := s.db.Exec(statement); err == nil {
			t.Errorf("%s is allowed", statement)
		}
	}
}
