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

// filling is a store whose disk is full at times, and whose sink loses records.
type filling struct {
	*Store
	t            *testing.T
	clock        *clock
	missed, free atomic.Uint64
	options      Options
	said         *notes
}

func newFilling(t *testing.T) *filling {
	t.Helper()
	f := &filling{t: t, clock: &clock{at: start}}
	f.options = Options{
		Directory: t.TempDir(), Now: f.clock.now, Missed: f.missed.Load, Reserve: 500e6,
		Free: func() (uint64, error) { return f.free.Load(), nil },
	}
	f.free.Store(10 << 30)
	f.Store, f.said = opened(t, f.options)
	put(t, f.Store, some(10, start))
	return f
}

// fail writes when the disk has so much free.
func (f *filling) fail(at time.Duration, octets uint64) {
	f.t.Helper()
	f.clock.set(start.Add(at))
	f.free.Store(octets)
	if err := f.Write(f.t.Context(), some(1, f.clock.now())); err == nil {
		f.t.Fatal("it is written")
	}
}

func (f *filling) succeed(at time.Duration) {
	f.t.Helper()
	f.clock.set(start.Add(at))
	f.free.Store(10 << 30)
	put(f.t, f.Store, some(1, f.clock.now()))
}

// tend lets the store look, after the sink has lost some records.
func (f *filling) tend(at time.Duration, lost uint64) {
	f.missed.Add(lost)
	f.clock.set(start.Add(at))
	f.Tend(f.t.Context())
}

// expect compares the gaps with texts: from, until, and how the reason begins.
func (f *filling) expect(what string, want ...string) {
	f.t.Helper()
	gaps := gapsOf(f.t, f.Store)
	for i, g := range gaps {
		got := g.From.Sub(start).String() + " " + g.Until.Sub(start).String() + " " + g.Reason
		if len(gaps) == len(want) && !strings.HasPrefix(got, want[i]) {
			f.t.Errorf("%s: %s, want %q", what, got, want[i])
		}
	}
	if len(gaps) != len(want) {
		f.t.Errorf("%s: %+v, want %q", what, gaps, want)
	}
}

// While nothing is written, answers say so; afterwards they name the time if records were lost, and no other one.
func TestMissing(t *testing.T) {
	f := newFilling(t)
	f.fail(time.Minute, 41910272)
	first := faultOf(f.Store)
	f.fail(90*time.Second, 41900000)
	f.expect("a full disk", "50s 1m30s nothing is written: the disk has less free than the 500 MB that are to stay free (store.free)")
	if faultOf(f.Store) != first || strings.Contains(f.said.String(), "nothing is written") {
		t.Errorf("%q, before %q; the sink says it\n%s", faultOf(f.Store), first, f.said)
	}
	f.succeed(2 * time.Minute)
	f.expect("nothing was lost")
	f.fail(10*time.Minute, 1)
	f.tend(11*time.Minute, 5)
	f.succeed(12 * time.Minute)
	lost := "9m50s 12m0s nothing was written: the disk has less free than the 500 MB that are to stay free (store.free), " +
		"and there is no file to remove (5 records)"
	f.expect("five were lost", lost)
	f.tend(20*time.Minute, 0)
	f.tend(20*time.Minute+time.Second, 3)
	f.tend(20*time.Minute+2*time.Second, 4)
	f.expect("no room", lost, "19m50s 20m2s records came faster than they are written (7 records)")
}

// What is missing is known after the store was closed, and after the process was killed, as long as records are kept.
func TestMissingIsKept(t *testing.T) {
	f := newFilling(t)
	f.fail(10*time.Minute, 1)
	f.missed.Add(5)
	f.succeed(12 * time.Minute)
	f.fail(30*time.Minute, 1)
	catalog := filepath.Join(f.options.Directory, catalogName)
	killed, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	f.missed.Add(9) // by the sink, at its end
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.again(31 * time.Minute)
	lost := "9m50s 12m0s nothing was written"
	f.expect("after a restart", lost, "29m50s 30m0s nothing was written: the disk has less free than the 500 MB that are to stay free "+
		"(store.free), and there is no file to remove (9 records)")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(catalog, killed, 0o640); err != nil {
		t.Fatal(err)
	}
	f.again(31 * time.Minute)
	f.expect("after it was killed", lost, "29m50s 31m0s nothing was written: the disk")
	f.clock.set(start.Add(32 * time.Minute))
	f.writing.Lock()
	f.Store.options.Age = 10 * time.Minute
	f.retain()
	f.publish()
	f.writing.Unlock()
	f.expect("what is too old", "29m50s")
}

// again opens the store with room on the disk.
func (f *filling) again(at time.Duration) {
	f.t.Helper()
	f.clock.set(start.Add(at))
	f.free.Store(10 << 30)
	f.missed.Store(0)
	f.Store, f.said = opened(f.t, f.options)
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

// The time before the oldest file is a gap as soon as files have left, also for the next collector and for one whose
// clock was wrong; before that, it is the time before the collector began.
func TestOlderFilesLeft(t *testing.T) {
	w := &wrongClock{clock: &clock{at: start}}
	o := Options{Directory: t.TempDir(), Age: 48 * time.Hour}
	s, said := w.opened(t, o)
	expect := func(when string, from, until time.Time, want ...string) {
		t.Helper()
		var got []string
		err := s.Read(t.Context(), from, until, func(r *Reading) error {
			for _, g := range r.Gaps {
				got = append(got, g.From.Sub(start).String()+" "+g.Until.Sub(start).String()+" "+g.Reason)
			}
			return nil
		})
		if err != nil || strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("%s: %q, want %q; %v\n%s", when, got, want, err, said)
		}
	}
	write := func(hours int) {
		for range hours {
			put(t, s, some(100, w.now()))
			w.pass(time.Hour)
			s.Tend(t.Context())
			s.settled(t)
		}
	}
	const reason = " older files have left (store.age, store.size or the disk)"
	day := 24 * time.Hour
	write(3)
	expect("nothing has left", start.Add(-day), w.now())
	write(49)
	oldest := s.Files()[0].Opened
	until := oldest.Sub(start).String()
	expect("a day before", start.Add(-day), w.now(), "-24h0m0s "+until+reason)
	expect("before all", start.Add(-2*day), start.Add(-day), "-48h0m0s -24h0m0s"+reason)
	expect("what is kept", oldest, w.now())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, said = w.opened(t, o)
	expect("after a start", start.Add(-day), w.now(), "-24h0m0s "+until+reason)
	s.writing.Lock()
	for range 2 { // it is killed before the catalog is written
		s.removeOldest(ofDisk, "of a test")
	}
	s.writing.Unlock()
	s.catalog.Left = instant.Time{}
	text, err := os.ReadFile(filepath.Join(o.Directory, catalogName))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Directory, catalogName), text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, said = w.opened(t, o)
	until = s.Files()[0].Opened.Sub(start).String()
	expect("after a kill", start.Add(-day), w.now(), "-24h0m0s "+until+reason)
}

// A file that was begun while the clock was a year ahead does not make all times a gap when it leaves.
func TestFileFromTheFutureLeaves(t *testing.T) {
	w := &wrongClock{clock: &clock{at: start.AddDate(1, 0, 0)}}
	s, said := w.opened(t, Options{Directory: t.TempDir()})
	put(t, s, some(100, start))
	w.set(start)
	for range 3 {
		w.pass(61 * time.Minute)
		s.Tend(t.Context())
		s.settled(t)
		put(t, s, some(100, w.now()))
	}
	s.writing.Lock()
	s.removeOldest(ofDisk, "of a test")
	s.publish()
	s.writing.Unlock()
	err := s.Read(t.Context(), w.now().Add(-time.Hour), w.now(), func(r *Reading) error {
		if len(r.Gaps) != 0 {
			t.Errorf("%v\n%s", r.Gaps, said)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
