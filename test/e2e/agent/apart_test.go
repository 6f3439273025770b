// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/test/e2e"
)

// Agents of several namespaces on one machine never meet: without an option,
// the command line talks to that of the namespace it runs in, what one is told
// no other hears, and where none runs, none is found.
func TestAgentsOfNamespacesNeverMeet(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, e2e.Builtin(t, "line"))
	nodes := []string{"athos", "porthos", "aramis"}
	check := func(with string) {
		t.Helper()
		pids := map[int]string{}
		for i, node := range nodes {
			s := e2e.StatusOf(t, l, node)
			pid := e2e.AgentProcess(t, l, node)
			if s.Node.ID != uint32(i+1) || s.PID != pid || pids[pid] != "" {
				t.Errorf("%s is answered by node %d, process %d; want %d, %d", node, s.Node.ID, s.PID, i+1, pid)
			}
			pids[pid] = node
			want := 1
			if node == with {
				want = 2
			}
			if len(s.Namespaces) != want || s.Modified != (node == with) {
				t.Errorf("%s has the namespaces %+v, modified %v; only %q was given another", node, s.Namespaces, s.Modified, with)
			}
		}
	}
	check("")
	e2e.MustIn(t, l, "porthos", "ioam", "namespace", "add", "200")
	check("porthos")
	e2e.MustIn(t, l, "athos", "agent", "reload")
	check("porthos")
	for _, args := range [][]string{{"status"}, {"agent", "reload"}, {"agent", "stop"}, {"ioam", "namespace", "add", "201"}} {
		if out, err := e2e.In(t, l, "alpha", args...); err == nil || !strings.Contains(out, "no agent runs in this network namespace") {
			t.Errorf("%s in alpha: %v, %s", strings.Join(args, " "), err, out)
		}
	}
	check("porthos")
	e2e.MustIn(t, l, "porthos", "agent", "stop", "--remove")
	for _, node := range []string{"athos", "aramis"} {
		if i := e2e.StatusInterface(t, l, node, "eth0"); i.IngressHook == "" || i.EgressHook == "" {
			t.Errorf("%s no longer serves eth0 after the end of porthos's agent: %+v", node, i)
		}
	}
}
