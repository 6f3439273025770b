// SPDX-License-Identifier: Apache-2.0

package query

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"

	_ "github.com/duckdb/duckdb-go/v2"
)

var rolledStart = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// various are packets of busy and of quiet flows, some of which move, over several hours: in two namespaces, late, twice,
// lost, and with delays that are negative or not known.
func various(random *rand.Rand, n int, step time.Duration) (list []record.Record) {
	p := storetest.NewPackets(random.Uint64(), 12, 20, 200, rolledStart, step)
	zipf := rand.NewZipf(random, 1.1, 1, 199)
	ways := [][]int{{1, 2, 3}, {1, 4, 3}, {1, 2, 5, 3}, {6, 7, 8, 9}, {6, 9}}
	for i := range n {
		flow := int(zipf.Uint64())
		way := ways[flow%len(ways)]
		switch {
		case flow%7 == 0 && i > n/2, flow%7 == 1 && random.IntN(4) == 0, flow%7 == 2 && (i/2000)%2 == 0: // moved, spread, back and forth
			way = ways[(flow+1)%len(ways)]
		}
		r := p.Of(flow, way, random.IntN(40) == 0)
		if flow%5 == 0 && random.IntN(3) == 0 {
			r.Namespace = ioam.NamespaceID(7)
		}
		switch random.IntN(60) {
		case 0:
			r.Time = instant.Of(r.Time.Time.Add(-time.Duration(random.Int64N(int64(2 * time.Hour)))))
		case 1:
			r.Delay = nil
		case 2:
			ns := -random.Int64N(1000)
			r.Delay, r.Nodes[len(r.Nodes)-1].SincePrevious = &ns, &ns
		case 3:
			list = append(list, r)
		case 4:
			r.Packet.Source = netip.Addr{}
		case 5:
			r.FlowID += 5
		}
		list = append(list, r)
	}
	return list
}

// rolledStores are the same packets in files that are packed, were packed by a program without rollups by flow, and are
// not packed. The newest file of each is still written.
func rolledStores(t *testing.T, list []record.Record, step time.Duration) map[string]*store.Store {
	var now atomic.Int64
	now.Store(rolledStart.UnixNano())
	o := store.Options{Directory: t.TempDir(), Quiet: 1, Unpacked: true, Now: func() time.Time { return time.Unix(0, now.Load()).UTC() }}
	open := func(directory string) *store.Store {
		of := o
		of.Directory = directory
		s, err := store.New(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	s := open(o.Directory)
	for i := 0; i < len(list); i += 500 {
		if err := s.Write(t.Context(), list[i:min(i+500, len(list))]); err != nil {
			t.Fatal(err)
		}
		now.Add(500 * int64(step))
		s.Tend(t.Context())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copied := func(from, name string) string {
		into := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(into, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return into
	}
	stores := map[string]*store.Store{"unpacked": open(copied(o.Directory, "unpacked"))}
	s = open(o.Directory)
	if err := s.Pack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	earlier := copied(o.Directory, "earlier")
	stores["packed"] = open(o.Directory)
	for i, e := range stores["packed"].Files() {
		if e.Packed && i > 0 { // the first one has them
			unroll(t, filepath.Join(earlier, e.Name+".duckdb"))
		}
	}
	stores["packed earlier"] = open(earlier)
	return stores
}

// unroll removes the rollups by flow of a packed file.
func unroll(t *testing.T, path string) {
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("duckdb", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"DROP TABLE flow_1h", "DROP TABLE flow_delay_1h", "DROP TABLE flow_paths",
		"CREATE OR REPLACE TABLE packing AS SELECT dictionary FROM packing",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
}

// asJSON is an answer without what may differ: how many files were read, and the order of changes at the same time.
func asJSON(t *testing.T, answer any, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	switch a := answer.(type) {
	case *Paths:
		a.Files = 0
	case *Changes:
		a.Files = 0
		slices.SortFunc(a.Changes, func(a, b Change) int {
			return cmp.Or(b.Time.Compare(a.Time.Time), strings.Compare(a.Source+a.Destination, b.Source+b.Destination),
				cmp.Compare(a.Namespace, b.Namespace))
		})
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Answers from rollups by flow are those that packets give, of any time and of any flows, for all and for tenants: in
// files with such rollups and without, and as they are when each packet is read and counted outside of the database.
func TestRolledAnswers(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	const step = 400 * time.Millisecond // 3.3 hours
	list := various(random, 30_000, step)
	stores := rolledStores(t, list, step)
	questions := 12
	if testing.Short() {
		questions = 4
	}
	site, port, namespace := netip.MustParsePrefix("2001:db8:1::/48"), uint16(1030), uint16(7)
	selections := []Flows{{}, {Source: site}, {Namespace: &namespace}, {Source: site, Namespace: &namespace}, {SourcePort: &port},
		{Source: netip.MustParsePrefix("2001:db8::/47")}}
	scopes := []*store.Scope{nil, nil, {Prefixes: []netip.Prefix{site}}, {Namespaces: []uint16{123}},
		{Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8::/48")}, Namespaces: []uint16{123}}}
	found, moved := 0, 0
	for i := range questions {
		in := Range{rolledStart.Add(time.Duration(random.Int64N(int64(80 * time.Minute)))), rolledStart.Add(4 * time.Hour)}
		if i%3 > 0 {
			in.Until = in.From.Add(time.Duration(random.Int64N(int64(3*time.Hour))) + time.Second)
		}
		if i%4 == 0 {
			in = Range{rolledStart.Add(-3 * time.Hour), rolledStart.Add(6 * time.Hour)}
		}
		flows := selections[random.IntN(len(selections))]
		ctx := store.Confine(t.Context(), scopes[random.IntN(len(scopes))])
		changes := ChangesQuestion{Range: in, Flows: flows, Window: time.Duration(1+random.IntN(40)) * 30 * time.Second,
			Moved: 0.2 + random.Float64()/2, Least: 1 + random.IntN(5), Limit: 10_000}
		paths := PathsQuestion{Range: in, Flows: flows, Limit: 1 + random.IntN(30)}
		wantPaths, wantChanges := oneByOne(t, ctx, stores["unpacked"], paths, changes)
		for name, s := range stores {
			q := &Queries{Store: s, Time: time.Minute, AtOnce: 4}
			q.Begin()
			p, err := q.Paths(ctx, paths)
			if got := asJSON(t, p, err); got != wantPaths {
				t.Errorf("%s, question %d: paths %+v:\n%s\nwant\n%s", name, i, paths, got, wantPaths)
			}
			c, err := q.Changes(ctx, changes)
			if got := asJSON(t, c, err); got != wantChanges {
				t.Errorf("%s, question %d: changes %+v:\n%s\nwant\n%s", name, i, changes, got, wantChanges)
			}
			found, moved = found+int(p.Packets), moved+len(c.Changes)
		}
	}
	if found < questions*500 || moved < questions {
		t.Errorf("%d packets and %d changes, so that the test proves little", found, moved)
	}
	for range questions {
		onePacket(t, stores, list, list[random.IntN(len(list))].(*record.Path))
	}
	rolledSums(t, stores["packed"])
}

// onePacket asks for packets with the numbers of one, in all files.
func onePacket(t *testing.T, stores map[string]*store.Store, list []record.Record, one *record.Path) {
	want := 0
	for _, r := range list {
		if p := r.(*record.Path); p.FlowID == one.FlowID && p.Sequence == one.Sequence {
			want++
		}
	}
	for name, s := range stores {
		q := &Queries{Store: s, Time: time.Minute, AtOnce: 4}
		q.Begin()
		a, err := q.Packets(t.Context(), PacketsQuestion{
			Range: Range{rolledStart.Add(-3 * time.Hour), rolledStart.Add(6 * time.Hour)}, FlowID: &one.FlowID, Sequence: &one.Sequence, Limit: 100,
		})
		if err != nil || len(a.Packets) != want || a.Cut != nil {
			t.Errorf("%s: %d packets of flow %d with number %d, want %d; %v", name, len(a.Packets), one.FlowID, one.Sequence, want, err)
		}
	}
}

// oneByOne are the answers when packets are counted one by one.
func oneByOne(t *testing.T, ctx context.Context, s *store.Store, paths PathsQuestion, changes ChangesQuestion) (string, string) {
	condition := func() *Condition {
		c, err := NewCondition(OfPackets, "true")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	q := &Queries{Store: s, Time: time.Minute, AtOnce: 4}
	q.Begin()
	paths.Where, changes.Where = condition(), condition()
	p, err := q.Paths(ctx, paths)
	one := asJSON(t, p, err)
	c, err := q.Changes(ctx, changes)
	return one, asJSON(t, c, err)
}

// rolledSums makes sure that the rollups have some packets, and not all.
func rolledSums(t *testing.T, s *store.Store) {
	err := s.Read(t.Context(), rolledStart.Add(-3*time.Hour), rolledStart.Add(6*time.Hour), func(r *store.Reading) error {
		for i := range r.Files {
			of := r.Files[i].Stored()
			if r.Files[i].Entry.State == store.Open {
				continue
			}
			var keys uint32
			var measured uint64
			err := r.DB.QueryRow(store.Union(r.Files[i:i+1], "SELECT count(*), (SELECT sum(list_sum(n)) FROM FILE(flow_delay_1h)) FROM FILE(keys)")).
				Scan(&keys, &measured)
			if err != nil || of.Measured == 0 || of.Summed <= of.Measured || keys <= of.Summed || measured == 0 {
				t.Errorf("%s: %d keys, %+v, %d hops; %v", r.Files[i].Entry.Name, keys, of.Flows, measured, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
