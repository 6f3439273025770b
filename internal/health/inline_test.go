// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"testing"
)

// Only who forwards can insert into what others have sent.
func TestInlineOnRouter(t *testing.T) {
	for _, tt := range []struct{ forwards, inline, own, warned bool }{
		{true, true, false, true},
		{true, true, true, false},
		{true, false, false, false},
		{false, true, false, false},
	} {
		n := healthyNode()
		n.Forwards, n.Encapsulations[0].Inline, n.Encapsulations[0].Own = tt.forwards, tt.inline, tt.own
		var want []Warning
		if tt.warned {
			want = []Warning{InlineOnRouter("core", "eth1")}
		}
		if got := CheckNode(n); !slices.Equal(got, want) {
			t.Errorf("%+v: %+v, want %+v", tt, got, want)
		}
	}
}
