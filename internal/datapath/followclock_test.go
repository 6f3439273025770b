// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// TestFollowClock: a step of the clock is followed once, at the first look after it that no
// change of the configuration holds up.
func TestFollowClock(t *testing.T) {
	key := testKeys(t, 4)[0]
	m := loadPrograms(t, provingConfig(key), 1, fixedTime, hookEgressTC).maps[mapProofs]
	slots, err := readSlots(m)
	if err != nil {
		t.Fatal(err)
	}
	slot := uint32(slices.Index(slots, slotName(key.Profile)))
	d := &Datapath{tables: &tables{maps: make(mapSet)}}
	look := func(when string, want int) (e abiProof) {
		t.Helper()
		if raised, err := d.FollowClock(); err != nil || raised != want {
			t.Errorf("%s: the numbers of %d profiles follow, %v; want %d", when, raised, err, want)
		}
		if err := m.Lookup(slot, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	const began, year = 1000, int64(365 * 24 * time.Hour)
	begin := func() {
		t.Helper()
		_, ahead, err := readClocks()
		if err == nil {
			err = m.Put(slot, abiProof{Profile: slotName(key.Profile), Next: began, Ahead: ahead - year})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	begin()
	look("without proofs", 0)
	d.tables.maps[mapProofs] = m
	d.applying.Lock()
	if e := look("while a configuration is applied", 0); e.Next != began {
		t.Errorf("the number is %d", e.Next)
	}
	d.applying.Unlock()
	before := uint64(nowTAI(t)) / numberUnit
	if e := look("the first time", 1); e.Next < before || e.Profile != slotName(key.Profile) {
		t.Errorf("the number is %d, at %d", e.Next, before)
	}
	begin()
	look("without a step", 0)
	d.clockAhead -= year
	look("after a step", 1)
	begin()
	d.clockAhead -= year
	var both sync.WaitGroup
	for range 2 { // of a race, one sees the step
		both.Go(func() {
			if _, err := d.FollowClock(); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	look("again", 0)
	if d.clockAhead == 0 {
		t.Error("no look was noted")
	}
}

// TestFollowClockWhileChanging: while a change has given a slot to another profile, no look
// writes what it read before.
func TestFollowClockWhileChanging(t *testing.T) {
	key := testKeys(t, 4)[0]
	m := loadPrograms(t, provingConfig(key), 1, fixedTime, hookEgressTC).maps[mapProofs]
	d := &Datapath{tables: &tables{maps: mapSet{mapProofs: m}}}
	done := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := d.FollowClock(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range uint64(2000) {
		d.applying.Lock()
		d.clockAhead = 0 // each look is the first
		want := abiProof{Profile: slotName(i + 1), Next: 1000 + i}
		err := m.Put(uint32(0), want)
		var got abiProof
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
