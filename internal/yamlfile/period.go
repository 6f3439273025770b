// SPDX-License-Identifier: Apache-2.0

package yamlfile

import (
	"fmt"
	"strings"
	"time"
)

// Period is a time of whole seconds.
type Period time.Duration

// Periods read and write a Period.
var Periods = NewCodec(Text, "whole seconds, minutes or hours up to 24h, such as 30s or 10m", ParsePeriod, FormatPeriod[Period])

// maxPeriod is a day.
const maxPeriod = 24 * time.Hour

// ParsePeriod reads a period, of at most a day.
func ParsePeriod(s string) (Period, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a time with a unit", s)
	case d < time.Second:
		return 0, fmt.Errorf("%s is less than 1s", s)
	case d > maxPeriod:
		return 0, fmt.Errorf("%s is more than 24h", s)
	case d%time.Second != 0:
		return 0, fmt.Errorf("%s is not whole seconds", s)
	}
	return Period(d), nil
}

// FormatPeriod writes a duration with whole minutes or hours without the rest: 1m0s as 1m.
func FormatPeriod[T ~int64](p T) string {
	s := time.Duration(p).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
