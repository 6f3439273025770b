// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"

	"github.com/waymark-net/waymark/ipfix"
)

// Weight is how many packets a record reports, and their octets.
type Weight struct{ Packets, Octets uint64 }

// Add adds a weight.
func (w *Weight) Add(v Weight) {
	w.Packets += v.Packets
	w.Octets += v.Octets
}

// Weigh is the weight of the record at an index of a trace, 0 of others. The
// packet of a trace is counted once: with the first node. Measurements report packets
// that others report, too, so they have no weight.
func Weigh(r Record, index int) Weight {
	switch r := r.(type) {
	case *Postcard:
		return Weight{1, uint64(r.Packet.Length)}
	case *Flow:
		return Weight{r.Packets, r.Bytes}
	case *Trace:
		if index == 0 {
			return Weight{1, uint64(r.Packet.Length)}
		}
	}
	return Weight{}
}

// places are the offsets of the weighed fields in encoded records of a layout, 0 for
// absent ones: none of them is the first field.
type places struct{ length, packets, octets, hopIndex int }

func placesOf(t *ipfix.Template) places {
	return places{offset(t, "ipTotalLength"), offset(t, "packetDeltaCount"), offset(t, "octetDeltaCount"), offset(t, "ioamHopIndex")}
}

// Weigh is the weight of an encoded record.
func (l *Layout) Weigh(record []byte) Weight {
	switch l.shape.kind {
	case dataLoss, dataDelay, dataBlock, dataEdgeFlow:
		return Weight{}
	case dataFlow:
		return Weight{binary.BigEndian.Uint64(record[l.places.packets:]), binary.BigEndian.Uint64(record[l.places.octets:])}
	}
	if l.places.hopIndex > 0 && record[l.places.hopIndex] > 0 {
		return Weight{}
	}
	w := Weight{Packets: 1}
	if l.places.length > 0 {
		w.Octets = uint64(binary.BigEndian.Uint32(record[l.places.length:]))
	}
	return w
}

// offset is the offset of an element in records of a template. The fields before it
// have a fixed length.
func offset(t *ipfix.Template, name string) (at int) {
	for _, f := range t.Fields() {
		if f.Element.Name == name {
			return at
		}
		if f.Length == ipfix.VariableLength {
			break
		}
		at += int(f.Length)
	}
	return 0
}
