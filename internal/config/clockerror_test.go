// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"
)

// A clock that PTP sets is better than a millisecond; the file says so in whole microseconds.
func TestClockError(t *testing.T) {
	const us = time.Microsecond
	for text, want := range map[string]time.Duration{"10us": 10 * us, "1ms": time.Millisecond, "2500us": 2500 * us} {
		c, err := Parse("F", []byte("measurement: {clock-error: "+text+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := time.Duration(*c.Measurement.ClockError); got != want {
			t.Errorf("%s is %v", text, got)
		}
		if again, err := Parse("F", c.Marshal()); err != nil || !again.Equal(c) {
			t.Errorf("%s is written as\n%s%v", text, c.Marshal(), err)
		}
	}
	for _, text := range []string{"0s", "10ns", "11m"} {
		if _, err := Parse("F", []byte("measurement: {clock-error: "+text+"}\n")); err == nil || !strings.Contains(err.Error(), "clock-error") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
