// SPDX-License-Identifier: Apache-2.0

package join

import (
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Packets are remembered as a list would remember them, in whatever order they are forgotten, and memory is bounded by
// what counts as kept.
func TestRemembered(t *testing.T) {
	type one struct {
		key     Key
		since   time.Duration
		reports []report
		over    bool
	}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := newRemembered(maphash.MakeSeed())
		var list []one // from the oldest that is not over
		live := 0
		for step := range 40_000 {
			key := Key{Sequence: r.Uint32N(3000)}
			at := slices.IndexFunc(list, func(o one) bool { return o.key == key && !o.over })
			number, ok := m.find(key)
			if ok != (at >= 0) {
				t.Fatalf("seed %d: packet %d is remembered: %v, want %v", seed, key.Sequence, ok, at >= 0)
			}
			switch {
			case ok && !slices.Equal(m.reports(number), list[at].reports):
				t.Fatalf("seed %d: reports %v, want %v", seed, m.reports(number), list[at].reports)
			case ok:
				m.forget(number)
				list[at].over = true
				live--
			case len(list) > 0 && (r.IntN(3) == 0 || step > 30_000): // in the end, few are left
				m.forgetOldest()
				list[0].over = true
				live--
			default:
				o := one{key, time.Duration(step), make([]report, 1+r.IntN(5)), false}
				for i := range o.reports {
					o.reports[i].node = r.Uint64()
				}
				m.add(o.key, o.since, o.reports)
				list = append(list, o)
				live++
			}
			for len(list) > 0 && list[0].over {
				list = list[1:]
			}
			kept := 0
			for i := range list {
				kept += len(list[i].reports)
			}
			since, any := m.since()
			if any != (len(list) > 0) || any && since != list[0].since || m.kept != kept || len(m.places) != live {
				t.Fatalf("seed %d: %d reports, oldest %v, %v, %d packets; want %d of %d", seed, m.kept, since, any, len(m.places), kept, live)
			}
			if room := len(m.pieces) * entries; room > m.kept+2*entries {
				t.Fatalf("seed %d: room for %d packets with %d reports", seed, room, m.kept)
			}
		}
	}
}

// Of two packets with one hash, the earlier one is not found. To forget it leaves the later one as it is.
func TestEqualHashes(t *testing.T) {
	m := newRemembered(maphash.MakeSeed())
	one, two := Key{Sequence: 1}, Key{Sequence: 2}
	first, second := m.add(one, 1, make([]report, 1)), m.add(two, 2, make([]report, 1))
	m.places[maphash.Comparable(m.seed, one)] = second
	if number, ok := m.find(one); ok {
		t.Errorf("packet %d was found", number)
	}
	m.forget(first)
	if number, ok := m.find(two); !ok || number != second || m.places[maphash.Comparable(m.seed, one)] != second {
		t.Errorf("the other packet: %d, %v, %v", number, ok, m.places)
	}
	m.forgetOldest()
	if _, ok := m.since(); ok || m.kept != 0 {
		t.Errorf("%d reports are left", m.kept)
	}
}

// Packets whose numbers are used again and again count as kept while they take memory.
func TestReusedNumbersAreBounded(t *testing.T) {
	const keep = 10_000
	j := New(Config{Wait: 2 * time.Second, Keep: keep}, func(*Path) {})
	j.Add(numbered(athos, 1), start)
	j.Expire(start.Add(2 * time.Second)) // remembered before the others
	for i := range 10 * keep {
		j.Add(later(athos, time.Duration(i)*time.Microsecond), start.Add(2*time.Second))
		if room := len(j.given.pieces) * entries; j.Kept() > keep || room > keep+2*entries {
			t.Fatalf("%d postcards are kept, with room for %d packets", j.Kept(), room)
		}
	}
}
