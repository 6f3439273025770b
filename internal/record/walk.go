// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"net/netip"
	"time"
)

// Visitor is an encoding: it takes the values of a record one after the other, each by
// the method of its type. A column says what a value is; it is nil for an item of a list.
// An object's fields come between BeginObject and EndObject, a list's items between
// BeginList and EndList. Values that the record lacks do not come.
type Visitor interface {
	Null(c *Column) // the value is not available
	Bool(c *Column, v bool)
	Uint(c *Column, v uint64) // in the column's unit
	Int(c *Column, v int64)   // in the column's unit
	Float(c *Column, v float64)
	Text(c *Column, v string)
	Hex(c *Column, v uint64, digits int) // a number that people read in hexadecimal
	Time(c *Column, v time.Time)         // nanoseconds count
	Address(c *Column, v netip.Addr)     // may be invalid: there is none
	Octets(c *Column, v []byte)
	BeginObject(c *Column)
	EndObject()
	BeginList(c *Column)
	EndList()
}

// Input is the inverse of a Visitor: it gives one value of a record.
type Input interface {
	Null() bool // the value is not available
	Bool() (bool, error)
	Uint(bits int) (uint64, error) // of at most that number of bits
	Int() (int64, error)
	Float() (float64, error)
	Text() (string, error)
	Hex(bits int) (uint64, error)
	Time() (time.Time, error)
	Address() (netip.Addr, error)
	Octets() ([]byte, error)
	Any() (any, error) // a boolean, a number, a text, or a list of those
	List() ([]Input, error)
	Object() (map[string]Input, error) // by the key of a column
}

// Walk shows all values of a record to an encoding, in the order of the record's columns.
// A record of a kind that is not in the table has none.
func Walk(r Record, v Visitor) {
	if k := kindNamed(r.Kind()); k != nil {
		k.rows.visit(v, r)
	}
}

// WalkSome is Walk of the fields whose keys are wanted, with all that is within these.
func WalkSome(r Record, wanted map[string]bool, v Visitor) {
	k := kindNamed(r.Kind())
	if k == nil {
		return
	}
	for _, c := range k.rows {
		if wanted[c.Key] && c.Key != "" {
			c.visit(v, r)
		}
	}
}

// visit shows the values of a record of the rows' type, a pointer.
func (t rows) visit(v Visitor, r any) {
	for _, c := range t {
		if c.Key != "" {
			c.visit(v, r)
		}
	}
}

// visit shows the field's value in a record, a pointer, unless it is absent.
func (r *row) visit(v Visitor, of any) {
	if p := r.at(of); r.absent == nil || !r.absent(p) {
		r.show(v, &r.Column, p)
	}
}

// fill is the inverse of visit. Keys that the rows do not have are skipped.
func (t rows) fill(r any, from Input) error {
	values, err := from.Object()
	if err != nil {
		return err
	}
	for _, c := range t {
		value, ok := values[c.Key]
		if c.Key == "" || !ok || value.Null() && !c.null {
			continue
		}
		if err := c.coding.fill(c.at(r), value); err != nil {
			return fmt.Errorf("%s: %w", c.Key, err)
		}
	}
	return nil
}
