// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"
)

// The text of a lost packet names nodes that report nothing, where there are any.
func TestLostBehindSilentNodes(t *testing.T) {
	for silent, want := range map[int]string{
		0: "incomplete: lost after porthos; no decapsulating node",
		2: "incomplete: lost after porthos, perhaps in or after nodes that report nothing (hops without a report: 2); no decapsulating node",
	} {
		p := Path{Verdict: PathLost, Reason: PathNotSeenFurther, Nodes: []PathNode{{Node: "porthos"}}, Silent: silent}
		if text := p.Text(); !strings.Contains(text, want) {
			t.Errorf("%d: %q lacks %q", silent, text, want)
		}
	}
}
