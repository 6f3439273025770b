// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/coverage"
	"github.com/waymark-net/waymark/internal/hookwatch"
	"github.com/waymark-net/waymark/internal/loss"
)

// While a hook is not executed, blocks are not complete; both hooks of an interface have to be
// executed again.
func TestHooksNotExecuted(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	tells := only[*hooks](h).gapListeners
	if len(tells) != 1 {
		t.Fatalf("%d services are told", len(tells))
	}
	since := time.Now()
	at := func(s int) time.Time { return since.Add(time.Duration(s) * time.Second) }
	why := func(from, to int) loss.Reasons {
		return h.Datapath.Coverage().Within("red", coverage.Both, at(from).UnixNano(), at(to).UnixNano())
	}
	in, out := hookwatch.Key{Index: 2, Ingress: true}, hookwatch.Key{Index: 2}
	tells[0](hookwatch.Gap{Key: in, Cause: hookwatch.Detached, Since: at(10)})
	tells[0](hookwatch.Gap{Key: out, Cause: hookwatch.Detached, Since: at(11)})
	tells[0](hookwatch.Gap{Key: in, Cause: hookwatch.Detached, Since: at(10), Until: at(20)})
	if got := why(25, 30); got != loss.NotExecuted {
		t.Errorf("while one hook is not executed: %q", got)
	}
	tells[0](hookwatch.Gap{Key: out, Cause: hookwatch.Detached, Since: at(11), Until: at(21)})
	if before, while, after := why(1, 9), why(12, 13), why(25, 30); before != 0 || while != loss.NotExecuted || after != 0 {
		t.Errorf("before %q, while %q, after %q", before, while, after)
	}
}
