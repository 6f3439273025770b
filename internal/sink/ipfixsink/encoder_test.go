// SPDX-License-Identifier: Apache-2.0

package ipfixsink

import (
	"math"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

func TestUnencodable(t *testing.T) {
	cut, none, made := postcard(t), postcard(t), pathOfTwo(t)
	cut.Raw.Bytes = cut.Raw.Bytes[:8]
	none.Raw = ioam.NodeData{}
	made.Raw = nil
	x := newEncoder(t)
	c := newCollector(t, x, Config{Transport: UDP, Address: "[::1]:4739"})
	for i, r := range []record.Record{cut, none, made} {
		x.offer([]record.Record{r}, []*Sink{c})
		if s := c.Stats(); s.Unencodable != uint64(i+1) || s.Offered != s.Unencodable || s.Waiting() != 0 {
			t.Errorf("record %d: %+v", i, s)
		}
	}
	f := flow()
	f.Packet.FlowLabel, f.Namespace = 1<<20, 1
	x.offer([]record.Record{f}, []*Sink{c})
	if s := c.Stats(); s.Offered != 4 || s.Waiting() != 1 {
		t.Errorf("a flow is not queued: %+v", s)
	}
}

func TestIPFIXKeepsNothing(t *testing.T) {
	x, p := newEncoder(t), postcard(t)
	c := newCollector(t, x, Config{Transport: UDP, Address: "[::1]:4739"})
	to := []*Sink{c}
	least := math.Inf(1)
	for range 20 { // the race detector makes a pool drop items at random
		least = min(
			least,
			testing.AllocsPerRun(50, func() { x.offer([]record.Record{p}, to) }),
			testing.AllocsPerRun(1, func() { x.offer([]record.Record{p}, to) }),
		)
	}
	if least > 0 {
		t.Errorf("%v allocations for each record", least)
	}
}
