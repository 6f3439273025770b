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
func DataFormats() []DataFormat {
	const known conditions = 1<<packetKnown | 1<<packetPorts | 1<<lengthKnown
	postcard, hop := shape{dataPostcard, known}.general(), shape{dataHop, known | 1<<ownPrograms | 1<<pathDelayKnown}.general()
	kernel := shape{dataHop, 1 << kernelIOAM}.general()
	flow := known&^(1<<lengthKnown) | 1<<flowIDThere | 1<<gapsKnown | 1<<flowNumbered
	const measured conditions = 1<<sidsKnown | 1<<blockNumbered | 1<<onPathDelay | 1<<blockTimed
	const edge conditions = 1<<flowNumbered | 1<<gapsKnown | 1<<delaysKnown | 1<<onPathDelay
	return []DataFormat{
		{"Postcard", dataFields(postcards.rows(), postcard.has)},
		{"Node of a trace", dataFields(hops.rows(), hop.has)},
		{"Node of a trace that the kernel's own IOAM filled", dataFields(hops.rows(), kernel.has)},
		{"Flow", dataFields(flows.rows(), flow)},
		{"Loss", dataFields(blockLosses.rows(), measured)},
		{"Delay", dataFields(pathDelays.rows(), measured)},
		{"Block", dataFields(blocks.rows(), measured)},
		{"Flow from edge to edge", dataFields(edgeFlows.rows(), edge)},
	}
}

func dataFields(t rows, has conditions) (list []DataField) {
	for _, c := range t.inOrder() {
		for _, e := range c.written(has) {
			list = append(list, DataField{e.spec, e.when.String()})
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
