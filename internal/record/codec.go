// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// codec is what values of a type are to encodings: which method of a Visitor takes them,
// which method of an Input gives them, and how IPFIX writes and reads them. Like that of
// tables, columns and steps, its parameter is the type of a pointer to the value: Go makes
// one copy of generic code for all pointers, but one for each type of structure, which was
// a megabyte of the router's binary.
type codec[V any] struct {
	coding
	wire[V]
}

// coding is the part of a codec that is the same for all types. Its functions take the
// pointer as any. Only codecs make them, and the compiler checks that a column has a codec
// of its value's type.
type coding struct {
	form    string         // of the value, for the reference
	columns []Column       // of an object
	absent  func(any) bool // encodings omit such a value; nil: never
	null    bool           // null is a value; otherwise it is ignored
	show    func(Visitor, *Column, any)
	fill    func(any, Input) error
	blank   func(any) // makes a value that is not available absent; nil: it is always present
}

type unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// number is an unsigned integer.
func number[V unsigned]() codec[*V] {
	bits := reflect.TypeFor[V]().Bits()
	return codec[*V]{
		coding: coding{
			form: "number",
			show: func(v Visitor, c *Column, p any) { v.Uint(c, uint64(*p.(*V))) },
			fill: func(p any, from Input) error {
				n, err := from.Uint(bits)
				*p.(*V) = V(n)
				return err
			},
		},
		wire: wireUint[V](),
	}
}

// integer is a Go int, or an integer that may be negative.
func integer[V ~int | ~int64]() codec[*V] {
	return codec[*V]{
		coding: coding{
			form: "number",
			show: func(v Visitor, c *Column, p any) { v.Int(c, int64(*p.(*V))) },
			fill: func(p any, from Input) error {
				n, err := from.Int()
				*p.(*V) = V(n)
				return err
			},
		},
		wire: wireSize[V](),
	}
}

// signed is an integer that may be negative, also in IPFIX.
func signed() codec[*int64] {
	c := integer[int64]()
	c.wire = wireSigned()
	return c
}

// fraction is a floating point number; no element of IPFIX has such values.
func fraction() codec[*float64] {
	return codec[*float64]{coding: coding{
		form: "number",
		show: func(v Visitor, c *Column, p any) { v.Float(c, *p.(*float64)) },
		fill: func(p any, from Input) (err error) {
			*p.(*float64), err = from.Float()
			return err
		},
	}}
}

// word is a number that is a word everywhere but in IPFIX.
func word[V interface {
	unsigned
	fmt.Stringer
}]() codec[*V] {
	c := number[V]()
	c.form = "text"
	c.show = func(v Visitor, col *Column, p any) { v.Text(col, (*p.(*V)).String()) }
	c.fill = func(p any, from Input) error {
		text, err := from.Text()
		if err != nil {
			return err
		}
		into, ok := p.(encoding.TextUnmarshaler)
		if !ok {
			return fmt.Errorf("%T reads no words", p)
		}
		return into.UnmarshalText([]byte(text))
	}
	return c
}

// hexadecimal is a number with a fixed number of hexadecimal digits.
func hexadecimal[V unsigned](digits int) codec[*V] {
	c := number[V]()
	c.form = "hexadecimal"
	c.show = func(v Visitor, col *Column, p any) { v.Hex(col, uint64(*p.(*V)), digits) }
	bits := reflect.TypeFor[V]().Bits()
	c.fill = func(p any, from Input) error {
		n, err := from.Hex(bits)
		if err == nil {
			*p.(*V) = V(n)
		}
		return err
	}
	return c
}

// textual is a string.
func textual() codec[*string] {
	return codec[*string]{
		coding: coding{
			form: "text",
			show: func(v Visitor, c *Column, p any) { v.Text(c, *p.(*string)) },
			fill: func(p any, from Input) error {
				s, err := from.Text()
				if err == nil {
					*p.(*string) = s
				}
				return err
			},
		},
		wire: wireText(),
	}
}

// truth is true or false; no element of IPFIX has such values.
func truth() codec[*bool] {
	return codec[*bool]{coding: coding{
		form: "boolean",
		show: func(v Visitor, c *Column, p any) { v.Bool(c, *p.(*bool)) },
		fill: func(p any, from Input) error {
			is, err := from.Bool()
			if err == nil {
				*p.(*bool) = is
			}
			return err
		},
	}}
}

// moment is a point in time, absent when it is zero. In IPFIX, zero is 1970.
func moment() codec[*instant.Time] {
	return codec[*instant.Time]{
		coding: coding{
			form:   "time",
			absent: func(p any) bool { return p.(*instant.Time).IsZero() },
			show:   func(v Visitor, c *Column, p any) { v.Time(c, p.(*instant.Time).Time) },
			fill: func(p any, from Input) error {
				at, err := from.Time()
				if err == nil {
					p.(*instant.Time).Time = at
				}
				return err
			},
		},
		wire: wireMoment(),
	}
}

// timestamp is a node's time, not available when its octets are all 0 or all 1.
func timestamp() codec[*Field[time.Time]] {
	c := optional(codec[*time.Time]{coding: coding{
		form: "time",
		show: func(v Visitor, c *Column, p any) { v.Time(c, *p.(*time.Time)) },
		fill: func(p any, from Input) error {
			at, err := from.Time()
			if err == nil {
				*p.(*time.Time) = at
			}
			return err
		},
	}})
	c.wire = wireTimestamp()
	return c
}

// address is an IP address.
func address() codec[*netip.Addr] {
	return codec[*netip.Addr]{
		coding: coding{
			form: "address",
			show: func(v Visitor, c *Column, p any) { v.Address(c, *p.(*netip.Addr)) },
			fill: func(p any, from Input) error {
				a, err := from.Address()
				if err == nil {
					*p.(*netip.Addr) = a
				}
				return err
			},
		},
		wire: wireAddress(),
	}
}

// octets are bytes; base64 in JSON.
func octets() codec[*[]byte] {
	return codec[*[]byte]{
		coding: coding{
			form: "base64",
			show: func(v Visitor, c *Column, p any) {
				if octets := *p.(*[]byte); octets != nil {
					v.Octets(c, octets)
				} else {
					v.Null(c)
				}
			},
			fill: func(p any, from Input) error {
				octets, err := from.Octets()
				if err == nil {
					*p.(*[]byte) = octets
				}
				return err
			},
		},
		wire: wireOctets(),
	}
}

// present omits zero values.
func present[V comparable](c codec[*V]) codec[*V] {
	c.absent = func(p any) bool {
		var zero V
		return *p.(*V) == zero
	}
	return c
}

// optional is a value that may be absent, or not available.
func optional[V any](c codec[*V]) codec[*Field[V]] {
	return codec[*Field[V]]{
		coding: coding{
			form: c.form, columns: c.columns, null: true,
			absent: func(p any) bool { return !p.(*Field[V]).Present },
			blank: func(p any) {
				if f := p.(*Field[V]); !f.Valid {
					*f = Field[V]{}
				}
			},
			show: func(v Visitor, col *Column, p any) {
				if f := p.(*Field[V]); f.Valid {
					c.show(v, col, &f.Value)
				} else {
					v.Null(col)
				}
			},
			fill: func(p any, from Input) error {
				f := p.(*Field[V])
				*f = Field[V]{Present: true, Valid: !from.Null()}
				if !f.Valid {
					return nil
				}
				return c.fill(&f.Value, from)
			},
		},
		wire: wireOptional(c.wire),
	}
}

// optionalNumber is an optional unsigned integer.
func optionalNumber[V unsigned]() codec[*Field[V]] {
	c := optional(number[V]())
	c.wire = wireOptionalUint[V]()
	return c
}

// inWholeMicroseconds is a number of nanoseconds that JSON has in microseconds.
func inWholeMicroseconds() codec[*Field[uint64]] {
	us := number[uint64]().coding
	return optional(codec[*uint64]{coding: coding{
		form: us.form,
		show: func(v Visitor, c *Column, p any) { v.Uint(c, *p.(*uint64)/1000) },
		fill: func(p any, from Input) error {
			n, err := from.Uint(32)
			*p.(*uint64) = n * 1000
			return err
		},
	}})
}

// port is a port of a packet, absent when there is none.
func port() codec[**uint16] {
	c := pointer(number[uint16]())
	c.wire = wirePort()
	return c
}

// known is an optional number of which one value says "not available".
func known[V unsigned](c codec[*V], none V) codec[*Field[V]] {
	out := optional(c)
	out.readValue = func(p any, from ipfix.Value) bool {
		f := p.(*Field[V])
		ok := c.readValue(&f.Value, from)
		if ok {
			f.Present, f.Valid = true, f.Value != none
		}
		return ok
	}
	return out
}

// pointer is a value that is absent when there is none.
func pointer[V any](c codec[*V]) codec[**V] {
	return codec[**V]{
		coding: coding{
			form: c.form, columns: c.columns,
			absent: func(p any) bool { return *p.(**V) == nil },
			show:   func(v Visitor, col *Column, p any) { c.show(v, col, *p.(**V)) },
			fill: func(p any, from Input) error {
				v := new(V)
				*p.(**V) = v
				return c.fill(v, from)
			},
		},
		wire: wirePointer(c.wire),
	}
}

// list is a sequence of values.
func list[V any](c codec[*V]) codec[*[]V] {
	return codec[*[]V]{coding: coding{
		form: "list", columns: c.columns,
		show: func(v Visitor, col *Column, p any) {
			items := *p.(*[]V)
			if items == nil {
				v.Null(col)
				return
			}
			v.BeginList(col)
			for i := range items {
				c.show(v, nil, &items[i])
			}
			v.EndList()
		},
		fill: func(p any, from Input) error {
			items, err := from.List()
			if err != nil {
				return err
			}
			l := make([]V, len(items))
			*p.(*[]V) = l
			for i, item := range items {
				if err := c.fill(&l[i], item); err != nil {
					return err
				}
			}
			return nil
		},
	}}
}

// object is a value with fields of its own.
func object[P any](t table[P]) codec[P] {
	rows := t.rows()
	return codec[P]{coding: coding{
		form: "object", columns: rows.describe(),
		show: func(v Visitor, c *Column, p any) {
			v.BeginObject(c)
			rows.visit(v, p)
			v.EndObject()
		},
		fill: rows.fill,
	}}
}

// anything is a value of any simple type, or a list of such values or of elements.
func anything(form string) codec[*any] {
	return codec[*any]{coding: coding{
		form: form,
		show: func(v Visitor, c *Column, p any) { showAny(v, c, *p.(*any)) },
		fill: func(p any, from Input) (err error) {
			*p.(*any), err = from.Any()
			return err
		},
	}}
}

func showAny(v Visitor, c *Column, value any) {
	switch value := value.(type) {
	case bool:
		v.Bool(c, value)
	case uint64:
		v.Uint(c, value)
	case int64:
		v.Int(c, value)
	case float64:
		v.Float(c, value)
	case string:
		v.Text(c, value)
	case []any:
		v.BeginList(c)
		for _, each := range value {
			showAny(v, nil, each)
		}
		v.EndList()
	case []ElementValue:
		v.BeginList(c)
		for _, each := range value {
			v.BeginObject(nil)
			v.Text(newColumn("name"), each.Name)
			showAny(v, newColumn("value"), each.Value)
			v.EndObject()
		}
		v.EndList()
	case map[string]any: // such a record that was read from JSON
		v.BeginObject(c)
		for _, key := range slices.Sorted(maps.Keys(value)) {
			showAny(v, newColumn(key), value[key])
		}
		v.EndObject()
	default:
		v.Null(c)
	}
}

// filled omits empty lists.
func filled[V any](c codec[*[]V]) codec[*[]V] {
	c.absent = func(p any) bool { return len(*p.(*[]V)) == 0 }
	return c
}

// kept also shows zero values.
func kept[V any](c codec[V]) codec[V] {
	c.absent = nil
	return c
}

// counter is a number that may not be available: all ones in IPFIX.
func counter() codec[*Field[uint64]] {
	c := known(number[uint64](), noCount)
	c.put = wireCount
	return c
}

// wordSet is a set of bits that is a list of words, absent when it is empty.
func wordSet[V interface {
	unsigned
	Names() []string
}](named func([]string) V) codec[*V] {
	c, words := number[V](), list(textual())
	c.form = "list"
	c.absent = func(p any) bool { return *p.(*V) == 0 }
	c.show = func(v Visitor, col *Column, p any) {
		names := (*p.(*V)).Names()
		v.BeginList(col)
		for _, name := range names {
			v.Text(nil, name)
		}
		v.EndList()
	}
	c.fill = func(p any, from Input) error {
		var names []string
		err := words.fill(&names, from)
		*p.(*V) = named(names)
		return err
	}
	return c
}

// optionType is an IOAM option-type by name; usual is the default where IPFIX does not
// give it.
func optionType(usual ioam.IOAMType) codec[*string] {
	c := textual()
	c.wire = wireOptionType(usual)
	return c
}
