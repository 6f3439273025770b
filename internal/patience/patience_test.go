// SPDX-License-Identifier: Apache-2.0

package patience

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 1, "1": 1, "12": 12, "1000": 1000, "0": 1, "-3": 1, "1001": 1, "2.5": 1, "much": 1,
	} {
		if got := parse(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

// The variable is what a process begins with.
func TestOf(t *testing.T) {
	if os.Getenv("WAYMARK_TEST_PATIENCE") != "" {
		if got := Of(3 * time.Second); got != 21*time.Second {
			t.Errorf("3 s are %v, want 21 s", got)
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestOf$")
	cmd.Env = append(os.Environ(), Variable+"=7", "WAYMARK_TEST_PATIENCE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
