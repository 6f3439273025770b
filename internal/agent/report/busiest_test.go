// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/datapath/delays"
)

// counted is a segment from a node with delays in two buckets.
func counted(from int, count uint64) datapath.Delays {
	key := delays.Key{Kind: datapath.DelaySegment, From: uint64(from), To: 2, Namespace: 7}
	d := datapath.Delays{Key: key, Sum: 3 * count, Negative: count / 2}
	d.Buckets[from%7], d.Buckets[7] = count/3, count-count/3
	return d
}

func reading(list []datapath.Delays) func() ([]datapath.Delays, error) {
	return func() ([]datapath.Delays, error) { return list, nil }
}

func fromOf(list []datapath.Delays) (nodes []int) {
	for i := range list {
		nodes = append(nodes, int(list[i].From))
	}
	return nodes
}

// Those that count most have labels of their own, the first time; later, one that counts twice as many as another
// takes its labels after a minute.
func TestBusiest(t *testing.T) {
	var b busiest
	at := time.Now()
	for _, step := range []struct {
		seconds int
		counts  [4]uint64
		own     []int
		rest    uint64
	}{
		{0, [4]uint64{10, 40, 30, 20}, []int{2, 3}, 30},
		{30, [4]uint64{10, 41, 30, 900}, []int{2, 3}, 910},
		{61, [4]uint64{10, 80, 35, 900}, []int{2, 3}, 910}, // node 4 takes the labels of node 3 now
		{62, [4]uint64{10, 80, 35, 950}, []int{2, 4}, 910}, // 50 of node 4 since then
		{130, [4]uint64{10, 80, 35, 950}, []int{2, 4}, 910},
		{200, [4]uint64{10, 90, 55, 970}, []int{2, 4}, 930}, // 10, and twice as many, not more
		{270, [4]uint64{41, 100, 57, 990}, []int{2, 4}, 963},
		{280, [4]uint64{42, 101, 57, 991}, []int{1, 4}, 964}, // a one of node 2, and what node 1 had before
		{290, [4]uint64{1, 2, 3, 4}, []int{3, 4}, 3},         // the data plane has begun anew
	} {
		var list []datapath.Delays
		for i, n := range step.counts {
			list = append(list, counted(i+1, n))
		}
		own, rest, _ := b.split(reading(list), 2, at.Add(time.Duration(step.seconds)*time.Second))
		if got := fromOf(own); !slices.Equal(got, step.own) {
			t.Errorf("after %d s: %v have labels, want %v", step.seconds, got, step.own)
		}
		if len(rest) != 1 || !rest[0].Other || rest[0].Count() != step.rest {
			t.Errorf("after %d s: %d in the rest, want %d", step.seconds, rest[0].Count(), step.rest)
		}
	}
}

// Whatever is busy: what has labels, had them, and the rest are together what was counted, and no counter goes back.
func TestBusiestCountsAll(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 2))
	var b busiest
	var counts [9]uint64
	at, before := time.Now(), make(map[delays.Key]datapath.Delays)
	series := 0
	for step := range 500 {
		list := []datapath.Delays{{Key: delays.Key{Kind: datapath.DelaySegment, Other: true}, Zero: uint64(step)}}
		all := uint64(step)
		for i := range counts {
			if counts[i] += uint64(random.IntN(1 << random.IntN(10))); counts[i] > 0 {
				list = append(list, counted(i+1, counts[i]))
				all += counts[i]
			}
		}
		room := 1 + random.IntN(4)
		own, rest, _ := b.split(reading(list), room, at.Add(time.Duration(step)*20*time.Second))
		for _, d := range append(own, rest...) {
			last, had := before[d.Key]
			if !had {
				series++
			}
			for i := range d.Buckets {
				if d.Buckets[i] < last.Buckets[i] || d.Sum < last.Sum {
					t.Fatalf("step %d: %+v counts %d after %d in a bucket", step, d.Key, d.Buckets[i], last.Buckets[i])
				}
			}
			before[d.Key] = d
		}
		for _, d := range before {
			all -= d.Count()
		}
		if all != 0 {
			t.Fatalf("step %d: %d delays are nowhere, or twice", step, int64(all))
		}
		if own, _, _ := b.split(reading(list), room, at.Add(time.Duration(step)*20*time.Second)); len(own) > room {
			t.Fatalf("step %d: %d have labels, want %d", step, len(own), room)
		}
	}
	if series < len(counts) {
		t.Errorf("only %d series had labels", series)
	}
}

// A failure to read changes nothing, and a table that is another one begins anew, also where it has counted more.
func TestBusiestOfAnotherTable(t *testing.T) {
	var b busiest
	at := time.Now()
	step := func(seconds int, read func() ([]datapath.Delays, error)) (own, rest []datapath.Delays) {
		own, rest, _ = b.split(read, 1, at.Add(time.Duration(seconds)*time.Second))
		return own, rest
	}
	step(0, reading([]datapath.Delays{counted(1, 10), counted(2, 5)}))
	step(61, reading([]datapath.Delays{counted(1, 10), counted(2, 5000)})) // node 2 takes the labels
	step(62, func() ([]datapath.Delays, error) { return nil, errors.New("not now") })
	own, rest := step(63, reading([]datapath.Delays{counted(1, 11), counted(2, 5010)}))
	if len(own) != 1 || own[0].From != 2 || own[0].Count() != 10 || rest[0].Count() != 5001 {
		t.Errorf("after a failure: %+v, %+v", own, rest)
	}
	other := counted(2, 6000)
	other.Buckets[2], other.Buckets[300] = 0, other.Buckets[2]
	own, rest = step(64, reading([]datapath.Delays{counted(1, 11), other}))
	for _, d := range append(own, rest...) {
		if d.Count() > 6011 || slices.ContainsFunc(d.Buckets[:], func(n uint64) bool { return n > 6000 }) {
			t.Errorf("another table: %+v", d)
		}
	}
}
