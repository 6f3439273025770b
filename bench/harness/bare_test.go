// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"strings"
	"testing"
)

// A header that the program cannot write in words, or has no room for, is refused.
func TestBareHeader(t *testing.T) {
	for length, ok := range map[int]bool{0: true, 24: true, 320: true, 20: false, 328: false} {
		if _, err := (Bare{Added: make([]byte, length)}).variables(); (err == nil) != ok ||
			err != nil && !strings.Contains(err.Error(), "a multiple of 8, and at most 320") {
			t.Errorf("%d bytes: %v", length, err)
		}
	}
}
