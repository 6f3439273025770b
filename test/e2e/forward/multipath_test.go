// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// Every flow takes the way that the stack would choose, whatever routes and rules
// match on.
func TestForwardSameWays(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	top := e2e.Builtin(t, "ecmp")
	top.Node("porthos").Agent, top.Node("dartagnan").Agent = nil, nil
	e2e.Reconfigure(t, top, "athos", "role: [], boundary: drop", "role: [ingress, egress]")
	l := raiseTwoWays(t, top)
	athos := l.Node("athos")
	e2e.Must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "table", "100")
	label := rand.Uint64()
	all := flows(t, label)
	forwarding(t, l, "athos", "stack")
	want := make([][]string, len(choices))
	for i, c := range choices {
		c.with(t, athos, func() { want[i] = waysOf(t, l, label, all) })
	}
	e2e.Must(t, athos, "sysctl", "-w", "net.ipv6.fib_multipath_hash_policy="+choices[0].policy)
	forwarding(t, l, "athos", "fast")
	for i, c := range choices {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			before := e2e.ForwardsOf(t, l, "athos")
			c.with(t, athos, func() {
				if i > 0 && c.policy != choices[i-1].policy {
					time.Sleep(patience.Of(1200 * time.Millisecond)) // the agent looks at settings once a second
				} else {
					time.Sleep(patience.Of(100 * time.Millisecond)) // the agent is notified of rules
				}
				got = waysOf(t, l, label, all)
			})
			f := e2e.ForwardsOf(t, l, "athos")
			fast, by := f.Sum()-before.Sum(), map[string]int{}
			for j, w := range want[i] {
				by[w]++
				if got[j] != w {
					t.Errorf("%s, flow %d: went by %q, the stack would have it go by %q\n% x", all[j].kind, j, got[j], w, all[j].packet)
				}
			}
			t.Logf("%v; %d of %d packets went fast", by, fast, len(all))
			if len(by) != 2 {
				t.Errorf("the flows took the ways %v, want two, and no packet twice", by)
			}
			if c.byStack && fast > 0 || !c.byStack && fast < uint64(len(all)/2) {
				t.Errorf("%d of %d packets went fast; left to the stack: %v", fast, len(all), f.ToStack)
			}
		})
	}
}
