// SPDX-License-Identifier: Apache-2.0

package query

import (
	"crypto/rand"
	"encoding/binary"
)

// unforeseen is a random number, which an attacker cannot guess.
func unforeseen() uint32 {
	var b [4]byte
	rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint32(b[:])
}
