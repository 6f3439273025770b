// SPDX-License-Identifier: Apache-2.0

package executed

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Clock is an instant by all clocks that programs read. It stands still during a run.
type Clock struct {
	tai, coarse uint64 // ns
	ticks       uint64
}

// Now reads the clocks.
func Now() (c Clock, err error) {
	for clock, to := range map[int32]*uint64{unix.CLOCK_TAI: &c.tai, unix.CLOCK_MONOTONIC_COARSE: &c.coarse} {
		var now unix.Timespec
		if err := unix.ClockGettime(clock, &now); err != nil {
			return c, fmt.Errorf("read the clock: %w", err)
		}
		*to = uint64(now.Nano())
	}
	c.ticks, err = jiffies()
	return c, err
}

// kernelImage is where the kernel's own data begin
// (Documentation/arch/x86/x86_64/mm.rst). The verifier puts only the address of the
// clock of ticks into programs.
const kernelImage = 0xffffffff80000000

// jiffies is the kernel's clock of ticks.
func jiffies() (uint64, error) {
	const file, before = "/proc/timer_list", "\njiffies: "
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(content), before)
	line, _, _ := strings.Cut(rest, "\n")
	ticks, err := strconv.ParseUint(line, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s has no %q: %w", file, before, err)
	}
	return ticks, nil
}
