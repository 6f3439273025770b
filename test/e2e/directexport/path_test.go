// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/e2e"
)

// dexWay is one way to insert a Direct Export and to carry it through the domain.
type dexWay struct {
	name    string
	changes []string // of the routers' configurations
	fast    bool
	host    bool // alpha inserts, inline
	option  ioam.OptionType
	added   string // outcome where it is inserted
	path    string
	senders []string // nodes whose frames are captured: XDP's redirected ones cannot be
	source  string   // of the outer header
}

// outwards are the interfaces that lead to beta.
var outwards = map[string]string{"alpha": "eth0", "athos": "eth1", "porthos": "eth1"}

func dexWays() []dexWay {
	const given, source = "2001:db8:ff::1", "source: 2001:db8:ff::1, "
	stack := []string{"athos", "porthos"}
	attach := func(a string) []string { return []string{", role:", ", attach: " + a + ", role:"} }
	return []dexWay{
		{name: "XDP", senders: stack, source: given, changes: attach("xdp"), option: ioam.OptionIOAMStatic, added: "encap_tunneled", path: pathOfLine},
		{name: "tc, source derived, 0x31, over TCP", option: ioam.OptionIOAM, added: "encap_tunneled", path: pathOfLine,
			senders: stack, source: "2001:db8:12::1", changes: append(attach(string(e2e.TCModes()[0])), source, "", "[flow-id, sequence]}", "[flow-id, sequence], option-type: 0x31}", "udp://", "tcp://")},
		{name: "fast", changes: []string{source, "", ", role:", ", attach: xdp, forwarding: fast, role:"}, fast: true, option: ioam.OptionIOAMStatic,
			added: "encap_tunneled", path: pathOfLine},
		{name: "inline at a host", changes: attach("xdp"), host: true,
			option: ioam.OptionIOAMStatic, added: "encap_inserted", senders: append([]string{"alpha"}, stack...), source: "2001:db8:1::2",
			path: "alpha(9) encapsulating >eth0 ->901 64, athos(1) transit eth0>eth1 101>102 63, porthos(2) transit eth0>eth1 201>202 62, aramis(3) decapsulating eth0> 301>- 61"},
	}
}

// alphaInserts configures a host's agent that inserts the option into what it
// sends.
const alphaInserts = toCollector + `node: {id: 9, export-limit: 1/1, export-rate: 1000000}
interfaces: [{name: eth0, id: 901, role: [ingress, egress], attach: xdp}]
namespaces: [{id: 123, export: every}]
encapsulations:
  - name: all
    interface: eth0
    match: {destination: "::/0"}
    mode: inline
    options: [{` + dex + `}]
`

// Whichever way a packet takes through the domain and whatever it carries, the
// nodes report its complete path to a collector. The option arrives as it was
// sent, none leaves the domain, and the nodes' own export packets carry none.
func TestDirectExportPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range dexWays() {
		t.Run(tt.name, func(t *testing.T) {
			if tt.fast {
				e2e.NeedRedirection(t)
			}
			l, c, from := raiseDexWay(t, tt)
			beta := e2e.StartScan(t, l, "beta", "eth0")
			var links []*triggers
			for _, node := range tt.senders {
				links = append(links, startTriggers(t, l, node, outwards[node]))
			}
			const count = 20
			e2e.Send(t, l, "alpha",
				lab.Traffic{Kind: lab.KindPing, Count: count, Interval: time.Millisecond, Size: 56},
				lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: time.Millisecond, Size: 1200, Port: 9000},
				lab.Traffic{Kind: lab.KindTCP, Bytes: 100_000, Port: 9001})
			inserted := int(e2e.Settled(t, l, from, tt.added)) + int(e2e.ForwardsOf(t, l, from).Fast[tt.added])
			e2e.Await(t, fmt.Sprintf("%d paths", inserted), 10*time.Second, func() bool { return len(c.Lines()) >= inserted })
			lines, stats := c.Stop()
			e2e.CheckNothingWrong(t, stats)
			paths := readCollected(t, lines).paths
			checkPaths(t, tt, paths)
			byProtocol := map[ioam.NextHeader]int{}
			for _, p := range paths {
				byProtocol[p.Packet.NextHeader]++
			}
			if n := checkSequences(t, paths); n != inserted || byProtocol[58] != count || byProtocol[17] != count || byProtocol[6] < 3 {
				t.Errorf("%d paths of %d packets, by protocol %v", n, inserted, byProtocol)
			}
			if len(links) > 0 {
				checkUnchanged(t, tt.option, links...)
				if got := slices.Collect(maps.Keys(links[0].sources)); len(got) != 1 || got[0].String() != tt.source {
					t.Errorf("the option comes from %v, want %s", got, tt.source)
				}
			}
			if n := e2e.Counter(t, l, from, "encap_skipped_export"); n == 0 {
				t.Error("no packet to the collector matched the rule")
			}
			if stats := beta.Stop(t); stats.Dropped > 0 || beta.Packets.Load() == 0 || beta.IOAMBytes.Load() > 0 {
				t.Errorf(
					"beta received %d packets with %d bytes of IOAM; the capture missed %d",
					beta.Packets.Load(),
					beta.IOAMBytes.Load(),
					stats.Dropped,
				)
			}
			if f := e2e.ForwardsOf(t, l, "porthos"); tt.fast && f.Fast["direct_export"] == 0 {
				t.Errorf("porthos forwarded no packet in XDP: %v", f)
			}
		})
	}
}

// Each node also fills a trace in the same packet: before or after the Direct
// Export, a postcard's delay equals the delay that the node wrote into the trace.
func TestDirectExportBesideTrace(t *testing.T) {
	t.Parallel()
	// after the other option, porthos' data are among the header's last 8 bytes
	const trace = "trace: {namespace: 123, type: 0x080000, size: 12}"
	const count = 20
	for _, attach := range []string{"xdp", string(e2e.TCModes()[0])} {
		t.Run(attach, func(t *testing.T) {
			l, c := raiseCollecting(t, directExports(t, ", role:", ", attach: "+attach+", role:"))
			for _, options := range [][2]string{{trace, dex}, {dex, trace}} {
				apply(t, l, "athos", "- "+dex, "- "+options[0]+"\n      - "+options[1])
				before := len(c.Lines())
				e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: time.Millisecond, Size: 1200, Port: 9000})
				e2e.Await(t, "the paths and traces", 10*time.Second, func() bool { return len(c.Lines()) >= before+2*count })
				got := readCollected(t, c.Lines()[before:])
				checkPaths(t, dexWay{path: pathOfLine}, got.paths)
				checkDelays(t, got)
			}
			_, stats := c.Stop()
			e2e.CheckNothingWrong(t, stats)
		})
	}
}

// checkDelays checks that porthos' postcards and traces have the same delays, to
// the 4 ns that a trace resolves.
func checkDelays(t *testing.T, c collected) {
	t.Helper()
	var exported, traced []uint32
	for _, p := range c.paths {
		exported = append(exported, p.Nodes[1].TransitDelay.Value)
	}
	for _, r := range c.traces {
		if len(r.Nodes) != len(e2e.Routers) || !r.Nodes[1].TransitDelay.Valid {
			t.Fatalf("trace %+v", r)
		}
		traced = append(traced, r.Nodes[1].TransitDelay.Value)
	}
	slices.Sort(exported)
	slices.Sort(traced)
	if !slices.EqualFunc(exported, traced, func(a, b uint32) bool { return max(a, b)-min(a, b) < 4 }) {
		t.Errorf("porthos exported the delays\n%v\nand wrote into traces\n%v", exported, traced)
	}
}

// raiseDexWay raises the line; from is the inserting node.
func raiseDexWay(t *testing.T, tt dexWay) (l *lab.Lab, c *e2e.Collecting, from string) {
	t.Helper()
	top, from := directExports(t, tt.changes...), "athos"
	if tt.host {
		e2e.Reconfigure(t, top, "athos", "role: []", "role: [ingress, egress]", `destination: "::/0"`, `destination: "fd00::/64"`)
		top.Links[0].MTU = 1700 // full packets have room for the option
		e2e.Reconfigure(t, top, "aramis", "export: every}", "export: every, remove: true}")
		top.Node("alpha").Agent, from = &lab.AgentSpec{Config: []byte(alphaInserts)}, "alpha"
	}
	l, c = raiseCollecting(t, top)
	if tt.fast {
		e2e.OpenEnds(t, l, "alpha", "beta")
		e2e.Must(t, l.Node("beta"), "ethtool", "-K", "eth0", "tx", "off")
	}
	return l, c, from
}

// checkPaths checks that every path is complete and its times are consistent.
func checkPaths(t *testing.T, tt dexWay, paths []record.Path) {
	t.Helper()
	forgotten := 0
	defer func() { // packets that are inside a node at the same time can share a slot for their arrival time
		if forgotten > len(paths)/10 {
			t.Errorf("of %d packets, transit nodes did not know the delay of %d", len(paths), forgotten)
		}
	}()
	for i, p := range paths {
		if got := route(p); !p.Complete || got != tt.path {
			t.Fatalf("path %d: complete %v (%s), %s; want %s", i, p.Complete, p.Reason, got, tt.path)
		}
		if p.Packet.Destination != betaAddress || p.Delay == nil || *p.Delay <= 0 {
			t.Fatalf("path %d: packet %+v, delay %v", i, p.Packet, p.Delay)
		}
		for k, n := range p.Nodes {
			if k > 0 && (n.SincePrevious == nil || *n.SincePrevious < 0) {
				t.Fatalf("path %d: %s is %v after the previous node", i, n.Node, n.SincePrevious)
			}
			inside := k > 0 && k < len(p.Nodes)-1
			// one clock: a node cannot hold a packet for longer than since the
			// previous node
			switch d := n.TransitDelay; {
			case inside && !d.Valid && p.Packet.NextHeader == 6:
				forgotten++
			case d.Valid != inside || inside && (d.Value == 0 || int64(d.Value) > *n.SincePrevious):
				t.Fatalf("path %d: %s held it for %s, %d ns after the previous node", i, n.Node, e2e.Value(d), *n.SincePrevious)
			}
		}
	}
}
