// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

// TestSRv6 does one thing after the other to the same agents. The last one ends the egress' agent.
func TestSRv6(t *testing.T) {
	t.Parallel()
	l := raiseSRv6(t, string(e2e.TCModes()[0]))
	t.Run("reordering", func(t *testing.T) { reorder(t, l) })
	t.Run("a node's agent is killed", func(t *testing.T) { restartOnTheWay(t, l, true) })
	t.Run("a node's agent is removed", func(t *testing.T) { restartOnTheWay(t, l, false) })
	t.Run("results are followed through a restart", func(t *testing.T) { followThroughRestart(t, l) })
	t.Run("in-band questions", func(t *testing.T) { askInBand(t, l) })
	t.Run("forged answers", func(t *testing.T) { forgeAnswers(t, l) })
}
