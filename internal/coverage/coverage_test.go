// SPDX-License-Identifier: Apache-2.0

package coverage

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
)

const changed, unserved = loss.InterfacesChanged, loss.UnservedInterface

func TestLog(t *testing.T) {
	var since []int64
	l := New(func(at int64) { since = append(since, at) })
	now := time.Now().UnixNano()
	at := func(n int64) int64 { return now + n }
	l.Add(Gap{Interface: "eth0", Ways: Arrivals, Why: changed, From: at(100), To: at(110)})
	l.Add(Gap{Interface: "eth0", Ways: Arrivals, Why: changed, From: at(105), To: at(120)}) // joins it
	l.Add(Gap{Interface: "eth9", Why: changed, From: at(0), To: at(1000)})                  // counted in no direction
	l.Add(Gap{Interface: "eth1", Flow: "red", Ways: Arrivals, Why: unserved, From: at(300), To: at(310)})
	l.Begin(Gap{Interface: "eth2", Ways: Departures, Why: changed, From: at(400)})
	l.Begin(Gap{Interface: "eth2", Ways: Arrivals, Why: changed, From: at(450)}) // the same one
	for _, tt := range []struct {
		flow     string
		ways     Ways
		from, to int64
		want     loss.Reasons
	}{
		{"red", Arrivals, 0, 99, 0}, {"red", Arrivals, 0, 100, changed}, {"red", Arrivals, 120, 200, changed}, {"red", Arrivals, 121, 200, 0},
		{"red", Departures, 100, 110, 0}, {"red", Arrivals, 310, 320, unserved}, {"blue", Arrivals, 300, 320, 0},
		{"red", Departures, 399, 399, 0}, {"blue", Departures, 500, 600, changed}, {"red", Arrivals, 300, 401, unserved | changed},
	} {
		if got := l.Within(tt.flow, tt.ways, at(tt.from), at(tt.to)); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	if list := l.Lasting(); len(list) != 1 || list[0].Interface != "eth2" || list[0].From != at(400) || list[0].Ways != Both {
		t.Errorf("lasting: %+v", list)
	}
	l.KeepOpen([]string{"eth2"}, changed, at(700))
	l.KeepOpen(nil, changed, at(800))
	if l.Within("red", Arrivals, at(800), at(900)) != changed || l.Within("red", Arrivals, at(801), at(900)) != 0 || len(l.Lasting()) != 0 {
		t.Error("it did not end at its end")
	}
	want := []int64{at(110), at(120), at(310), Open, Open, at(800)}
	for i := range want {
		if len(since) != len(want) || since[i] != want[i] {
			t.Fatalf("since %v, want %v", since, want)
		}
	}
	var none *Log
	none.Add(Gap{Ways: Both})
	none.Begin(Gap{Ways: Both})
	none.End("eth0", "", changed, 0)
	if none.Within("red", Both, 0, Open) != 0 || none.Lasting() != nil {
		t.Error("an absent log knows gaps")
	}
}

// TestBounded compares a log that is full with one without bounds: it may say more, and
// never less.
func TestBounded(t *testing.T) {
	l, now := New(nil), time.Now().UnixNano()
	var all []Gap
	for range 5 * most {
		from := now + rand.Int64N(1e12)
		g := Gap{
			Flow:      []string{"", "red"}[rand.IntN(2)],
			Interface: string(rune('a' + rand.IntN(26))),
			Ways:      1 + Ways(rand.IntN(3)),
			Why:       changed << rand.IntN(3),
			From:      from,
			To:        from + rand.Int64N(1e6),
		}
		all = append(all, g)
		l.Add(g)
	}
	if len(l.gaps) > most || len(l.flows["red"]) > each {
		t.Errorf("%d and %d gaps are kept", len(l.gaps), len(l.flows["red"]))
	}
	for _, g := range all {
		if why := l.Within("red", g.Ways, g.From, g.To); why&g.Why == 0 {
			t.Fatalf("%+v was forgotten", g)
		}
	}
	old := New(nil)
	old.Add(Gap{Interface: "eth0", Ways: Both, Why: changed, From: 0, To: now - int64(2*keep)})
	old.Add(Gap{Interface: "eth1", Ways: Both, Why: changed, From: now, To: now})
	if n := len(old.gaps); n != 1 {
		t.Errorf("%d gaps are kept of one old and one new", n)
	}
}

// TestGapsThatLast fills a log beside a gap that lasts: it ends when it is told to, as does
// each of one interface that has several.
func TestGapsThatLast(t *testing.T) {
	const off = loss.NotExecuted
	l, now := New(nil), time.Now().UnixNano()
	at := func(n int64) int64 { return now + n }
	l.Add(Gap{Interface: "eth1", Ways: Both, Why: changed, From: at(0), To: at(1)})
	l.Begin(Gap{Interface: "eth2", Source: "a", Ways: Both, Why: off, From: at(100)})
	l.Begin(Gap{Interface: "eth2", Source: "b", Ways: Both, Why: off, From: at(50)})
	l.Begin(Gap{Interface: "eth2", Source: "a", Ways: Both, Why: off, From: at(10)}) // is noticed to be older
	for i := range 2 * int64(most) {
		l.Add(Gap{Interface: string(rune('a' + i%26)), Ways: Both, Why: unserved, From: at(1e6 + 10*i), To: at(1e6 + 10*i + 1)})
	}
	within := func(from, to int64) loss.Reasons { return l.Within("red", Both, at(from), at(to)) & off }
	if len(l.Lasting()) != 2 || within(20, 30) != off || within(5, 9) != 0 {
		t.Errorf("lasting: %+v", l.Lasting())
	}
	l.End("eth2", "a", off, at(1e9))
	if list := l.Lasting(); len(list) != 1 || list[0].Source != "b" || within(2e9, 3e9) != off {
		t.Errorf("one ended, and %+v lasts", list)
	}
	l.End("eth2", "b", off, at(2e9))
	if list := l.Lasting(); len(list) != 0 || within(3e9, 4e9) != 0 {
		t.Errorf("both ended, and %+v lasts", list)
	}
}

// TestCompleteSince: a gap makes the time complete only after it.
func TestCompleteSince(t *testing.T) {
	l := New(nil)
	now := time.Now().UnixNano()
	l.Add(Gap{Interface: "eth0", Ways: Both, Why: changed, From: now + 10, To: now + 20})
	l.Add(Gap{Interface: "eth0", Flow: "red", Ways: Arrivals, Why: unserved, From: now + 30, To: now + 40}) // of one flow
	l.Begin(Gap{Interface: "eth1", Ways: Departures, Why: loss.NotExecuted, From: now + 50})
	for until, want := range map[int64]int64{5: 0, 10: Open, 20: Open, 21: now + 21, 35: now + 21, 49: now + 21, 50: Open, 1e9: Open} {
		if got := l.CompleteSince(now + until); got != want {
			t.Errorf("until %d: since %d, want %d", until, got-now, want-now)
		}
	}
}
