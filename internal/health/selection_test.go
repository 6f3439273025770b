// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"
)

// The warning names the nodes and the differences, and what to compare.
func TestSelectionDiffers(t *testing.T) {
	w := SelectionDiffers(
		"red",
		[]string{"middle (fd00::2): blocks of 2s instead of 1s", "egress (fd00::3): it does not say which packets it selects"},
		AtIngress,
	)
	if w.Code != SelectionsDiffer || w.Severity != Degraded ||
		!strings.HasSuffix(w.Text, "middle (fd00::2): blocks of 2s instead of 1s; egress (fd00::3): it does not say which packets it selects") {
		t.Errorf("%+v", w)
	}
	for _, part := range []string{"waymark flow show", "selection: assumed", "update its agent"} {
		if !strings.Contains(w.Cure, part) {
			t.Errorf("no %q: %s", part, w.Cure)
		}
	}
	if w := SelectionDiffers("red", nil, AtCollector); !strings.Contains(w.Cure, "--assume-selection") {
		t.Error(w.Cure)
	}
}

func TestSelectionAssumption(t *testing.T) {
	for flows, want := range map[string]string{"red": "of the flow red:", "red blue": "of 2 flows, such as red,:"} {
		if w := SelectionAssumption(strings.Fields(flows)); w.Code != SelectionAssumed || w.Severity != Hint || !strings.Contains(w.Text, want) {
			t.Errorf("%s: %+v", flows, w)
		}
	}
}
