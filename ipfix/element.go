// SPDX-License-Identifier: Apache-2.0

package ipfix

import "fmt"

// Enterprise is a private enterprise number of IANA; 0 means the elements that IANA
// itself assigns.
type Enterprise uint32

// Enterprise numbers.
const (
	EnterpriseIANA    Enterprise = 0
	EnterpriseIOAM    Enterprise = 10383 // used by the published exporter of IOAM data
	EnterpriseExample Enterprise = 32473 // for documentation and examples (RFC 5612)
)

// ElementID is the number of an information element, of 15 bits.
type ElementID uint16

// MaxElementID is the greatest number of an information element.
const MaxElementID ElementID = 1<<15 - 1

// Semantics are those of RFC 7012 §3.2, by their numbers in IANA's registry.
type Semantics uint8

// Semantics of data types.
const (
	DefaultSemantics Semantics = 0
	Quantity         Semantics = 1
	TotalCounter     Semantics = 2
	DeltaCounter     Semantics = 3
	Identifier       Semantics = 4
	Flags            Semantics = 5
	List             Semantics = 6
)

// String is the name in RFC 7012.
func (s Semantics) String() string {
	names := [...]string{"default", "quantity", "totalCounter", "deltaCounter", "identifier", "flags", "list"}
	if int(s) >= len(names) {
		return "unassigned"
	}
	return names[s]
}

// Units are units of measurement, by their numbers in IANA's registry (RFC 5610
// §3.1).
type Units uint16

// Units of measurement.
const (
	NoUnits      Units = 0
	Bits         Units = 1
	Octets       Units = 2
	Packets      Units = 3
	Flows        Units = 4
	Seconds      Units = 5
	Milliseconds Units = 6
	Microseconds Units = 7
	Nanoseconds  Units = 8
	Words        Units = 9 // of 4 octets
	Messages     Units = 10
	Hops         Units = 11
	Entries      Units = 12
)

// String is the name in IANA's registry.
func (u Units) String() string {
	names := [...]string{"none", "bits", "octets", "packets", "flows", "seconds", "milliseconds", "microseconds",
		"nanoseconds", "4-octet words", "messages", "hops", "entries"}
	if int(u) >= len(names) {
		return "unassigned"
	}
	return names[u]
}

// Range bounds the values of an integer element, both ends included. The zero value
// sets no bounds besides those of the data type.
type Range struct{ Min, Max uint64 }

// Contains reports whether a value lies within.
func (r Range) Contains(v uint64) bool { return r == Range{} || r.Min <= v && v <= r.Max }

// Element is an information element (RFC 7012 §2.1).
type Element struct {
	Enterprise  Enterprise
	ID          ElementID
	Name        string
	Type        DataType
	Semantics   Semantics
	Units       Units
	Length      uint16 // octets unless a template gives another length; 0: its type's, or variable
	Range       Range
	Description string
}

// UsualLength is the length in octets of a field of this element, unless its
// template says otherwise; it may be [VariableLength].
func (e *Element) UsualLength() uint16 {
	switch {
	case e.Length != 0:
		return e.Length
	case e.Type.Len() != 0:
		return e.Type.Len()
	}
	return VariableLength
}

func (e *Element) key() elementKey { return elementKey{e.Enterprise, e.ID} }

// check reports why an element is invalid.
func (e *Element) check() error {
	switch {
	case e.Name == "":
		return fmt.Errorf("element %d of enterprise %d has no name; give it one", e.ID, e.Enterprise)
	case e.ID > MaxElementID:
		return fmt.Errorf("element %s: its number %d needs more than 15 bits; choose one up to %d", e.Name, e.ID, MaxElementID)
	case e.ID == 0 && e.Enterprise == EnterpriseIANA:
		return fmt.Errorf("element %s: IANA assigns no number 0; give it an enterprise number", e.Name)
	case !e.Type.known():
		return fmt.Errorf("element %s: data type %d is not one of RFC 7012", e.Name, e.Type)
	case !e.Type.Allows(e.UsualLength()):
		return fmt.Errorf("element %s: %d octets is not a length of %s (RFC 7011 §6.2)", e.Name, e.Length, e.Type)
	case e.Range.Min > e.Range.Max:
		return fmt.Errorf("element %s: its range ends before it begins; exchange %d and %d", e.Name, e.Range.Min, e.Range.Max)
	}
	return nil
}
