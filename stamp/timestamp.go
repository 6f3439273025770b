// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

const second = 1_000_000_000 // nanoseconds

// TimestampFormat is the format of a packet's timestamps, the Z field of its error
// estimate (RFC 8762 §4.2.1).
type TimestampFormat uint8

const (
	// NTP is seconds since 1900-01-01 UTC and a fraction in units of 2^-32 s.
	NTP TimestampFormat = iota
	// PTP is seconds and nanoseconds since 1970-01-01 TAI, truncated to 64 bits
	// (RFC 8186 §2.3).
	PTP
)

var formatWords = []string{"ntp", "ptp"}

// String returns "ntp" or "ptp".
func (f TimestampFormat) String() string {
	if int(f) < len(formatWords) {
		return formatWords[f]
	}
	return fmt.Sprintf("%d", uint8(f))
}

// MarshalText is [TimestampFormat.String]; an unknown value is an error.
func (f TimestampFormat) MarshalText() ([]byte, error) {
	if int(f) < len(formatWords) {
		return []byte(formatWords[f]), nil
	}
	return nil, fmt.Errorf("%d is not a timestamp format", uint8(f))
}

// UnmarshalText reads what MarshalText writes.
func (f *TimestampFormat) UnmarshalText(text []byte) error {
	i := slices.Index(formatWords, string(text))
	if i < 0 {
		return fmt.Errorf("%q is not a timestamp format; use %s", text, strings.Join(formatWords, " or "))
	}
	*f = TimestampFormat(i)
	return nil
}

// Timestamp is a timestamp as packets carry it: seconds in the upper 32 bits, a
// fraction in the lower ones.
type Timestamp uint64

// fields is the same format in the two words of an IOAM trace (RFC 8877).
func (f TimestampFormat) fields() ioam.TimestampFormat {
	if f == PTP {
		return ioam.TimestampPTP
	}
	return ioam.TimestampNTP
}

// Timestamp converts nanoseconds of UTC since 1970-01-01. taiOffset is TAI − UTC
// and matters for PTP only. Both formats wrap after 2^32 seconds.
func (f TimestampFormat) Timestamp(utc int64, taiOffset time.Duration) Timestamp {
	seconds, fraction := f.fields().Fields(utc+int64(taiOffset), int64(taiOffset))
	return Timestamp(seconds)<<32 | Timestamp(fraction)
}

// Nanoseconds converts a timestamp to nanoseconds of UTC since 1970-01-01; false
// when the fraction is not one of the format, and for 0, which is a time that the node
// does not know (RFC 5905 §6). NTP seconds below 2^31 are read as
// those after the wraparound of 2036.
func (f TimestampFormat) Nanoseconds(t Timestamp, taiOffset time.Duration) (int64, bool) {
	at, ok := f.fields().Time(uint32(t>>32), uint32(t), taiOffset)
	if !ok {
		return 0, false
	}
	return at.UnixNano(), true
}

// ErrorEstimate says how good a clock is (RFC 4656 §4.1.2, RFC 8762 §4.2.1): the S
// and Z bits, a scale of 6 bits and a multiplier of 8 bits.
type ErrorEstimate uint16

// NewErrorEstimate is the smallest estimate that is not below an error. A clock
// that an external source synchronizes is synchronized.
func NewErrorEstimate(err time.Duration, synchronized bool, format TimestampFormat) ErrorEstimate {
	var e ErrorEstimate
	if synchronized {
		e = 1 << 15
	}
	e |= ErrorEstimate(format&1) << 14
	// In units of 2^-32 s; 2^31 s is the most that 64 bits can take.
	ns := uint64(min(max(err, 0), math.MaxInt32*time.Second))
	high, low := bits.Mul64(ns, 1<<32)
	units, rest := bits.Div64(high, low, second)
	if rest > 0 {
		units++
	}
	scale := max(0, bits.Len64(units)-8)
	multiplier := units >> scale
	if multiplier<<scale < units {
		multiplier++
	}
	if multiplier > math.MaxUint8 {
		scale, multiplier = scale+1, (multiplier+1)/2
	}
	// A multiplier of 0 would make the packet invalid (RFC 4656 §4.1.2).
	return e | ErrorEstimate(scale)<<8 | ErrorEstimate(max(1, multiplier))
}

// Synchronized is the S bit: an external source synchronizes the clock to UTC.
func (e ErrorEstimate) Synchronized() bool { return e&(1<<15) != 0 }

// Format is the Z bit: the format of the timestamps that the estimate is about.
func (e ErrorEstimate) Format() TimestampFormat { return TimestampFormat(e >> 14 & 1) }

// Scale is the exponent of 2.
func (e ErrorEstimate) Scale() uint8 { return uint8(e >> 8 & 0x3f) }

// Multiplier is the factor. 0 is invalid on the wire (RFC 4656 §4.1.2).
func (e ErrorEstimate) Multiplier() uint8 { return uint8(e) }

// Duration is Multiplier × 2^(Scale−32) seconds, rounded up; at most the longest
// duration. False when the multiplier is 0, which means nothing.
func (e ErrorEstimate) Duration() (time.Duration, bool) {
	seconds := math.Ldexp(float64(e.Multiplier()), int(e.Scale())-32)
	ns := math.Ceil(seconds * second)
	if ns >= math.MaxInt64 {
		return math.MaxInt64, e.Multiplier() != 0
	}
	return time.Duration(ns), e.Multiplier() != 0
}
