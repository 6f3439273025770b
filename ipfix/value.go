// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"net/netip"
	"time"
	"unicode/utf8"
)

// Value is a value of a data record. Its octets alias the message. The last result of
// its reading methods reports whether the field has such values and the octets are a
// valid one.
type Value struct {
	Field  *Field
	Octets []byte
}

// is returns the data type if it belongs to a class.
func (v Value) is(c class) (DataType, bool) {
	if v.Field == nil || v.Field.Element == nil || v.Field.Element.Type.class() != c {
		return 0, false
	}
	return v.Field.Element.Type, true
}

// Uint reads an unsigned integer of 1 to 8 octets.
func (v Value) Uint() (uint64, bool) {
	if _, ok := v.is(classUnsigned); !ok || len(v.Octets) > 8 {
		return 0, false
	}
	return unsigned(v.Octets), true
}

// InRange reports whether an unsigned integer lies in the range of its element.
func (v Value) InRange() bool {
	n, ok := v.Uint()
	return ok && v.Field.Element.Range.Contains(n)
}

func unsigned(octets []byte) uint64 {
	n := uint64(0)
	for _, b := range octets {
		n = n<<8 | uint64(b)
	}
	return n
}

// Int reads a signed integer of 1 to 8 octets.
func (v Value) Int() (int64, bool) {
	if _, ok := v.is(classSigned); !ok || len(v.Octets) == 0 || len(v.Octets) > 8 {
		return 0, false
	}
	beyond := 64 - 8*len(v.Octets)
	return int64(unsigned(v.Octets)<<beyond) >> beyond, true
}

// Float reads a floating point number of 4 or 8 octets.
func (v Value) Float() (float64, bool) {
	if _, ok := v.is(classFloat); !ok {
		return 0, false
	}
	switch len(v.Octets) {
	case 4:
		return float64(math.Float32frombits(binary.BigEndian.Uint32(v.Octets))), true
	case 8:
		return math.Float64frombits(binary.BigEndian.Uint64(v.Octets)), true
	}
	return 0, false
}

// Bool reads a boolean; octets other than 1 and 2 are invalid (RFC 7011 §6.1.5).
func (v Value) Bool() (value, ok bool) {
	if _, ok := v.is(classBoolean); !ok || len(v.Octets) != 1 || v.Octets[0] < 1 || v.Octets[0] > 2 {
		return false, false
	}
	return v.Octets[0] == 1, true
}

// Addr reads an IPv4 or IPv6 address.
func (v Value) Addr() (netip.Addr, bool) {
	if _, ok := v.is(classAddress); !ok {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(v.Octets)
}

// MAC reads a MAC-48 address.
func (v Value) MAC() (mac [6]byte, ok bool) {
	if _, ok := v.is(classMAC); !ok || len(v.Octets) != len(mac) {
		return mac, false
	}
	return [6]byte(v.Octets), true
}

// Text reads a string, without the zero octets that end one of fixed length. Octets
// that are not UTF-8 are invalid (RFC 7011 §6.1.6).
func (v Value) Text() (string, bool) {
	if _, ok := v.is(classString); !ok {
		return "", false
	}
	octets := v.Octets
	if v.Field.Length != VariableLength {
		octets = bytes.TrimRight(octets, "\x00")
	}
	return string(octets), utf8.Valid(octets)
}

// Time reads a time, in UTC. Times of NTP's second era, which begins in 2036, differ
// from those of the first in their first bit: from 1968 to 2104 (RFC 7011 §5.2). A time
// that time.Time cannot hold is invalid.
func (v Value) Time() (time.Time, bool) {
	kind, ok := v.is(classTime)
	if !ok || len(v.Octets) != int(kind.Len()) {
		return time.Time{}, false
	}
	switch kind {
	case DateTimeSeconds:
		return time.Unix(int64(binary.BigEndian.Uint32(v.Octets)), 0).UTC(), true
	case DateTimeMilliseconds:
		n := binary.BigEndian.Uint64(v.Octets)
		return time.UnixMilli(int64(n)).UTC(), n <= math.MaxInt64
	}
	seconds := int64(binary.BigEndian.Uint32(v.Octets))
	if seconds < 1<<31 {
		seconds += 1 << 32
	}
	fraction := uint64(binary.BigEndian.Uint32(v.Octets[4:]))
	if kind == DateTimeMicroseconds {
		fraction &^= 1<<11 - 1 // RFC 7011 §6.1.9
		return time.Unix(seconds-ntpEpoch, int64(fraction*1_000_000>>32)*1000).UTC(), true
	}
	return time.Unix(seconds-ntpEpoch, int64(fraction*1_000_000_000>>32)).UTC(), true
}

// DataRecord is a data record of a message, whose octets it aliases.
type DataRecord struct {
	Template *Template
	Octets   []byte
}

// Values iterates over the values in the order of the template's fields.
func (r DataRecord) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		rest := r.Octets
		for i := range r.Template.fields {
			octets, n, ok := cutValue(rest, r.Template.fields[i].Length)
			if !ok || !yield(Value{&r.Template.fields[i], octets}) {
				return
			}
			rest = rest[n:]
		}
	}
}

// Value returns the first value of an element.
func (r DataRecord) Value(enterprise Enterprise, id ElementID) (Value, bool) {
	for v := range r.Values() {
		if v.Field.ID == id && v.Field.Enterprise == enterprise {
			return v, true
		}
	}
	return Value{}, false
}

// cutValue returns the octets of the first value of b, and how many octets it takes,
// including its own length field if it has one (RFC 7011 §7).
func cutValue(b []byte, length uint16) (octets []byte, n int, ok bool) {
	start, size := 0, int(length)
	if length == VariableLength {
		switch {
		case len(b) == 0:
			return nil, 0, false
		case b[0] < 255:
			start, size = 1, int(b[0])
		case len(b) < 3:
			return nil, 0, false
		default:
			start, size = 3, int(binary.BigEndian.Uint16(b[1:]))
		}
	}
	n = start + size
	if len(b) < n {
		return nil, 0, false
	}
	return b[start:n:n], n, true
}

// DataSet is a data set of a message: records of one template.
type DataSet struct {
	Template *Template
	Count    int    // records
	octets   []byte // of them
}

// Records iterates over the records in order.
func (s DataSet) Records() iter.Seq[DataRecord] {
	return func(yield func(DataRecord) bool) {
		rest := s.octets
		for len(rest) > 0 {
			n, _, ok := s.Template.cutRecord(rest)
			if !ok || !yield(DataRecord{s.Template, rest[:n:n]}) {
				return
			}
			rest = rest[n:]
		}
	}
}

// cutRecord returns the length of the first record of b and that of its longest value
// of variable length.
func (t *Template) cutRecord(b []byte) (n, longest int, ok bool) {
	if t.fixed {
		return t.minimum, 0, len(b) >= t.minimum
	}
	for _, s := range t.slots {
		octets, length, ok := cutValue(b[n:], s.length)
		if !ok {
			return 0, 0, false
		}
		if s.length == VariableLength {
			longest = max(longest, len(octets))
		}
		n += length
	}
	return n, longest, true
}
