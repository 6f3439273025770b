// SPDX-License-Identifier: Apache-2.0

package record

import (
	"unsafe"

	"github.com/waymark-net/waymark/ipfix"
)

// opaque stands for the type of a record or of a value in code that handles all types
// alike; only pointers to it exist. Tables, columns and codecs are typed where they are
// declared, and there the compiler checks an accessor against its record and its codec.
// After that they are opaque, because the compiler copies generic code for every type:
// that was 2 MB of the router's binary, and reflection would be slow.
//
// The conversions below rely only on this: a function that takes a pointer is called
// the same way for all pointer types, and a codec holds only such functions. Nothing
// else in this package may use package unsafe.
type opaque struct{}

// blind is a record, or a part of one.
func blind[R any](r *R) *opaque { return (*opaque)(unsafe.Pointer(r)) }

// blindAt is a function that finds a part of a record.
func blindAt[R, P any](at func(*R) *P) func(*opaque) *opaque {
	return *(*func(*opaque) *opaque)(unsafe.Pointer(&at))
}

// blindTake is a function that reads a value into a record.
func blindTake[R any](take func(*R, ipfix.Value)) func(*opaque, ipfix.Value) {
	return *(*func(*opaque, ipfix.Value))(unsafe.Pointer(&take))
}

// blindStep is a function that writes a part of a record.
func blindStep[R any](put step[R]) step[opaque] { return *(*step[opaque])(unsafe.Pointer(&put)) }

// blindCodec is a codec of values of any type.
func blindCodec[V any](c codec[V]) codec[opaque] { return *(*codec[opaque])(unsafe.Pointer(&c)) }

// sighted is a codec of values of a type again.
func sighted[V any](c codec[opaque]) codec[V] { return *(*codec[V])(unsafe.Pointer(&c)) }

// rows are the rows of a table of any record type.
func (t table[R]) rows() rows { return *(*rows)(unsafe.Pointer(&t)) }

// ofRows is a table of records of a type again.
func ofRows[R any](t rows) table[R] { return *(*table[R])(unsafe.Pointer(&t)) }
