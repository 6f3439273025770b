// SPDX-License-Identifier: Apache-2.0

package query

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect"
)

// A warning of an exporter that is silent ends when it comes back, or counts as taken away.
func TestSilentExporters(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		since         time.Duration
		state, warned string
	}{
		{4 * time.Minute, "sends", ""}, {-time.Minute, "sends", ""}, {6 * time.Minute, "silent", "one exporter has sent nothing for more than 5 minutes: athos; look whether the agent runs"}, {23 * time.Hour, "silent", "athos; look"}, {25 * time.Hour, "gone", ""},
	} {
		var h Health
		h.exporters(
			[]collect.Exporter{
				{Address: netip.MustParseAddr("2001:db8::1"), Name: "athos", First: now.Add(-48 * time.Hour), Last: now.Add(-test.since)},
			},
			0,
			now,
		)
		warned := strings.Join(h.Warnings, "\n")
		for i, p := range h.Problems {
			if h.Warnings[i] != p.Text+"; "+p.Cure || !strings.HasPrefix(p.Cure, "look whether the agent runs") {
				t.Errorf("%q and %q of %q", p.Text, p.Cure, h.Warnings[i])
			}
		}
		if len(h.Problems) != len(h.Warnings) || h.Exporters[0].State != test.state || (warned == "") != (test.warned == "") ||
			!strings.Contains(warned, test.warned) {
			t.Errorf("after %v: %s, %q", test.since, h.Exporters[0].State, warned)
		}
	}
}
