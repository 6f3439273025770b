// SPDX-License-Identifier: Apache-2.0

package stamp

import (
	"math"
	"testing"
	"time"
)

func TestTimestamps(t *testing.T) {
	const (
		offset   = 37 * time.Second
		ntpEpoch = 2_208_988_800 // seconds from 1900 to 1970 (RFC 8877 §4.2.1)
	)
	at := time.Date(2026, 11, 23, 8, 30, 0, 123456789, time.UTC).UnixNano()
	for _, tt := range []struct {
		format TimestampFormat
		utc    int64
		want   Timestamp
	}{
		{NTP, 0, ntpEpoch << 32},
		{NTP, at, Timestamp((at/second+ntpEpoch)<<32 | 530242871)}, // 0.123456789 × 2^32
		{PTP, 0, 37 << 32},
		{PTP, at, Timestamp((at/second+37)<<32 | 123456789)},
		{NTP, 2085978495*second + 999_999_999, 0xffffffff_fffffffb}, // the last before 2036-02-07 06:28:16
		{NTP, 2085978496 * second, 0},
	} {
		got := tt.format.Timestamp(tt.utc, offset)
		if got != tt.want {
			t.Errorf("%v of %d: %#x, want %#x", tt.format, tt.utc, uint64(got), uint64(tt.want))
		}
		// 0 is a time that is not known (RFC 5905 §6), also where it could be one.
		if back, ok := tt.format.Nanoseconds(got, offset); ok != (got != 0) || ok && back != tt.utc && tt.utc != 0 {
			t.Errorf("%v of %#x: %d, %v; want %d", tt.format, uint64(got), back, ok, tt.utc)
		}
	}
	if ns, ok := PTP.Nanoseconds(0, offset); ok {
		t.Errorf("PTP of 0: %d", ns)
	}
	if _, ok := PTP.Nanoseconds(1_000_000_000, 0); ok {
		t.Error("a second of 10^9 ns is accepted")
	}
}

// Every nanosecond survives the conversion to NTP and back.
func TestNTPKeepsNanoseconds(t *testing.T) {
	base := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for ns := int64(0); ns < second; ns += 9973 {
		if back, _ := NTP.Nanoseconds(NTP.Timestamp(base+ns, 0), 0); back != base+ns {
			t.Fatalf("%d became %d", base+ns, back)
		}
	}
}

func TestErrorEstimate(t *testing.T) {
	for _, tt := range []struct {
		err          time.Duration
		synchronized bool
		format       TimestampFormat
		want         ErrorEstimate
	}{
		{0, false, NTP, 0x0001},
		{0, true, NTP, 0x8001},
		{0, false, PTP, 0x4001},
		{time.Second, true, PTP, 0xc000 | 25<<8 | 128}, // 128 × 2^(25−32) s
		{16 * time.Second, false, NTP, 29<<8 | 128},
		{1, false, NTP, 5},                        // 4.29 units
		{59, false, NTP, 254},                     // 253.4 units
		{60, false, NTP, 1<<8 | 129},              // 257.7 units are more than 8 bits
		{-time.Second, false, NTP, 1},             // never 0
		{math.MaxInt64, false, NTP, 0x80 | 56<<8}, // bounded by 2^31 s
	} {
		got := NewErrorEstimate(tt.err, tt.synchronized, tt.format)
		if got != tt.want || got.Synchronized() != tt.synchronized || got.Format() != tt.format {
			t.Errorf("%v: %#04x (scale %d, multiplier %d), want %#04x", tt.err, uint16(got), got.Scale(), got.Multiplier(), uint16(tt.want))
		}
		if d, ok := got.Duration(); !ok || tt.err < 1<<60 && d < tt.err {
			t.Errorf("%v: the estimate %v is below it", tt.err, d)
		}
	}
	if d, ok := ErrorEstimate(0x3fff).Duration(); !ok || d != math.MaxInt64 {
		t.Errorf("the largest estimate is %v", d)
	}
	if _, ok := ErrorEstimate(0x3f00).Duration(); ok {
		t.Error("a multiplier of 0 is valid")
	}
}

// An estimate is never below the error, and at most 1/128 above it.
func TestErrorEstimateIsTight(t *testing.T) {
	for e := time.Duration(100); e < time.Hour; e += e/7 + 1 {
		d, _ := NewErrorEstimate(e, true, NTP).Duration()
		if d < e || float64(d) > float64(e)*(1+1.0/127)+1 {
			t.Errorf("%v became %v", e, d)
		}
	}
}

func TestFormatWords(t *testing.T) {
	for word, format := range map[string]TimestampFormat{"ntp": NTP, "ptp": PTP} {
		text, err := format.MarshalText()
		back := TimestampFormat(9)
		if err != nil || string(text) != word || back.UnmarshalText(text) != nil || back != format || format.String() != word {
			t.Errorf("%v: %s, %v", format, text, err)
		}
	}
	f := PTP
	if err := f.UnmarshalText([]byte("posix")); err == nil || f != PTP {
		t.Errorf("posix became %v", f)
	}
	if _, err := TimestampFormat(2).MarshalText(); err == nil || TimestampFormat(2).String() != "2" {
		t.Error("format 2 has a text")
	}
}
