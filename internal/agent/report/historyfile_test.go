// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/record"
)

// Each interval is written about once, and wherever the writer is killed, all intervals before are there.
func TestHistoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	begin := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	e := insight.New(insight.Settings{Keep: 20 * time.Minute}, begin)
	var f historyFile
	var sizes []int // of the file, with so many intervals
	now, written, most := begin, 0, 0
	const intervals = 1000 // about three hours
	for range intervals {
		e.Add(now, &record.Path{Complete: true, Nodes: []record.PathNode{}})
		now = now.Add(10 * time.Second)
		e.Advance(now)
		before := f.octets
		if err := f.save(path, e); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || int(info.Size()) != f.octets {
			t.Fatalf("%v octets, %v; want %d", info.Size(), err, f.octets)
		}
		if f.octets > before {
			written += f.octets - before
			sizes = append(sizes, f.octets)
		} else {
			written += f.octets
			sizes = []int{f.octets}
		}
		most = max(most, f.octets)
	}
	if kept := e.Totals().Octets; most > 2*kept+spareHistory+kept/10 || written > intervals*kept/100 {
		t.Errorf("%d octets are kept, at most %d were in the file, %d were written", kept, most, written)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	count := func(b []byte) (int, error) {
		again := insight.New(insight.Settings{Keep: 24 * time.Hour}, now)
		err := again.Restore(b, now)
		list, _ := again.Read(begin, now, now)
		return len(list), err
	}
	all, err := count(whole)
	if err != nil {
		t.Fatal(err)
	}
	last := sizes[len(sizes)-2]
	for cut := last; cut < len(whole); cut += 1 + (len(whole)-last)/20 {
		n, err := count(whole[:cut])
		if n != all-1 || cut > last && !errors.Is(err, insight.ErrCut) || cut == last && err != nil {
			t.Fatalf("%d of %d octets: %d of %d intervals, %v", cut, len(whole), n, all, err)
		}
	}
}

// A clock that is set back, another engine and a file that is gone: the file is written anew.
func TestHistoryFileAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	begin := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	e := insight.New(insight.Settings{}, begin)
	var f historyFile
	now := begin
	step := func(d time.Duration) error {
		e.Add(now, &record.Path{Complete: true, Nodes: []record.PathNode{}})
		now = now.Add(d)
		e.Advance(now)
		return f.save(path, e)
	}
	same := func(what string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if want := e.Save(); err != nil || string(b) != string(want) {
			t.Errorf("%s: %d octets, %v; want %d", what, len(b), err, len(want))
		}
	}
	for _, d := range []time.Duration{10, 10, 10, 10, -25, 10, 10} {
		if err := step(d * time.Second); err != nil {
			t.Fatal(err)
		}
		same("the clock")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := step(10 * time.Second); err == nil {
		t.Error("nothing is said of a file that is gone")
	}
	if err := step(10 * time.Second); err != nil {
		t.Error(err)
	}
	same("the next time")
	saved := e.Save()
	e = insight.New(insight.Settings{}, now)
	if err := errors.Join(e.Restore(saved, now), f.save(path, e)); err != nil {
		t.Error(err)
	}
	same("another engine")
}
