// SPDX-License-Identifier: Apache-2.0

package kernelclock

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/test/testnet"
)

// days is the offset of the time namespace in the test.
const days = 86_400

// Outside of a time namespace, the clocks are the process's own; in one, they are not, and are those
// of the programs.
func TestClocks(t *testing.T) {
	testnet.NeedRoot(t)
	const child = "WAYMARK_TEST_TIME_NAMESPACE"
	own := func(id int32) int64 {
		at, err := own(id)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	ahead := map[int32]int64{unix.CLOCK_MONOTONIC: 0, unix.CLOCK_BOOTTIME: 0} // of the programs' clocks
	if os.Getenv(child) != "" {
		ahead[unix.CLOCK_MONOTONIC], ahead[unix.CLOCK_BOOTTIME] = -days*1e9, 600*1e9
	}
	for id, read := range map[int32]func() (uint64, error){unix.CLOCK_MONOTONIC: Monotonic, unix.CLOCK_BOOTTIME: Boot} {
		for range 1000 {
			before := own(id)
			got, err := read()
			after := own(id)
			if err != nil {
				t.Fatal(err)
			}
			// In a time namespace, the offset is known as exactly as a run of the program is short.
			const inexact = 100_000_000
			low, high := before+ahead[id], after+ahead[id]
			if ahead[id] != 0 {
				low, high = low-inexact, high+inexact
			}
			if int64(got) < low || int64(got) > high {
				t.Fatalf("clock %d is %d, want %d to %d", id, got, low, high)
			}
		}
		clocks.read.Store(0) // and when the offset is read again
		if got, err := read(); err != nil || int64(got) < own(id)+ahead[id]-200_000_000 {
			t.Errorf("clock %d, read again: %d, %v", id, got, err)
		}
	}
	if os.Getenv(child) != "" {
		return
	}
	cmd := exec.Command("unshare", "--time", "--monotonic", fmt.Sprint(days), "--boottime", "-600", "--fork", os.Args[0], "-test.run", "^TestClocks$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestClocks") {
		t.Errorf("in a time namespace: %v\n%s", err, out)
	}
}

// An offset stays while it may be right, because a run only says between what it is.
func TestOffset(t *testing.T) {
	w := within{}
	w.narrow(-900, 100)
	w.narrow(-50, 70)
	w.narrow(-500, 500)
	for before, want := range map[int64]int64{0: 0, 70: 70, -50: -50, 71: 10, -86_400_000_000_000: 10} {
		if got := w.nearest(before); got != want {
			t.Errorf("offset %d after %d, want %d", got, before, want)
		}
	}
}
