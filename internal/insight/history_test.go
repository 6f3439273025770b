// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/instant"
)

// What comes after the last moment of an interval is of the next one, although an interval is ended later: records,
// and times in which they were made.
func TestIntervalsEndAtTheirLastMoment(t *testing.T) {
	e := run(t, Settings{})
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	check := func(now float64, want ...Interval) {
		t.Helper()
		list, _ := e.Read(start, at(now), at(now))
		var got []Interval
		for _, v := range list {
			got = append(got, Interval{Start: v.Start, Length: v.Length, Watched: v.Watched, Records: v.Records, Open: v.Open})
		}
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b instant.Time) bool { return a.Equal(b.Time) })); d != "" {
			t.Error(d)
		}
	}
	between := func(from, until, watched float64, records uint64) Interval {
		watchedFor := time.Duration(watched * float64(time.Second))
		return Interval{Start: instant.Of(at(from)), Length: int64(at(until).Sub(at(from))), Watched: int64(watchedFor), Records: records}
	}
	open := func(v Interval) Interval {
		v.Open = true
		return v
	}
	e.Add(at(9.5), way(2, time.Microsecond, time.Microsecond))
	e.Add(at(10.25), way(2, time.Microsecond, time.Microsecond))
	check(10.5, between(0, 10, 10, 1), open(between(10, 10.5, 0.5, 1)))
	e.Watch(at(10.75), false)
	e.Advance(at(10.9))
	e.Watch(at(19), true)
	e.Watch(at(31), true)
	e.Advance(at(45))
	check(45, between(0, 10, 10, 1), between(10, 30, 0.75+11, 1), between(30, 40, 10, 0), open(between(40, 45, 5, 0)))
}

// Intervals end at whole multiples of their length, are kept for an hour, and are the same after a restart.
func TestHistory(t *testing.T) {
	e := New(Settings{}, start.Add(3*time.Second))
	e.Watch(start.Add(3*time.Second), true)
	var ended []*Interval
	e.OnClosed(func(v *Interval) { ended = append(ended, v) })
	now := start.Add(3 * time.Second)
	for range 4000 {
		e.Add(now, way(2, 8*time.Microsecond, 50*time.Microsecond))
		now = now.Add(time.Second)
		e.Advance(now)
	}
	list, complete := e.Read(start, now, now)
	if n := len(list); n < 360 || n > 362 || now.Sub(complete) > time.Hour+20*time.Second || !list[n-1].Open || list[0].Records != 10 ||
		list[0].Watched != int64(10*time.Second) {
		t.Fatalf("%d intervals since %v, the first %+v", n, complete, list[0])
	}
	if len(ended) != 400 || ended[0].Start.Sub(start) != 3*time.Second || ended[0].Length != int64(7*time.Second) || ended[1].Records != 10 {
		t.Errorf("%d intervals ended: %+v", len(ended), ended[0])
	}
	if got := e.Report(now.Add(-time.Minute), now, now); got.Pairs[0].Packets < 60 || got.Pairs[0].Packets > 70 ||
		len(got.Pairs[0].Paths[0].Hops[1].Series) < 6 {
		t.Errorf("the last minute: %+v", got.Pairs[0])
	}
	e.Close(now)
	again := New(Settings{}, now)
	if err := again.Restore(e.Save(), now); err != nil {
		t.Fatal(err)
	}
	want, _ := e.Read(start, now, now)
	got, _ := again.Read(start, now, now)
	if a, b := lines(want), lines(got); a != b {
		t.Errorf("after a restart: %s", cmp.Diff(a, b))
	}
	later := now.Add(30 * time.Minute)
	late := New(Settings{}, later)
	if err := late.Restore(e.Save(), later); err != nil {
		t.Fatal(err)
	}
	if rest, _ := late.Read(start, later, later); len(rest) < 179 || len(rest) > 182 {
		t.Errorf("half an hour later, %d intervals are left", len(rest))
	}
}

func lines(list []*Interval) (text string) {
	for _, v := range list {
		text += string(v.Line())
	}
	return text
}

// The clock may be set back: what seems to be in the future is forgotten.
func TestClockSetBack(t *testing.T) {
	e := run(t, Settings{})
	for i := range 100 {
		now := start.Add(time.Duration(i) * time.Second)
		e.Add(now, way(2, 0, 0))
		e.Advance(now)
	}
	e.Add(start.Add(101*time.Second), way(2, 0, 0)) // an interval has ended, and is not kept yet
	back := start.Add(35 * time.Second)
	e.Advance(back)
	list, _ := e.Read(start.Add(-time.Hour), start.Add(time.Hour), back)
	if len(list) != 3 {
		t.Errorf("%d intervals are kept", len(list))
	}
	e.Add(back, way(2, 0, 0))
	e.Advance(back.Add(20 * time.Second))
	if err := New(Settings{}, back).Restore(e.Save(), back.Add(20*time.Second)); err != nil {
		t.Error(err)
	}
}

// FuzzRestore takes no damaged file, and never more than an engine keeps.
func FuzzRestore(f *testing.F) {
	e := New(Settings{}, start)
	for range 30 {
		e.Add(start, way(2, 8*time.Microsecond, 50*time.Microsecond))
	}
	e.Close(start.Add(5 * time.Second))
	e.Add(start.Add(6*time.Second), way(9, 0, 0))
	e.Close(start.Add(10 * time.Second))
	saved := e.Save()
	f.Add(saved)
	f.Add(saved[:len(saved)-9])
	f.Add([]byte("not compressed"))
	f.Fuzz(func(t *testing.T, b []byte) {
		now := start.Add(time.Minute)
		e := New(Settings{}, now)
		_ = e.Restore(b, now)
		e.Add(now, way(2, 0, 0))
		e.Advance(now.Add(time.Minute))
		if _, err := json.Marshal(e.Report(start, now, now)); err != nil {
			t.Error(err)
		}
	})
}

// A restored interval that has other sizes than an engine writes is refused.
func TestRestoreRefuses(t *testing.T) {
	now := start.Add(time.Minute)
	good := New(Settings{}, start)
	good.Add(start, way(2, 0, 0))
	good.Close(start.Add(5 * time.Second))
	for name, bad := range map[string][]byte{"cut": good.Save()[:40], "doubled": append(good.Save(), good.Save()[:20]...),
		"text": []byte("x")} {
		e := New(Settings{}, now)
		if err := e.Restore(bad, now); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	future := New(Settings{}, start.Add(time.Hour))
	future.Add(start.Add(time.Hour), way(2, 0, 0))
	future.Close(start.Add(time.Hour + time.Second))
	if err := New(Settings{}, now).Restore(future.Save(), now); err == nil {
		t.Error("an interval of the future is taken")
	}
}
