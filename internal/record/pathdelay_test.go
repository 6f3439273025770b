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
		want        Field[uint32]
	}{
		{"POSIX", posix, Clock{Format: ioam.TimestampPOSIX}, at, nil, NewField[uint32](31, true)},
		{"PTP", ptp, Clock{Format: ioam.TimestampPTP, TAIOffset: 37 * time.Second}, at, nil, NewField[uint32](31, true)},
		{"NTP", ntp, Clock{Format: ioam.TimestampNTP}, at, nil, NewField[uint32](31, true)},
		{"at once", posix, Clock{}, at.Add(-31_634), nil, NewField[uint32](0, true)},
		{"the longest", posix, Clock{}, at.Add(-31_634 + 4294967295*time.Microsecond), nil, NewField[uint32](4294967295, true)},
		{"too long", posix, Clock{}, at.Add(-31_634 + 4294967296*time.Microsecond), nil, Field[uint32]{}},
		{"clocks that differ", posix, Clock{}, at.Add(-32_634), nil, Field[uint32]{}},
		{"no timestamp", "ffffffff ffffffff", Clock{}, at, nil, Field[uint32]{}},
		{"seconds alone", "6a5f7f7b ffffffff", Clock{}, at, nil, Field[uint32]{}},
		{"no such fraction", "6a5f7f7b 3b9aca00", Clock{}, at, nil, Field[uint32]{}},
		{"no node wrote", posix, Clock{}, at, func(r *Trace) { r.Nodes, r.Raw = nil, nil }, Field[uint32]{}},
		{"one wrote", posix, Clock{}, at, func(r *Trace) { r.Nodes, r.Raw = r.Nodes[:1], r.Raw[:1] }, Field[uint32]{}},
		{"one wrote, and another had no room", posix, Clock{}, at, func(r *Trace) {
			r.Nodes, r.Raw, r.Overflow = r.Nodes[:1], r.Raw[:1], NewField(true, true)
		}, NewField[uint32](31, true)},
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
