// SPDX-License-Identifier: Apache-2.0

package craft

import "math/rand/v2"

// RandomOptions is a Hop-by-Hop or Destination Options header of one to five options that
// every node skips (RFC 8200 §4.2), with any alignment, and padding that Linux accepts; or
// nil, in a quarter of the cases.
func RandomOptions(r *rand.Rand, next byte) []byte {
	if r.IntN(4) == 0 {
		return nil
	}
	h := appendPadding(r, []byte{next, 0}, r.IntN(8))
	for i := range 1 + r.IntN(4) {
		length := r.IntN(13)
		h = append(h, []byte{0x12, 0x1e, 0x3e}[r.IntN(3)], byte(length))
		for range length {
			h = append(h, byte(r.Uint32()))
		}
		if i%2 == 0 {
			h = appendPadding(r, h, r.IntN(5))
		}
	}
	h = appendPadding(r, h, -len(h)&3)
	if len(h)%8 != 0 {
		h = append(h, 0x1e, 2, 0, 0)
	}
	h[1] = byte(len(h)/8 - 1)
	return h
}

// appendPadding appends n octets of padding, in one option or in several.
func appendPadding(r *rand.Rand, h []byte, n int) []byte {
	if r.IntN(3) == 0 {
		return append(h, make([]byte, n)...)
	}
	return append(h, padding(n)...)
}
