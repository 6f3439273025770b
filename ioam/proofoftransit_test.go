// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"errors"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// The figure of RFC 9197 §4.5.1, filled in by hand: the octets after the IOAM
// Option-Type, and their meaning.
var proofVectors = []struct {
	bytes string
	want  ProofOfTransit
}{
	{"007b0000 00000000 00000000 00000000 00000000", ProofOfTransit{Namespace: 123}},
	{"ffff0000 01020304 05060708 f1f2f3f4 f5f6f7f8", ProofOfTransit{0xffff, 0, 0x0102030405060708, 0xf1f2f3f4f5f6f7f8}},
	{"007b00ff 00000000 00000001 00000000 00000002", ProofOfTransit{123, 0xff, 1, 2}},
}

func TestProofOfTransitVectors(t *testing.T) {
	for _, vector := range proofVectors {
		b := craft.Hex(t, vector.bytes)
		got, err := DecodeProofOfTransit(append(b[:len(b):len(b)], 0xaa))
		if err != nil || got != vector.want {
			t.Errorf("%s decoded as %+v, %v", vector.bytes, got, err)
		}
		if back := vector.want.Append(nil); !bytes.Equal(back, b) || len(back) != ProofLen {
			t.Errorf("%+v encoded as %x", vector.want, back)
		}
		for length := range b {
			if _, err := DecodeProofOfTransit(b[:length]); !errors.Is(err, ErrTruncated) {
				t.Errorf("%d bytes: %v", length, err)
			}
		}
		b[2] = 1
		if got, err := DecodeProofOfTransit(b[:4]); !errors.Is(err, ErrPOTType) || got != (ProofOfTransit{}) {
			t.Errorf("POT-Type 1: %+v, %v", got, err)
		}
	}
	if got, want := proofVectors[2].want.String(), "namespace 123, packet 0x1, cumulative 0x2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestProofOfTransitOption(t *testing.T) {
	p := ProofOfTransit{Namespace: 123, PktID: 0x0102030405060708, Cumulative: 0x1112131415161718}
	header, err := AppendExtensionHeader(nil, NextHeaderNone, p.Option())
	if want := craft.Hex(t, "3b030100 31160002 007b0000 01020304 05060708 11121314 15161718 01020000"); err != nil ||
		!bytes.Equal(header, want) {
		t.Fatalf("%x, %v; want %x", header, err, want)
	}
	found := 0
	for option, err := range (ExtensionHeader{Bytes: header}).Options() {
		if err != nil || option.Type.IsPadding() {
			continue
		}
		o, err := option.IOAM()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := o.ProofOfTransit(); err != nil || got != p {
			t.Errorf("%+v, %v", got, err)
		}
		found++
	}
	if found != 1 {
		t.Errorf("%d options", found)
	}
	for _, wrong := range []struct {
		option IOAMOption
		offset int
		err    error
	}{
		{IOAMOption{Type: IOAMEdgeToEdge, Offset: 4}, 7, ErrNotProofOfTransit},
		{IOAMOption{Type: IOAMProofOfTransit, Offset: 4, Data: craft.Hex(t, "007b0000 0102")}, 5, ErrOptionLength},
		{IOAMOption{Type: IOAMProofOfTransit, Offset: 4, Data: craft.Hex(t, "007b")}, 5, ErrOptionLength},
		{IOAMOption{Type: IOAMProofOfTransit, Offset: 4, Data: craft.Hex(t, "007b0100")}, 10, ErrPOTType},
	} {
		var fault *DecodeError
		if _, err := wrong.option.ProofOfTransit(); !errors.As(err, &fault) || !errors.Is(err, wrong.err) || fault.Offset != wrong.offset {
			t.Errorf("%+v: %v", wrong.option, err)
		}
	}
}

func FuzzProofOfTransit(f *testing.F) {
	for _, vector := range proofVectors {
		f.Add(craft.Hex(f, vector.bytes))
	}
	f.Add(craft.Hex(f, "007b0100"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := DecodeProofOfTransit(b)
		if known := len(b) >= ProofHeaderLen && b[2] == 0; (err == nil) != (known && len(b) >= ProofLen) {
			t.Fatalf("%x: %v", b, err)
		}
		if err != nil {
			if p != (ProofOfTransit{}) {
				t.Fatalf("%+v, %v", p, err)
			}
			return
		}
		if back := p.Append(nil); !bytes.Equal(back, b[:ProofLen]) {
			t.Fatalf("%x became %x", b, back)
		}
	})
}
