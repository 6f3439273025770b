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
	if of, ok := r.(interface{ weight(index int) Weight }); ok {
		return of.weight(index)
	}
	return Weight{}
}

// weighing is which elements of a data record are its weight.
type weighing uint8

const (
	weighsNothing weighing = iota
	weighsPacket           // one packet, with the first node of a trace
	weighsCounts           // as many as it says
)

// places are the offsets of the weighed fields in encoded records of a layout, 0 for
// absent ones: none of them is the first field.
type places struct{ length, packets, octets, hopIndex int }

func placesOf(t *ipfix.Template) places {
	return places{offset(t, "ipTotalLength"), offset(t, "packetDeltaCount"), offset(t, "octetDeltaCount"), offset(t, "ioamHopIndex")}
}

// Weigh is the weight of an encoded record.
func (l *Layout) Weigh(record []byte) Weight {
	switch formats[l.shape.kind].known().weight {
	case weighsCounts:
		return Weight{binary.BigEndian.Uint64(record[l.places.packets:]), binary.BigEndian.Uint64(record[l.places.octets:])}
	case weighsPacket:
		if l.places.hopIndex > 0 && record[l.places.hopIndex] > 0 {
			return Weight{}
		}
		w := Weight{Packets: 1}
		if l.places.length > 0 {
			w.Octets = uint64(binary.BigEndian.Uint32(record[l.places.length:]))
		}
		return w
	}
	return Weight{}
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
