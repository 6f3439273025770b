// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// Agents are reloaded, with another size of their tables of flows, and killed and
// started again, under traffic: each packet is in exactly one flow record. It does not
// run beside others: an agent must be killed before its next interval is sent.
func TestDirectExportFlowsOutliveAgents(t *testing.T) {
	top := directExports(t, "export: every}", "export: aggregate}", "node: {", "node: {flows: 64, ")
	l, c := raiseCollecting(t, top)
	stop := e2e.StartTraffic(t, l)
	records := func(node string) (n int) {
		for _, f := range readCollected(t, c.Lines()).flows {
			if f.Node == node {
				n++
			}
		}
		return n
	}
	for i, node := range e2e.Routers {
		for k, size := range []int{4096, 8, 300} {
			apply(t, l, node, "flows: 64", fmt.Sprintf("flows: %d", size), "{id: 123,", fmt.Sprintf("{id: 123, data: %d,", 10*i+k))
		}
		// What an agent has read and not yet sent dies with it: it is killed when its
		// collector has just heard of the interval.
		before := records(node)
		e2e.Await(t, "the next interval of "+node, 5*time.Second, func() bool { return records(node) > before })
		e2e.Restart(t, l, node, syscall.SIGKILL)
		awaitExporters(t, l, node)
	}
	time.Sleep(patience.Of(time.Second))
	sum := stop()
	if sum.Lost() > 0 || sum.Sent < 1000 {
		t.Errorf("traffic %+v", sum)
	}
	n := uint64(sum.Sent)
	awaitAmounts(t, c, 0, map[string]amount{"17 9000": {n, n * 148}})
	_, stats := c.Stop()
	for cause, n := range stats.Malformed {
		if n > 0 && cause != "sequence_gap" && cause != "sequence_out_of_order" { // a killed agent's session begins anew
			t.Errorf("%s: %d", cause, n)
		}
	}
}
