// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/pathtrace/paths"
	"github.com/waymark-net/waymark/test/e2e"
)

// Of several equal paths, probes that ask for copies take those of their flows: each hop has
// an address of its own node, and a path that is broken at its first link shows no hop.
func TestEqualPaths(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	for _, node := range []string{"aramis", "porthos", "dartagnan"} {
		e2e.Reconfigure(t, top, node, "node: {", "node: {loopback-limit: 1/1, loopback-rate: 10000, ")
	}
	l := e2e.Raise(t, top)
	policies := []string{"0", "1"} // flow labels, ports
	for _, policy := range policies {
		if r := traceFlows(t, l, policy); len(r.Paths) != 2 || len(r.Broken) != 0 || r.Copies != 2*manyFlows {
			t.Errorf("policy %s: %s", policy, r.Text(columns.Screen{ASCII: true}))
		} else {
			checkAddress(t, r.Paths[0], 2, "2001:db8:12::2")
			checkAddress(t, r.Paths[1], 4, "2001:db8:14::2")
		}
	}
	if _, err := l.AddLoss("athos", "eth2", linkloss.Rule{Burst: 1, Every: 1}); err != nil {
		t.Fatal(err)
	}
	for _, policy := range policies {
		r := traceFlows(t, l, policy)
		if len(r.Paths) != 1 || len(r.Broken) == 0 || len(r.Paths[0].Flows)+len(r.Broken) != manyFlows ||
			int(r.Copies) != 2*len(r.Paths[0].Flows) {
			t.Fatalf("policy %s: %s", policy, r.Text(columns.Screen{ASCII: true}))
		}
		checkAddress(t, r.Paths[0], 2, "2001:db8:12::2")
		for _, b := range r.Broken {
			if len(b.Hops) != 0 {
				t.Errorf("policy %s: a flow was seen beyond the broken link: %+v", policy, b)
			}
		}
	}
}

// manyFlows take both of two paths: a kernel hashes with a random seed, so that one of both
// stays empty in a test of 8 million.
const manyFlows = 24

// traceFlows asks for copies at athos, which chooses among paths by a policy.
func traceFlows(t *testing.T, l *lab.Lab, policy string) *paths.Report {
	t.Helper()
	e2e.Must(t, l.Node("athos"), "sysctl", "-qw", "net.ipv6.fib_multipath_hash_policy="+policy)
	out, err := l.Node("athos").
		Command(t.Context(), e2e.Program, "trace", "2001:db8:ff::3", "--source", "2001:db8:1::1", "--namespace", "123", "--json",
			"--loopback", "--max-hops", "0", "--paths", fmt.Sprint(manyFlows), "--count", "2", "--interval", "10ms", "--timeout", "1s").
		Output()
	r := &paths.Report{}
	if fault := json.NewDecoder(bytes.NewReader(out)).Decode(r); err != nil || fault != nil {
		t.Fatalf("%v, %v: %s", err, fault, out)
	}
	return r
}

// checkAddress checks the first hop of a path.
func checkAddress(t *testing.T, p paths.Path, id uint32, address string) {
	t.Helper()
	h := p.Hops[0]
	if h.NodeID == nil || uint32(*h.NodeID) != id || h.Address == nil || h.Address.String() != address {
		t.Errorf("%+v: want node %d, %s", h, id, address)
	}
}
