// SPDX-License-Identifier: Apache-2.0

package eventlog

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

var start = time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)

func event(name, subject string, at time.Duration) *record.Event {
	return &record.Event{
		Time:     instant.Of(start.Add(at)),
		Node:     "r1",
		Name:     name,
		Severity: record.SeverityWarning,
		Subject:  subject,
		Facts:    "it is so",
	}
}

func names(list []*record.Event) string {
	var out []string
	for _, e := range list {
		out = append(out, e.Name)
	}
	return strings.Join(out, " ")
}

// What begins has one id until it ends, is told once, and counts as begun in between.
func TestBeginAndEnd(t *testing.T) {
	l := New(time.Hour)
	begin, end := event(record.EventSegmentSlow, "r2 east0 > r3", 0), event(record.EventSegmentUsual, "r2 east0 > r3", time.Minute)
	other := event(record.EventSegmentSlow, "r4 > r5", 0)
	if !l.Add(begin) || !l.Add(other) || begin.ID == "" || begin.ID == other.ID {
		t.Errorf("%+v, %+v", begin, other)
	}
	if l.Add(event(record.EventSegmentSlow, "r2 east0 > r3", time.Second)) {
		t.Error("what has begun begins again")
	}
	if got := l.Totals(); got.Begun[record.EventSegmentSlow] != 2 || got.Admitted[record.EventSegmentSlow] != 2 || got.LeftOut != 0 {
		t.Errorf("%+v", got)
	}
	if !l.Add(end) || end.ID != begin.ID {
		t.Errorf("%+v", end)
	}
	again := event(record.EventSegmentSlow, "r2 east0 > r3", 2*time.Minute)
	if got := l.Totals(); got.Begun[record.EventSegmentSlow] != 1 || !l.Add(again) || again.ID == begin.ID {
		t.Errorf("%+v, then %+v", got, again)
	}
	// An event that may end several ends the one that it names.
	slow, drops := event(record.EventQueueSlow, "east0", 0), event(record.EventQueueDrops, "east0", 0)
	l.Add(slow)
	l.Add(drops)
	unseen := event(record.EventNotSeen, "east0", time.Minute)
	if unseen.Labels = []record.Label{{Name: "event", Text: record.EventQueueDrops}}; !l.Add(unseen) || unseen.ID != drops.ID ||
		l.Totals().Begun[record.EventQueueSlow] != 1 {
		t.Errorf("%+v", unseen)
	}
	// Those that bring their ids, as several losses of one destination.
	first, second, back := event(
		record.EventProbeLoss,
		"r9",
		0,
	), event(
		record.EventProbeLoss,
		"r9",
		time.Second,
	), event(
		record.EventProbeRecovered,
		"r9",
		time.Minute,
	)
	first.ID, second.ID, back.ID = "a", "b", "a"
	if !l.Add(first) || !l.Add(second) || !l.Add(back) || l.Totals().Begun[record.EventProbeLoss] != 1 {
		t.Errorf("%+v", l.Totals())
	}
}

// A time has its events, and those that began before and have not ended, however old they are.
func TestRead(t *testing.T) {
	l := New(10 * time.Minute)
	for i, e := range []*record.Event{
		event(record.EventLoss, "r1 > r2", 0), event(record.EventSegmentSlow, "a > b", 0), event(record.EventSegmentUsual, "a > b", time.Minute),
		event(record.EventPathsMoved, "x > y", 2*time.Minute), event(record.EventPathsMoved, "x > y", 15*time.Minute),
	} {
		if !l.Add(e) {
			t.Fatal(i)
		}
	}
	if got := names(l.Read(start, start.Add(time.Hour))); got != "loss_began paths_moved" {
		t.Error(got)
	}
	if got := names(l.Read(start.Add(10*time.Minute), start.Add(12*time.Minute))); got != "loss_began" {
		t.Error(got)
	}
	if got := names(l.Read(start.Add(-time.Hour), start)); got != "" {
		t.Error(got)
	}
	for i := range 20_000 { // of many subjects, so that each may
		l.Add(event(record.EventPathsMoved, fmt.Sprint(i), 16*time.Minute+time.Duration(i)*100*time.Millisecond))
	}
	if n := l.Totals().Octets; n > keepOctets || n < keepOctets/2 {
		t.Errorf("%d octets", n)
	}
	if len(l.repetitions) > mostSubjects {
		t.Errorf("%d subjects", len(l.repetitions))
	}
}

// What repeats too often is counted, and told later in a value; the end of what was not told is not told.
func TestRepetition(t *testing.T) {
	l := New(time.Hour)
	reported, last := 0, (*record.Event)(nil)
	for i := range 20 {
		at := time.Duration(i) * 10 * time.Second
		begin, end := event(record.EventSegmentSlow, "a > b", at), event(record.EventSegmentUsual, "a > b", at+5*time.Second)
		is := l.Add(begin)
		if l.Add(end) != is {
			t.Errorf("%d: the end is not as the begin", i)
		}
		if is {
			reported++
		}
	}
	if got := l.Totals(); reported != subjectEvents || got.LeftOut != 28 || got.Admitted[record.EventSegmentSlow] != 6 ||
		got.Begun[record.EventSegmentSlow] != 0 {
		t.Errorf("%d told, %+v", reported, got)
	}
	last = event(record.EventSegmentSlow, "a > b", 20*time.Minute)
	if !l.Add(last) || len(last.Values) != 1 || last.Values[0] != (record.Value{Name: "left_out", Number: 14}) {
		t.Errorf("%+v", last)
	}
	n := 0
	for i := range 3000 {
		if l.Add(event(record.EventPathsMoved, fmt.Sprint(i), 30*time.Minute)) {
			n++
		}
	}
	if n != allEvents {
		t.Errorf("%d in a minute", n)
	}
}

// Another agent takes over what there is; what it does not see again is ended as not known.
func TestRestore(t *testing.T) {
	l := New(time.Hour)
	begin, over, seen := event(record.EventSegmentSlow, "a > b", 0), event(record.EventHeldLong, "c", 0), event(record.EventLoss, "d > e", 0)
	l.Add(begin)
	l.Add(over)
	l.Add(seen)
	l.Add(event(record.EventHeldUsual, "c", time.Minute))
	saved := l.Save()
	next := New(time.Hour)
	if err := next.Restore(saved, start.Add(2*time.Minute)); err != nil || !bytes.Equal(next.Save(), saved) {
		t.Errorf("%v\n%s\n%s", err, saved, next.Save())
	}
	if next.Add(event(record.EventLoss, "d > e", 3*time.Minute)) {
		t.Error("it begins again")
	}
	if list := next.Unseen(start.Add(3*time.Minute), "r1"); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	list := next.Unseen(start.Add(4*time.Minute), "r1")
	if len(list) != 1 || list[0].ID != begin.ID || list[0].Label("event") != record.EventSegmentSlow || list[0].Subject != "a > b" ||
		!next.Add(list[0]) {
		t.Fatalf("%+v", list)
	}
	if got := next.Totals().Begun; got[record.EventSegmentSlow] != 0 || got[record.EventLoss] != 1 {
		t.Error(got)
	}
	end := event(record.EventLossEnded, "d > e", 5*time.Minute)
	if !next.Add(end) || end.ID != seen.ID {
		t.Errorf("%+v", end)
	}
	for _, broken := range []string{"{", `{"kind":"lost","count":1}` + "\n", string(saved[:len(saved)-9])} {
		if err := New(time.Hour).Restore([]byte(broken), start.Add(time.Minute)); err == nil {
			t.Errorf("%q is taken", broken)
		}
	}
	if err := New(time.Hour).Restore(saved, start.Add(-time.Hour)); err == nil {
		t.Error("events of the future are taken")
	}
}

// Who follows gets all events in order; one that does not read is ended, and only so many may follow.
func TestFollow(t *testing.T) {
	l := New(time.Hour)
	l.Add(event(record.EventPathsMoved, "a", 0))
	past, next, end, ok := l.Follow(start, MostFollowers)
	if !ok || names(past) != "paths_moved" {
		t.Fatal(past)
	}
	for i := range mostUnread + 1 {
		l.Add(event(record.EventLoss, fmt.Sprint(i), time.Second))
	}
	for i := range mostUnread {
		if e := <-next; e.Subject != fmt.Sprint(i) {
			t.Fatalf("%+v", e)
		}
	}
	if _, open := <-next; open {
		t.Error("it is not ended")
	}
	end()
	for range MostFollowers {
		if _, _, _, ok := l.Follow(start, MostFollowers); !ok {
			t.Fatal("too few may follow")
		}
	}
	if _, _, _, ok := l.Follow(start, MostFollowers); ok {
		t.Error("too many follow")
	}
}
