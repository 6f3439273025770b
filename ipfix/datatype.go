// SPDX-License-Identifier: Apache-2.0

package ipfix

// DataType is an abstract data type of RFC 7012 §3.1, by its number in IANA's registry
// (RFC 5610 §3.1), as in informationElementDataType.
type DataType uint8

// Abstract data types.
const (
	OctetArray           DataType = 0
	Unsigned8            DataType = 1
	Unsigned16           DataType = 2
	Unsigned32           DataType = 3
	Unsigned64           DataType = 4
	Signed8              DataType = 5
	Signed16             DataType = 6
	Signed32             DataType = 7
	Signed64             DataType = 8
	Float32              DataType = 9
	Float64              DataType = 10
	Boolean              DataType = 11
	MACAddress           DataType = 12
	String               DataType = 13
	DateTimeSeconds      DataType = 14
	DateTimeMilliseconds DataType = 15
	DateTimeMicroseconds DataType = 16
	DateTimeNanoseconds  DataType = 17
	IPv4Address          DataType = 18
	IPv6Address          DataType = 19
	BasicList            DataType = 20 // RFC 6313, as the next two: see [ListReader]
	SubTemplateList      DataType = 21
	SubTemplateMultiList DataType = 22
)

// dataTypes has names, lengths in octets (0: any), and the class that decides how a
// type is encoded.
var dataTypes = [...]struct {
	name   string
	length uint16
	class  class
}{
	OctetArray:           {"octetArray", 0, classOctets},
	Unsigned8:            {"unsigned8", 1, classUnsigned},
	Unsigned16:           {"unsigned16", 2, classUnsigned},
	Unsigned32:           {"unsigned32", 4, classUnsigned},
	Unsigned64:           {"unsigned64", 8, classUnsigned},
	Signed8:              {"signed8", 1, classSigned},
	Signed16:             {"signed16", 2, classSigned},
	Signed32:             {"signed32", 4, classSigned},
	Signed64:             {"signed64", 8, classSigned},
	Float32:              {"float32", 4, classFloat},
	Float64:              {"float64", 8, classFloat},
	Boolean:              {"boolean", 1, classBoolean},
	MACAddress:           {"macAddress", 6, classMAC},
	String:               {"string", 0, classString},
	DateTimeSeconds:      {"dateTimeSeconds", 4, classTime},
	DateTimeMilliseconds: {"dateTimeMilliseconds", 8, classTime},
	DateTimeMicroseconds: {"dateTimeMicroseconds", 8, classTime},
	DateTimeNanoseconds:  {"dateTimeNanoseconds", 8, classTime},
	IPv4Address:          {"ipv4Address", 4, classAddress},
	IPv6Address:          {"ipv6Address", 16, classAddress},
	BasicList:            {"basicList", 0, classOctets},
	SubTemplateList:      {"subTemplateList", 0, classOctets},
	SubTemplateMultiList: {"subTemplateMultiList", 0, classOctets},
}

// class groups data types with the same encoding (RFC 7011 §6.1).
type class uint8

const (
	classOctets class = iota
	classUnsigned
	classSigned
	classFloat
	classBoolean
	classMAC
	classString
	classTime
	classAddress
)

func (t DataType) known() bool { return int(t) < len(dataTypes) }

func (t DataType) class() class {
	if !t.known() {
		return classOctets
	}
	return dataTypes[t].class
}

// String is the type's name in RFC 7012.
func (t DataType) String() string {
	if !t.known() {
		return "unassigned"
	}
	return dataTypes[t].name
}

// Len is the length of the type's values in octets, 0 when each value has its own
// length.
func (t DataType) Len() uint16 {
	if !t.known() {
		return 0
	}
	return dataTypes[t].length
}

// Allows reports whether a template may give a field of this type a length:
// reduced sizes for integers, and 4 octets for float64, by RFC 7011 §6.2;
// [VariableLength] and every other length but 0 for octets, strings and lists (§7).
func (t DataType) Allows(length uint16) bool {
	full := t.Len()
	switch t.class() {
	case classOctets, classString:
		return length > 0
	case classUnsigned, classSigned:
		return length >= 1 && length <= full
	case classFloat:
		return length == full || length == 4
	}
	return length == full
}
