// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"
	"time"
)

// The cure is for the likeliest reason.
func TestFlowNotMeasured(t *testing.T) {
	block := FlowBlock{Flow: "red", Start: time.Unix(1_795_000_000, 0)}
	for _, tt := range []struct {
		reasons []string
		cure    string
	}{
		{[]string{"missing"}, "stamp.allow"},
		{[]string{"other_path", "missing"}, "stamp.allow"},
		{[]string{"colour_missing"}, "measurement.mask"},
		{[]string{"guard_violated", "other_path"}, "measurement.guard"},
		{[]string{"clock_worse"}, "clock-error"},
		{[]string{"other_selection", "restarted"}, "waymark flow show"},
		{[]string{"restarted"}, "without a restart"},
		{[]string{"contradicting"}, "two nodes"},
		{[]string{"colour_out_of_turn"}, "compare the clocks"},
		{[]string{"of a later version"}, "waymark loss --flow red"},
		{nil, "the log"},
	} {
		ends := []string{"node 1 (::1): " + strings.Join(tt.reasons, ", ")}
		if tt.reasons == nil {
			ends = nil
		}
		w := FlowNotMeasured(block, 3, ends, tt.reasons, "")
		if !strings.Contains(w.Cure, tt.cure) || !strings.Contains(w.Text, strings.Join(tt.reasons, ", ")) || !strings.Contains(w.Text, "for 3 blocks; in the block from 2026-11-18T") {
			t.Errorf("%v: %+v", tt.reasons, w)
		}
	}
	if w := FlowNotMeasured(block, 3, nil, nil, "port 1206 is taken; choose another port"); !strings.HasSuffix(w.Text, "other nodes cannot be asked: port 1206 is taken") || w.Cure != "choose another port" {
		t.Errorf("%+v", w)
	}
}
