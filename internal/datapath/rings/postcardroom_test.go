// SPDX-License-Identifier: Apache-2.0

package rings

import (
	"testing"
)

func TestPostcardRoom(t *testing.T) {
	for cpus, want := range map[int]uint32{1: 32768, 2: 32768, 42: 32768, 64: 16384, 128: 8192, 256: 4096, 1024: 2048, 8192: 2048} {
		if got := postcardRoomOn(cpus); got != want {
			t.Errorf("with %d CPUs: %d postcards each, want %d", cpus, got, want)
		}
	}
}
