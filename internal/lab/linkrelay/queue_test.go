// SPDX-License-Identifier: Apache-2.0

package linkrelay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab/linkloss"
)

const ms = time.Millisecond

// drain takes what is due, as numbers.
func drain(q *queue, now time.Duration) (out []string) {
	for data := q.next(now); data != nil; data = q.next(now) {
		out = append(out, string(data))
	}
	return out
}

func TestReorder(t *testing.T) {
	q, got := newQueue(Rule{Every: 5, By: 2, Hold: 100 * ms}), []string(nil)
	for i := range 16 {
		now := time.Duration(i) * ms
		q.add(now, []byte(fmt.Sprint(i+1)))
		got = append(got, drain(q, now)...)
	}
	if want := "1 2 3 4 6 7 5 8 9 11 12 10 13 14 16"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	if wait, ok := q.wait(15 * ms); !ok || wait != 99*ms { // 15 came at 14 ms
		t.Errorf("%v, %v", wait, ok)
	}
	if late := drain(q, 113*ms); late != nil {
		t.Errorf("%v", late)
	}
	if late := drain(q, 114*ms); !slices.Equal(late, []string{"15"}) {
		t.Errorf("%v", late)
	}
	c := q.counts
	if c.Sent != 16 || c.Overtaken != 2 || c.OutOfTime != 1 || c.ShortestNS != 0 || c.LongestNS != uint64(100*ms) || q.octets != 0 ||
		len(q.waiting) != 0 {
		t.Errorf("%+v, %d octets, %d waiting", c, q.octets, len(q.waiting))
	}
	if _, ok := q.wait(0); ok {
		t.Error("an empty queue waits")
	}
}

// What is delayed goes on as a sorted list says.
func TestDelay(t *testing.T) {
	for _, jitter := range []time.Duration{0, 3 * ms, 10 * ms} {
		type frame struct {
			name string
			due  time.Duration
		}
		q, random := newQueue(Rule{Delay: 10 * ms, Jitter: jitter, Seed: 42}), rand.New(rand.NewPCG(1, 2))
		var model []frame
		var got, want []string
		now, least, most := time.Duration(0), time.Hour, time.Duration(0)
		for i := range 2000 {
			now += time.Duration(random.Int64N(int64(ms)))
			name := fmt.Sprint(i)
			q.add(now, []byte(name))
			due := q.frames[slices.IndexFunc(q.frames, func(f *heldFrame) bool { return string(f.data) == name })].due
			least, most = min(least, due-now), max(most, due-now)
			model = append(model, frame{name, due})
			got = append(got, drain(q, now)...)
		}
		if got = append(got, drain(q, now+time.Hour)...); len(q.frames) > 0 {
			t.Errorf("%d are left", len(q.frames))
		}
		slices.SortStableFunc(model, func(a, b frame) int { return cmp.Compare(a.due, b.due) })
		for _, f := range model {
			want = append(want, f.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("jitter %v: another order", jitter)
		}
		if least < 10*ms-jitter || most > 10*ms+jitter || jitter > 0 && (least > 10*ms-jitter/2 || most < 10*ms+jitter/2) {
			t.Errorf("jitter %v: delays from %v to %v", jitter, least, most)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, r := range []Rule{
		{}, {Delay: -1}, {Delay: ms, Jitter: 2 * ms}, {Jitter: ms}, {Delay: time.Minute}, {Delay: ms, Every: 2, By: 1, Hold: ms},
		{Every: 3, By: 3, Hold: ms}, {Every: 3, Hold: ms}, {By: 1, Hold: ms}, {Every: 3, By: 1}, {Every: 3, By: 1, Hold: time.Minute},
		{Delay: ms, Selection: linkloss.Selection{Source: netip.MustParsePrefix("192.0.2.0/24")}},
	} {
		if r.Validate() == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
	for _, r := range []Rule{{Delay: ms}, {Delay: ms, Jitter: ms}, {Every: 2, By: 1, Hold: ms}} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
