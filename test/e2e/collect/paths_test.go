// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// directExporting is `line` with a Direct Export in every packet to beta. Its
// nodes export postcards to aramis, where a test may start a collector.
func directExporting(t *testing.T) *lab.Topology {
	t.Helper()
	top := e2e.Builtin(t, "line")
	e2e.Reconfigure(t, top, "athos", "frequency: 1/10", "frequency: 1/1",
		"trace: {namespace: 123, type: 0xf80000, size: 60}", "dex: {namespace: 123, trace-type: 0xf80000, extension-flags: [flow-id, sequence]}")
	for id, node := range []string{"athos", "porthos", "aramis"} {
		e2e.Reconfigure(t, top, node, "- {id: 123}", "- {id: 123, export: every}",
			fmt.Sprintf("node: {id: %d", id+1), fmt.Sprintf(`export:
  - {kind: ipfix, address: "tcp://[2001:db8:23::2]:4739"}
node: {export-limit: 1/1, export-rate: 1000000, id: %d`, id+1))
	}
	return top
}

// Packets that cross the domain give complete paths; those lost on the link to
// aramis are reported as not seen after porthos.
func TestCollectPaths(t *testing.T) {
	t.Parallel()
	const count, small, large = 50, 100, 1400
	l := e2e.Raise(t, directExporting(t))
	// aramis' end of the link drops longer packets.
	if err := l.Node("aramis").Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1300)
	}); err != nil {
		t.Fatal(err)
	}
	cmd := l.Node("aramis").Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "tcp://[::]:4739")
	c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	awaitConnected(t, l)
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: time.Millisecond, Size: small, Port: 9000})
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: time.Millisecond, Size: large, Port: 9001},
	)
	if err != nil || r.Lost() != count {
		t.Fatalf("%d of %d overlong packets were lost (%v)", count, r.Lost(), err)
	}
	e2e.Await(t, "every packet's path", 20*time.Second, func() bool { return len(c.Lines()) >= 2*count })
	held := suppressed(t, l)
	lines, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
	sequences, lacking := map[string]bool{}, uint64(0)
	for _, line := range lines {
		r, err := record.Parse([]byte(line))
		p, ok := r.(*record.Path)
		if err != nil || !ok {
			t.Fatalf("%v: %s", err, line)
		}
		sequences[fmt.Sprint(p.FlowID, p.Sequence)] = true
		whole, nodes := *p.Packet.DestinationPort == 9000, 2
		if whole {
			nodes = 3
		}
		if lacking += uint64(nodes - len(p.Nodes)); len(p.Nodes) == nodes {
			checkPath(t, p, line, whole)
		}
	}
	if len(lines) != 2*count || len(sequences) != 2*count {
		t.Errorf("%d paths of %d packets, want %d", len(lines), len(sequences), 2*count)
	}
	// A hook earns no exports before its first packet on a CPU.
	if lacking != held || held > uint64(3*runtime.NumCPU()) || stats.Counts["postcards_joined"]+held != 5*count {
		t.Errorf("%d postcards were suppressed, paths lack %d: %v, %v", held, lacking, stats.Paths, stats.Counts)
	}
}

// suppressed is how many exports the nodes' limits held back.
func suppressed(t *testing.T, l *lab.Lab) (sum uint64) {
	t.Helper()
	for _, node := range []string{"athos", "porthos", "aramis"} {
		instance, err := l.Node(node).Instance()
		if err != nil {
			t.Fatal(err)
		}
		status, err := api.NewClient(instance.Socket()).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range status.Interfaces {
			sum += i.ExportsSuppressed
		}
	}
	return sum
}

// checkPath checks the path of a packet from alpha to beta.
func checkPath(t *testing.T, p *record.Path, line string, whole bool) {
	t.Helper()
	type place struct{ node, role, ingress, egress string }
	want := []place{
		{"athos", "encapsulating", "eth0", "eth1"},
		{"porthos", "transit", "eth0", "eth1"},
		{"aramis", "decapsulating", "eth0", ""},
	}
	if !whole {
		want = want[:2]
	}
	if len(p.Nodes) != len(want) {
		t.Errorf("want %d nodes: %s", len(want), line)
		return
	}
	for i, n := range p.Nodes {
		if got := (place{n.Node, n.Role.String(), n.Ingress, n.Egress}); got != want[i] || n.HopLimit.Value != uint8(63-i) ||
			int(n.NodeID.Value) != i+1 {
			t.Errorf("node %d is %v: %s", i, got, line)
		}
		// All nodes have the machine's clock.
		if i > 0 && (n.SincePrevious == nil || *n.SincePrevious <= 0 || *n.SincePrevious > int64(time.Second)) {
			t.Errorf("node %d: %s", i, line)
		}
	}
	if n := p.Nodes[1]; !n.TransitDelay.Valid || n.TransitDelay.Value == 0 || time.Duration(n.TransitDelay.Value) > time.Second {
		t.Errorf("transit delay: %s", line)
	}
	if p.Packet.Source.String() != "2001:db8:1::2" || p.Packet.Destination.String() != "2001:db8:2::2" || p.Packet.NextHeader != 17 {
		t.Errorf("packet: %s", line)
	}
	switch {
	case whole && (!p.Complete || p.LastSeen != nil || p.Delay == nil || *p.Delay < *p.Nodes[2].SincePrevious):
		t.Errorf("want a complete path: %s", line)
	case !whole && (p.Complete || p.Reason != record.PathNotSeenFurther || p.LastSeen == nil || p.LastSeen.Node != "porthos" ||
		p.LastSeen.Egress != "eth1" || p.Delay != nil):
		t.Errorf("want it not seen after porthos: %s", line)
	}
}

// awaitConnected waits until each node is connected, so that names arrive before
// postcards.
func awaitConnected(t *testing.T, l *lab.Lab) {
	t.Helper()
	for _, node := range []string{"athos", "porthos", "aramis"} {
		instance, err := l.Node(node).Instance()
		if err != nil {
			t.Fatal(err)
		}
		e2e.Await(t, node+" exports", 20*time.Second, func() bool {
			status, err := api.NewClient(instance.Socket()).Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			exporters := status.Records.Sinks
			return len(exporters) > 0 && !slices.ContainsFunc(exporters, func(e api.Sink) bool { return e.Connected == nil || !*e.Connected })
		})
	}
}

// collectHere runs `waymark collect` in the network namespace of the tests.
func collectHere(t *testing.T, args ...string) *e2e.Collecting {
	t.Helper()
	cmd := exec.Command(e2e.Program, append([]string{"collect", "--json"}, args...)...)
	return e2e.StartCollect(t, cmd, cmd.Start)
}
