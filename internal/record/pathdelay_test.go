// SPDX-License-Identifier: Apache-2.0

package record

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// timed is a trace whose encapsulating node wrote the time 1784643451.999990, in the
// format of seconds and fraction; three nodes wrote.
func timed(t testing.TB, first string, clock Clock) *Trace {
	t.Helper()
	trace, err := ioam.DecodeTrace(craft.Hex(t, "007b1800 b0000000 3d000003 ffffffff ffffffff 3e000002 6a5f7f7c 00000005 3f000001 "+first))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewTrace(time.Date(2026, 7, 21, 14, 17, 32, 21_634, time.UTC), trace, udpPacket(), clock)
	if err != nil {
		t.Fatal(err)
	}
	r.Node, r.Interface, r.IfIndex = "aramis", "eth0", 2
	return &r
}

func TestPathDelay(t *testing.T) {
	const posix, ptp, ntp = "6a5f7f7b 000f4236", "6a5f7fa0 3b9aa2f0", "ee09fdfb ffff583a"
	at := time.Date(2026, 7, 21, 14, 17, 32, 21_634, time.UTC) // 31.634 µs later
	for _, tt := range []struct {
		name, first string
		clock       Clock
		received    time.Time
		change      func(*Trace)
		want        Field[uint64]
	}{
		{"POSIX", posix, Clock{Format: ioam.TimestampPOSIX}, at, nil, NewField[uint64](31_634, true)},
		{"PTP", ptp, Clock{Format: ioam.TimestampPTP, TAIOffset: 37 * time.Second}, at, nil, NewField[uint64](31_634, true)},
		{"NTP", ntp, Clock{Format: ioam.TimestampNTP}, at, nil, NewField[uint64](31_634, true)},
		{"at once", posix, Clock{}, at.Add(-31_634), nil, NewField[uint64](0, true)},
		{"the longest", posix, Clock{}, at.Add(-31_634 + 4294967295*time.Microsecond), nil, NewField[uint64](4294967295000, true)},
		{"too long", posix, Clock{}, at.Add(-31_634 + 4294967296*time.Microsecond), nil, Field[uint64]{}},
		{"clocks that differ", posix, Clock{}, at.Add(-32_634), nil, Field[uint64]{}},
		{"no timestamp", "ffffffff ffffffff", Clock{}, at, nil, Field[uint64]{}},
		{"seconds alone", "6a5f7f7b ffffffff", Clock{}, at, nil, Field[uint64]{}},
		{"no such fraction", "6a5f7f7b 3b9aca00", Clock{}, at, nil, Field[uint64]{}},
		{"no node wrote", posix, Clock{}, at, func(r *Trace) { r.Nodes, r.Raw = nil, nil }, Field[uint64]{}},
		{"one wrote", posix, Clock{}, at, func(r *Trace) { r.Nodes, r.Raw = r.Nodes[:1], r.Raw[:1] }, Field[uint64]{}},
		{"one wrote, and another had no room", posix, Clock{}, at, func(r *Trace) {
			r.Nodes, r.Raw, r.Overflow = r.Nodes[:1], r.Raw[:1], NewField(true, true)
		}, NewField[uint64](31_634, true)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := timed(t, tt.first, tt.clock)
			if tt.change != nil {
				tt.change(r)
			}
			r.MeasurePathDelay(tt.received)
			if r.PathDelay != tt.want {
				t.Errorf("%+v, want %+v; the first node's time is %v", r.PathDelay, tt.want, r.Nodes)
			}
		})
	}
}

// Records of the first version have only microseconds.
func TestPathDelayInJSON(t *testing.T) {
	for line, want := range map[string]Field[uint64]{
		`{"kind":"trace","path_delay_us":31}`:                                   NewField[uint64](31_000, true),
		`{"kind":"trace","path_delay_us":31,"path_delay_ns":31634}`:             NewField[uint64](31_634, true),
		`{"kind":"trace","path_delay_ns":31634}`:                                NewField[uint64](31_634, true),
		`{"kind":"trace","path_delay_us":null}`:                                 {Present: true},
		`{"kind":"trace"}`:                                                      {},
		`{"kind":"trace","path_delay_us":4294967295}`:                           NewField[uint64](4294967295000, true),
		`{"kind":"trace","path_delay_ns":18446744073709551615,"overflow":true}`: NewField[uint64](1<<64-1, true),
	} {
		r, err := Parse([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if got := r.(*Trace).PathDelay; got != want {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	if _, err := Parse([]byte(`{"kind":"trace","path_delay_us":4294967296}`)); err == nil {
		t.Error("more than 32 bits of microseconds were read")
	}
}
