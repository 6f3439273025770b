// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"
)

// The page of limits is one screen; other pages may be longer.
func TestOneScreen(t *testing.T) {
	for name, want := range map[string]map[int]int{"docs/limits.md": {50: 0, 51: 1}, "docs/how-to/a.md": {51: 0}} {
		for lines, count := range want {
			if got := oneScreen(name, []byte(strings.Repeat("a\n", lines))); len(got) != count {
				t.Errorf("%s with %d lines: %v", name, lines, got)
			}
		}
	}
}

func TestRecorded(t *testing.T) {
	root := t.TempDir()
	write(t, root, "bench/results/cost.json", "{}\n")
	for _, tt := range []struct{ line, want string }{
		{"It takes 3 ns ([benchmarks](../benchmarks.md), `waymark-bench run cost`).", ""},
		{"It takes 3 ns ([benchmarks](../benchmarks.md), `waymark-bench run stamp`).", "names stamp, but bench/results/stamp.json is missing"},
		{"`waymark-bench run cost` and `waymark-bench run srv6-fast` are in [the results](../benchmarks/results.md#all).", "srv6-fast.json is missing"},
		{"Repeat it with `waymark-bench run stamp`, by [this method](../benchmarks/method.md).", ""},
		{"See the [benchmarks](../benchmarks.md).", ""},
	} {
		findings, err := recorded(root, "docs/a.md", []byte("# A\n\n"+tt.line+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" && len(findings) > 0 || tt.want != "" && (len(findings) != 1 || !strings.Contains(findings[0].Text, tt.want)) {
			t.Errorf("%q: %v, want %q", tt.line, findings, tt.want)
		}
	}
}
