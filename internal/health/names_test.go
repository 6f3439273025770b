// SPDX-License-Identifier: Apache-2.0

package health

import (
	"strings"
	"testing"
	"time"
)

func TestUnansweredNames(t *testing.T) {
	n := NamesFrom{Collector: "http://[::1]:4780", Silent: 10 * time.Minute, Long: 10 * time.Minute, Why: "connection refused"}
	ws := UnansweredNames(n)
	if len(ws) != 1 || ws[0].Code != NamesUnanswered || ws[0].Severity != Info ||
		!strings.Contains(ws[0].Text, "http://[::1]:4780 has not told names for 10m0s: connection refused; nodes without a name in the file") ||
		!strings.Contains(ws[0].Cure, "names-from") {
		t.Errorf("%+v", ws)
	}
	if n.Known = 7; !strings.Contains(UnansweredNames(n)[0].Text, "still used, names for 7 ids") {
		t.Errorf("%+v", UnansweredNames(n))
	}
	for _, fine := range []NamesFrom{{Silent: time.Minute, Long: 10 * time.Minute, Why: "x"}, {Silent: time.Hour, Long: time.Minute}} {
		if ws := UnansweredNames(fine); len(ws) != 0 {
			t.Errorf("%+v: %+v", fine, ws)
		}
	}
}
