// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
)

// folded is the sum of 16-bit words (RFC 1071).
func folded(b []byte, begin int) uint16 {
	sum := begin
	for i, c := range b {
		sum += int(c) << (8 * (1 - i&1))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

// seal puts the upper layer's checksum in its place, at an offset behind the
// header.
func seal(p []byte, at int) []byte {
	binary.BigEndian.PutUint16(p[40+at:], ^folded(p[8:], len(p)-40+int(p[6])))
	return p
}
