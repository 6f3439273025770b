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
	}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 5))
		m := newRemembered(maphash.MakeSeed())
		var list []one
		for step := range 40_000 {
			key := Key{Sequence: r.Uint32N(3000)}
			at := slices.IndexFunc(list, func(o one) bool { return o.key == key })
			number, ok := m.find(key)
			if ok != (at >= 0) {
				t.Fatalf("seed %d: packet %d is remembered: %v, want %v", seed, key.Sequence, ok, at >= 0)
			}
			switch {
			case ok && !slices.Equal(m.reports(number), list[at].reports):
				t.Fatalf("seed %d: reports %v, want %v", seed, m.reports(number), list[at].reports)
			case ok:
				m.forget(number)
				list = slices.Delete(list, at, at+1)
			case len(list) > 0 && (r.IntN(3) == 0 || step > 30_000): // in the end, few are left
				m.forgetOldest()
				list = list[1:]
			default:
				o := one{key, time.Duration(step), make([]report, 1+r.IntN(5))}
				for i := range o.reports {
					o.reports[i].node = r.Uint64()
				}
				m.add(o.key, o.since, o.reports)
				list = append(list, o)
			}
			live := 0
			for i := range list {
				live += len(list[i].reports)
			}
			since, any := m.since()
			if any != (len(list) > 0) || any && since != list[0].since || m.kept < live || len(m.places) != len(list) {
				t.Fatalf("seed %d: %d reports, oldest %v, %v, %d packets; want %d of %d", seed, m.kept, since, any, len(m.places), live, len(list))
			}
			if room := len(m.pieces) * entries; room > m.kept+2*entries {
				t.Fatalf("seed %d: room for %d packets with %d reports", seed, room, m.kept)
			}
		}
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
