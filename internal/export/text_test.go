// SPDX-License-Identifier: Apache-2.0

package export

import (
	"testing"
	"time"
)

func TestText(t *testing.T) {
	at := time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC)
	for _, tt := range []struct{ name, trace, want string }{
		{
			"two nodes, the second 1 ms later", "007b3002 fe000200 00000000 00000000" +
				" 3e000003 ffff00ca 6a5f7f7b 0001e848 80000000 ffffffff 00000005 01000309 7261636b" +
				" 3f000002 00c900ca 6a5f7f7b 0001e460 0000474a deadbeef 00000007 00ffffff",
			"2026-11-21T05:21:00.000000001Z  gamma eth0  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 128 bytes: pre-allocated trace, namespace 123, type 0xfe0002, 8 bytes free\n" +
				"  1. node 2  hop-limit 63  in 201  out 202  at 14:17:31.124000000  delay 18.25µs  data 0xdeadbeef  queue 7  schema -\n" +
				"  2. node 3  hop-limit 62  in -  out 202  at 14:17:31.125000000 (+1ms)  delay over 2.147483648s  data -  queue 5  schema 777 \"rack\"\n",
		},
		{
			"wide fields and overflow", "007b5400 01f00000 0000abcd 3f000000 0153158e 000311f1 000315da cafec0ca f00dc0de ffffffff",
			"2026-11-21T05:21:00.000000001Z  gamma eth0  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9, UDP, 128 bytes: pre-allocated trace, namespace 123, type 0x01f000, OVERFLOW\n" +
				"  1. node-wide 22222222  hop-limit 63  in-wide 201201  out-wide 202202  data-wide 0xcafec0caf00dc0de  checksum 0x0000abcd  buffer -\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trace := decodeTrace(t, tt.trace)
			trace.NodeLen = uint8(trace.Type.NodeLen())
			record, err := Trace(at, trace, udpPacket(), Clock{})
			if err != nil {
				t.Fatal(err)
			}
			record.Node, record.Interface = "gamma", "eth0"
			if got := record.Text(); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
