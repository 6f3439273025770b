// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/binary"
	"strings"

	"github.com/waymark-net/waymark/ipfix"
)

// KindFormat is a kind of records, for the reference.
type KindFormat struct {
	Name, Meaning, From string
	Columns             []Column
}

// Kinds are all kinds of records with their fields.
func Kinds() []KindFormat {
	list := make([]KindFormat, len(kinds))
	for i, k := range kinds {
		list[i] = KindFormat{k.name, k.meaning, k.from, k.rows.describe()}
	}
	return list
}

// MadeBy are the kinds of records that a command prints on standard output, by the command's
// name in the reference.
func MadeBy(command string) (names []string) {
	for _, k := range kinds {
		if strings.Contains(k.from, "`"+command+"`") && !strings.Contains(k.from, "on standard error") {
			names = append(names, k.name)
		}
	}
	return names
}

// NodeDataColumns are the fields of node data.
func NodeDataColumns() []Column { return nodeTable.rows().describe() }

// PacketColumns are the fields of a packet.
func PacketColumns() []Column { return packetTable.rows().describe() }

// DataFormat is the fields of one kind of IPFIX records, for the reference.
type DataFormat struct {
	Record string
	Fields []DataField
}

// DataField is a field: its specification, as ipfix.Registry.Field reads it, and
// which records have it, "" for all.
type DataField struct{ Spec, When string }

// DataFormats are the formats of data records.
func DataFormats() (list []DataFormat) {
	for _, k := range kinds {
		if k.data == nil {
			continue
		}
		for _, v := range k.data.known().variants {
			of := shape{k.data.known().kind, v.has}.general()
			list = append(list, DataFormat{v.title, dataFields(k.data.fields(), of.has)})
		}
	}
	return list
}

func dataFields(t rows, has conditions) (list []DataField) {
	for _, c := range t.inOrder() {
		for _, e := range c.written(has) {
			list = append(list, DataField{e.spec, e.condition.String()})
		}
	}
	return list
}

// OptionsFormats are the formats of options records; the first field is the scope.
func OptionsFormats() []DataFormat {
	return []DataFormat{
		optionsFormat("Observation domain", domainNames.rows()),
		optionsFormat("Interface", interfaceNames.rows()),
		optionsFormat("Metering Process Statistics (RFC 7011 §4.1)", meterings.rows()),
		optionsFormat("Metering Process Reliability Statistics (RFC 7011 §4.2)", ignoreds.rows()),
		optionsFormat("Exporting Process Reliability Statistics (RFC 7011 §4.3)", unsents.rows()),
		optionsFormat("Postcards of a namespace", reportings.rows()),
	}
}

func optionsFormat(name string, t rows) DataFormat {
	f := DataFormat{name, dataFields(t, 0)}
	f.Fields[0].When = "scope"
	return f
}

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
