// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

// kernelHeaders are Hop-by-Hop headers as they arrive at a Linux 6.18 transit
// node, and as they leave it.
var kernelHeaders = []string{
	"3b020100 310e0000 007b0801 80000000 00000000 01020000",
	"3b020100 310e0000 007b0800 80000000 3f000002 01020000",
	"3b020100 310e0000 007b1401 c0000000 00000000 01020000",
	`3b090100 314a0000 007b7800 fff00200 3f000002 00c900ca 6b012a3c 00000001 ffffffff ffffffff 00000000 ffffffff
		3f000000 0153158e 000311f1 000315da ffffffff ffffffff ffffffff 00ffffff`,
}

// dexHeader is a Direct Export with both fields and an unknown one.
const dexHeader = "11030100 11160004 007b00e0 ca000000 0a0b0c0d 00000007 eeeeeeee 01020000"

func FuzzExtensionHeader(f *testing.F) {
	for _, header := range kernelHeaders {
		f.Add(craft.Hex(f, header))
	}
	f.Add(craft.Hex(f, "3b00c204 00010000"))
	f.Add(craft.Hex(f, "3b010100 110a0004 00010000 80000000"))
	f.Add(craft.Hex(f, dexHeader))
	f.Fuzz(func(t *testing.T, b []byte) {
		header, err := DecodeExtensionHeader(b)
		if err != nil {
			return
		}
		var options []Option
		end := 2
		for option, err := range header.Options() {
			if err != nil {
				return
			}
			if option.Offset != end {
				t.Fatalf("option at %d, the last one ended at %d", option.Offset, end)
			}
			end++
			if option.Type != OptionPad1 {
				end += 1 + len(option.Data)
			}
			if !option.Type.IsPadding() {
				options = append(options, option)
			}
			checkOption(t, option)
		}
		if end != len(header.Bytes) {
			t.Fatalf("options end at %d of %d", end, len(header.Bytes))
		}
		encoded, err := AppendExtensionHeader(nil, header.NextHeader, options...)
		if err != nil {
			return // alignment may need more than the longest header has
		}
		checkReencoded(t, encoded, header.NextHeader, options)
	})
}

// checkOption decodes everything that an option may contain.
func checkOption(t *testing.T, option Option) {
	t.Helper()
	o, err := option.IOAM()
	if (err == nil) != (option.IsIOAM() && option.Offset%4 == 0 && len(option.Data) >= 2) {
		t.Fatalf("option %+v: %v", option, err)
	}
	if err != nil {
		return
	}
	if back := o.Option(); back.Type != option.Type || !bytes.Equal(back.Data, option.Data) {
		t.Fatalf("%+v became %+v", option, back)
	}
	if trace, err := o.Trace(); err == nil {
		checkTrace(t, trace)
	}
	if p, err := o.ProofOfTransit(); err == nil && !bytes.Equal(p.Append(nil), o.Data[:ProofLen]) {
		t.Fatalf("%x became %+v", option.Data, p)
	}
	if d, err := o.DirectExport(); err == nil && !bytes.Equal(d.Option(option.Type).Data[2:9], option.Data[2:9]) {
		t.Fatalf("%x became %+v", option.Data, d)
	}
}

// checkReencoded: the same options, each aligned, in a header of minimum length.
func checkReencoded(t *testing.T, encoded []byte, next NextHeader, want []Option) {
	t.Helper()
	header, err := DecodeExtensionHeader(encoded)
	if err != nil || len(header.Bytes) != len(encoded) || header.NextHeader != next {
		t.Fatalf("%x: %v", encoded, err)
	}
	i := 0
	for option, err := range header.Options() {
		if err != nil {
			t.Fatal(err)
		}
		if option.Type.IsPadding() {
			if len(option.Data) > 5 || bytes.ContainsFunc(option.Data, func(r rune) bool { return r != 0 }) {
				t.Fatalf("padding %x", option.Data)
			}
			continue
		}
		x, y := option.Type.alignment()
		if option.Offset%x != y || i >= len(want) || option.Type != want[i].Type || !bytes.Equal(option.Data, want[i].Data) {
			t.Fatalf("option %d: %+v, want %+v", i, option, want)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("%d options, want %d", i, len(want))
	}
}

// checkTrace: the nodes tile the list from RemainingLen on, newest first.
func checkTrace(t *testing.T, trace Trace) {
	t.Helper()
	nodes, err := trace.Nodes()
	if (trace.Check() == nil) != (err == nil) && len(nodes) > 0 && trace.Check() != nil {
		t.Fatalf("nodes of an inconsistent trace: %v", err)
	}
	at := 0
	if !trace.Incremental {
		at = 4 * int(trace.RemainingLen)
	}
	for i := len(nodes) - 1; i >= 0; i-- {
		node := nodes[i]
		if !bytes.Equal(trace.Data[at:at+len(node.Bytes)], node.Bytes) {
			t.Fatal("the node data are not where they should be")
		}
		at += len(node.Bytes)
		if s, ok := node.Snapshot(); ok && 4*trace.Type.NodeLen()+4+len(s.Data) != len(node.Bytes) {
			t.Fatalf("snapshot of %d bytes in %d", len(s.Data), len(node.Bytes))
		}
		for bit := range 24 {
			if field := node.Field(bit); len(field) != 0 != (trace.Type.Has(bit) && bit <= BitUndefinedLast) {
				t.Fatalf("bit %d: %x", bit, field)
			}
		}
		read(node)
		node.Timestamp(TimestampNTP, 0)
	}
	if trace.Check() == nil && err == nil && at != len(trace.Data) && (trace.Type.NodeLen() != 0 || trace.Type.HasSnapshot()) {
		t.Fatalf("%d of %d bytes of node data read", at, len(trace.Data))
	}
}

func FuzzTrace(f *testing.F) {
	for _, header := range kernelHeaders {
		f.Add(craft.Hex(f, header)[8:], false)
	}
	f.Add(craft.Hex(f, "007b0801 80000200 00000000 3d000003 00ffffff 3e000002 02000309 7261636b 20370000"), false)
	f.Add(craft.Hex(f, "007b0801 80000200 3d000003 00ffffff 3e000002 02000309 7261636b 20370000"), true)
	f.Fuzz(func(t *testing.T, b []byte, incremental bool) {
		if len(b) > 2048 {
			return // no header is longer
		}
		trace, err := DecodeTrace(b)
		if (err == nil) != (len(b) >= TraceHeaderLen) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		trace.Incremental = incremental
		if back := trace.Append(nil); !bytes.Equal(back, b) {
			t.Fatalf("%x became %x", b, back)
		}
		checkTrace(t, trace)
	})
}
