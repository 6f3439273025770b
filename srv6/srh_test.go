// SPDX-License-Identifier: Apache-2.0

package srv6

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func sids(n int) (list []netip.Addr) {
	for i := range n {
		list = append(list, netip.MustParseAddr(fmt.Sprintf("2001:db8:5:%x::", i+1)))
	}
	return list
}

// TestSRH writes headers and reads them again; the octets are those of RFC 8754 §2.
func TestSRH(t *testing.T) {
	b, err := SRH{NextHeader: 41, SegmentsLeft: 2, Flags: 8, Tag: 0x1234, Segments: sids(2), TLVs: []byte{4, 6, 1, 2, 3, 4, 5, 6}}.Append(nil)
	want := "29 05 04 02 01 08 12 34 20 01 0d b8 00 05 00 01 00 00 00 00 00 00 00 00 20 01 0d b8 00 05 00 02 00 00 00 00 00 00 00 00 04 06 " +
		"01 02 03 04 05 06"
	if got := fmt.Sprintf("% x", b); err != nil || got != want {
		t.Fatalf("%s, %v; want %s", got, err, want)
	}
	for _, h := range []SRH{
		{NextHeader: 41, Segments: sids(1), TLVs: []byte{}},
		{NextHeader: 4, SegmentsLeft: 3, Segments: sids(3), TLVs: []byte{}},
		{NextHeader: 58, SegmentsLeft: 126, Segments: sids(127), TLVs: []byte{}},
		{NextHeader: 43, Segments: sids(16), TLVs: []byte{0, 0, 0, 0, 0, 4, 1, 0}},
	} {
		b, err := h.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		got, length, err := Decode(append(b, 1, 2, 3))
		if err != nil || length != len(b) || !reflect.DeepEqual(got, h) {
			t.Errorf("%+v, %d octets, %v; want %+v", got, length, err, h)
		}
	}
}

func TestSRHErrors(t *testing.T) {
	sound, err := SRH{NextHeader: 41, SegmentsLeft: 1, Segments: sids(2), TLVs: []byte{4, 6, 0, 0, 0, 0, 0, 0}}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(b []byte) []byte
		want   error
	}{
		{"sound", func(b []byte) []byte { return b }, nil},
		{"seven octets", func(b []byte) []byte { return b[:7] }, ErrTruncated},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, ErrTruncated},
		{"type 3", func(b []byte) []byte { b[2] = 3; return b }, ErrRoutingType},
		{"Last Entry", func(b []byte) []byte { b[4] = 2; return b }, ErrLastEntry},
		{"no length", func(b []byte) []byte { b[1] = 0; return b }, ErrLastEntry},
		{"one more Segments Left", func(b []byte) []byte { b[3] = 2; return b }, nil},
		{"Segments Left", func(b []byte) []byte { b[3] = 3; return b }, ErrSegmentsLeft},
		{"TLV", func(b []byte) []byte { b[len(b)-7] = 7; return b }, ErrTLV},
		{"TLV without length", func(b []byte) []byte { copy(b[len(b)-8:], []byte{0, 0, 0, 0, 0, 0, 0, 4}); return b }, ErrTLV},
	} {
		if _, _, err := Decode(tt.change(bytes.Clone(sound))); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	for _, h := range []SRH{
		{}, {Segments: sids(128)}, {Segments: []netip.Addr{{}}}, {Segments: sids(1), SegmentsLeft: 2},
		{Segments: sids(1), TLVs: []byte{0}}, {Segments: sids(1), TLVs: []byte{4, 7, 0, 0, 0, 0, 0, 0}},
		{Segments: sids(127), TLVs: make([]byte, 16)},
	} {
		if _, err := h.Append(nil); err == nil {
			t.Errorf("%+v is accepted", h)
		}
	}
}

// FuzzSRH checks that what can be read is written again as it was.
func FuzzSRH(f *testing.F) {
	for _, n := range []int{1, 2, 16} {
		b, err := SRH{NextHeader: 41, SegmentsLeft: 1, Segments: sids(n), TLVs: make([]byte, 8)}.Append(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, length, err := Decode(b)
		if err != nil {
			return
		}
		if again, err := h.Append(nil); err != nil || !bytes.Equal(again, b[:length]) {
			t.Errorf("%x became %x, %v", b[:length], again, err)
		}
	})
}

// TestForms follows packets of each mode from node to node: what they show is always a
// form of their path.
func TestForms(t *testing.T) {
	compressed := Compression{Block: 32, SID: 16}
	containers := []netip.Addr{
		netip.MustParseAddr("fcbb:bb00:1:2:3::"),
		netip.MustParseAddr("fcbb:bb00:4:5:6:7:8:9"),
		netip.MustParseAddr("fcbb:bb00:a:d6::"),
	}
	for _, p := range []Path{
		{Segments: sids(1)}, {Segments: sids(3)}, {Segments: sids(16)}, {Segments: sids(3), Popped: true},
		{Segments: sids(1), Mode: ModeReduced}, {Segments: sids(2), Mode: ModeReduced, Popped: true}, {Segments: sids(5), Mode: ModeReduced},
		{Segments: sids(2), Mode: ModeInline, Destination: netip.MustParseAddr("2001:db8::1")},
		{Segments: containers, Compression: compressed}, {Segments: containers[:1], Mode: ModeReduced, Compression: compressed},
		{Segments: containers, Mode: ModeReduced, Compression: compressed, Popped: true},
	} {
		forms := p.Forms()
		for _, shown := range travel(p) {
			if !slices.ContainsFunc(forms, func(f []netip.Addr) bool { return slices.Equal(f, shown) }) {
				t.Errorf("%+v: packets show %v, which is none of %v", p, shown, forms)
			}
		}
		if len(forms) > len(travel(p)) {
			t.Errorf("%+v: %d forms, packets show %d", p, len(forms), len(travel(p)))
		}
	}
	if got := (Path{Segments: sids(2), Mode: ModeInline}).Forms(); len(got) != 1 ||
		!slices.Equal(got[0], []netip.Addr{sids(2)[1], sids(2)[0]}) {
		t.Errorf("inline to anywhere: %v", got)
	}
}

// travel is what packets of a path show at each of its nodes: the entries of the SRH,
// and the destination when it is a segment that the SRH does not have.
func travel(p Path) (shown [][]netip.Addr) {
	list := slices.Clone(p.Segments)
	if p.Destination.IsValid() {
		list = append(list, p.Destination)
	}
	entries := slices.Clone(list)
	slices.Reverse(entries)
	left, active := len(list)-1, list[0]
	if p.Mode == ModeReduced {
		entries = entries[:len(entries)-1]
	}
	for {
		show := slices.Clone(entries)
		if len(entries) == 0 || left > len(entries)-1 {
			show = append(show, active)
		}
		if !slices.ContainsFunc(shown, func(s []netip.Addr) bool { return slices.Equal(s, show) }) {
			shown = append(shown, show)
		}
		octets := active.As16()
		if next := append(slices.Clone(octets[:4]), append(slices.Clone(octets[6:]), 0, 0)...); p.Compression != (Compression{}) &&
			next[4]|next[5] != 0 {
			active = netip.AddrFrom16([16]byte(next))
			continue
		}
		if left == 0 {
			return shown
		}
		left--
		active = entries[left]
		if left == 0 && p.Popped {
			entries = nil
		}
	}
}

func TestModes(t *testing.T) {
	for _, m := range []Mode{ModeEncap, ModeReduced, ModeInline} {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("l2encap"); err == nil {
		t.Error("l2encap is accepted")
	}
	for c, sound := range map[Compression]bool{{}: true, {32, 16}: true, {48, 16}: true, {32, 0}: false, {0, 16}: false, {33, 16}: false,
		{120, 16}: false} {
		if err := c.Validate(); (err == nil) != sound {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
