// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sync/errgroup"

	"github.com/waymark-net/waymark/ioam"
)

// pollInterval bounds how long a record waits. Programs do not wake the reader
// per record, which would cost the packet more than writing it.
const pollInterval = 20 * time.Millisecond

// recordsPerRound bounds how long the clock's offset is taken for granted.
const recordsPerRound = 4096

// ReadRecords hands every record to `each` until the context ends. Records of
// one CPU come in order; `each` is called by several goroutines at once.
func (d *Datapath) ReadRecords(ctx context.Context, each func(Record)) error {
	group, ctx := errgroup.WithContext(ctx)
	rings := d.shared[mapRecords]
	for cpu := range rings.MaxEntries() {
		var ring *ebpf.Map
		if err := rings.Lookup(cpu, &ring); err != nil {
			return fmt.Errorf("open the ring of CPU %d: %w", cpu, err)
		}
		reader, err := ringbuf.NewReader(ring)
		ring.Close()
		if err != nil {
			return fmt.Errorf("map the ring of CPU %d: %w", cpu, err)
		}
		group.Go(func() error {
			defer reader.Close()
			return readRing(ctx, reader, d.taiOffset, each)
		})
	}
	return group.Wait()
}

// SetRecordsWanted says whether anybody asks for records. While nobody does,
// none is written and none is lost; a new data plane begins so.
func (d *Datapath) SetRecordsWanted(wanted bool) error {
	return setRecordsWanted(d.shared[mapRecordsWanted], wanted)
}

func setRecordsWanted(m *ebpf.Map, wanted bool) error {
	if err := m.Put(uint32(0), uint32(boolean(wanted))); err != nil {
		return fmt.Errorf("say whether records are wanted: %w", err)
	}
	return nil
}

func readRing(ctx context.Context, reader *ringbuf.Reader, offset func() time.Duration, each func(Record)) error {
	var raw ringbuf.Record
	for ctx.Err() == nil {
		reader.SetDeadline(time.Now().Add(pollInterval))
		correction := offset()
		// a ring that never runs empty must not keep the reader from ending
		for n := 0; n < recordsPerRound && ctx.Err() == nil; n++ {
			err := reader.ReadInto(&raw)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return fmt.Errorf("read records: %w", err)
			}
			if record, ok := decodeRecord(raw.RawSample, correction); ok {
				each(record)
			}
		}
	}
	return nil
}

// taiOffset is TAI − UTC as the programs were last told.
func (d *Datapath) taiOffset() time.Duration {
	var clock abiClockState
	if err := d.shared[mapClock].Lookup(uint32(0), &clock); err != nil {
		return 0
	}
	return time.Duration(clock.TaiOffset)
}

const recordHeaderSize = int(unsafe.Sizeof(abiRecord{}))

// decodeRecord reads a sample; lengths in it are held to the sample's own.
func decodeRecord(sample []byte, taiOffset time.Duration) (Record, bool) {
	if len(sample) < recordHeaderSize {
		return Record{}, false
	}
	var raw abiRecord
	if _, err := binary.Decode(sample, binary.NativeEndian, &raw); err != nil {
		return Record{}, false
	}
	header := sample[recordHeaderSize:]
	if int(raw.HeaderLength) > len(header) || int(raw.PacketLength) > len(raw.Packet) {
		return Record{}, false
	}
	return Record{
		Time:      time.Unix(0, int64(raw.Time)).Add(-taiOffset).UTC(),
		Interface: ioam.IfIndex(raw.Ifindex),
		Outcome:   ioam.Outcome(raw.Outcome),
		Length:    int(raw.Length),
		Packet:    append([]byte(nil), raw.Packet[:raw.PacketLength]...),
		Header:    append([]byte(nil), header[:raw.HeaderLength]...),
	}, true
}
