// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/model"
)

const recordHeaderSize = int(unsafe.Sizeof(bpf.ABIRecord{}))

// decodeRecord reads a sample and checks the lengths in it against the sample's
// own.
func decodeRecord(sample []byte, taiOffset time.Duration) (Record, bool) {
	if len(sample) < recordHeaderSize {
		return Record{}, false
	}
	var raw bpf.ABIRecord
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
