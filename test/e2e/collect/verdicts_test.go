// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// fates are the paths of packets to a port, by verdict.
func fates(t *testing.T, lines []string, port uint16) map[string][]*record.Path {
	t.Helper()
	list := map[string][]*record.Path{}
	for _, line := range lines {
		r, err := record.Parse([]byte(line))
		p, ok := r.(*record.Path)
		if err != nil || !ok {
			t.Fatalf("%v: %s", err, line)
		}
		if p.Packet.DestinationPort != nil && *p.Packet.DestinationPort == port {
			list[p.Verdict.String()] = append(list[p.Verdict.String()], p)
		}
	}
	return list
}

// Packets that are lost before aramis are lost for the collector, too; those that arrive
// while aramis' agent has ended are not, although nobody reports them there. The collector that
// keeps has an event of it.
func TestCollectKnowsLosses(t *testing.T) {
	t.Parallel()
	const count, wait = 40, 3 * time.Second
	top := directExporting(t)
	for _, node := range []string{"athos", "porthos", "aramis"} {
		e2e.Reconfigure(t, top, node, "  - {kind: ipfix, address: \"tcp://[2001:db8:23::2]:4739\"}\n", exportTwice)
	}
	l := e2e.Raise(t, top)
	keeper := keepAtAramis(t, l)
	dropLongPackets(t, l)
	cmd := l.Node("aramis").Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "tcp://[::]:4739", "--wait",
		patience.Of(wait).String())
	c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
	awaitConnected(t, l)
	traffic := func(port uint16, size int) lab.TrafficResult {
		r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: count, Interval: 5 * time.Millisecond,
			Size: size, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	calm := func() { time.Sleep(patience.Of(2 * time.Second)) } // reports end, between which something is suppressed
	traffic(9000, 100)                                          // a hook earns no exports before its first packet on a CPU
	calm()
	lost := uint16(9001) // the port of lost packets
	for before := suppressed(t, l); ; lost++ {
		traffic(lost-1000, 100)
		if r := traffic(lost, 1400); r.Lost() != count {
			t.Fatalf("%d of %d overlong packets were lost", r.Lost(), count)
		}
		calm()
		after := suppressed(t, l)
		if after == before {
			break
		}
		before = after
	}
	e2e.Await(t, "the verdicts about lost packets", 20*time.Second, func() bool {
		of := fates(t, c.Lines(), lost)
		return len(of["lost"])+len(of["unknown"]) >= count
	})
	awaitLoss(t, keeper)
	e2e.SignalAgent(t, l, "aramis", syscall.SIGKILL)
	calm()
	if r := traffic(9500, 100); r.Lost() != 0 {
		t.Errorf("%d packets were lost without the agent", r.Lost())
	}
	e2e.Await(t, "the verdicts about packets without a report", 20*time.Second,
		func() bool { return len(fates(t, c.Lines(), 9500)["unknown"]) >= count })
	lines, stats := c.Stop()
	if of := fates(t, lines, lost-1000); len(of["arrived"]) != count {
		t.Errorf("of %d packets, %d arrived", count, len(of["arrived"]))
	}
	if of := fates(t, lines, lost); len(of["lost"]) != count || of["lost"][0].LastSeen.Node != "porthos" {
		t.Errorf("of %d lost packets, %d are lost, %d unknown: %v", count, len(of["lost"]), len(of["unknown"]), of)
	}
	of := fates(t, lines, 9500)
	if len(of["unknown"]) != count {
		t.Errorf("of %d packets without a report, %d are unknown, %d lost", count, len(of["unknown"]), len(of["lost"]))
	}
	for _, p := range of["unknown"] {
		if len(p.Unknown) != 1 || p.Unknown[0].Node != "aramis" || p.Unknown[0].Doubt != record.DoubtLate || p.Unknown[0].Since.IsZero() {
			t.Errorf("unknown because of %+v", p.Unknown)
		}
	}
	i := slices.IndexFunc(stats.Pairs, func(p e2e.Pair) bool { return p.From == "porthos" && p.To == "aramis" })
	if i < 0 || stats.Pairs[i].Lost < count || stats.Pairs[i].Unknown < count || stats.Pairs[i].Packets < 3*count ||
		stats.Counts["paths_lost"] != stats.Pairs[i].Lost {
		t.Errorf("totals %+v, %v", stats.Pairs, stats.Counts)
	}
}

// dropLongPackets has aramis' end of the link to porthos drop packets that are longer than 1300 bytes.
func dropLongPackets(t *testing.T, l *lab.Lab) {
	t.Helper()
	if err := l.Node("aramis").Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(link, 1300)
	}); err != nil {
		t.Fatal(err)
	}
}

// awaitLoss waits for the event that packets are lost after porthos, which is reported once.
func awaitLoss(t *testing.T, k *keeper) {
	t.Helper()
	type event struct {
		Event, Node, Severity string
		Labels                map[string]string
	}
	var answer struct{ Events []event }
	e2e.Await(t, "the event of a loss", 30*time.Second, func() bool {
		k.ask(t, "/v1/events?event="+record.EventLoss, &answer)
		return len(answer.Events) > 0
	})
	host, _ := os.Hostname()
	e := answer.Events[0]
	if len(answer.Events) != 1 || e.Node != host || e.Severity != "error" || e.Labels["from_node"] != "porthos" ||
		e.Labels["egress"] != "eth1" ||
		e.Labels["to_node"] != "aramis" ||
		!strings.Contains(k.notes.String(), "warning: loss_began: packets are lost after porthos eth1 > aramis") {
		t.Errorf("%+v", answer.Events)
	}
}

// A collector over UDP that starts late, and starts again, understands the exporters at
// different times: it calls no packet lost, because none was.
func TestCollectLateOverUDP(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "line")
	e2e.Reconfigure(t, top, "athos", "frequency: 1/10", "frequency: 1/1",
		"trace: {namespace: 123, type: 0xf80000, size: 60}", "dex: {namespace: 123, trace-type: 0xf80000, extension-flags: [flow-id, sequence]}")
	for id, node := range []string{"athos", "porthos", "aramis"} {
		e2e.Reconfigure(t, top, node, "- {id: 123}", "- {id: 123, export: every}",
			fmt.Sprintf("node: {id: %d", id+1), fmt.Sprintf(`export:
  - {kind: ipfix, address: "udp://[2001:db8:23::2]:4739", refresh: %ds}
node: {export-limit: 1/1, export-rate: 1000000, id: %d`, 1+3*id, id+1))
	}
	l := e2e.Raise(t, top)
	stop := e2e.StartTraffic(t, l)
	var starts []*e2e.Collecting
	total := 0
	for range 3 {
		cmd := l.Node("aramis").Command(t.Context(), e2e.Program, "collect", "--json", "--listen", "udp://[::]:4739", "--wait",
			patience.Of(2*time.Second).String())
		c := e2e.StartCollect(t, cmd.Cmd, cmd.Start)
		if starts = append(starts, c); len(starts) == 3 {
			e2e.Await(t, "whole paths", 30*time.Second, func() bool {
				whole := fates(t, c.Lines(), 9000)["arrived"]
				return len(whole) > 0 && len(whole[len(whole)-1].Nodes) == 3
			})
		}
		time.Sleep(patience.Of(3 * time.Second))
		lines, stats := c.Stop()
		of := fates(t, lines, 9000)
		total += len(of["unknown"])
		if len(of["lost"]) > 0 || stats.Counts["paths_lost"] != 0 {
			t.Errorf("%d packets are lost, of %d: %s", len(of["lost"]), len(lines), of["lost"][0].Text())
		}
		if stats.Malformed["sequence_gap"] > 0 && stats.Malformed["unknown_template"] == 0 {
			t.Logf("records were missed: %v", stats.Malformed)
		}
	}
	if r := stop(); r.Lost() != 0 {
		t.Errorf("%d packets were lost", r.Lost())
	}
	if total == 0 {
		t.Error("all paths were whole, so nothing was shown")
	}
}
