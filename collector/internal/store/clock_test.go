// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync/atomic"
	"testing"
	"time"
)

// wrongClock is a store whose clock is set apart from the time that passes.
type wrongClock struct {
	*clock
	passed atomic.Int64
}

func (w *wrongClock) elapsed() time.Duration { return time.Duration(w.passed.Load()) }

// pass lets time pass, by both.
func (w *wrongClock) pass(d time.Duration) {
	w.passed.Add(int64(d))
	w.set(w.now().Add(d))
}

func (w *wrongClock) opened(t *testing.T, o Options) (*Store, *notes) {
	t.Helper()
	o.Now, o.Elapsed, o.Quiet, o.byHand, o.Unpacked = w.now, w.elapsed, 50, true, true
	return opened(t, o)
}

// names are the names of a store's files, and of the last one its state.
func (s *Store) names(t *testing.T) (list []string) {
	t.Helper()
	s.settled(t)
	for _, e := range s.Files() {
		list = append(list, e.Name+" "+string(e.State))
	}
	return list
}

// A file that was begun while the clock was a year ahead ends after an hour, or a day if it has little, and leaves in its
// time.
func TestClockAheadWhenFileBegins(t *testing.T) {
	w := &wrongClock{clock: &clock{at: start.AddDate(1, 0, 0)}}
	s, said := w.opened(t, Options{Directory: t.TempDir(), Age: 48 * time.Hour})
	put(t, s, some(100, start))
	w.set(start) // it is corrected
	w.pass(59 * time.Minute)
	s.Tend(t.Context())
	if got := s.names(t); len(got) != 1 {
		t.Errorf("after 59 minutes: %q", got)
	}
	w.pass(2 * time.Minute)
	s.Tend(t.Context())
	if got := s.names(t); len(got) != 2 || got[0] != "2027-11-21T12 closed" || got[1] != "2026-11-21T13 open" {
		t.Errorf("after 61 minutes: %q", got)
	}
	put(t, s, some(10, start)) // little
	w.pass(23 * time.Hour)
	s.Tend(t.Context())
	if got := s.names(t); len(got) != 2 {
		t.Errorf("a file with little, before its day is over: %q", got)
	}
	for range 4 * 24 {
		w.pass(time.Hour)
		s.Tend(t.Context())
		s.settled(t) // a file leaves only after it is closed
	}
	for _, e := range s.Files() {
		if e.Closed.After(start.AddDate(0, 6, 0)) || !e.Closed.IsZero() && e.Closed.Before(w.now().Add(-49*time.Hour)) {
			t.Errorf("%+v is still there at %v\n%s", e, w.now(), said)
		}
	}
	if ask(t, s, countPackets) != 0 {
		t.Errorf("packets are older than is kept:\n%s", said)
	}
}

// A clock that is a month ahead for a moment removes nothing; one that stays there is believed after a sixteenth of the age.
func TestClockAheadForAMoment(t *testing.T) {
	w := &wrongClock{clock: &clock{at: start}}
	o := Options{Directory: t.TempDir(), Age: 48 * time.Hour}
	s, said := w.opened(t, o)
	write := func(hours int) {
		for range hours {
			put(t, s, some(100, w.now()))
			w.pass(time.Hour)
			s.Tend(t.Context())
			s.settled(t) // a file is closed by the clock of then
		}
	}
	all := func(when string, want float64) {
		t.Helper()
		if got := ask(t, s, countPackets); got != want {
			t.Errorf("%s: %v packets, want %v\n%s", when, got, want, said)
		}
	}
	write(3)
	const month = 30 * 24 * time.Hour
	right := w.now()
	w.set(right.Add(month))
	write(1)
	all("while the clock is ahead", 400)
	w.set(right.Add(time.Hour))
	write(1)
	all("after it was corrected", 500)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// The next collector starts with a wrong clock.
	right = w.now()
	w.set(right.Add(month))
	s, said = w.opened(t, o)
	write(1)
	all("started with a clock that is ahead", 600)
	w.set(right.Add(time.Hour))
	write(1)
	all("corrected again", 700)
	w.set(w.now().Add(month)) // this is the right time: the machine was suspended
	write(2)
	all("ahead for two hours", 900)
	write(3)
	all("ahead for five hours", 600) // what was written in files of the right time has left, whatever the clock was when they ended
}

// A file that was closed while the clock was far ahead leaves by its age.
func TestClosedWhileClockIsAhead(t *testing.T) {
	w := &wrongClock{clock: &clock{at: start}}
	s, said := w.opened(t, Options{Directory: t.TempDir(), Age: 48 * time.Hour})
	put(t, s, some(100, w.now()))
	right := w.now()
	w.set(right.Add(70 * 365 * 24 * time.Hour))
	s.Tend(t.Context())
	s.settled(t)
	w.set(right)
	for range 4 {
		w.pass(24 * time.Hour)
		put(t, s, some(1, w.now()))
		s.Tend(t.Context())
		s.settled(t)
	}
	if got := ask(t, s, countPackets); got >= 100 || got == 0 {
		t.Errorf("%v packets are kept\n%s", got, said)
	}
}

// A clock that is far ahead and gains more on the time that passes, as that of a machine that is suspended each night,
// is believed, as far as it was ahead all the time.
func TestClockThatGains(t *testing.T) {
	c := newAgeClock(start, 30*24*time.Hour, 0)
	ahead := 10 * 24 * time.Hour // the collector began anew after ten days
	for passed := time.Duration(0); passed <= 10*24*time.Hour; passed += time.Minute {
		if passed%time.Hour == 0 {
			ahead += 2 * time.Minute
		}
		now := start.Add(passed + ahead)
		at := c.at(now, passed)
		switch {
		case passed < 24*time.Hour && !at.Equal(start.Add(passed)):
			t.Fatalf("after %v: judged by %v", passed, at)
		case passed >= 24*time.Hour && !at.Equal(now):
			t.Fatalf("after %v: judged by %v, the clock is %v", passed, at, now)
		}
	}
	// What it is ahead only for a moment at the end is not believed.
	c = newAgeClock(start, 30*24*time.Hour, 0)
	c.at(start.Add(ahead), 0)
	const day = 24 * time.Hour
	if at := c.at(start.Add(day+365*day), day); !at.Equal(start.Add(day + ahead)) {
		t.Errorf("judged by %v", at)
	}
}

// A collector that begins while the clock is ahead, and whose clock is corrected, removes nothing when the clock is ahead
// again for a moment.
func TestClockAheadTwice(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, again := range []bool{false, true} {
		w := &wrongClock{clock: &clock{at: start.Add(year)}}
		o := Options{Directory: t.TempDir(), Age: 48 * time.Hour}
		s, said := w.opened(t, o)
		w.set(start)
		pass := func(d time.Duration) {
			t.Helper()
			w.pass(d)
			put(t, s, some(100, w.now()))
			s.Tend(t.Context())
			s.settled(t)
		}
		for range 20 {
			pass(time.Minute)
		}
		pass(time.Hour)
		if again {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, said = w.opened(t, o)
		}
		pass(time.Hour)
		pass(time.Minute)
		right := w.now()
		w.set(right.Add(year / 2))
		pass(time.Minute)
		w.set(right.Add(time.Minute))
		pass(time.Minute)
		if got := ask(t, s, countPackets); got != 2500 {
			t.Errorf("begun anew %v: %v packets\n%s", again, got, said)
		}
	}
}

// A machine that has no clock when it starts, and is right a minute later, does not wait for a day to judge ages.
func TestClockBehindForAMoment(t *testing.T) {
	c := newAgeClock(start, 30*24*time.Hour, 0)
	for minutes := range 5 {
		passed := time.Duration(minutes) * time.Minute
		if past := time.Unix(0, 0).Add(passed); !c.at(past, passed).Equal(past) {
			t.Errorf("after %v: judged by %v", passed, c.at(past, passed))
		}
	}
	if now := start.Add(time.Hour); !c.at(now, 5*time.Minute).Equal(now) {
		t.Errorf("judged by %v", c.at(now, 5*time.Minute))
	}
}

// Times of the store are those of the clock: one that is set ahead is seen, although the process knows what passed.
func TestClockIsNotMonotonic(t *testing.T) {
	s, _ := opened(t, Options{Directory: t.TempDir(), Unpacked: true, byHand: true})
	if now := s.now(); now != now.Round(0) {
		t.Errorf("%v has a monotonic time", now)
	}
}
