// SPDX-License-Identifier: Apache-2.0

package kernelclock

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/testnet"
)

// Outside of a time namespace, the clock is the process's own; in one, it is not, and is that of the
// programs.
func TestClock(t *testing.T) {
	testnet.NeedRoot(t)
	const (
		child   = "WAYMARK_TEST_TIME_NAMESPACE"
		inexact = int64(100 * time.Millisecond) // in a time namespace, as a run of the program is long
	)
	ahead, slack := int64(0), int64(0)
	if text := os.Getenv(child); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ahead, slack = -seconds*int64(time.Second), inexact
	}
	for i := range 1000 {
		before, err := own()
		got, fault := Monotonic()
		after, failure := own()
		if err := errors.Join(err, fault, failure); err != nil {
			t.Fatal(err)
		}
		if int64(got) < before+ahead-slack || int64(got) > after+ahead+slack {
			t.Fatalf("%d, want %d to %d", got, before+ahead, after+ahead)
		}
		if i%100 == 0 {
			programs.read.Store(0) // the offset is read again
		}
	}
	if ahead != 0 {
		return
	}
	for _, seconds := range []string{"86400", "-600"} {
		cmd := exec.Command("unshare", "--time", "--monotonic", seconds, "--fork", os.Args[0], "-test.run", "^TestClock$", "-test.v")
		cmd.Env = append(os.Environ(), child+"="+seconds)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestClock ") {
			t.Errorf("in a time namespace of %s s: %v\n%s", seconds, err, out)
		}
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
