// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// alphaExports configures a host's agent that exports over UDP and TCP, even if
// only its statistics.
const alphaExports = `export: [{kind: ipfix, address: "udp://[2001:db8:2::2]:4739", refresh: 1s}, {kind: ipfix, address: "tcp://[2001:db8:2::2]:4739", refresh: 1s, observation-domain: 10}]
node: {id: 9}
interfaces: [{name: eth0, id: 901}]
`

// collectorsOfOthers names the collectors that alpha exports to.
const collectorsOfOthers = `collectors: ["udp://[2001:db8:2::2]", "tcp://[2001:db8:2::2]"]
`

// An encapsulating node without an exporter of its own forwards another node's
// exports, which match its rule. If it knows their collector, they get no Direct
// Export; otherwise they do, other nodes make postcards of them, and the node
// warns.
func TestDirectExportsOfOthers(t *testing.T) {
	t.Parallel()
	for _, forwarding := range []string{"stack", "fast"} {
		t.Run(forwarding, func(t *testing.T) {
			if forwarding == "fast" {
				e2e.NeedRedirection(t)
			}
			top := directExports(t, ", role:", ", attach: xdp, forwarding: "+forwarding+", role:")
			e2e.Reconfigure(t, top, "athos", toCollector, collectorsOfOthers)
			top.Node("alpha").Agent = &lab.AgentSpec{Config: []byte(alphaExports)}
			l, c := raiseCollecting(t, top, "--wait", "1s")
			if forwarding == "fast" {
				e2e.OpenEnds(t, l, "alpha", "beta")
				e2e.Must(t, l.Node("beta"), "ethtool", "-K", "eth0", "tx", "off")
			}
			link := startTriggers(t, l, "athos", "eth1") // captures what the stack sends
			spared := func() uint64 {
				return e2e.Counter(t, l, "athos", "encap_skipped_export") + e2e.ForwardsOf(t, l, "athos").Fast["encap_skipped_export"]
			}
			before, sent := spared(), messagesOf(t, l, "alpha")
			e2e.Await(t, "alpha has exported over both transports", 20*time.Second, func() bool {
				now := messagesOf(t, l, "alpha")
				return len(now) == 2 && now[0] >= sent[0]+2 && now[1] >= sent[1]+2
			})
			e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: 5, Interval: time.Millisecond, Size: 100, Port: 9000})
			e2e.Await(t, "what is no export has a Direct Export", 20*time.Second, func() bool { return pathsTo(t, c, 9000) == 5 })
			link.stop(t)
			if n := spared() - before; n < 4 {
				t.Errorf("athos has met %d packets to the collector", n)
			}
			if n := pathsTo(t, c, collectorPort); n > 0 {
				t.Errorf("%d exports of alpha had a Direct Export", n)
			}
			if forwarding == "stack" && len(link.seen) == 0 {
				t.Error("no Direct Export left athos while the capture ran")
			}
			checkCollectorsKnown(t, l, true)

			apply(t, l, "athos", collectorsOfOthers, "")
			e2e.Await(
				t,
				"exports have a Direct Export when their collector is not configured",
				20*time.Second,
				func() bool { return pathsTo(t, c, collectorPort) >= 2 },
			)
			checkCollectorsKnown(t, l, false)
		})
	}
}

// messagesOf returns how many messages each exporter of a node has sent.
func messagesOf(t *testing.T, l *lab.Lab, node string) (list []uint64) {
	t.Helper()
	for _, e := range e2e.StatusOf(t, l, node).Records.Sinks {
		list = append(list, e.Messages)
	}
	return list
}

// pathsTo counts the packets to a port that nodes made postcards of.
func pathsTo(t *testing.T, c *e2e.Collecting, port uint16) (n int) {
	t.Helper()
	for _, p := range readCollected(t, c.Lines()).paths {
		if d := p.Packet.DestinationPort; d != nil && *d == port {
			n++
		}
	}
	return n
}

// checkCollectorsKnown checks whether athos warns that it knows no collectors.
func checkCollectorsKnown(t *testing.T, l *lab.Lab, known bool) {
	t.Helper()
	status := e2e.StatusOf(t, l, "athos").Warnings
	unknown := slices.ContainsFunc(status, func(w health.Warning) bool { return w.Code == health.CollectorsUnknown })
	doctor, _ := e2e.In(t, l, "athos", "doctor", "--wide") // it fails if it finds an error of this machine
	if unknown == known || strings.Contains(doctor, string(health.CollectorsUnknown)) == known {
		t.Errorf("collectors known: %v, and athos warns: %+v\n%s", known, status, doctor)
	}
}
