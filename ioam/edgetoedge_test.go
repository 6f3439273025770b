// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"errors"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// The fields of RFC 9197 §4.6, in the order of their bits, filled in by hand.
var edgeToEdgeVectors = []struct {
	name  string
	bytes string
	want  EdgeToEdge
}{
	{"no field", "007b0000", EdgeToEdge{Namespace: 123}},
	{"64-bit Sequence Number", "007b8000 0102030405060708", EdgeToEdge{Namespace: 123, Type: 0x8000, Sequence: 0x0102030405060708}},
	{"32-bit Sequence Number", "007b4000 fffffffe", EdgeToEdge{Namespace: 123, Type: 0x4000, Sequence: 0xfffffffe}},
	{"seconds", "007b2000 6a000001", EdgeToEdge{Namespace: 123, Type: 0x2000, Seconds: 0x6a000001}},
	{"fraction", "007b1000 00000007", EdgeToEdge{Namespace: 123, Type: 0x1000, Fraction: 7}},
	{"all but the 32-bit number", "ffffb000 0000000100000002 6a000001 00000007", EdgeToEdge{0xffff, 0xb000, 1<<32 | 2, 0x6a000001, 7}},
	{"all but the 64-bit number", "00007000 00000009 6a000001 00000007", EdgeToEdge{0, 0x7000, 9, 0x6a000001, 7}},
	{"undefined bits", "007b4fff 00000009", EdgeToEdge{Namespace: 123, Type: 0x4fff, Sequence: 9}},
}

func TestEdgeToEdgeVectors(t *testing.T) {
	for _, vector := range edgeToEdgeVectors {
		t.Run(vector.name, func(t *testing.T) {
			b := craft.Hex(t, vector.bytes)
			got, err := DecodeEdgeToEdge(b)
			if err != nil || got != vector.want {
				t.Errorf("decoded as %+v, %v", got, err)
			}
			if back := vector.want.Append(nil); !bytes.Equal(back, b) {
				t.Errorf("encoded as %x", back)
			}
			for length := range b {
				if _, err := DecodeEdgeToEdge(b[:length]); !errors.Is(err, ErrTruncated) {
					t.Errorf("%d bytes: %v", length, err)
				}
			}
			if got, err := DecodeEdgeToEdge(append(b, 0xaa)); err != nil || got != vector.want {
				t.Errorf("with a byte more: %+v, %v", got, err)
			}
		})
	}
}

func TestEdgeToEdgeOption(t *testing.T) {
	e := EdgeToEdge{Namespace: 123, Type: 0x7000, Sequence: 1, Seconds: 2, Fraction: 3}
	header, err := AppendExtensionHeader(nil, NextHeaderNone, e.Option())
	want := craft.Hex(t, "3b020100 11120003 007b7000 00000001 00000002 00000003")
	if err != nil || !bytes.Equal(header, want) {
		t.Fatalf("%x, %v", header, err)
	}
	for option, err := range (ExtensionHeader{Bytes: header}).Options() {
		if err != nil || option.Type.IsPadding() {
			continue
		}
		o, err := option.IOAM()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.EdgeToEdge(); err != nil || got != e {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, bad := range []struct {
		option IOAMOption
		cause  error
		offset int
	}{
		{IOAMOption{Type: IOAMDirectExport, Offset: 4}, ErrNotEdgeToEdge, 7},
		{IOAMOption{Type: IOAMEdgeToEdge, Offset: 4, Data: craft.Hex(t, "007b8000 00000001")}, ErrOptionLength, 5},
		{IOAMOption{Type: IOAMEdgeToEdge, Offset: 4, Data: craft.Hex(t, "007bc000 00000001 00000001 00000001")}, ErrSequences, 10},
	} {
		var fault *DecodeError
		if _, err := bad.option.EdgeToEdge(); !errors.As(err, &fault) || !errors.Is(err, bad.cause) || fault.Offset != bad.offset ||
			fault.Section != "RFC 9197 §4.6" {
			t.Errorf("%+v: %v", bad.option, err)
		}
	}
}

func FuzzEdgeToEdge(f *testing.F) {
	for _, vector := range edgeToEdgeVectors {
		f.Add(craft.Hex(f, vector.bytes))
	}
	f.Add(craft.Hex(f, "007bc000 00000001 00000001 00000001"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := DecodeEdgeToEdge(b)
		if err != nil {
			if !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrSequences) || e != (EdgeToEdge{}) {
				t.Fatalf("%+v, %v", e, err)
			}
			return
		}
		back := e.Append(nil)
		if len(back) != e.Len() || !bytes.Equal(back, b[:len(back)]) {
			t.Fatalf("%x became %x", b, back)
		}
	})
}
