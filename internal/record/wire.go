// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// wire is how IPFIX writes values of a type into consecutive fields, and reads them from
// one of them; without functions where no element has such values. It writes more
// records than any other encoding, so what it does is compiled for a template once, with
// the types of record and value.
type wire[V any] struct {
	put   func([]ipfix.Field) step[V]
	joint bool // put writes all fields at once; otherwise one

	// readValue reads a V. It reports whether the element had a value.
	readValue func(any, ipfix.Value) bool
}

// step appends a part of a record, a pointer.
type step[R any] func([]byte, R) []byte

// into writes a value into fields.
func (w wire[V]) into(fields []ipfix.Field) step[V] {
	if len(fields) == 1 || w.joint {
		return w.put(fields)
	}
	puts := make([]step[V], len(fields))
	for i := range fields {
		puts[i] = w.put(fields[i : i+1])
	}
	return func(b []byte, v V) []byte {
		for _, put := range puts {
			b = put(b, v)
		}
		return b
	}
}

// one is put for values that are written in the same way into any field.
func one[V any](put step[V]) func([]ipfix.Field) step[V] {
	return func([]ipfix.Field) step[V] { return put }
}

func wireUint[V unsigned]() wire[*V] {
	return wire[*V]{
		put: func(fields []ipfix.Field) step[*V] { return putNumber[V](fields[0].Length) },
		readValue: func(p any, from ipfix.Value) bool {
			n, ok := from.Uint()
			if ok {
				*p.(*V) = V(n)
			}
			return ok
		},
	}
}

// wireSize is a Go int: no value is longer than 32 bits.
func wireSize[V ~int | ~int64]() wire[*V] {
	return wire[*V]{
		put: func(fields []ipfix.Field) step[*V] { return putNumber[V](fields[0].Length) },
		readValue: func(p any, from ipfix.Value) bool {
			n, ok := from.Uint()
			if ok = ok && n < 1<<32; ok {
				*p.(*V) = V(n)
			}
			return ok
		},
	}
}

func wireSigned() wire[*int64] {
	return wire[*int64]{
		put: func(fields []ipfix.Field) step[*int64] { return putNumber[int64](fields[0].Length) },
		readValue: func(p any, from ipfix.Value) bool {
			n, ok := from.Int()
			if ok {
				*p.(*int64) = n
			}
			return ok
		},
	}
}

// putNumber writes a number into a field of a given number of octets.
func putNumber[V unsigned | ~int | ~int64](length uint16) step[*V] {
	switch length {
	case 1:
		return func(b []byte, v *V) []byte { return append(b, byte(*v)) }
	case 2:
		return func(b []byte, v *V) []byte { return binary.BigEndian.AppendUint16(b, uint16(*v)) }
	case 4:
		return func(b []byte, v *V) []byte { return binary.BigEndian.AppendUint32(b, uint32(*v)) }
	case 8:
		return func(b []byte, v *V) []byte { return binary.BigEndian.AppendUint64(b, uint64(*v)) }
	}
	return func(b []byte, v *V) []byte {
		for shift := 8 * (int(length) - 1); shift >= 0; shift -= 8 {
			b = append(b, byte(uint64(*v)>>shift))
		}
		return b
	}
}

// inMicroseconds writes nanoseconds as microseconds. What it writes is not read.
func inMicroseconds() codec[*int64] {
	c := signed()
	put := c.put
	c.put = func(fields []ipfix.Field) step[*int64] {
		write := put(fields)
		return func(b []byte, v *int64) []byte {
			us := *v / 1000
			return write(b, &us)
		}
	}
	return c
}

// wireMicroseconds is nanoseconds that IPFIX has in whole microseconds, in four octets.
func wireMicroseconds() wire[*Field[uint64]] {
	return wire[*Field[uint64]]{
		put: one(func(b []byte, f *Field[uint64]) []byte { return binary.BigEndian.AppendUint32(b, uint32(f.Value/1000)) }),
		readValue: func(p any, from ipfix.Value) bool {
			us, ok := from.Uint()
			if ok = ok && us <= math.MaxUint32; ok {
				*p.(*Field[uint64]) = NewField(us*1000, true)
			}
			return ok
		},
	}
}

// noCount is a counter that is not available.
const noCount = ^uint64(0)

// wireCount writes a counter that may not be available.
func wireCount([]ipfix.Field) step[*Field[uint64]] {
	return func(b []byte, f *Field[uint64]) []byte {
		if !f.Valid {
			return binary.BigEndian.AppendUint64(b, noCount)
		}
		return binary.BigEndian.AppendUint64(b, f.Value)
	}
}

func wireText() wire[*string] {
	return wire[*string]{
		put: one(putText),
		readValue: func(p any, from ipfix.Value) bool {
			s, ok := from.Text()
			if ok {
				*p.(*string) = s
			}
			return ok
		},
	}
}

// putText writes a string with its length (RFC 7011 §7).
func putText(b []byte, v *string) []byte {
	s := strings.ToValidUTF8(*v, "\uFFFD") // RFC 7011 §6.1.6
	if len(s) < 255 {
		return append(append(b, byte(len(s))), s...)
	}
	s = s[:min(len(s), 65535)]
	return append(binary.BigEndian.AppendUint16(append(b, 255), uint16(len(s))), s...)
}

func wireOctets() wire[*[]byte] {
	return wire[*[]byte]{
		put: one(func(b []byte, v *[]byte) []byte { return putOctets(b, *v) }),
		readValue: func(p any, from ipfix.Value) bool {
			*p.(*[]byte) = bytes.Clone(from.Octets)
			return true
		},
	}
}

func putOctets(b, v []byte) []byte {
	if len(v) < 255 {
		return append(append(b, byte(len(v))), v...)
	}
	return append(binary.BigEndian.AppendUint16(append(b, 255), uint16(len(v))), v...)
}

func wireAddress() wire[*netip.Addr] {
	return wire[*netip.Addr]{
		put: one(putAddress),
		readValue: func(p any, from ipfix.Value) bool {
			a, ok := from.Addr()
			if ok {
				*p.(*netip.Addr) = a
			}
			return ok
		},
	}
}

func putAddress(b []byte, v *netip.Addr) []byte {
	octets := v.As16()
	return append(b, octets[:]...)
}

func wireMoment() wire[*instant.Time] {
	return wire[*instant.Time]{
		put:   putTime,
		joint: true,
		readValue: func(p any, from ipfix.Value) bool {
			if len(from.Octets) > 0 && unset(from.Octets) {
				return false // not known; as NTP's seconds, 0 would be 2036
			}
			at, ok := from.Time()
			if ok = ok && at.Unix() != 0; ok {
				p.(*instant.Time).Time = at
			}
			return ok
		},
	}
}

// putTime writes one time in the resolution of each field.
func putTime(fields []ipfix.Field) step[*instant.Time] {
	kinds := make([]ipfix.DataType, len(fields))
	for i, f := range fields {
		kinds[i] = f.Element.Type
	}
	return func(b []byte, v *instant.Time) []byte {
		seconds, nanoseconds := int64(0), uint64(0)
		if !v.IsZero() {
			seconds, nanoseconds = v.Unix(), uint64(v.Nanosecond())
		}
		for _, kind := range kinds {
			b = ipfix.AppendTime(b, kind, seconds, nanoseconds)
		}
		return b
	}
}

// unset reports whether octets are all 0 or all 1.
func unset(octets []byte) bool {
	for _, b := range octets {
		if b != octets[0] || b != 0 && b != 0xff {
			return false
		}
	}
	return true
}

// wireOptionalUint is wireOptional of wireUint with one call less: every postcard has two.
func wireOptionalUint[V unsigned]() wire[*Field[V]] {
	w := wireOptional(wireUint[V]())
	put := w.put
	w.put = func(fields []ipfix.Field) step[*Field[V]] {
		if fields[0].Length == 4 {
			return func(b []byte, f *Field[V]) []byte { return binary.BigEndian.AppendUint32(b, uint32(f.Value)) }
		}
		return put(fields)
	}
	return w
}

// wirePort is wirePointer of wireUint with one call less.
func wirePort() wire[**uint16] {
	w := wirePointer(wireUint[uint16]())
	put := w.put
	w.put = func(fields []ipfix.Field) step[**uint16] {
		if fields[0].Length == 2 {
			return func(b []byte, p **uint16) []byte { return binary.BigEndian.AppendUint16(b, **p) }
		}
		return put(fields)
	}
	return w
}

func wireOptional[V any](w wire[*V]) (out wire[*Field[V]]) {
	if w.put == nil {
		return out
	}
	out.put = func(fields []ipfix.Field) step[*Field[V]] {
		put := w.put(fields)
		return func(b []byte, f *Field[V]) []byte { return put(b, &f.Value) }
	}
	out.readValue = func(p any, from ipfix.Value) bool {
		f := p.(*Field[V])
		ok := w.readValue(&f.Value, from)
		if ok {
			f.Present, f.Valid = true, true
		}
		return ok
	}
	return out
}

func wirePointer[V any](w wire[*V]) (out wire[**V]) {
	if w.put == nil {
		return out
	}
	out.put = func(fields []ipfix.Field) step[**V] {
		put := w.put(fields)
		return func(b []byte, p **V) []byte { return put(b, *p) }
	}
	out.readValue = func(p any, from ipfix.Value) bool {
		v := new(V)
		ok := w.readValue(v, from)
		if ok {
			*p.(**V) = v
		}
		return ok
	}
	return out
}

// wireOptionType is an IOAM option-type by name; usual is the default where IPFIX does
// not give it.
func wireOptionType(usual ioam.IOAMType) wire[*string] {
	types := map[string]ioam.IOAMType{}
	for _, t := range []ioam.IOAMType{ioam.IOAMPreallocatedTrace, ioam.IOAMIncrementalTrace, ioam.IOAMDirectExport} {
		types[t.String()] = t
	}
	name := usual.String()
	return wire[*string]{
		put: one(func(b []byte, v *string) []byte {
			if *v == name {
				return append(b, byte(usual))
			}
			if t, ok := types[*v]; ok {
				return append(b, byte(t))
			}
			return append(b, byte(usual))
		}),
		readValue: func(p any, from ipfix.Value) bool {
			n, ok := from.Uint()
			if ok {
				*p.(*string) = ioam.IOAMType(n).String()
			}
			return ok
		},
	}
}

// wireSIDs are the segments of an SRv6 path. An SRH has them in reverse order.
func wireSIDs() wire[*[]netip.Addr] {
	return wire[*[]netip.Addr]{
		put: one(func(b []byte, v *[]netip.Addr) []byte {
			octets := make([]byte, 0, 16*len(*v))
			for _, sid := range slices.Backward((*v)[:min(len(*v), maxSIDs)]) {
				octets = putAddress(octets, &sid)
			}
			return putOctets(b, octets)
		}),
		readValue: func(p any, from ipfix.Value) bool {
			if len(from.Octets)%16 != 0 {
				return false
			}
			var sids []netip.Addr
			for sid := range slices.Chunk(from.Octets, 16) {
				sids = append(sids, netip.AddrFrom16([16]byte(sid)))
			}
			slices.Reverse(sids)
			*p.(*[]netip.Addr) = sids
			return true
		},
	}
}

// wireSelection is which packets a point counts, without octets if it is not known. The
// length of its blocks is a field of its own.
func wireSelection() wire[*loss.Selection] {
	return wire[*loss.Selection]{
		put: one(func(b []byte, s *loss.Selection) []byte {
			if !s.Known() {
				return putOctets(b, nil)
			}
			return putOctets(b, s.Append(nil))
		}),
		readValue: func(p any, from ipfix.Value) bool {
			s := p.(*loss.Selection)
			if len(from.Octets) == loss.SelectionLen {
				*s = loss.DecodeSelection(from.Octets, 0)
			}
			return s.Known()
		},
	}
}

// wireFlags are all flags of a trace.
func wireFlags() wire[*TraceFlags] {
	return wire[*TraceFlags]{
		put: one(func(b []byte, f *TraceFlags) []byte { return append(b, f.octet()) }),
		readValue: func(p any, v ipfix.Value) bool {
			n, ok := v.Uint()
			if ok {
				*p.(*TraceFlags) = newTraceFlags(ioam.TraceFlags(n))
			}
			return ok
		},
	}
}

// wireTimestamp is a node's time, which is not available when its octets are all 0 or
// all 1. putData writes it.
func wireTimestamp() wire[*Field[time.Time]] {
	return wire[*Field[time.Time]]{
		put: one[*Field[time.Time]](nil),
		readValue: func(p any, v ipfix.Value) bool {
			at, ok := v.Time()
			*p.(*Field[time.Time]) = NewField(at, ok && !unset(v.Octets))
			return ok
		},
	}
}
