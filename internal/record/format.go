// SPDX-License-Identifier: Apache-2.0

package record

// KindFormat is a kind of records, for the reference.
type KindFormat struct {
	Name, Meaning, From string
	Columns             []Column
}

// Kinds are all kinds of records with their fields.
func Kinds() []KindFormat {
	list := make([]KindFormat, len(kinds))
	for i, k := range kinds {
		list[i] = KindFormat{k.name, k.meaning, k.from, k.columns}
	}
	return list
}

// NodeDataColumns are the fields of node data.
func NodeDataColumns() []Column { return nodeTable.describe() }

// PacketColumns are the fields of a packet.
func PacketColumns() []Column { return packetTable.describe() }

// DataFormat is what one kind of IPFIX records has, for the reference.
type DataFormat struct {
	Record string
	Fields []DataField
}

// DataField is a field: its specification, as ipfix.Registry.Field reads it, and
// which records have it, "" for all.
type DataField struct{ Spec, When string }

// DataFormats are those of postcards, traces and flows.
func DataFormats() []DataFormat {
	const known conditions = 1<<packetKnown | 1<<packetPorts | 1<<lengthKnown
	postcard, hop := shape{dataPostcard, known}.general(), shape{dataHop, known | 1<<ownPrograms | 1<<pathDelayKnown}.general()
	kernel := shape{dataHop, 1 << kernelIOAM}.general()
	flow := known&^(1<<lengthKnown) | 1<<flowIDThere | 1<<gapsKnown | 1<<reorderedKnown
	return []DataFormat{
		{"Postcard", dataFields(postcards, postcard.has)},
		{"Node of a trace", dataFields(hops, hop.has)},
		{"Node of a trace that the kernel's own IOAM filled", dataFields(hops, kernel.has)},
		{"Flow", dataFields(flows, flow)},
	}
}

func dataFields[R any](t table[R], has conditions) (list []DataField) {
	for _, c := range t.inOrder() {
		for _, e := range c.written(has) {
			list = append(list, DataField{e.spec, e.when.String()})
		}
	}
	return list
}

// OptionsFormats are those of the options records; the first field is the scope.
func OptionsFormats() []DataFormat {
	return []DataFormat{
		optionsFormat("Observation domain", domainNames),
		optionsFormat("Interface", interfaceNames),
		optionsFormat("Metering Process Statistics (RFC 7011 §4.1)", meterings),
		optionsFormat("Metering Process Reliability Statistics (RFC 7011 §4.2)", ignoreds),
		optionsFormat("Exporting Process Reliability Statistics (RFC 7011 §4.3)", unsents),
	}
}

func optionsFormat[R any](name string, t table[R]) DataFormat {
	f := DataFormat{name, dataFields(t, 0)}
	f.Fields[0].When = "scope"
	return f
}
