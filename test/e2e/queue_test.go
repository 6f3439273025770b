// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
)

// Datagrams that come faster than a slow link takes them wait at the node that
// encapsulates, or at one that completes their traces: its queue depth shows how
// many are in front of each.
func TestQueueDepth(t *testing.T) {
	if !readsQueues(t) {
		t.Skip("this kernel keeps its queues from programs (Linux 6.2)")
	}
	for i, node := range []string{"athos", "porthos"} {
		t.Run(node, func(t *testing.T) {
			top := domain(t, modes(tcModes()[0])[0])
			reconfigure(t, top, "athos", "type: 0xf80000, size: 60", "type: 0xfa0000, size: 72")
			l := raise(t, top)
			// 50 datagrams of 1268 bytes, of which the bucket holds two
			must(t, l.Node(node), "tc", "qdisc", "replace", "dev", "eth1", "root", "tbf", "rate", "4mbit", "burst", "3000", "limit", "1000000")
			traces := keep(t, l, "aramis")
			const count = 50
			send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 1100, Port: 9000})
			var deepest uint32
			for n, r := range traces.read(t, count) {
				if len(r.Nodes) != 3 {
					t.Fatalf("trace %d has %d nodes", n, len(r.Nodes))
				}
				for j, other := range r.Nodes[:2] {
					depth := other.QueueDepth
					if !depth.Valid || depth.Value > uint32(n) || j != i && depth.Value != 0 {
						t.Errorf("trace %d: queue depth of node %d is %+v; only %s has a queue, of %d at most", n, j+1, depth, node, n)
					}
				}
				deepest = max(deepest, r.Nodes[i].QueueDepth.Value)
			}
			if deepest < 10 {
				t.Errorf("the deepest queue has %d packets; %d were sent at once", deepest, count)
			}
		})
	}
}
