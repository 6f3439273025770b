// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waymark-net/waymark/internal/api"
)

// The table of queues fits 80 columns, with the widest values.
func TestQueueTable(t *testing.T) {
	ns := func(n int64) *int64 { return &n }
	var out strings.Builder
	if err := writeQueues(&out, api.Queues{Measuring: true, Interfaces: []api.QueueDelay{
		{Interface: "enp129s0f0np000", Packets: 123456789, Untimed: 1234567, Dropped: 9876543, P50: ns(123456), P95: ns(84_731_234),
			P99: ns(999_999), Max: ns(12_345_678_901)},
		{Interface: "eth1", Untimed: 7, Unfit: true},
	}, Fault: "a reason"}); err != nil {
		t.Fatal(err)
	}
	const want = `INTERFACE         PACKETS  UNTIMED  DROPPED      P50      P95      P99      MAX
enp129s0f0np000 123456789  1234567  9876543    123µs   84.7ms      1ms    12.3s
eth1                    0        7        0        -        -        -        -
  its queue (etf, taprio, gred) reads what timed packets carry: none is timed
not measured, or not everywhere: a reason

`
	if out.String() != want {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
	}
}
