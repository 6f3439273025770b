// SPDX-License-Identifier: Apache-2.0

package console

import (
	"os"
	"os/exec"
	"testing"
)

// The pure parts of the console have unit tests, which need Node 20 and 77 MB of packages: only who works on the
// console has these. For others the tests have run: make console-assets runs them before it writes the assets.
func TestUnits(t *testing.T) {
	t.Parallel()
	const sources = "../../console"
	if _, err := os.Stat(sources + "/node_modules/vitest/vitest.mjs"); err != nil {
		t.Skip("the packages of npm are not there; make console-assets gets them, and runs these tests")
	}
	run := exec.Command("node", "node_modules/vitest/vitest.mjs", "run", "--reporter=dot")
	run.Dir, run.Env = sources, append(os.Environ(), "NO_COLOR=1", "CI=1")
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
