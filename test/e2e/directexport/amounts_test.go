// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// amount is what a flow, or a capture, comes to.
type amount struct{ packets, bytes uint64 }

// amounts sums flow records by node, protocol and destination port.
func amounts(flows []record.Flow) map[string]amount {
	sums := map[string]amount{}
	for _, f := range flows {
		key := fmt.Sprintf("%s %d %d", f.Node, f.Packet.NextHeader, portOf(f.Packet))
		sums[key] = amount{sums[key].packets + f.Packets, sums[key].bytes + f.Bytes}
	}
	return sums
}

func portOf(p record.Packet) uint16 {
	if p.DestinationPort == nil {
		return 0
	}
	return *p.DestinationPort
}

// awaitAmounts waits until flow records come to what was sent, at every node, and
// checks that they stay so.
func awaitAmounts(t *testing.T, c *e2e.Collecting, from int, want map[string]amount) []record.Flow {
	t.Helper()
	everywhere := map[string]amount{}
	for _, node := range e2e.Routers {
		for flow, sum := range want {
			everywhere[node+" "+flow] = sum
		}
	}
	var flows []record.Flow
	read := func() map[string]amount {
		flows = readCollected(t, c.Lines()[from:]).flows
		return amounts(flows)
	}
	e2e.Await(t, "the flows of every node", 5*time.Second, func() bool {
		sums := read()
		return len(sums) >= len(everywhere) && !slices.ContainsFunc(slices.Collect(maps.Keys(everywhere)), func(k string) bool { return sums[k].packets < everywhere[k].packets })
	})
	if sums := read(); !maps.Equal(sums, everywhere) {
		t.Errorf("flows, by node, protocol and port\n%v\nwant\n%v", sums, everywhere)
	}
	return flows
}

// exportCounts sums what a node's interfaces count of exports, and their packets.
func exportCounts(t *testing.T, l *lab.Lab, node string) (sum api.Interface, packets uint64) {
	t.Helper()
	for _, i := range e2e.StatusOf(t, l, node).Interfaces {
		sum.Postcards += i.Postcards
		sum.ExportsSuppressed += i.ExportsSuppressed
		for _, counts := range []map[string]uint64{i.Ingress, i.Egress} {
			for _, n := range counts {
				packets += n
			}
		}
	}
	return sum, packets
}
