// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"errors"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// The figure of RFC 9326 §3.2, filled in by hand: the octets after the IOAM
// Option-Type, and their meaning.
var directExportVectors = []struct {
	name  string
	bytes string
	want  DirectExport
}{
	{"no optional field", "007b0000 c0000000", DirectExport{Namespace: 123, Type: 0xc00000}},
	{"Flow ID", "007b0080 c0000000 0a0b0c0d", DirectExport{123, 0, 0x80, 0xc00000, 0x0a0b0c0d, 0}},
	{"Sequence Number", "007b0040 c0000000 00000007", DirectExport{123, 0, 0x40, 0xc00000, 0, 7}},
	{"both", "ffff00c0 fff00200 0a0b0c0d fffffffe", DirectExport{0xffff, 0, 0xc0, 0xfff002, 0x0a0b0c0d, 0xfffffffe}},
	{"flags", "007bff00 00000000", DirectExport{Namespace: 123, Flags: 0xff}},
	{"unknown optional fields", "007b00ff c0000000 0a0b0c0d 00000007 00000000 00000000 00000000 00000000 00000000 00000000",
		DirectExport{123, 0, 0xff, 0xc00000, 0x0a0b0c0d, 7}},
	{"only unknown ones", "007b0021 c0000000 00000000 00000000", DirectExport{Namespace: 123, ExtensionFlags: 0x21, Type: 0xc00000}},
}

func TestDirectExportVectors(t *testing.T) {
	for _, vector := range directExportVectors {
		t.Run(vector.name, func(t *testing.T) {
			b := craft.Hex(t, vector.bytes)
			got, err := DecodeDirectExport(b)
			if err != nil || got != vector.want {
				t.Errorf("decoded as %+v, %v", got, err)
			}
			if back := vector.want.Append(nil); !bytes.Equal(back, b) {
				t.Errorf("encoded as %x", back)
			}
			for length := range b {
				if _, err := DecodeDirectExport(b[:length]); !errors.Is(err, ErrTruncated) {
					t.Errorf("%d bytes: %v", length, err)
				}
			}
			b[7] = 0xee // Reserved "MUST be ignored by the receiver"
			if got, err := DecodeDirectExport(append(b, 0xaa)); err != nil || got != vector.want {
				t.Errorf("with a reserved octet and a byte more: %+v, %v", got, err)
			}
		})
	}
	unknown := craft.Hex(t, "007b00a0 c0000000 0a0b0c0d deadbeef")
	if got, err := DecodeDirectExport(unknown); err != nil || got.FlowID != 0x0a0b0c0d || got.Sequence != 0 {
		t.Errorf("an unknown field after the Flow ID: %+v, %v", got, err)
	}
}

// Both option types carry it, and it reads back.
func TestDirectExportOption(t *testing.T) {
	d := DirectExport{Namespace: 123, ExtensionFlags: 0xc0, Type: 0xc00000, FlowID: 1, Sequence: 2}
	for asked, want := range map[OptionType]string{
		0:                "11120004 007b00c0 c0000000 00000001 00000002",
		OptionIOAMStatic: "11120004 007b00c0 c0000000 00000001 00000002",
		OptionIOAM:       "31120004 007b00c0 c0000000 00000001 00000002",
	} {
		header, err := AppendExtensionHeader(nil, NextHeaderNone, d.Option(asked))
		if err != nil || !bytes.Equal(header, append(craft.Hex(t, "3b020100"), craft.Hex(t, want)...)) {
			t.Fatalf("0x%02x: %x, %v", asked, header, err)
		}
		for option, err := range (ExtensionHeader{Bytes: header}).Options() {
			if err != nil || option.Type.IsPadding() {
				continue
			}
			o, err := option.IOAM()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := o.DirectExport(); err != nil || got != d {
				t.Errorf("0x%02x: %+v, %v", asked, got, err)
			}
		}
	}
	var fault *DecodeError
	if _, err := (IOAMOption{Type: IOAMEdgeToEdge, Offset: 4}).DirectExport(); !errors.As(err, &fault) ||
		!errors.Is(err, ErrNotDirectExport) || fault.Offset != 7 || fault.Section != "RFC 9326 §3.2" {
		t.Errorf("an edge-to-edge option: %v", err)
	}
	short := IOAMOption{Type: IOAMDirectExport, Offset: 4, Data: craft.Hex(t, "007b00c0 c0000000 00000001")}
	if _, err := short.DirectExport(); !errors.As(err, &fault) ||
		!errors.Is(err, ErrOptionLength) || fault.Offset != 5 || fault.Section != "RFC 9326 §3.2" {
		t.Errorf("an option that is too short: %v", err)
	}
}

func FuzzDirectExport(f *testing.F) {
	for _, vector := range directExportVectors {
		f.Add(craft.Hex(f, vector.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := DecodeDirectExport(b)
		if err != nil {
			if !errors.Is(err, ErrTruncated) || d != (DirectExport{}) {
				t.Fatalf("%+v, %v", d, err)
			}
			return
		}
		back := d.Append(nil)
		if len(back) > len(b) || !bytes.Equal(back[:7], b[:7]) {
			t.Fatalf("%x became %x", b, back)
		}
		if again, err := DecodeDirectExport(back); err != nil || again != d {
			t.Fatalf("%+v became %+v, %v", d, again, err)
		}
		if !d.HasFlowID() && d.FlowID != 0 || !d.HasSequence() && d.Sequence != 0 {
			t.Fatalf("%+v has a value without its flag", d)
		}
	})
}
