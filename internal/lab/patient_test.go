// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/patience"
)

// The blocks of a patient laboratory are longer, by what its agents are configured with, and stay within what they take.
func TestStretchBlocks(t *testing.T) {
	if os.Getenv("WAYMARK_TEST_STRETCH") == "" {
		for _, factor := range []string{"1", "12", "1000"} {
			again := exec.Command(os.Args[0], "-test.run=^TestStretchBlocks$")
			again.Env = append(os.Environ(), "WAYMARK_TEST_STRETCH="+factor, patience.Variable+"="+factor)
			if out, err := again.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", factor, err, out)
			}
		}
		return
	}
	want := map[string]time.Duration{"1": time.Second, "12": 12 * time.Second, "1000": time.Minute}[os.Getenv("WAYMARK_TEST_STRETCH")]
	top, err := Builtin("srv6")
	if err != nil {
		t.Fatal(err)
	}
	top.StretchBlocks()
	agents := 0
	for _, n := range top.Nodes {
		if n.Agent == nil {
			continue
		}
		c, err := config.Parse(n.Name, n.Agent.Config)
		if err != nil {
			t.Fatal(err)
		}
		if agents++; time.Duration(c.Measurement.Block) != want || time.Duration(*c.Measurement.Guard) != want*45/100 {
			t.Errorf("%s: blocks of %v, a guard of %v, want %v", n.Name, time.Duration(c.Measurement.Block), time.Duration(*c.Measurement.Guard),
				want)
		}
	}
	if agents != 5 {
		t.Errorf("%d agents", agents)
	}
}
