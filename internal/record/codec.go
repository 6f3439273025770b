// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// codec is how values of a type are written and read.
type codec[V any] struct {
	form   string        // of the value in JSON, for the reference
	absent func(*V) bool // JSON omits such a value; nil: never
	null   bool          // JSON's null is a value; otherwise it is ignored
	append func([]byte, *V) []byte
	parse  func(*V, []byte) error
	blank  func(*V) // makes a value that is not available absent; nil: it is always present

	// IPFIX: how a value is written into consecutive fields, and read from one of them;
	// nil where no element has such values. take reports whether the element had a
	// value.
	put   func([]ipfix.Field) step[V]
	joint bool // put writes all fields at once; otherwise one
	take  func(*V, ipfix.Value) bool

	columns []Column // of an object
}

// step appends a part of a record in IPFIX.
type step[R any] func([]byte, *R) []byte

type unsigned interface {
	~uint8 | ~uint16 | ~uint32 | ~uint64
}

// number is an unsigned integer.
func number[V unsigned]() codec[V] {
	bits := reflect.TypeFor[V]().Bits()
	return codec[V]{
		form:   "number",
		append: func(b []byte, v *V) []byte { return strconv.AppendUint(b, uint64(*v), 10) },
		parse: func(v *V, text []byte) error {
			n, err := strconv.ParseUint(string(text), 10, bits)
			*v = V(n)
			return err
		},
		put: func(fields []ipfix.Field) step[V] { return putNumber[V](fields[0].Length) },
		take: func(v *V, from ipfix.Value) bool {
			n, ok := from.Uint()
			if ok {
				*v = V(n)
			}
			return ok
		},
	}
}

// integer is a Go int, or an integer that may be negative.
func integer[V ~int | ~int64]() codec[V] {
	return codec[V]{
		form:   "number",
		append: func(b []byte, v *V) []byte { return strconv.AppendInt(b, int64(*v), 10) },
		parse: func(v *V, text []byte) error {
			n, err := strconv.ParseInt(string(text), 10, 64)
			*v = V(n)
			return err
		},
		put: func(fields []ipfix.Field) step[V] { return putNumber[V](fields[0].Length) },
		take: func(v *V, from ipfix.Value) bool { // no value is longer than 32 bits
			n, ok := from.Uint()
			if ok = ok && n < 1<<32; ok {
				*v = V(n)
			}
			return ok
		},
	}
}

// word is a number that is a word in JSON.
func word[V interface {
	unsigned
	fmt.Stringer
}]() codec[V] {
	c := number[V]()
	c.form = "text"
	c.append = func(b []byte, v *V) []byte { return append(append(append(b, '"'), (*v).String()...), '"') }
	c.parse = func(v *V, text []byte) error { return json.Unmarshal(text, v) }
	return c
}

// hexadecimal is a number that is text in JSON, with a fixed number of digits.
func hexadecimal[V unsigned](digits int) codec[V] {
	c := number[V]()
	c.form = "hexadecimal"
	c.append = func(b []byte, v *V) []byte {
		b = append(b, `"0x`...)
		for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
			b = append(b, "0123456789abcdef"[uint64(*v)>>shift&15])
		}
		return append(b, '"')
	}
	bits := reflect.TypeFor[V]().Bits()
	c.parse = func(v *V, raw []byte) error {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
		rest, ok := strings.CutPrefix(text, "0x")
		if !ok {
			return fmt.Errorf("%q does not begin with 0x", text)
		}
		n, err := strconv.ParseUint(rest, 16, bits)
		*v = V(n)
		return err
	}
	return c
}

// textual is a string.
func textual() codec[string] {
	return codec[string]{
		form:   "text",
		append: func(b []byte, v *string) []byte { return appendString(b, *v) },
		parse:  func(v *string, raw []byte) error { return json.Unmarshal(raw, v) },
		put:    func([]ipfix.Field) step[string] { return putText },
		take: func(v *string, from ipfix.Value) bool {
			s, ok := from.Text()
			if ok {
				*v = s
			}
			return ok
		},
	}
}

// truth is true or false; no element of IPFIX has such values.
func truth() codec[bool] {
	return codec[bool]{
		form:   "boolean",
		append: func(b []byte, v *bool) []byte { return strconv.AppendBool(b, *v) },
		parse:  func(v *bool, raw []byte) error { return json.Unmarshal(raw, v) },
	}
}

// moment is a point in time, absent when it is zero. In IPFIX, zero is 1970.
func moment() codec[instant.Time] {
	return codec[instant.Time]{
		form:   "time",
		absent: func(v *instant.Time) bool { return v.IsZero() },
		append: func(b []byte, v *instant.Time) []byte { return appendTime(b, v.Time) },
		parse:  func(v *instant.Time, raw []byte) error { return json.Unmarshal(raw, v) },
		put:    func(fields []ipfix.Field) step[instant.Time] { return putTime(fields) },
		joint:  true,
		take: func(v *instant.Time, from ipfix.Value) bool {
			if len(from.Octets) > 0 && unset(from.Octets) {
				return false // not known; as NTP's seconds, 0 would be 2036
			}
			at, ok := from.Time()
			if ok = ok && at.Unix() != 0; ok {
				v.Time = at
			}
			return ok
		},
	}
}

// address is an IP address.
func address() codec[netip.Addr] {
	return codec[netip.Addr]{
		form: "address",
		append: func(b []byte, v *netip.Addr) []byte {
			b = append(b, '"')
			if v.IsValid() {
				b = v.AppendTo(b)
			}
			return append(b, '"')
		},
		parse: func(v *netip.Addr, raw []byte) error { return json.Unmarshal(raw, v) },
		put:   func([]ipfix.Field) step[netip.Addr] { return putAddress },
		take: func(v *netip.Addr, from ipfix.Value) bool {
			a, ok := from.Addr()
			if ok {
				*v = a
			}
			return ok
		},
	}
}

// octets are bytes; base64 in JSON.
func octets() codec[[]byte] {
	return codec[[]byte]{
		form: "base64",
		append: func(b []byte, v *[]byte) []byte {
			if *v == nil {
				return append(b, "null"...)
			}
			return append(base64.StdEncoding.AppendEncode(append(b, '"'), *v), '"')
		},
		parse: func(v *[]byte, raw []byte) error { return json.Unmarshal(raw, v) },
		put:   func([]ipfix.Field) step[[]byte] { return func(b []byte, v *[]byte) []byte { return putOctets(b, *v) } },
		take: func(v *[]byte, from ipfix.Value) bool {
			*v = bytes.Clone(from.Octets)
			return true
		},
	}
}

// present omits zero values.
func present[V comparable](c codec[V]) codec[V] {
	c.absent = func(v *V) bool {
		var zero V
		return *v == zero
	}
	return c
}

// optional is a value that may be absent, or not available.
func optional[V any](c codec[V]) codec[Field[V]] {
	out := codec[Field[V]]{
		form: c.form, columns: c.columns, null: true,
		absent: func(f *Field[V]) bool { return !f.Present },
		blank: func(f *Field[V]) {
			if !f.Valid {
				*f = Field[V]{}
			}
		},
		append: func(b []byte, f *Field[V]) []byte {
			if !f.Valid {
				return append(b, "null"...)
			}
			return c.append(b, &f.Value)
		},
		parse: func(f *Field[V], raw []byte) error {
			*f = Field[V]{Present: true, Valid: string(raw) != "null"}
			if !f.Valid {
				return nil
			}
			return c.parse(&f.Value, raw)
		},
	}
	if c.put != nil {
		out.put = func(fields []ipfix.Field) step[Field[V]] {
			put := c.put(fields)
			return func(b []byte, f *Field[V]) []byte { return put(b, &f.Value) }
		}
		out.take = func(f *Field[V], from ipfix.Value) bool {
			ok := c.take(&f.Value, from)
			if ok {
				f.Present, f.Valid = true, true
			}
			return ok
		}
	}
	return out
}

// known is an optional number of which one value says "not available".
func known[V unsigned](c codec[V], none V) codec[Field[V]] {
	out := optional(c)
	out.take = func(f *Field[V], from ipfix.Value) bool {
		ok := c.take(&f.Value, from)
		if ok {
			f.Present, f.Valid = true, f.Value != none
		}
		return ok
	}
	return out
}

// pointer is a value that is absent when there is none.
func pointer[V any](c codec[V]) codec[*V] {
	out := codec[*V]{
		form: c.form, columns: c.columns,
		absent: func(p **V) bool { return *p == nil },
		append: func(b []byte, p **V) []byte { return c.append(b, *p) },
		parse: func(p **V, raw []byte) error {
			*p = new(V)
			return c.parse(*p, raw)
		},
	}
	if c.put != nil {
		out.put = func(fields []ipfix.Field) step[*V] {
			put := c.put(fields)
			return func(b []byte, p **V) []byte { return put(b, *p) }
		}
		out.take = func(p **V, from ipfix.Value) bool {
			v := new(V)
			ok := c.take(v, from)
			if ok {
				*p = v
			}
			return ok
		}
	}
	return out
}

// list is a sequence of values.
func list[V any](c codec[V]) codec[[]V] {
	return codec[[]V]{
		form: "list", columns: c.columns,
		append: func(b []byte, l *[]V) []byte {
			if *l == nil {
				return append(b, "null"...)
			}
			b = append(b, '[')
			for i := range *l {
				if i > 0 {
					b = append(b, ',')
				}
				b = c.append(b, &(*l)[i])
			}
			return append(b, ']')
		},
		parse: func(l *[]V, raw []byte) error {
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil {
				return err
			}
			*l = make([]V, len(items))
			for i, item := range items {
				if err := c.parse(&(*l)[i], item); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// optionType is an IOAM option-type by name; usual is the default where IPFIX does not
// give it.
func optionType(usual ioam.IOAMType) codec[string] {
	c := textual()
	types := map[string]ioam.IOAMType{}
	for _, t := range []ioam.IOAMType{ioam.IOAMPreallocatedTrace, ioam.IOAMIncrementalTrace, ioam.IOAMDirectExport} {
		types[t.String()] = t
	}
	name := usual.String()
	c.put = func([]ipfix.Field) step[string] {
		return func(b []byte, v *string) []byte {
			if *v == name {
				return append(b, byte(usual))
			}
			if t, ok := types[*v]; ok {
				return append(b, byte(t))
			}
			return append(b, byte(usual))
		}
	}
	c.take = func(v *string, from ipfix.Value) bool {
		n, ok := from.Uint()
		if ok {
			*v = ioam.IOAMType(n).String()
		}
		return ok
	}
	return c
}

// filled omits empty lists.
func filled[V any](c codec[[]V]) codec[[]V] {
	c.absent = func(l *[]V) bool { return len(*l) == 0 }
	return c
}

// plain is a value of any type that encoding/json supports.
func plain[V any](form string) codec[V] {
	return codec[V]{
		form: form,
		append: func(b []byte, v *V) []byte {
			text, err := json.Marshal(v)
			if err != nil {
				return append(b, "null"...)
			}
			return append(b, text...)
		},
		parse: func(v *V, raw []byte) error { return json.Unmarshal(raw, v) },
	}
}

// kept also writes zero values.
func kept[V any](c codec[V]) codec[V] {
	c.absent = nil
	return c
}
