// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Clock is the state of the kernel's clock.
type Clock struct {
	Synchronised bool
	TAIOffset    time.Duration // TAI − UTC; 0 until a time service sets it
	MaxError     time.Duration
}

// ReadClock reads the kernel's clock state (adjtimex, which needs no privilege to
// read).
func ReadClock() (Clock, error) {
	var tx unix.Timex
	if _, err := unix.Adjtimex(&tx); err != nil {
		return Clock{}, fmt.Errorf("read the clock's state: adjtimex: %w", err)
	}
	return Clock{
		Synchronised: tx.Status&unix.STA_UNSYNC == 0,
		TAIOffset:    time.Duration(tx.Tai) * time.Second,
		MaxError:     time.Duration(tx.Maxerror) * time.Microsecond,
	}, nil
}
