// SPDX-License-Identifier: Apache-2.0

package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// What could not be saved is saved by a later call without further news, and the error is given once.
func TestSaveAgain(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "away")
	l := New(time.Hour)
	f := NewFile(filepath.Join(directory, "events.jsonl"), l)
	l.Add(event(record.EventLoss, "r1 > r2", 0))
	if f.Save() == nil {
		t.Error("a file was written without its directory")
	}
	if err := f.Save(); err != nil {
		t.Errorf("the same error is given twice: %v", err)
	}
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(); err != nil {
		t.Error(err)
	}
	next := New(time.Hour)
	if err := NewFile(f.path, next).Restore(start.Add(time.Minute)); err != nil || next.Totals().Begun[record.EventLoss] != 1 {
		t.Errorf("%v, %+v", err, next.Totals())
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if err := f.Save(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.path); err == nil {
		t.Error("without news, the file is written")
	}
}

// What began before the clock was set back lasted no time below zero.
func TestNotSeenAfterTheClockWasSetBack(t *testing.T) {
	e := NotSeen(event(record.EventLoss, "r1 > r2", time.Hour), start, "r1")
	if len(e.Values) != 1 || e.Values[0] != (record.Value{Name: "lasted_ns"}) {
		t.Errorf("%+v", e.Values)
	}
}

// What has begun stays while many others come, also for the next program.
func TestWhatLastsHasRoom(t *testing.T) {
	l := New(time.Hour)
	l.Add(event(record.EventLoss, "r1 > r2", 0))
	for i := range 20_000 {
		l.Add(event(record.EventPathsMoved, fmt.Sprint(i), time.Duration(i)*100*time.Millisecond))
	}
	next := New(time.Hour)
	if err := next.Restore(l.Save(), start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	again := next.Add(event(record.EventLoss, "r1 > r2", time.Hour))
	if again || next.Totals().Begun[record.EventLoss] != 1 || l.Totals().Octets > keepOctets {
		t.Errorf("%+v, then %+v", l.Totals(), next.Totals())
	}
}
