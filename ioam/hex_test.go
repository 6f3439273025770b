// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"encoding/hex"
	"strings"
	"testing"
)

// unhex reads hexadecimal with any white space.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
