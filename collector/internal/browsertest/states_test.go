// SPDX-License-Identifier: Apache-2.0

package browsertest

import "testing"

// What the console does with keys alone, slow answers, errors, a collector that goes away, sessions that end, and
// names that are too long: states.mjs says each in a line.
func TestStates(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs a browser")
	}
	packets, others := story()
	var report []struct {
		Name  string
		Wrong []string
	}
	drive(t, "states.mjs", map[string]string{"address": serve(t, packets, others), "period": period}, &report)
	if len(report) < 10 {
		t.Fatalf("only %d checks: %v", len(report), report)
	}
	for _, one := range report {
		t.Run(one.Name, func(t *testing.T) {
			for _, wrong := range one.Wrong {
				t.Error(wrong)
			}
		})
	}
}
