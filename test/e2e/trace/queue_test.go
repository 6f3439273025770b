// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Datagrams that arrive faster than a slow link sends them wait at the
// encapsulating node, or at one that fills their traces. Its queue depth is the
// number of packets in front of each, or their bytes at a node with Linux
// compatibility, also with fast forwarding in tc. Their bytes are its buffer occupancy,
// which Linux does not write.
func TestQueueDepth(t *testing.T) {
	t.Parallel()
	if !e2e.ReadsQueues(t) {
		t.Skip("this kernel does not show programs its queues (needs Linux 6.2)")
	}
	const frame = 14 + 40 + 112 + 40 + 8 + 1100
	var l *lab.Lab
	for _, tt := range []struct {
		name    string
		node    string
		place   int // position of the node on the path
		changes []string
		unit    uint32 // queue depth per packet
	}{
		{name: "athos", node: "athos", unit: 1},
		{name: "porthos", node: "porthos", place: 1, unit: 1},
		{name: "porthos, mainline, fast in tc", node: "porthos", place: 1, unit: frame,
			changes: []string{"node: {", "node: {compatibility: mainline, ", ", role:", ", forwarding: fast, role:"}},
	} {
		if tt.changes != nil || l == nil { // only the slow link is at another place
			top := e2e.Domain(t, e2e.Modes(e2e.TCModes()[0])[0])
			e2e.Reconfigure(t, top, "athos", "type: 0xf80000, size: 60", "type: 0xfb1000, size: 96")
			e2e.Reconfigure(t, top, tt.node, tt.changes...)
			l = e2e.Raise(t, top)
		}
		t.Run(tt.name, func(t *testing.T) {
			// 50 datagrams of 1300 bytes, of which the bucket lets two pass at
			// once
			e2e.Must(t, l.Node(tt.node), "tc", "qdisc", "replace", "dev", "eth1", "root", "tbf", "rate", "4mbit", "burst", "3000", "limit",
				"1000000")
			t.Cleanup(func() { e2e.MustAfter(t, l.Node(tt.node), "tc", "qdisc", "del", "dev", "eth1", "root") })
			traces := e2e.Keep(t, l, "aramis")
			const count = 50
			e2e.AwaitRouting(t, l)
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 1100, Port: 9000})
			var deepest uint32
			for n, r := range traces.Read(t, count) {
				if len(r.Nodes) != 3 {
					t.Fatalf("trace %d has %d nodes", n, len(r.Nodes))
				}
				for j, other := range r.Nodes[:2] {
					depth := other.QueueDepth
					if !depth.Valid || depth.Value > tt.unit*uint32(n) || depth.Value%tt.unit != 0 || j != tt.place && depth.Value != 0 {
						t.Errorf("trace %d: queue depth of node %d is %+v; only %s has a queue, of %d packets at most", n, j+1, depth, tt.node, n)
					}
				}
				for j, other := range r.Nodes[:2] {
					mainline := j == tt.place && tt.unit == frame
					length := uint32(frame)
					if j == 0 { // the kernel notes a packet's length before the header is inserted
						length -= 40 + 112
					}
					if got, want := other.BufferOccupancy, other.QueueDepth.Value*length; got.Valid == mainline || !mainline && got.Value != want {
						t.Errorf("trace %d: buffer occupancy of node %d is %+v; %d bytes are in its queue", n, j+1, got, want)
					}
					if other.ChecksumComplement.Valid == mainline {
						t.Errorf("trace %d: checksum complement of node %d is %+v", n, j+1, other.ChecksumComplement)
					}
				}
				deepest = max(deepest, r.Nodes[tt.place].QueueDepth.Value/tt.unit)
			}
			if f := e2e.ForwardsOf(t, l, tt.node); (f.Stack == 0) != (tt.changes != nil) {
				t.Errorf("the stack of %s forwarded %d packets", tt.node, f.Stack)
			}
			if deepest < 10 {
				t.Errorf("the deepest queue has %d packets; %d were sent at once", deepest, count)
			}
		})
	}
}
