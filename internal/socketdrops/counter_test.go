// SPDX-License-Identifier: Apache-2.0

package socketdrops

import (
	"errors"
	"testing"
)

func TestCounter(t *testing.T) {
	var c Counter
	var total uint32
	var broken error
	socket := func() (uint32, error) { return total, broken }
	want := func(when string, n uint64) {
		t.Helper()
		if got := c.Lost(); got != n {
			t.Errorf("%s: %d, want %d", when, got, n)
		}
	}
	want("no socket", 0)
	c.Begin(socket)
	want("a new socket", 0)
	total = 1<<32 - 1
	want("almost all", 1<<32-1)
	total = 4
	want("it has wrapped", 1<<32+4)
	total = 6
	c.End()
	want("its end counts, too", 1<<32+6)
	total = 9
	want("it is closed", 1<<32+6)
	total = 3
	c.Begin(socket)
	want("another one", 1<<32+9)
	total, broken = 5, errors.New("closed")
	want("it cannot be asked", 1<<32+9)
}
