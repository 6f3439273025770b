// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"

	"github.com/waymark-net/waymark/ioam"
)

// RecordFormat is what the data records of one kind of record have, for the
// reference.
type RecordFormat struct {
	Record string
	Fields []RecordField
}

// RecordField is a field: its specification, as ipfix.Registry.Field reads it,
// and which records have it, "" for all.
type RecordField struct{ Spec, When string }

// RecordFormats are those of postcards, traces and flows.
func RecordFormats() []RecordFormat {
	return []RecordFormat{
		{"Postcard", formatOf(shape{kind: kindPostcard, packet: packetPorts}.general())},
		{"Node of a trace", formatOf(shape{kind: kindHop, packet: packetPorts, pathDelay: true}.general())},
		{"Node of a trace that the kernel's own IOAM told of", formatOf(shape{kind: kindKernelHop}.general())},
		{"Flow", formatOf(shape{kind: kindFlow, packet: packetPorts}.general())},
	}
}

// formatOf takes one thing after another from a full shape: the fields that are
// missing then depend on it.
func formatOf(full shape) []RecordField {
	list := make([]RecordField, 0, len(full.fields()))
	for _, spec := range full.fields() {
		list = append(list, RecordField{Spec: spec})
	}
	without := func(when string, change func(*shape)) {
		s := full
		change(&s)
		rest := s.fields()
		if len(rest) > len(list) { // the full shape has less
			return
		}
		for i := range list {
			if len(rest) > 0 && rest[0] == list[i].Spec {
				rest = rest[1:]
			} else {
				list[i].When = when
			}
		}
	}
	without("the packet is known", func(s *shape) { s.packet = packetUnknown })
	without("the packet has ports", func(s *shape) { s.packet = packetPortless })
	without("there is a Flow-ID", func(s *shape) { s.flowID = false })
	without("there is a Sequence Number", func(s *shape) { s.sequence = false })
	without("the last node of a trace whose path delay is known", func(s *shape) { s.pathDelay = false })
	for bit := range ioam.BitReserved {
		without(fmt.Sprintf("trace type bit %d", bit), func(s *shape) { s.traceType &^= 1 << (23 - bit) })
	}
	return list
}

// OptionsFormats are those of the options records; the first field is the scope.
func OptionsFormats() []RecordFormat {
	var list []RecordFormat
	for _, o := range optionsFormats {
		f := RecordFormat{Record: o.name, Fields: []RecordField{{Spec: o.scope, When: "scope"}}}
		for _, spec := range o.specs {
			f.Fields = append(f.Fields, RecordField{Spec: spec})
		}
		list = append(list, f)
	}
	return list
}
