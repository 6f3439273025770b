// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// TestReaderEndsAtAFullRing ends a reader by its context while its ring has
// more to read than it takes in a round: it hands over nothing any more.
func TestReaderEndsAtAFullRing(t *testing.T) {
	cfg := rightConfig()
	decapsulating(&cfg)
	p := loadPrograms(t, cfg, 1, fixedTime, hookIngressXDP)
	frame := tunnelled(rightPacket())
	for p.snapshotCounters(t)[abiCounterCOUNTER_RECORDS_LOST] == 0 {
		for range 500 {
			run(t, p.xdp, frame, 0)
		}
	}
	rings := p.maps[mapRecords]
	for cpu := range rings.MaxEntries() {
		var ring *ebpf.Map
		if err := rings.Lookup(cpu, &ring); err != nil {
			t.Fatal(err)
		}
		reader, err := ringbuf.NewReader(ring)
		ring.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		if reader.AvailableBytes() == 0 {
			continue
		}
		const enough = 3
		ctx, cancel := context.WithCancel(t.Context())
		read, corrections := 0, 0
		err = readRing(ctx, reader, func() time.Duration { corrections++; return taiUTC }, func(Record) {
			if read++; read == enough {
				cancel()
			}
		})
		if err != nil || !errors.Is(ctx.Err(), context.Canceled) || read != enough || corrections != 1 {
			t.Errorf("CPU %d: %v, %d records in %d rounds; want the %d of before the end", cpu, err, read, corrections, enough)
		}
		if reader.AvailableBytes() == 0 {
			t.Errorf("CPU %d: the ring ran empty", cpu)
		}
	}
}
