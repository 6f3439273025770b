// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// dexFlows is a domain where the first node gets offloaded packets, and the
// second their segments.
func dexFlows(t *testing.T) *lab.Topology {
	t.Helper()
	top := directExports(t, "export: every}", "export: aggregate}")
	for node, attach := range map[string]string{"athos": string(e2e.TCModes()[0]), "porthos": "xdp", "aramis": string(e2e.TCModes()[0])} {
		e2e.Reconfigure(t, top, node, ", role:", ", attach: "+attach+", role:")
	}
	return top
}

// The nodes' sums equal what was sent, with segments of offloaded packets counted
// one by one; a sample has the same packets at every node; limits hold; and
// without an exporter, nodes make no postcards.
func TestDirectExportFlows(t *testing.T) {
	t.Parallel()
	l, c := raiseCollecting(t, dexFlows(t))
	t.Run("aggregate", func(t *testing.T) { aggregateFlows(t, l, c) })
	t.Run("sample", func(t *testing.T) { sampleFlows(t, l, c) })
	t.Run("limits", func(t *testing.T) { limitExports(t, l) })
	t.Run("unwanted", func(t *testing.T) { exportNothing(t, l) })
	t.Run("bridge", func(t *testing.T) { arriveByBridge(t, l, c) })
	_, stats := c.Stop()
	e2e.CheckNothingWrong(t, stats)
}

func aggregateFlows(t *testing.T, l *lab.Lab, c *e2e.Collecting) {
	const pings, datagrams, size = 30, 500, 300
	tcp := startSegments(t, l, 9001)
	e2e.Send(t, l, "alpha",
		lab.Traffic{Kind: lab.KindPing, Count: pings, Interval: time.Millisecond, Size: 56},
		lab.Traffic{Kind: lab.KindUDP, Count: datagrams, Interval: 4 * time.Millisecond, Size: size, Port: 9000},
		lab.Traffic{Kind: lab.KindTCP, Bytes: 8 << 20, Port: 9001})
	time.Sleep(patience.Of(200 * time.Millisecond)) // the connection's last packets
	flows := awaitAmounts(t, c, 0, map[string]amount{
		"58 0":    {pings, pings * (40 + 8 + 56)},
		"17 9000": {datagrams, datagrams * (40 + 8 + size)},
		"6 9001":  tcp.stop(t),
	})
	hopLimits := map[string]uint8{"athos": 63, "porthos": 62, "aramis": 61}
	ended, measured, intervals := map[string]bool{}, uint64(0), 0
	for _, f := range flows {
		// a connection that moves to another CPU may be numbered in an order
		// other than the order of sending
		if f.Reordered.Value > 0 && f.Packet.NextHeader != 6 ||
			f.HopLimit != (record.HopLimits{Min: hopLimits[f.Node], Max: hopLimits[f.Node]}) ||
			f.Last.Before(f.First.Time) {
			t.Errorf("flow %+v", f)
		}
		if f.EndReason == record.EndOfFlow && f.Packet.NextHeader == 6 {
			ended[f.Node] = true
		} else if f.EndReason != record.EndInterval {
			t.Errorf("%s: flow %+v ended by %v", f.Node, f.Packet, f.EndReason)
		}
		if f.Node == "athos" && f.Packet.NextHeader == 17 {
			intervals++
		}
		if d := f.TransitDelay; f.Node == "porthos" && f.Packet.NextHeader == 17 {
			measured += d.Count
			if d.Min == 0 || d.Max < d.Min || d.Sum < d.Count*uint64(d.Min) || d.Sum > d.Count*uint64(d.Max) {
				t.Errorf("delays %+v", d)
			}
		} else if f.Node != "porthos" && d != nil && d.Count > 0 {
			t.Errorf("%s: delays %+v, want none", f.Node, d)
		}
	}
	if len(ended) != len(e2e.Routers) || measured < datagrams*9/10 || intervals < 2 {
		t.Errorf("TCP ended at %v; %d of %d delays; %d intervals of 2 s", ended, measured, datagrams, intervals)
	}
}

func sampleFlows(t *testing.T, l *lab.Lab, c *e2e.Collecting) {
	const count, every = 200, 10
	for _, node := range e2e.Routers {
		apply(t, l, node, "export: aggregate}", fmt.Sprintf("export: sample, sample: %d}", every))
	}
	before := len(c.Lines())
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: time.Millisecond, Size: 100, Port: 9002})
	awaitAmounts(t, c, before, map[string]amount{"17 9002": {count, count * 148}})
	paths := readCollected(t, c.Lines()[before:]).paths
	var numbers []uint32
	for _, p := range paths {
		numbers = append(numbers, p.Sequence)
		if got := route(p); !p.Complete || got != pathOfLine {
			t.Errorf("complete %v, %s", p.Complete, got)
		}
	}
	slices.Sort(numbers)
	if len(numbers) != count/every || numbers[0] != 0 || numbers[len(numbers)-1] != count-every {
		t.Errorf("the sample has the sequence numbers %v", numbers)
	}
}

// RFC 9326 §3.1.2: by default, one export in a hundred packets. After a reload,
// an interface has the largest credit that it can save, so the first packets are
// all exported.
func limitExports(t *testing.T, l *lab.Lab) {
	const saved, first, count = 64, 60, 20_000
	burst := uint64(saved * runtime.NumCPU())
	for _, node := range e2e.Routers {
		apply(t, l, node, "export-limit: 1/1, ", "", "export: aggregate}", "export: every}")
	}
	before, packetsBefore := map[string]api.Interface{}, map[string]uint64{}
	for _, node := range e2e.Routers {
		before[node], packetsBefore[node] = exportCounts(t, l, node)
	}
	since := func(node string) (written, suppressed, packets uint64) {
		now, seen := exportCounts(t, l, node)
		return now.Postcards - before[node].Postcards, now.ExportsSuppressed - before[node].ExportsSuppressed, seen - packetsBefore[node]
	}
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: first, Interval: time.Millisecond, Size: 100, Port: 9003})
	for _, node := range e2e.Routers {
		if written, suppressed, _ := since(node); written != first || suppressed > 0 {
			t.Errorf("%s: %d postcards and %d suppressed, of the first %d packets after a reload", node, written, suppressed, first)
		}
	}
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Interval: 20 * time.Microsecond, Size: 100, Port: 9003})
	for _, node := range e2e.Routers {
		written, suppressed, packets := since(node)
		if least, most := uint64(count/model.DefaultExportLimit), packets/model.DefaultExportLimit+burst; written < least || written > most {
			t.Errorf("%s: %d postcards, want %d to %d", node, written, least, most)
		}
		if written+suppressed != first+count {
			t.Errorf("%s: %d postcards and %d suppressed, of %d packets", node, written, suppressed, first+count)
		}
		status := e2e.StatusOf(t, l, node)
		if !slices.ContainsFunc(status.Warnings, func(w health.Warning) bool { return w.Code == health.ExportsSuppressed }) {
			t.Errorf("%s warns of %v, want a warning of suppressed exports", node, status.Warnings)
		}
		instance, err := l.Node(node).Instance()
		if err != nil {
			t.Fatal(err)
		}
		text, err := api.NewClient(instance.Socket()).Metrics(t.Context())
		if err != nil || !strings.Contains(string(text), "waymark_exports_suppressed_total{interface=") {
			t.Errorf("%s: no metric of suppressed exports (%v)", node, err)
		}
	}
}

func exportNothing(t *testing.T, l *lab.Lab) {
	for _, node := range e2e.Routers {
		apply(t, l, node, toCollector, "", "export: aggregate}", "export: every}")
	}
	before := e2e.Counter(t, l, "aramis", "tunnel_decapsulated")
	sums := map[string]api.Interface{}
	for _, node := range e2e.Routers {
		sums[node], _ = exportCounts(t, l, node)
	}
	const count = 200
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindUDP, Count: count, Size: 100, Port: 9004})
	if n := e2e.Counter(t, l, "aramis", "tunnel_decapsulated") - before; n != count {
		t.Errorf("%d packets carried the option, want %d", n, count)
	}
	for _, node := range e2e.Routers {
		now, _ := exportCounts(t, l, node)
		if now.Postcards != sums[node].Postcards || now.ExportsSuppressed != sums[node].ExportsSuppressed {
			t.Errorf("%s: %+v became %+v without an exporter", node, sums[node], now)
		}
	}
}

// The kernel reports that packets arrived on the bridge; their delay is measured,
// and the interface id is that of the bridge's only port.
func arriveByBridge(t *testing.T, l *lab.Lab, c *e2e.Collecting) {
	for _, node := range e2e.Routers {
		apply(t, l, node, "export: aggregate}", "export: every}")
	}
	err := l.Node("porthos").Do(func() error {
		br, err := e2e.Bridge("br0", "eth0")
		if err != nil {
			return err
		}
		return e2e.Arrange(
			e2e.Arrangement{Master: br, Members: []string{"eth0"}, On: "br0", Address: map[string]string{"eth0": "2001:db8:12::2/64"},
				Routes: map[string][]string{"2001:db8:12::1": {"2001:db8:1::/64", "2001:db8:ff::1/128"}}},
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	var last record.Path
	e2e.Await(t, "a path by the bridge", 10*time.Second, func() bool {
		before := len(c.Lines())
		r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 1, Size: 100, Port: 9005})
		if err != nil || r.Lost() > 0 {
			return false // neighbours have to be resolved again
		}
		time.Sleep(patience.Of(200 * time.Millisecond))
		paths := readCollected(t, c.Lines()[before:]).paths
		if len(paths) > 0 {
			last = paths[len(paths)-1]
		}
		return last.Complete && route(last) == strings.Replace(pathOfLine, "transit eth0>", "transit >", 1)
	})
	if n := last.Nodes[1]; n.IngressIfIndex == 0 || !n.TransitDelay.Valid {
		t.Errorf("%+v, want the bridge's index and a delay", n)
	}
}
