// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/loss"
)

// A flow takes from its node each setting that it does not have itself.
func TestThresholds(t *testing.T) {
	const flow = `flows: [{name: red, direction: out, source: 2001:db8::1, segments: ["fc00:2::e"], points: ["2001:db8::7"]%s}]`
	text := func(l loss.Thresholds) string {
		out := fmt.Sprint(l.NoDataAfter)
		if l.MaxLoss != nil {
			out += " " + formatLossShare(LossShare(*l.MaxLoss))
		}
		if l.MaxDelay != nil {
			out += " " + l.MaxDelay.String()
		}
		return out
	}
	for _, tt := range []struct{ node, flow, want string }{
		{"", "", "3"},
		{"", ", max-loss: 12.5%, no-data-after: 0", "0 12.5%"},
		{"measurement: {max-loss: 0.0001%}\n", "", "3 0.0001%"},
		{"measurement: {max-loss: 0.1%, max-delay: 1ms, mean-delay: true, no-data-after: 0}\n", "", "0 0.1% 1ms"},
		{"measurement: {max-loss: 0.1%, max-delay: 1ms, mean-delay: true, no-data-after: 7}\n", ", max-loss: 100%, max-delay: 99ms, no-data-after: 2", "2 100% 99ms"},
		{"measurement: {carrier: option, max-delay: 1ms}\n", "", "3 1ms"},
	} {
		c := mustParse(t, served+tt.node+fmt.Sprintf(flow, tt.flow))
		if got := text(c.Anywhere().Measurement.Flows[0].Thresholds); got != tt.want {
			t.Errorf("%s%s: %s, want %s", tt.node, tt.flow, got, tt.want)
		}
	}
	_, err := Parse("F", []byte(served+fmt.Sprintf(flow, ", max-delay: 1ms")))
	if err == nil || !strings.Contains(err.Error(), "flows[0].max-delay: no delay is measured; set mean-delay: true") {
		t.Error(err)
	}
}
