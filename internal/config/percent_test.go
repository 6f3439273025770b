// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/waymark-net/waymark/internal/model"
)

func TestPercent(t *testing.T) {
	for text, want := range map[string]Percent{"1%": 10_000, "100%": 1_000_000, "0.5%": 5000, "0.0001%": 1, "12.34%": 123_400,
		"007%": 70_000} {
		if got, err := parsePercent(text); err != nil || got != want {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", "1", "0%", "0.00001%", "100.0001%", "101%", "-1%", "+1%", ".5%", "1.%", "1,5%", "1_0%", "0x1%",
		"1 %", "9999%", "1.2.3%"} {
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

// A percentage is the fraction with the least numbers, so that packets are selected evenly.
func TestFrequencyInPercent(t *testing.T) {
	for text, want := range map[string]model.Frequency{
		"10%": {K: 1, N: 10}, "100%": {K: 1, N: 1}, "0.1%": {K: 1, N: 1000}, "0.0001%": {K: 1, N: 1_000_000}, "15%": {K: 3, N: 20},
		"1/7": {K: 1, N: 7},
	} {
		if got, err := parseFrequency(text); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0%", "101%", "%", "-1%", "10 %", "0.00001%"} {
		if got, err := parseFrequency(text); err == nil {
			t.Errorf("%s is %v", text, got)
		}
	}
}
