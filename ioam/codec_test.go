// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

func TestTraceType(t *testing.T) {
	for _, test := range []struct {
		value    TraceType
		nodeLen  int
		snapshot bool
		valid    bool
	}{
		{0x000000, 0, false, false},
		{0x800000, 1, false, true},
		{0xc00000, 2, false, true},
		{0x008000, 2, false, true},
		{0x00e000, 6, false, true},
		{0x001000, 1, false, true},
		{0xfff000, 15, false, true},
		{0xfff002, 15, true, true},
		{0x000002, 0, true, true},
		{0x000800, 1, false, false},
		{0x000004, 1, false, false},
		{0x000001, 0, false, false},
		{0xffffff, 25, true, false},
		{0x1800000, 1, false, false},
	} {
		if got := test.value.NodeLen(); got != test.nodeLen {
			t.Errorf("%v: NodeLen %d, want %d", test.value, got, test.nodeLen)
		}
		if got := test.value.HasSnapshot(); got != test.snapshot {
			t.Errorf("%v: snapshot %v", test.value, got)
		}
		if err := test.value.Validate(); (err == nil) != test.valid || err != nil && !errors.Is(err, ErrTraceType) {
			t.Errorf("%v: %v", test.value, err)
		}
	}
	// The formula that Linux uses, on the type as in the packet.
	for value := range TraceType(1 << 24) {
		if value&0xfff != 0xabc && value > 0xffff && value < 0xff0000 {
			continue // a sample of the middle
		}
		sum := 0
		for bit := range 24 {
			if value.Has(bit) {
				sum += fieldWidth(bit) / 4
			}
		}
		if got := value.NodeLen(); got != sum {
			t.Fatalf("%v: NodeLen %d, fields %d", value, got, sum)
		}
	}
	if TraceType(0x800001).Has(24) || TraceType(0x800001).Has(-1) || !TraceType(0x800001).Has(0) || !TraceType(0x800001).Has(23) {
		t.Error("Has")
	}
	if TraceTypeSupported != 0xfff002 {
		t.Errorf("supported %v", TraceTypeSupported)
	}
}

func TestAppendExtensionHeader(t *testing.T) {
	ioam := func(n int) Option { return Option{Type: OptionIOAM, Data: make([]byte, n)} }
	for _, test := range []struct {
		name    string
		options []Option
		want    string
	}{
		{"none", nil, "3b000104 00000000"},
		{"one trace", []Option{ioam(14)}, "3b020100 310e0000 00000000 00000000 00000000 01020000"},
		{"odd length before the next", []Option{ioam(2), ioam(3), ioam(2)}, "3b020100 31020000 31030000 00010100 31020000 01020000"},
		{"three before the next", []Option{ioam(5), ioam(2)}, "3b010100 31050000 00000000 31020000"},
		{"router alert", []Option{{Type: OptionRouterAlert, Data: []byte{0, 0}}}, "3b000502 00000100"},
		{"jumbo", []Option{{Type: OptionJumbo, Data: []byte{0, 1, 0, 0}}}, "3b00c204 00010000"},
		{"jumbo after IOAM", []Option{ioam(2), {Type: OptionJumbo, Data: []byte{0, 1, 0, 0}}}, "3b010100 31020000 0100c204 00010000"},
		{"padding is computed", []Option{{Type: OptionPadN, Data: make([]byte, 20)}, {Type: OptionPad1}, ioam(2)}, "3b000100 31020000"},
		{"unaligned options", []Option{{Type: 0x1e, Data: []byte{9}}, {Type: 0x3e, Data: []byte{8}}}, "3b001e01 093e0108"},
		{"unaligned option", []Option{{Type: 0x1e, Data: []byte{9}}}, "3b001e01 09010100"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := AppendExtensionHeader([]byte{0xaa}, NextHeaderNone, test.options...)
			if want := append([]byte{0xaa}, craft.Hex(t, test.want)...); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%x %v, want %x", got, err, want)
			}
		})
	}
	if got, err := AppendExtensionHeader([]byte{1}, 0, ioam(256)); !errors.Is(err, ErrOptionTooLong) || len(got) != 1 {
		t.Errorf("%x %v", got, err)
	}
	if got, err := AppendExtensionHeader([]byte{1}, 0, slices.Repeat([]Option{ioam(254)}, 8)...); !errors.Is(err, ErrHeaderTooLong) ||
		len(got) != 1 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if got, err := AppendExtensionHeader(nil, 0, append(slices.Repeat([]Option{ioam(254)}, 7), ioam(246))...); err != nil || len(got) != 2048 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// An error has its cause, its offset and the section that is violated.
func TestDecodeErrors(t *testing.T) {
	lastError := func(h string) error {
		header, err := DecodeExtensionHeader(craft.Hex(t, h))
		for _, optionErr := range header.Options() {
			err = errors.Join(err, optionErr)
		}
		return err
	}
	option := func(o Option) error { _, err := o.IOAM(); return err }
	trace := func(o Option) error {
		i, err := o.IOAM()
		if err != nil {
			return err
		}
		tr, err := i.Trace()
		if err != nil {
			return err
		}
		_, err = tr.Nodes()
		return err
	}
	data := func(h string) []byte { return craft.Hex(t, h) }
	for _, test := range []struct {
		name    string
		err     error
		cause   error
		offset  int
		section string
	}{
		{"empty", lastError(""), ErrTruncated, 0, "RFC 8200 §4.3"},
		{"one byte", lastError("3b"), ErrTruncated, 1, "RFC 8200 §4.3"},
		{"header cut", lastError("3b010100 00000000"), ErrTruncated, 8, "RFC 8200 §4.3"},
		{"option beyond", lastError("3b000100 05030000"), ErrOptionTruncated, 4, "RFC 8200 §4.2"},
		{"no length octet", lastError("3b000103 00000005"), ErrOptionTruncated, 7, "RFC 8200 §4.2"},
		{"padding", option(Option{Type: OptionPadN, Offset: 2, Data: make([]byte, 4)}), ErrNotIOAM, 2, "RFC 9486 §3"},
		{"not aligned", option(Option{Type: OptionIOAM, Offset: 6, Data: make([]byte, 10)}), ErrAlignment, 6, "RFC 9486 §3"},
		{"length 1", option(Option{Type: OptionIOAM, Offset: 4, Data: make([]byte, 1)}), ErrOptionLength, 5, "RFC 9486 §3"},
		{"not a trace", trace(Option{Type: OptionIOAM, Offset: 4, Data: data("0004007b 00000000")}), ErrNotTrace, 7, "RFC 9197 §4.4"},
		{"trace cut", trace(Option{Type: OptionIOAM, Offset: 4, Data: data("0000007b 08008000 00")}), ErrOptionLength, 5, "RFC 9197 §4.4.1"},
		{"RemainingLen", trace(Option{Type: OptionIOAM, Data: data("0000 007b0802 80000000 00000000")}), ErrRemainingLength, 3, "RFC 9197 §4.4.1"},
		{"NodeLen", trace(Option{Type: OptionIOAM, Data: data("0000 007b1000 80000000 00000000")}), ErrNodeLength, 2, "RFC 9197 §4.4.1"},
		{"node cut", trace(Option{Type: OptionIOAM, Data: data("0000 007b0800 80000000 00000000 0000")}), ErrNodeTruncated, 12, "RFC 9197 §4.4.1"},
		{"snapshot header cut", trace(Option{Type: OptionIOAM, Data: data("0000 007b0800 80000200 00000000")}), ErrNodeTruncated, 8, "RFC 9197 §4.4.1"},
		{"snapshot cut", trace(Option{Type: OptionIOAM, Data: data("0000 007b0800 80000200 00000000 02000309 00000000")}), ErrNodeTruncated, 8, "RFC 9197 §4.4.1"},
	} {
		var fault *DecodeError
		if !errors.As(test.err, &fault) || !errors.Is(test.err, test.cause) || fault.Offset != test.offset || fault.Section != test.section {
			t.Errorf("%s: %v, want %v at %d (%s)", test.name, test.err, test.cause, test.offset, test.section)
		}
	}
}

func TestOptionsAreViews(t *testing.T) {
	buffer := craft.Hex(t, "3b030100 311a0000 007b1002 c0000000 00000000 00000000 3f000002 00c9ffff aabb")
	header, err := DecodeExtensionHeader(buffer)
	if err != nil || header.NextHeader != NextHeaderNone || len(header.Bytes) != 32 {
		t.Fatalf("%+v %v", header, err)
	}
	var got []Option
	for option, err := range header.Options() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, option)
		if cap(option.Data) != len(option.Data) {
			t.Errorf("appending to option %d would overwrite the packet", option.Offset)
		}
	}
	if len(got) != 2 || got[0].Type != OptionPadN || got[0].Offset != 2 || got[1].Type != OptionIOAM || got[1].Offset != 4 {
		t.Fatalf("%+v", got)
	}
	buffer[8] = 0xee
	if got[1].Data[2] != 0xee {
		t.Error("the option is a copy")
	}
	for range header.Options() {
		break // an iteration may stop early
	}
}

// Three nodes, the middle one with a snapshot of two units, in a capture that
// was cut after every possible byte.
func TestNodesInPathOrder(t *testing.T) {
	list := craft.Hex(t, `00000000 3d000003 00ffffff 3e000002 02000309 7261636b 20370000 3f000001 00ffffff`)
	for _, incremental := range []bool{false, true} {
		trace := Trace{Incremental: incremental, NodeLen: 1, RemainingLen: 1, Type: 0x800002, Data: list}
		if incremental {
			trace.Data = list[4:]
		}
		option, err := trace.Option().IOAM()
		if err != nil {
			t.Fatal(err)
		}
		if trace, err = option.Trace(); err != nil || trace.Incremental != incremental {
			t.Fatalf("%+v %v", trace, err)
		}
		ends := []int{8, 24, 32} // of each node's data, from the newest
		start := len(trace.Data) - 32
		for length := start; length <= len(trace.Data); length++ {
			cut := trace
			cut.Data = trace.Data[:length]
			nodes, err := cut.Nodes()
			var want []NodeID
			whole := length == start
			for i, end := range ends {
				if start+end <= length {
					want = append([]NodeID{NodeID(3 - i)}, want...)
				}
				whole = whole || start+end == length
			}
			var got []NodeID
			for _, node := range nodes {
				id, _ := node.NodeID()
				got = append(got, id)
			}
			if !slices.Equal(got, want) || (err == nil) != whole || err != nil && !errors.Is(err, ErrNodeTruncated) {
				t.Fatalf("%d bytes: nodes %v, want %v; %v", length, got, want, err)
			}
		}
		nodes, _ := trace.Nodes()
		if s, ok := nodes[1].Snapshot(); !ok || s.Schema != 777 || string(s.Data) != "rack 7\x00\x00" {
			t.Errorf("%+v %v", s, ok)
		}
		if _, ok := nodes[0].Snapshot(); ok {
			t.Error("a node without schema has a snapshot")
		}
	}
}

func TestNodesOfTypeWithoutData(t *testing.T) {
	nodes, err := Trace{Data: make([]byte, 8)}.Nodes()
	if len(nodes) != 0 || err != nil {
		t.Errorf("%v %v", nodes, err)
	}
}

func TestTraceHeaderFields(t *testing.T) {
	want := Trace{Namespace: 0xfedc, NodeLen: 0x15, Flags: 0xa, RemainingLen: 0x55, Type: 0x123456, Reserved: 0x78, Data: []byte{1, 2, 3}}
	wire := want.Append(nil)
	// 10101 1010 1010101
	if !bytes.Equal(wire, craft.Hex(t, "fedcad55 12345678 010203")) {
		t.Fatalf("%x", wire)
	}
	got, err := DecodeTrace(wire)
	if err != nil || !bytes.Equal(got.Append(nil), wire) || got.Flags != want.Flags || got.NodeLen != want.NodeLen ||
		got.RemainingLen != want.RemainingLen || got.Type != want.Type || got.Reserved != want.Reserved || got.Namespace != want.Namespace {
		t.Errorf("%+v %v", got, err)
	}
}
