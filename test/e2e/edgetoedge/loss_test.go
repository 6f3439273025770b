// SPDX-License-Identifier: Apache-2.0

package edgetoedge

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// topology is a line; the router between the nodes at the edges has no agent. A trace is
// beside the option, so there are two headers.
const topology = `
name: edges
permanent-neighbours: true
nodes:
  - name: alpha
    routes: [{to: "::/0", via: 2001:db8:1::1}]
  - name: athos
    addresses: 2001:db8:ff::1/128
    routes: [{to: 2001:db8:2::/64, via: 2001:db8:12::2}, {to: 2001:db8:ff::3/128, via: 2001:db8:12::2}]
    agent:
      interfaces: [{name: eth0}, {name: eth1, role: [ingress, egress]}]
      namespaces: [{id: 7}]
      encapsulations:
        - {name: numbered, interface: eth1, match: {destination: 2001:db8:2::/64}, mode: encap, tunnel: {source: 2001:db8:ff::1, destination: 2001:db8:ff::3}, options: [{trace: {namespace: 7, type: 0x800000, size: 20}}, {e2e: {namespace: 7, type: 0x7000}}]}
  - name: porthos
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:12::1}, {to: 2001:db8:2::/64, via: 2001:db8:23::2}, {to: 2001:db8:ff::3/128, via: 2001:db8:23::2}]
  - name: aramis
    addresses: 2001:db8:ff::3/128
    routes: [{to: 2001:db8:1::/64, via: 2001:db8:23::1}]
    agent:
      node: {export-interval: 1s}
      interfaces: [{name: eth0, role: [ingress, egress]}, {name: eth1}]
      namespaces: [{id: 7, e2e: true}]
      decapsulations: [{tunnel-destination: 2001:db8:ff::3}]
      export: [{kind: jsonl, path: FILE}, {kind: ipfix, address: "tcp://[2001:db8:2::2]:4739"}]
  - name: beta
    routes: [{to: "::/0", via: 2001:db8:2::1}]
links:
  - ends: [{node: alpha, interface: eth0, addresses: 2001:db8:1::2/64}, {node: athos, interface: eth0, addresses: 2001:db8:1::1/64}]
  - {mtu: 1700, ends: [{node: athos, interface: eth1, addresses: 2001:db8:12::1/64}, {node: porthos, interface: eth0, addresses: 2001:db8:12::2/64}]}
  - {mtu: 1700, ends: [{node: porthos, interface: eth1, addresses: 2001:db8:23::1/64}, {node: aramis, interface: eth0, addresses: 2001:db8:23::2/64}]}
  - ends: [{node: aramis, interface: eth1, addresses: 2001:db8:2::1/64}, {node: beta, interface: eth0, addresses: 2001:db8:2::2/64}]
`

// The last node reports as many lost packets as the lab lost, and the kernel of a router
// between forwards the packets. A collector at beta has the same records.
func TestLossesFromEdgeToEdge(t *testing.T) {
	file := filepath.Join(t.TempDir(), "records.jsonl")
	l := e2e.RaiseText(t, "edges", strings.Replace(topology, "FILE", file, 1))
	command := l.Node("beta").Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "tcp://[::]:4739")
	collector := e2e.StartCollect(t, command.Cmd, command.Start)
	rule := linkloss.Rule{Destination: netip.MustParsePrefix("2001:db8:ff::3/128"), Burst: 3, Every: 20}
	if _, err := l.AddLoss("porthos", "eth1", rule); err != nil {
		t.Fatal(err)
	}
	wire := e2e.StartWire(t, l, "porthos", "eth0")
	const packets = 410 // the last ones arrive: what is lost after the last packet is not known
	r, err := l.Send(
		t.Context(),
		lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: packets, Interval: time.Millisecond, Size: 100, Port: 9000},
	)
	if err != nil {
		t.Fatal(err)
	}
	lost, err := l.RemoveLoss("porthos", "eth1", 1)
	if err != nil || lost.LostPackets == 0 || r.Received != packets-int(lost.LostPackets) {
		t.Fatalf("%d of %d packets arrived, the lab lost %+v: %v", r.Received, packets, lost, err)
	}
	wire.Stop(t)
	checkDissected(t, wire.Path, packets)
	var came, missing, delays uint64
	var records []string
	e2e.Await(t, "the records of all packets", 10*time.Second, func() bool {
		came, missing, delays, records = 0, 0, 0, nil
		text, err := os.ReadFile(file)
		if err != nil {
			return false
		}
		for line := range bytes.Lines(text) {
			r, err := record.Parse(line)
			f, ok := r.(*record.EdgeFlow)
			if err != nil || !ok {
				continue
			}
			records = append(records, strings.TrimSuffix(string(line), "\n"))
			came, missing = came+f.Packets, missing+f.Lost.Value
			if f.Delay != nil && f.Delay.Min > 0 && f.Delay.Max < int64(time.Second) {
				delays += f.Delay.Count
			}
			if f.Duplicates.Value+f.Late.Value+f.Restarts.Value > 0 || f.Destination != netip.MustParseAddr("2001:db8:2::2") {
				t.Errorf("%s", f.Text())
			}
		}
		return came >= uint64(r.Received)
	})
	if came != uint64(r.Received) || missing != lost.LostPackets || delays != came {
		t.Errorf(
			"%d packets came, %d are missing and %d have a delay; want %d, %d and %d",
			came,
			missing,
			delays,
			r.Received,
			lost.LostPackets,
			r.Received,
		)
	}
	e2e.Await(t, "the collector's records", 10*time.Second, func() bool { return len(ofFlows(collector.Lines())) >= len(records) })
	lines, statistics := collector.Stop()
	if collected := ofFlows(lines); !slices.Equal(collected, records) {
		t.Errorf("collected\n%s\nwant\n%s", strings.Join(collected, "\n"), strings.Join(records, "\n"))
	}
	e2e.CheckNothingWrong(t, statistics)
	if n := statistics.Counts["edge_flows"]; n != uint64(len(records)) {
		t.Errorf("the collector counted %d flows, want %d", n, len(records))
	}
}

// checkDissected reads the options that athos sent with our dissector: each packet has the
// next Sequence Number, and the time.
func checkDissected(t *testing.T, path string, count int) {
	t.Helper()
	packets := e2e.Dissect(
		t,
		path,
		"ioam.type == 3 && udp",
		"ioam.namespace",
		"ioam.e2e.type",
		"ioam.e2e.sequence",
		"ioam.e2e.seconds",
		"ioam.e2e.fraction",
	)
	if len(packets) != count {
		t.Fatalf("the dissector finds %d options, want %d", len(packets), count)
	}
	last := -1
	for i, p := range packets {
		number, err := strconv.Atoi(p[2])
		seconds, err2 := strconv.ParseInt(p[3], 10, 64)
		age := time.Since(time.Unix(seconds, 0))
		if p[0] != "7" || p[1] != "0x7000" || err != nil || err2 != nil || i > 0 && number != last+1 || age < -time.Minute ||
			age > 10*time.Minute ||
			p[4] == "" {
			t.Fatalf("the dissector reads %q after the number %d", p, last)
		}
		last = number
	}
}

// ofFlows are the lines about flows from edge to edge.
func ofFlows(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return !strings.HasPrefix(line, `{"kind":"edge-flow",`) })
}
