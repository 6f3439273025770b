// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Each flow's packets take one of two equal-cost routes, which their paths show;
// of chosen flows all packets get the option, of others none.
func TestDirectExportEqualPaths(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	all := []string{"athos", "porthos", "dartagnan", "aramis"}
	for _, node := range all {
		e2e.Reconfigure(
			t,
			top,
			node,
			"node: {",
			toCollector+"node: {export-limit: 1/1, export-rate: 1000000, ",
			"{id: 123, ",
			"{id: 123, export: every, ",
		)
	}
	e2e.Reconfigure(t, top, "athos", "trace: {namespace: 123, type: 0xf80000, size: 60}", dex, "source: 2001:db8:ff::1, ", "")
	l, c := raiseCollecting(t, top)
	const flows, count = 24, 4
	exchange := func() {
		for i := range flows {
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 64, Port: uint16(9000 + i)})
		}
	}
	exchange()
	e2e.Await(t, "the paths of all flows", 10*time.Second, func() bool { return len(c.Lines()) >= flows*count })
	paths := readCollected(t, c.Lines()).paths
	used, by := map[string]int{}, map[uint16]string{}
	for _, p := range paths {
		if !p.Complete || len(p.Nodes) != 3 {
			t.Fatalf("complete %v (%s): %s", p.Complete, p.Reason, route(p))
		}
		node := p.Nodes[1].Node
		used[node]++
		if before, seen := by[portOf(p.Packet)]; seen && before != node {
			t.Errorf("the flow to port %d went by %s and %s", portOf(p.Packet), before, node)
		}
		by[portOf(p.Packet)] = node
		if strings.HasPrefix(p.Nodes[0].Egress, "eth1") != (node == "porthos") {
			t.Errorf("%s", route(p))
		}
	}
	if n := checkSequences(t, paths); n != flows*count || used["porthos"] == 0 || used["dartagnan"] == 0 {
		t.Errorf("%d paths, by node %v", n, used)
	}

	apply(t, l, "athos", "frequency: 1/1", "flows: 1/3\n    frequency: 1/1")
	before := e2e.Counter(t, l, "athos", "encap_tunneled")
	seen := len(c.Lines())
	exchange()
	chosen := int(e2e.Settled(t, l, "athos", "encap_tunneled") - before)
	e2e.Await(t, fmt.Sprintf("%d paths", chosen), 10*time.Second, func() bool { return len(c.Lines()) >= seen+chosen })
	packets := map[uint16]int{}
	for _, p := range readCollected(t, c.Lines()[seen:]).paths {
		packets[portOf(p.Packet)]++
	}
	for port, n := range packets {
		if n != count {
			t.Errorf("%d of %d packets to port %d were chosen", n, count, port)
		}
	}
	if len(packets) == 0 || len(packets) > flows*2/3 { // 1 in 10,000 runs have more
		t.Errorf("%d of %d flows were chosen, want 1 in 3", len(packets), flows)
	}
	_, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
}
