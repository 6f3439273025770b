// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"
)

// Causes of a [*RecordError], for errors.Is.
var (
	// ErrWrongType: the field's data type has no such values.
	ErrWrongType = errors.New("the data type has no such values")
	// ErrValueRange: the value needs more octets than the field has.
	ErrValueRange = errors.New("the value does not fit the field")
	// ErrValueLength: the value's octets are not as many as the field's.
	ErrValueLength = errors.New("the value has another length than the field")
	// ErrNotUTF8: the string is not UTF-8 (RFC 7011 §6.1.6).
	ErrNotUTF8 = errors.New("the string is not UTF-8")
	// ErrFieldCount: more or fewer values than the template has fields.
	ErrFieldCount = errors.New("not one value for each field")
)

// RecordError is the error of a value that could not be encoded.
type RecordError struct {
	Template TemplateID
	Field    int    // counted from 0; the number of values given when some are missing
	Name     string // of the element
	Err      error  // one of the sentinels above
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("template %d, field %d %s: %v", e.Template, e.Field, e.Name, e.Err)
}

// Unwrap returns the sentinel.
func (e *RecordError) Unwrap() error { return e.Err }

// RecordWriter writes one data record: a value for each field, in the template's order,
// then [RecordWriter.End]. The first error is kept; End returns it. Only the buffer's
// growth and errors allocate memory.
type RecordWriter struct {
	buf   []byte // written up to pos; then the minimum length of the other fields
	pos   int
	slots []slot // of the remaining fields; none after an error

	template *Template
	start    int
	err      error
}

// Record begins a data record at the end of dst.
func (t *Template) Record(dst []byte) RecordWriter {
	start := len(dst)
	return RecordWriter{
		buf:      slices.Grow(dst, t.minimum)[:start+t.minimum],
		pos:      start,
		slots:    t.slots,
		template: t,
		start:    start,
	}
}

// End returns the buffer with the record at its end; after an error, the buffer
// as it was. The error is a [*RecordError].
func (w *RecordWriter) End() ([]byte, error) {
	if len(w.slots) > 0 {
		w.fail(ErrFieldCount)
	}
	if w.err != nil {
		return w.buf[:w.start], w.err
	}
	return w.buf, nil
}

// nextField returns the field of the next value.
func (w *RecordWriter) nextField(c class) (slot, bool) {
	if len(w.slots) == 0 || w.slots[0].class != c {
		w.mistake()
		return slot{}, false
	}
	s := w.slots[0]
	w.slots = w.slots[1:]
	return s, true
}

// mistake notes that the next field cannot have such a value.
func (w *RecordWriter) mistake() {
	if len(w.slots) == 0 {
		w.fail(ErrFieldCount)
	} else {
		w.fail(ErrWrongType)
	}
}

// fail notes an error at the next field.
func (w *RecordWriter) fail(err error) {
	if w.err != nil {
		return
	}
	next, name := len(w.template.fields)-len(w.slots), ""
	if next < len(w.template.fields) {
		name = w.template.fields[next].name()
	}
	w.slots, w.err = nil, &RecordError{Template: w.template.id, Field: next, Name: name, Err: err}
}

// refuse notes an error at the field that was just taken.
func (w *RecordWriter) refuse(err error) {
	w.slots = w.template.slots[len(w.template.slots)-len(w.slots)-1:]
	w.fail(err)
}

// Uint writes an unsigned integer, in as many octets as the field has.
func (w *RecordWriter) Uint(v uint64) {
	s, ok := w.nextField(classUnsigned)
	switch {
	case !ok:
	case v>>(8*s.length) != 0:
		w.refuse(ErrValueRange)
	default:
		w.integer(v, s.length)
	}
}

// Int writes a signed integer, in as many octets as the field has.
func (w *RecordWriter) Int(v int64) {
	s, ok := w.nextField(classSigned)
	if !ok {
		return
	}
	if beyond := 64 - 8*s.length; v<<beyond>>beyond != v {
		w.refuse(ErrValueRange)
		return
	}
	w.integer(uint64(v), s.length)
}

// integer writes the last n octets of v.
func (w *RecordWriter) integer(v uint64, n uint16) {
	if rest := w.buf[w.pos:]; len(rest) >= 8 {
		// Later values overwrite the excess octets.
		binary.BigEndian.PutUint64(rest, v<<(64-8*n))
	} else {
		for i := range int(n) {
			rest[i] = byte(v >> (8 * (int(n) - 1 - i)))
		}
	}
	w.pos += int(n)
}

// octets writes as many octets as the field has.
func (w *RecordWriter) octets(v []byte) {
	w.pos += copy(w.buf[w.pos:], v)
}

// Float writes a floating point number; in a field of 4 octets, the nearest number of
// that size (RFC 7011 §6.2).
func (w *RecordWriter) Float(v float64) {
	s, ok := w.nextField(classFloat)
	switch {
	case !ok:
	case s.length == 4:
		w.integer(uint64(math.Float32bits(float32(v))), 4)
	default:
		w.integer(math.Float64bits(v), 8)
	}
}

// Bool writes a boolean: 1 or 2 (RFC 7011 §6.1.5).
func (w *RecordWriter) Bool(v bool) {
	if _, ok := w.nextField(classBoolean); !ok {
		return
	}
	if v {
		w.integer(1, 1)
	} else {
		w.integer(2, 1)
	}
}

// Addr writes an IPv4 or IPv6 address, of the family that the field has.
func (w *RecordWriter) Addr(v netip.Addr) {
	s, ok := w.nextField(classAddress)
	switch {
	case !ok:
	case s.kind == IPv6Address && v.Is6():
		octets := v.As16()
		w.octets(octets[:])
	case s.kind == IPv4Address && v.Unmap().Is4():
		octets := v.As4()
		w.octets(octets[:])
	default:
		w.refuse(ErrWrongType)
	}
}

// MAC writes a MAC-48 address.
func (w *RecordWriter) MAC(v [6]byte) {
	if _, ok := w.nextField(classMAC); ok {
		w.octets(v[:])
	}
}

// Time writes a time in the resolution of its field.
func (w *RecordWriter) Time(v time.Time) {
	s, ok := w.nextField(classTime)
	if !ok {
		return
	}
	switch s.kind {
	case DateTimeSeconds:
		w.integer(uint64(v.Unix()), 4) // modulo 2³² (RFC 7011 §5.2)
	case DateTimeMilliseconds:
		w.integer(uint64(v.UnixMilli()), 8)
	default:
		w.integer(ntp(s.kind, v.Unix(), uint64(v.Nanosecond())), 8)
	}
}

// UnixNano writes a time in the resolution of its field: nanoseconds since 1970-01-01
// 00:00 UTC. It is [RecordWriter.Time] for callers without a time.Time.
func (w *RecordWriter) UnixNano(v uint64) {
	s, ok := w.nextField(classTime)
	if !ok {
		return
	}
	switch s.kind {
	case DateTimeSeconds:
		w.integer(v/1e9, 4)
	case DateTimeMilliseconds:
		w.integer(v/1e6, 8)
	default:
		w.integer(ntp(s.kind, int64(v/1e9), v%1e9), 8)
	}
}

// AppendTime appends a time in the resolution of a data type: seconds since 1970-01-01
// 00:00 UTC, and nanoseconds. It is [RecordWriter.Time] for callers without a
// RecordWriter.
func AppendTime(dst []byte, kind DataType, seconds int64, nanoseconds uint64) []byte {
	switch kind {
	case DateTimeSeconds:
		return binary.BigEndian.AppendUint32(dst, uint32(seconds))
	case DateTimeMilliseconds:
		return binary.BigEndian.AppendUint64(dst, uint64(seconds)*1000+nanoseconds/1_000_000)
	}
	return binary.BigEndian.AppendUint64(dst, ntp(kind, seconds, nanoseconds))
}

// ntpEpoch is 1970 in seconds of NTP, which begins in 1900.
const ntpEpoch = 2208988800

// ntp is an NTP timestamp, its era implicit (RFC 7011 §5.2). The fraction is rounded
// up, so that rounding down on reading gives the same nanosecond.
func ntp(kind DataType, seconds int64, nanoseconds uint64) uint64 {
	fraction := (nanoseconds<<32 + 999_999_999) / 1_000_000_000
	if kind == DateTimeMicroseconds {
		fraction = microsecondFraction(nanoseconds)
	}
	return uint64(seconds+ntpEpoch)<<32 | fraction
}

// microsecondFraction is the least fraction within the microsecond whose last 11 bits
// are zero (RFC 7011 §6.1.9).
func microsecondFraction(nanoseconds uint64) uint64 {
	fraction := (nanoseconds/1000<<32 + 999_999) / 1_000_000
	return (fraction + 1<<11 - 1) &^ (1<<11 - 1)
}

// Octets writes an octetArray, or a list of RFC 6313, as [AppendBasicList] makes it.
func (w *RecordWriter) Octets(v []byte) {
	s, ok := w.nextField(classOctets)
	switch {
	case !ok:
	case s.length == VariableLength:
		if w.prefix(len(v)) {
			w.octets(v)
		}
	case len(v) != int(s.length):
		w.refuse(ErrValueLength)
	default:
		w.octets(v)
	}
}

// Encoded writes the next n fields, which are of fixed length, from encoded octets,
// such as those of a node's IOAM data.
func (w *RecordWriter) Encoded(n int, v []byte) {
	if n < 0 || n > len(w.slots) {
		w.fail(ErrFieldCount)
		return
	}
	length := 0
	for _, s := range w.slots[:n] {
		if s.length == VariableLength {
			w.fail(ErrWrongType)
			return
		}
		length += int(s.length)
	}
	if length != len(v) {
		w.fail(ErrValueLength)
		return
	}
	w.octets(v)
	w.slots = w.slots[n:]
}

// Text writes a string. In a field of fixed length, zero octets follow a shorter
// one.
func (w *RecordWriter) Text(v string) {
	s, ok := w.nextField(classString)
	switch {
	case !ok:
	case !utf8.ValidString(v):
		w.refuse(ErrNotUTF8)
	case s.length == VariableLength:
		if w.prefix(len(v)) {
			w.pos += copy(w.buf[w.pos:], v)
		}
	case len(v) > int(s.length):
		w.refuse(ErrValueLength)
	default:
		field := w.buf[w.pos : w.pos+int(s.length)]
		clear(field[copy(field, v):])
		w.pos += len(field)
	}
}

// prefix makes room for a value of variable length, besides the octet already there,
// and writes its length (RFC 7011 §7).
func (w *RecordWriter) prefix(n int) bool {
	if n > 65535 {
		w.refuse(ErrValueLength)
		return false
	}
	more := n
	if n >= 255 {
		more += 2
	}
	w.buf = slices.Grow(w.buf, more)[:len(w.buf)+more]
	if n < 255 {
		w.integer(uint64(n), 1)
	} else {
		w.integer(255<<16|uint64(n), 3)
	}
	return true
}
