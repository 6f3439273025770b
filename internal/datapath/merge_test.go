// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"github.com/waymark-net/waymark/test/craft"
)

// otherOptions is a Hop-by-Hop header of other protocols, into which IOAM may be inserted,
// sometimes with IOAM between theirs.
func (g generator) otherOptions(next byte) []byte {
	options, foreign := g.padding(g.IntN(10)), g.IntN(2) == 0
	for range g.IntN(5) {
		kind := g.IntN(16)
		if foreign && kind < 10 {
			kind += 10
		}
		switch kind {
		case 10:
			options = append(options, 5, 2, 0, 0) // router alert
		case 11:
			options = append(options, 0xc2, 4, 0, 1, 0, 0) // jumbo payload
		case 12, 13:
			options = append(options, g.padding(g.IntN(10))...)
		case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
			options = append(options, g.padding(-(2+len(options))&3)...) // 4n
			if g.IntN(2) == 0 {
				options = append(options, g.trace()...)
			} else {
				options = append(options, g.directExport()...)
			}
		default:
			size := g.IntN(12)
			options = append(options, []byte{0x12, 0x1e, 0x3e, 0x5e, 0xde}[g.IntN(5)], byte(size))
			options = append(options, g.bytes(size)...)
		}
	}
	if g.IntN(30) == 0 { // longer than what can be taken apart
		for len(options) < 500 {
			options = append(append(options, 0x1e, 240), make([]byte, 240)...)
		}
	}
	return craft.Options(next, 0, options)
}

// padding are n octets that nodes skip, in one or in several options.
func (g generator) padding(n int) []byte {
	if n < 2 || g.IntN(4) == 0 {
		return make([]byte, n)
	}
	return append([]byte{1, byte(n - 2)}, make([]byte, n-2)...)
}
