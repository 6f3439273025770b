// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/waymark-net/waymark/internal/model"
)

// SetRecordsWanted sets whether records have a reader. Without one, none is
// written and none counts as lost; a new data plane starts without.
func (d *Datapath) SetRecordsWanted(wanted bool) error {
	var before uint32
	if err := d.shared[mapRecordsWanted].Lookup(uint32(0), &before); err != nil {
		return fmt.Errorf("read whether records are wanted: %w", err)
	}
	if err := setRecordsWanted(d.shared[mapRecordsWanted], wanted); err != nil {
		return err
	}
	if wanted && before == 0 {
		d.gaps.distrust() // flows were not counted
	}
	d.demand.set(wanted)
	return nil
}

func setRecordsWanted(m *ebpf.Map, wanted bool) error {
	if err := m.Put(uint32(0), uint32(boolean(wanted))); err != nil {
		return fmt.Errorf("say whether records are wanted: %w", err)
	}
	return nil
}

// taiOffset is the TAI − UTC that the programs were last given.
func (d *Datapath) taiOffset() time.Duration {
	var clock abiClockState
	if err := d.shared[mapClock].Lookup(uint32(0), &clock); err != nil {
		return 0
	}
	return time.Duration(clock.TaiOffset)
}

const recordHeaderSize = int(unsafe.Sizeof(abiRecord{}))

// decodeRecord reads a sample and checks the lengths in it against the sample's
// own.
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
		Interface: model.IfIndex(raw.Ifindex),
		Outcome:   model.Outcome(raw.Outcome),
		Length:    int(raw.Length),
		Packet:    append([]byte(nil), raw.Packet[:raw.PacketLength]...),
		Header:    append([]byte(nil), header[:raw.HeaderLength]...),
	}, true
}
