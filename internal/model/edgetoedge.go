// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/waymark-net/waymark/ioam"

// EdgeToEdgeOption is an Edge-to-Edge option to insert (RFC 9197 §4.6).
type EdgeToEdgeOption struct {
	Namespace ioam.NamespaceID
	Type      ioam.EdgeToEdgeType // which fields it has
}

// edgeToEdgeTypes are the fields that are defined.
const edgeToEdgeTypes = ioam.EdgeToEdgeSequence64 | ioam.EdgeToEdgeSequence32 |
	ioam.EdgeToEdgeTimestampSeconds | ioam.EdgeToEdgeTimestampFraction

func (o EdgeToEdgeOption) validate(f faults) {
	const cure = "use 0x4000 (a Sequence Number of 32 bits), 0x8000 (of 64 bits), 0x3000 (a timestamp), or the sum of a Sequence " +
		"Number and the timestamp"
	const timestamp = ioam.EdgeToEdgeTimestampSeconds | ioam.EdgeToEdgeTimestampFraction
	switch {
	case o.Type&^edgeToEdgeTypes != 0:
		f.add("type", cure, "%v has undefined bits", o.Type)
	case o.Type == 0:
		f.add("type", cure, "it asks for nothing")
	case o.Type.Has(ioam.EdgeToEdgeSequence64 | ioam.EdgeToEdgeSequence32): // RFC 9197 §4.6
		f.add("type", cure, "%v asks for two Sequence Numbers", o.Type)
	case o.Type&timestamp != 0 && !o.Type.Has(timestamp):
		f.add("type", cure, "%v asks for a part of a timestamp, from which no delay can be computed", o.Type)
	}
}
