// SPDX-License-Identifier: Apache-2.0

package pathmtu

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/waymark-net/waymark/test/craft"
)

var (
	source      = netip.MustParseAddr("2001:db8:ff::1")
	destination = netip.MustParseAddr("2001:db8:ff::3")
)

// tooBig is a message about a packet of 1600 bytes: an outer IPv6 header, a
// Hop-by-Hop header of 16 bytes, IPv6.
func tooBig(mtu uint32) []byte {
	outer := craft.IPv6{Next: craft.HopByHop, HopLimit: 63, Source: source, Destination: destination}
	inner := craft.IPv6{Next: craft.UDP, HopLimit: 63}
	trace := []byte{0x31, 10, 0, 0, 0, 123, 0, 0, 0, 0, 0, 0}
	return slices.Concat(binary.BigEndian.AppendUint32(craft.Message(2, 0), mtu),
		outer.Header(1600-craft.HeaderLen), craft.Options(craft.IPv6InIPv6, 2, trace), inner.Header(1460)[:8])
}

// numbered puts a Destination Options header of 16 bytes, as an Edge-to-Edge option needs it, after the message's
// Hop-by-Hop header, or into its place.
func numbered(message []byte, next uint8, hopByHop bool) []byte {
	e2e := craft.Options(next, 2, []byte{0x11, 10, 0, 0, 1, 44, 0x70, 0, 0, 0, 0, 1})
	if message = slices.Insert(message, 64, e2e...); hopByHop {
		message[48] = 60
		return message
	}
	message[14] = 60
	return slices.Delete(message, 48, 64)
}

func TestParseTooBig(t *testing.T) {
	set := func(at int, b byte) func([]byte) []byte {
		return func(m []byte) []byte { m[at] = b; return m }
	}
	right := TooBig{MTU: 1500, Source: source, Destination: destination, Length: 1600}
	for _, test := range []struct {
		name   string
		change func([]byte) []byte
		err    error
		want   TooBig
	}{
		{"right", set(1, 0), nil, right},
		{"a code", set(1, 7), nil, right}, // ignored by the receiver (RFC 4443 §3.2)
		{"quoted up to the Hop-by-Hop header's first byte", func(m []byte) []byte { return m[:49] }, nil, right},
		{"quoted up to the IPv6 header", func(m []byte) []byte { return m[:48] }, nil, right},
		{"Hop-by-Hop header taken off", set(14, 41), nil, right},
		{"Destination Options after the Hop-by-Hop header", func(m []byte) []byte { return numbered(m, craft.IPv6InIPv6, true) }, nil, right},
		{"Destination Options alone", func(m []byte) []byte { return numbered(m, craft.IPv6InIPv6, false) }, nil, right},
		{"quoted up to Destination Options", func(m []byte) []byte { return numbered(m, craft.IPv6InIPv6, true)[:64] }, nil, right},
		{"Destination Options of UDP", func(m []byte) []byte { return numbered(m, craft.UDP, true) }, ErrNotTunnels, TooBig{}},
		{"no length", func(m []byte) []byte { m[12], m[13] = 0, 0; return m }, nil,
			TooBig{MTU: 1500, Source: source, Destination: destination}},
		{"another type", set(0, 1), ErrMalformed, TooBig{}},
		{"quoted in part", func(m []byte) []byte { return m[:47] }, ErrMalformed, TooBig{}},
		{"nothing", func([]byte) []byte { return nil }, ErrMalformed, TooBig{}},
		{"IPv4 quoted", set(8, 0x45), ErrMalformed, TooBig{}},
		{"UDP quoted", set(14, 17), ErrNotTunnels, TooBig{}},
		{"inline IOAM quoted", set(48, 17), ErrNotTunnels, TooBig{}},
	} {
		got, err := ParseTooBig(test.change(tooBig(1500)))
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", test.name, got, err, test.want, test.err)
		}
	}
}

// FuzzParseTooBig never panics, and accepts only packets whose headers are those
// of a tunnel.
func FuzzParseTooBig(f *testing.F) {
	for _, n := range []int{0, 7, 8, 47, 48, 49, 72} {
		f.Add(tooBig(1500)[:n])
	}
	f.Add(numbered(tooBig(1500), craft.IPv6InIPv6, true))
	f.Add(numbered(tooBig(1500), craft.UDP, false))
	f.Fuzz(func(t *testing.T, message []byte) {
		big, err := ParseTooBig(message)
		if err != nil {
			if big != (TooBig{}) || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNotTunnels) {
				t.Errorf("%+v, %v", big, err)
			}
			return
		}
		if message[0] != 2 || !big.Source.IsValid() || !big.Destination.IsValid() || big.Length < 0 || big.Length > maxMTU {
			t.Errorf("%x: %+v", message, big)
		}
		if next := message[14]; next != 41 && next != 60 && (next != 0 || len(message) > 48 && message[48] != 41 && message[48] != 60) {
			t.Errorf("%x is about no tunnel: %+v", message, big)
		}
	})
}
