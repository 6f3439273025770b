// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/flows"
	"github.com/waymark-net/waymark/internal/datapath/rings"
)

// AllRecords says that each record has a reader, and each Direct Export.
const AllRecords = int(bpf.ABIRecordBoundRECORDS_ALL)

// SetRecordsWanted sets how many records the programs make from now on: none, a number after which they make
// no more, or AllRecords. What is not wanted is not made, and does not count as lost. Direct Exports are
// reported only if all are wanted. A new data plane starts without.
func (d *Datapath) SetRecordsWanted(n int) error {
	var before int32
	if err := d.shared[bpf.MapRecordsWanted].Lookup(uint32(0), &before); err != nil {
		return fmt.Errorf("read whether records are wanted: %w", err)
	}
	if err := setRecordsWanted(d.shared[bpf.MapRecordsWanted], n); err != nil {
		return err
	}
	if n >= AllRecords && int(before) < AllRecords/2 {
		d.sequences.Distrust() // flows were not counted
	}
	d.demand.Set(n > 0)
	return nil
}

// ReadThrough waits until everything that programs have written is read; false
// means that there is no reader, or that it is too slow.
func (d *Datapath) ReadThrough() bool { return d.reading.ReadThrough() }

func setRecordsWanted(m *ebpf.Map, n int) error {
	if err := m.Put(uint32(0), int32(min(max(n, 0), AllRecords))); err != nil {
		return fmt.Errorf("say how many records are wanted: %w", err)
	}
	return nil
}

// taiOffset is the TAI − UTC that the programs were last given.
func (d *Datapath) taiOffset() time.Duration {
	var clock bpf.ABIClockState
	if err := d.shared[bpf.MapClock].Lookup(uint32(0), &clock); err != nil {
		return 0
	}
	return time.Duration(clock.TaiOffset)
}

// ReadSamples passes on what programs write until the context ends. Samples of
// one kind and CPU come in order. While records are not wanted, it reads what is left, and
// then stops polling.
func (d *Datapath) ReadSamples(ctx context.Context, to rings.Samples) error {
	all, err := rings.Open(d.shared[bpf.MapRecords], &d.cards)
	if err != nil {
		return err
	}
	defer rings.Close(all)
	defer d.reading.Watch(all)()
	return rings.Read(ctx, all, d.demand, d.taiOffset, d.taking(to))
}

// ReadWaiting passes on what programs have written and ReadSamples has not read,
// including what they are writing now. It is for the end, after ReadSamples has
// returned and records are no longer wanted.
func (d *Datapath) ReadWaiting(to rings.Samples) error {
	all, err := rings.Open(d.shared[bpf.MapRecords], &d.cards)
	if err != nil {
		return err
	}
	defer rings.Close(all)
	time.Sleep(flows.Settling)
	return rings.ReadWaiting(all, d.taiOffset(), d.taking(to))
}

func (d *Datapath) taking(to rings.Samples) rings.Taker {
	return rings.Taker{
		Sample:    func(sample []byte, offset time.Duration) { to.Dispatch(sample, offset, d.flowTable) },
		Postcards: to.Postcards,
	}
}
