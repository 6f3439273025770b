// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
)

// recording is a program that writes a record for each packet, and its rings.
func recording(t *testing.T) (packet func(), p *programs, rings []*ring) {
	t.Helper()
	cfg := rightConfig()
	decapsulating(&cfg)
	p = loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP)
	rings, err := openRings(p.maps[mapRecords])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRings(rings) })
	frame := tunnelled(rightPacket())
	return func() { run(t, p.xdp, frame, 0) }, p, rings
}

// reading reads rings until the test ends, and hands over when each record came.
func reading(t *testing.T, rings []*ring, wish *demand) <-chan time.Time {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	came, ended := make(chan time.Time, 1<<16), make(chan error, 1)
	go func() {
		offset := func() time.Duration { return taiUTC }
		ended <- readRings(ctx, rings, wish, offset, func([]byte, time.Duration) { came <- time.Now() })
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience.Of(time.Second)):
			t.Error("the readers did not end")
		}
	})
	return came
}

func comes(came <-chan time.Time, within time.Duration) bool {
	select {
	case <-came:
		return true
	case <-time.After(within):
		return false
	}
}

// TestReadersRest wants no ring to be looked at while nobody wants records, but
// for what is left of before, and every record soon while somebody does.
func TestReadersRest(t *testing.T) {
	packet, _, rings := recording(t)
	const soon = 3 * lookQuiet
	wish := newDemand()
	packet()
	came := reading(t, rings, wish)
	if !comes(came, patience.Of(soon)) {
		t.Error("what an earlier reader left was not read")
	}
	time.Sleep(soon)
	packet()
	if comes(came, soon) {
		t.Error("a ring was looked at that nobody wants records of")
	}
	wish.set(true)
	if !comes(came, patience.Of(soon)) {
		t.Error("records are wanted, and what was there was not read")
	}
	for range 3 {
		packet()
		if !comes(came, patience.Of(soon)) {
			t.Error("a record did not come soon")
		}
	}
	time.Sleep(quietAfter + soon)
	packet()
	if !comes(came, patience.Of(soon)) {
		t.Error("a record behind a pause did not come soon")
	}
	wish.set(false)
	packet()
	if !comes(came, patience.Of(soon)) {
		t.Error("the last record was not read")
	}
}

// TestProgramsWakeReaders wants a ring that fills to be read before anybody
// looks.
func TestProgramsWakeReaders(t *testing.T) {
	packet, _, rings := recording(t)
	came := reading(t, rings, newDemand())
	time.Sleep(3 * lookQuiet) // nobody looks any more
	packet()
	if comes(came, 3*lookQuiet) {
		t.Error("one record woke a reader")
	}
	for range 10_000 { // more than all rings hold, however much else the machine does
		packet()
	}
	if !comes(came, patience.Of(time.Second)) {
		t.Error("full rings woke nobody")
	}
}

// TestReaderEndsAtAFullRing ends a reader by its context while its ring has
// more to read than it takes in a round: it hands over nothing any more.
func TestReaderEndsAtAFullRing(t *testing.T) {
	packet, p, rings := recording(t)
	for p.snapshotCounters(t)[abiCounterCOUNTER_RECORDS_LOST] == 0 {
		for range 500 {
			packet()
		}
	}
	for cpu, r := range rings {
		if r.reader.AvailableBytes() == 0 {
			continue
		}
		const enough = 3
		ctx, cancel := context.WithCancel(t.Context())
		read, corrections := 0, 0
		err := r.serve(ctx, func() time.Duration { corrections++; return taiUTC }, func([]byte, time.Duration) {
			if read++; read == enough {
				cancel()
			}
		})
		if err != nil || !errors.Is(ctx.Err(), context.Canceled) || read != enough || corrections != 1 {
			t.Errorf("CPU %d: %v, %d records in %d rounds; want the %d of before the end", cpu, err, read, corrections, enough)
		}
		if r.reader.AvailableBytes() == 0 {
			t.Errorf("CPU %d: the ring ran empty", cpu)
		}
	}
}
