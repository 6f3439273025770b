// SPDX-License-Identifier: Apache-2.0

package config

import "testing"

func TestPercent(t *testing.T) {
	for text, want := range map[string]Percent{"1%": 10_000, "100%": 1_000_000, "0.5%": 5000, "0.0001%": 1, "12.34%": 123_400, "007%": 70_000} {
		if got, err := parsePercent(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", "1", "0%", "0.00001%", "100.0001%", "101%", "-1%", "+1%", ".5%", "1.%", "1,5%", "1_0%", "0x1%", "1 %", "9999%", "1.2.3%"} {
		if got, err := parsePercent(text); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
	for p := range Percent(1_000_001) {
		if p%997 != 0 && p > 20_000 || p == 0 {
			continue
		}
		if back, err := parsePercent(formatPercent(p)); err != nil || back != p {
			t.Fatalf("%d is written as %s and read as %d, %v", p, formatPercent(p), back, err)
		}
	}
}
