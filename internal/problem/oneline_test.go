// SPDX-License-Identifier: Apache-2.0

package problem

import (
	"strings"
	"testing"
)

// A text of several lines keeps them, with the column at which the last one points, and no line of it can
// move a terminal's cursor or look like a message of its own.
func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"column 5: unexpected\n  a  = b\n  ...^\n": "column 5: unexpected\n  a  = b\n  ...^",
		"wrong\n\ta":                         "wrong\n  a",
		"wrong\nwaymark: all is well":        "wrong\n  waymark: all is well",
		"wrong\r\n  a\x1b[2J\n  b\u202e":     "wrong\n  \"  a\\x1b[2J\"\n  \"  b\\u202e\"",
		"a\rb":                               `"a\rb"`,
		"":                                   "",
		"a" + strings.Repeat("\nb", 1000000): "a" + strings.Repeat("\n  b", mostLines-1),
	} {
		if got := Lines(text); got != want {
			t.Errorf("%.80q: %.80q, want %.80q", text, got, want)
		}
	}
	if got := OneLine("a\n b\x1b"); got != `"a b\x1b"` {
		t.Error(got)
	}
}
