// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/test/e2e"
)

// An agent whose clocks are ahead of the programs', or behind, as in a time namespace, is heard by them
// as any other; when it dies, packets go back to the stack.
func TestForwardInTimeNamespace(t *testing.T) {
	e2e.NeedRedirection(t)
	const helped = 5 * time.Second
	top := e2e.Domain(t, e2e.Modes("xdp")[0])
	forwardFast(t, top, "porthos", "aramis")
	l := e2e.Raise(t, top)
	e2e.OpenEnds(t, l, "alpha", "beta")
	kill := map[string]func(){
		"porthos": e2e.RestartInTime(t, l, "porthos", 27*time.Hour),
		"aramis":  e2e.RestartInTime(t, l, "aramis", -10*time.Minute),
	}
	e2e.AwaitRouting(t, l)
	s := startStream(t, l)
	for node := range kill {
		e2e.Await(t, node+" to forward fast", 10*time.Second, func() bool {
			before, fast := e2e.StackForwards(t, l, node), e2e.ForwardsOf(t, l, node).Sum()
			time.Sleep(100 * time.Millisecond)
			return e2e.StackForwards(t, l, node) == before && e2e.ForwardsOf(t, l, node).Sum() > fast
		})
	}
	for node, end := range kill {
		before := e2e.StackForwards(t, l, node)
		end()
		killed := time.Now()
		e2e.Await(
			t,
			node+"'s packets to go back to the stack",
			helped+2*time.Second,
			func() bool { return e2e.StackForwards(t, l, node) > before },
		)
		if took := time.Since(killed); took < helped-time.Second {
			t.Errorf("the stack of %s forwarded %v after the agent's end", node, took)
		}
	}
	r := s.stop(t)
	r.checkWhole(t, r.sent[0], time.Now())
}
