// SPDX-License-Identifier: Apache-2.0

package craft

import (
	"bytes"
	"testing"
)

// The built packets equal bytes that were written down by hand.
func TestBuild(t *testing.T) {
	const addresses = "20010db8000100000000000000000002 20010db8000200000000000000000002"
	trace := Hex(t, "3106 0000 007b0800 ffffffff")[:8]
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"header", IPv6{Class: 0xb8, Label: 0x12345, Next: 59, HopLimit: 7, Source: Between("2001:db8:1::2", "::", 0).Source,
			Destination: Between("::", "2001:db8:2::2", 0).Destination}.With(), "6b812345 0000 3b07" + addresses},
		{"parts", Between("2001:db8:1::2", "2001:db8:2::2", UDP).With([]byte{1}, []byte{2, 3}), "60000000 0003 1140" + addresses + "010203"},
		{"no options", Options(NoNext, 0), "3b00 010400000000"},
		{"one byte of padding", Options(UDP, 1, make([]byte, 5)), "1100 00 0000000000"},
		{"padding before and after", Options(UDP, 2, trace), "1101 0100 31060000007b0800 01020000"},
		{"datagram", Datagram(4242, 9, 'a'), "1092 0009 0009 0000 61"},
		{"segment", Segment(4242, 9, 0x12, 7), "1092 0009 00000000 00000000 5012 0000 0000 0000 07"},
		{"message", Message(128, 0, 0, 1), "8000 0000 0001"},
		{"frame", Ethernet([]byte{2, 0, 0, 0, 0, 1}, nil, []byte{0x60}), "020000000001 000000000000 86dd 60"},
		{"two tags", Ethernet(nil, []byte{2, 0, 0, 0, 0, 1}, []byte{0x60}, Tag{0x88a8, 7}, Tag{0x8100, 100}),
			"000000000000 020000000001 88a80007 81000064 86dd 60"},
	} {
		if want := Hex(t, tt.want); !bytes.Equal(tt.got, want) {
			t.Errorf("%s: %x, want %x", tt.name, tt.got, want)
		}
	}
}

// The checksums are added up by hand.
func TestSeal(t *testing.T) {
	for _, tt := range []struct{ name, packet, sum string }{
		{"echo", "60000000 0008 3a40 00000000000000000000000000000001 00000000000000000000000000000001 8000 0000 00010001", "7fb9"},
		{"datagram", "60000000 0009 1140 00000000000000000000000000000001 00000000000000000000000000000001 1092 0009 0009 0000 61", "8e3f"},
	} {
		p := Seal(Hex(t, tt.packet))
		at := 42
		if p[6] == UDP {
			at = 46
		}
		if got := p[at : at+2]; !bytes.Equal(got, Hex(t, tt.sum)) {
			t.Errorf("%s: checksum %x, want %s", tt.name, got, tt.sum)
		}
		again := bytes.Clone(p)
		if !bytes.Equal(Seal(again), p) {
			t.Errorf("%s: sealing it twice changes it", tt.name)
		}
		after := Seal(
			IPv6{
				Next:        HopByHop,
				Source:      Between("::1", "::1", 0).Source,
				Destination: Between("::1", "::1", 0).Source,
			}.With(
				Options(p[6], 0),
				p[40:],
			),
		)
		if got := after[at+8 : at+10]; !bytes.Equal(got, Hex(t, tt.sum)) {
			t.Errorf("%s after options: checksum %x, want %s", tt.name, got, tt.sum)
		}
	}
}
