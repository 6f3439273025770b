// SPDX-License-Identifier: Apache-2.0

package ioam

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	second = 1_000_000_000 // nanoseconds
	// ntpEpoch is the number of seconds from 1900-01-01 to 1970-01-01 (RFC 8877 §4.2.1).
	ntpEpoch = 2_208_988_800
)

// TimestampFormat is the format of trace fields 2 and 3 (RFC 9197 §5, RFC 8877).
type TimestampFormat uint8

const (
	// TimestampPOSIX is seconds and microseconds since 1970-01-01 UTC.
	TimestampPOSIX TimestampFormat = iota
	// TimestampPTP is seconds and nanoseconds since 1970-01-01 TAI.
	TimestampPTP
	// TimestampNTP is seconds since 1900-01-01 UTC and a fraction in units of 2^-32 s.
	TimestampNTP
)

var timestampFormatWords = []string{"posix", "ptp", "ntp"}

// String returns "posix", "ptp" or "ntp".
func (f TimestampFormat) String() string {
	if int(f) < len(timestampFormatWords) {
		return timestampFormatWords[f]
	}
	return fmt.Sprintf("%d", uint8(f))
}

// MarshalText is [TimestampFormat.String]; an unknown value is an error.
func (f TimestampFormat) MarshalText() ([]byte, error) {
	if int(f) < len(timestampFormatWords) {
		return []byte(timestampFormatWords[f]), nil
	}
	return nil, fmt.Errorf("%d is not a timestamp format", uint8(f))
}

// UnmarshalText reads what MarshalText writes.
func (f *TimestampFormat) UnmarshalText(text []byte) error {
	i := slices.Index(timestampFormatWords, string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a timestamp format; use %s", text, strings.Join(timestampFormatWords, ", "))
	}
	*f = TimestampFormat(i)
	return nil
}

// Fields returns trace fields 2 and 3 for a time in nanoseconds of TAI since
// 1970-01-01 TAI; taiOffset is TAI − UTC in nanoseconds (RFC 9197 §5). Both
// fields wrap as the RFC says. The arithmetic is unsigned, as in the data
// plane.
func (f TimestampFormat) Fields(tai, taiOffset int64) (seconds, fraction uint32) {
	utc := uint64(tai - taiOffset)
	switch f {
	case TimestampPTP: // RFC 9197 §5.1
		return uint32(uint64(tai) / second), uint32(uint64(tai) % second)
	case TimestampNTP: // RFC 9197 §5.2
		return uint32(utc/second + ntpEpoch), uint32(utc % second << 32 / second)
	}
	// RFC 9197 §5.3
	return uint32(utc / second), uint32(utc % second / 1000)
}

// Time converts trace fields 2 and 3 to UTC (RFC 9197 §5); false when the
// fraction is not one of the format, and when both fields are 0: a node writes
// that if it does not know the time (RFC 5905 §6), and it is neither 1900 nor
// 1970 nor 2036. taiOffset is TAI − UTC and matters for TimestampPTP only. NTP seconds below 2^31 are read as those after the
// wraparound of 2036.
func (f TimestampFormat) Time(seconds, fraction uint32, taiOffset time.Duration) (time.Time, bool) {
	if seconds == 0 && fraction == 0 {
		return time.Time{}, false
	}
	switch f {
	case TimestampPTP:
		if fraction >= second {
			return time.Time{}, false
		}
		return time.Unix(int64(seconds), int64(fraction)).Add(-taiOffset).UTC(), true
	case TimestampNTP:
		unix := int64(seconds) - ntpEpoch
		if seconds < 1<<31 {
			unix += 1 << 32
		}
		// Rounded up, so that what Fields rounded down comes back exactly.
		ns := (uint64(fraction)*second + 1<<32 - 1) >> 32
		return time.Unix(unix, int64(ns)).UTC(), true
	}
	if fraction >= 1_000_000 {
		return time.Time{}, false
	}
	return time.Unix(int64(seconds), int64(fraction)*1000).UTC(), true
}
