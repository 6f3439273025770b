// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// domain are the nodes with an agent in `line`.
var domain = []string{"athos", "porthos", "aramis"}

// TestDomain sends one kind of traffic after the other through the same agents, by both ways to trace
// and both hooks.
func TestDomain(t *testing.T) {
	t.Parallel()
	for _, tt := range e2e.Transfers() {
		t.Run(fmt.Sprintf("%s by %s", tt.Mode, tt.Attach), func(t *testing.T) {
			t.Parallel()
			l := e2e.Raise(t, e2e.Domain(t, tt))
			run := func(name string, check func(*testing.T, *lab.Lab, e2e.Transfer)) {
				t.Run(name, func(t *testing.T) { check(t, l, tt) })
			}
			run("transfer", transfer) // the first one, whose counters are those of the agents' whole life
			run("fragments", fragments)
			if tt.Attach == "xdp" {
				run("jumbo frames", jumbo)
			} else {
				run("UDP segmentation", udpSegmentation)
				run("segments within the MTU", segmentsWithinMTU)
				run("VXLAN", vxlan)
				run("big TCP", bigTCP)
			}
			if tt.Mode == "encap" { // the last one, which leaves its bridges
				t.Run("bridge", func(t *testing.T) { arrivalByBridge(t, l) })
			}
		})
	}
}

// changeMTU gives the links at the hosts one MTU and those of the domain another, until the test ends.
func changeMTU(t *testing.T, l *lab.Lab, edge, inner int) {
	t.Helper()
	hosts := []string{"alpha", "beta"}
	set := func(do func(*testing.T, *lab.Node, ...string), edge, inner int) {
		for _, link := range l.Topology().Links {
			mtu := inner
			if slices.ContainsFunc(link.Ends[:], func(end lab.LinkEnd) bool { return slices.Contains(hosts, end.Node) }) {
				mtu = edge
			}
			for _, end := range link.Ends {
				do(t, l.Node(end.Node), "ip", "link", "set", end.Interface, "mtu", strconv.Itoa(mtu))
			}
		}
	}
	set(func(t *testing.T, n *lab.Node, args ...string) { t.Helper(); e2e.Must(t, n, args...) }, edge, inner)
	t.Cleanup(func() { set(e2e.MustAfter, 1500, 1700) })
}
