// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Segments of TCP stay in order by default, where every packet has a trace with times and
// every interface joins segments (GRO). What docs/how-to/large-packets.md says reorders them does so, and
// doctor says which interface is the cause.
func TestOrderOfSegments(t *testing.T) {
	for _, test := range []struct {
		name    string
		node    string // whose configuration differs
		change  []string
		apart   bool   // afterwards, athos gets segments one by one, too
		reorder bool   // some are out of order
		at      string // node and interface that doctor names
	}{
		{name: "default", apart: true},
		{name: "filled before GRO", node: "porthos", change: []string{", role:", ", attach: xdp, role:"}, reorder: true, at: "porthos eth0"},
		{name: "another namespace is removed", node: "porthos", change: []string{"- {id: 123}", "- {id: 123}\n  - {id: 9, remove: true}", ", role:", ", attach: xdp, role:"}, reorder: true, at: "porthos eth0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			top := e2e.Builtin(t, "line")
			e2e.Reconfigure(t, top, "athos", "frequency: 1/10", "frequency: 1/1")
			// On a veth, auto takes tc, which removes headers after GRO.
			e2e.Reconfigure(t, top, "aramis", ", role:", ", attach: xdp, role:")
			if test.node != "" {
				e2e.Reconfigure(t, top, test.node, test.change...)
			}
			l := e2e.Raise(t, top)
			for node, names := range map[string][]string{"alpha": {"eth0"}, "athos": {"eth0", "eth1"}, "porthos": {"eth0", "eth1"},
				"aramis": {"eth0", "eth1"}, "beta": {"eth0"}} {
				for _, name := range names {
					e2e.Must(t, l.Node(node), "ethtool", "-K", name, "tso", "off", "gro", "on")
				}
			}
			checkOrder(t, l, test.reorder, test.at)
			if test.apart {
				e2e.Must(t, l.Node("athos"), "ethtool", "-K", "eth0", "gro", "off")
				checkOrder(t, l, true, "") // doctor takes packets of a veth for whole
			}
		})
	}
}

// checkOrder sends TCP, and checks whether some segments are out of order, and of which node and
// interface doctor says that it may be the cause. A busy machine loses a segment now and then, and those behind it
// are early, too: they are in order if they are in one of three transfers.
func checkOrder(t *testing.T, l *lab.Lab, reorder bool, at string) {
	t.Helper()
	least := math.MaxInt
	for i := 0; i < 3 && least > 0; i++ {
		before := outOfOrder(t, l)
		if _, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindTCP, From: "alpha", To: "beta", Bytes: 64 << 20, Port: 9001}); err != nil {
			t.Fatal(err)
		}
		least = min(least, outOfOrder(t, l)-before)
	}
	if t.Logf("%d segments out of order", least); (least > 0) != reorder {
		t.Errorf("%d segments were out of order, want some: %v", least, reorder)
	}
	for _, node := range domain {
		out, _ := e2e.In(t, l, node, "doctor", "--json") // hints alone are no failure
		want, name, _ := strings.Cut(at, " ")
		if has := strings.Contains(out, "order_at_risk"); has != (node == want) || has && !strings.Contains(out, name) {
			t.Errorf("doctor of %s, want the hint at %q: %s", node, at, out)
		}
	}
}

// outOfOrder is how many segments beta's TCP has received before an earlier one.
func outOfOrder(t *testing.T, l *lab.Lab) int {
	t.Helper()
	var names []string
	for line := range strings.Lines(e2e.Must(t, l.Node("beta"), "cat", "/proc/net/netstat")) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "TcpExt:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if name == "TCPOFOQueue" {
				n, err := strconv.Atoi(fields[i])
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	t.Fatal("the kernel has no counter TCPOFOQueue")
	return 0
}
