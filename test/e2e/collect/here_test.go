// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"os/exec"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

// collectHere runs it in the network namespace of the tests.
func collectHere(t *testing.T, args ...string) *e2e.Collecting {
	t.Helper()
	cmd := exec.Command(e2e.Program, append([]string{"collect", "--json"}, args...)...)
	return e2e.StartCollect(t, cmd, cmd.Start)
}
