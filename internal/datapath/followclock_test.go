// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
)

// TestFollowClock: numbers follow the time at each look that no change of the configuration
// holds up.
func TestFollowClock(t *testing.T) {
	key := testKeys(t, 4)[0]
	m := loadPrograms(t, provingConfig(key), 1, fixedTime, hookEgressTC).maps[bpf.MapProofs]
	slots, err := readSlots(m)
	if err != nil {
		t.Fatal(err)
	}
	slot := uint32(slices.Index(slots, slotOf(key.Profile)))
	d := &Datapath{tables: &tables{maps: make(bpf.Maps)}}
	const began = 1000
	look := func(when string, follows bool) {
		t.Helper()
		if err := m.Put(slot, bpf.ABIProof{Profile: slotOf(key.Profile), Next: began}); err != nil {
			t.Fatal(err)
		}
		now := uint64(time.Now().UnixNano() / numberUnit)
		if err := d.FollowClock(); err != nil {
			t.Error(err)
		}
		var e bpf.ABIProof
		if err := m.Lookup(slot, &e); err != nil || follows != (e.Next >= now) || !follows && e.Next != began ||
			e.Profile != slotOf(key.Profile) {
			t.Errorf("%s: %v, the number is %d at %d", when, err, e.Next, now)
		}
	}
	look("without proofs", false)
	d.tables.maps[bpf.MapProofs] = m
	d.applying.Lock()
	look("while a configuration is applied", false)
	d.applying.Unlock()
	look("the first time", true)
	look("again", true)
}

// TestFollowClockWhileChanging: while a change has given a slot to another profile, no look
// writes what it read before.
func TestFollowClockWhileChanging(t *testing.T) {
	key := testKeys(t, 4)[0]
	m := loadPrograms(t, provingConfig(key), 1, fixedTime, hookEgressTC).maps[bpf.MapProofs]
	d := &Datapath{tables: &tables{maps: bpf.Maps{bpf.MapProofs: m}}}
	done := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := d.FollowClock(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range uint64(2000) {
		d.applying.Lock()
		want := bpf.ABIProof{Profile: slotOf(i + 1), Next: 1000 + i}
		err := m.Put(uint32(0), want)
		var got bpf.ABIProof
		for range 3 {
			if err == nil {
				err = m.Lookup(uint32(0), &got)
			}
			if err != nil || got != want {
				t.Errorf("%+v became %+v, %v", want, got, err)
			}
		}
		d.applying.Unlock()
	}
	close(done)
	looks.Wait()
}
