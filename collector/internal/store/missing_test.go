// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
)

// gapsOf are the gaps of all times.
func gapsOf(t *testing.T, s *Store) (list []Gap) {
	t.Helper()
	if err := s.Read(t.Context(), start.Add(-time.Hour), start.Add(24*time.Hour), func(r *Reading) error {
		list = r.Gaps
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// While nothing is written, answers say so; afterwards, and after a restart, they name the time if records were lost,
// and no other one.
func TestMissing(t *testing.T) {
	var missed, free atomic.Uint64
	c := &clock{at: start}
	o := Options{
		Directory: t.TempDir(), Now: c.now, Missed: missed.Load, Reserve: 500e6, Free: func() (uint64, error) { return free.Load(), nil },
	}
	free.Store(10 << 30)
	s, said := opened(t, o)
	put(t, s, some(10, start))
	fail := func(at time.Duration, octets uint64) {
		t.Helper()
		c.set(start.Add(at))
		free.Store(octets)
		if err := s.Write(t.Context(), some(1, c.now())); err == nil {
			t.Fatal("it is written")
		}
	}
	succeed := func(at time.Duration) {
		t.Helper()
		c.set(start.Add(at))
		free.Store(10 << 30)
		put(t, s, some(1, c.now()))
	}
	expect := func(what string, want ...string) {
		t.Helper()
		gaps := gapsOf(t, s)
		for i, g := range gaps {
			if len(gaps) == len(want) && !strings.HasPrefix(g.From.Sub(start).String()+" "+g.Until.Sub(start).String()+" "+g.Reason, want[i]) {
				t.Errorf("%s: %+v, want %q", what, g, want[i])
			}
		}
		if len(gaps) != len(want) {
			t.Errorf("%s: %+v, want %q", what, gaps, want)
		}
	}
	fail(time.Minute, 41910272)
	first := s.Fault()
	fail(90*time.Second, 41900000)
	expect("a full disk", "50s 1m30s nothing is written: the disk has less free than the 500 MB that are to stay free (store.free)")
	if s.Fault() != first || strings.Contains(said.String(), "nothing is written") {
		t.Errorf("%q, before %q; the sink says it\n%s", s.Fault(), first, said)
	}
	succeed(2 * time.Minute)
	expect("nothing was lost")
	fail(10*time.Minute, 1)
	missed.Add(5)
	c.set(start.Add(11 * time.Minute))
	s.Tend(t.Context())
	succeed(12 * time.Minute)
	lost := "9m50s 12m0s nothing was written: the disk has less free"
	expect("five were lost", lost)
	if g := gapsOf(t, s); !strings.HasSuffix(g[0].Reason, "(5 records)") {
		t.Errorf("%+v", g)
	}
	c.set(start.Add(20 * time.Minute))
	s.Tend(t.Context())
	missed.Add(3)
	c.set(start.Add(20*time.Minute + time.Second))
	s.Tend(t.Context())
	missed.Add(4)
	c.set(start.Add(20*time.Minute + 2*time.Second))
	s.Tend(t.Context())
	full := "19m50s 20m2s records came faster than they are written (7 records)"
	expect("no room", lost, full)
	fail(30*time.Minute, 1)
	catalog := filepath.Join(o.Directory, catalogName)
	killed, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(catalog, killed, 0o640); err != nil { // as if it was killed
		t.Fatal(err)
	}
	c.set(start.Add(31 * time.Minute))
	free.Store(10 << 30)
	missed.Store(0)
	s, _ = opened(t, o)
	expect("after a restart", lost, full, "29m50s 31m0s nothing was written: the disk")
	c.set(start.Add(32 * time.Minute))
	s.writing.Lock()
	s.options.Age = 10 * time.Minute
	s.retain()
	s.publish()
	s.writing.Unlock()
	expect("what is too old", "29m50s")
}

// The times that are kept are bounded: the oldest become one.
func TestMissingIsBounded(t *testing.T) {
	t.Parallel()
	var c catalog
	for i := range 3 * mostMissing {
		at := start.Add(time.Duration(i) * time.Hour)
		c.addMissing(missing{From: instant.Of(at), Until: instant.Of(at.Add(time.Minute)), Records: 1})
	}
	sum := uint64(0)
	for _, m := range c.Missing {
		sum += m.Records
	}
	if len(c.Missing) != mostMissing || !c.Missing[0].From.Equal(start) || sum != 3*mostMissing {
		t.Errorf("%d times from %v with %d records", len(c.Missing), c.Missing[0].From, sum)
	}
}
