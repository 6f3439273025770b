// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"maps"
	"os"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// arrivals is what a node reports on missing packets and on packets that it received.
type arrivals struct {
	packets, missing uint64
	unknown          int
}

// arrivalsTo sums flow records to a port by node.
func arrivalsTo(flows []record.Flow, port uint16) map[string]arrivals {
	sums := map[string]arrivals{}
	for _, f := range flows {
		if portOf(f.Packet) != port {
			continue
		}
		g := sums[f.Node]
		g.packets += f.Packets
		g.missing += f.SequenceGaps.Value
		if !f.SequenceGaps.Valid {
			g.unknown++
		}
		sums[f.Node] = g
	}
	return sums
}

// Packets of connections that several CPUs handle are reported missing where they
// were lost, and nowhere else.
func TestDirectExportMissingPackets(t *testing.T) {
	t.Parallel()
	top := directExports(t, "export: every}", "export: aggregate}")
	for _, node := range e2e.Routers {
		e2e.Reconfigure(t, top, node, ", role:", ", attach: "+string(e2e.TCModes()[0])+", role:")
	}
	l, c := raiseCollecting(t, top)
	const port = 9100
	discard(t, l, port)
	time.Sleep(patience.Of(2 * time.Second)) // packets from before the programs were attached are unknown
	type traffic struct {
		name, network string
		connections   int
		writes, size  int
		every         time.Duration
		drops         bool
	}
	drops := startDropper(t, l.Node("porthos"), "eth0")
	for _, tt := range []traffic{
		{"TCP", "tcp", 12, 300, 1200, 100 * time.Microsecond, false},
		{"UDP", "udp", 3, 2000, 200, time.Millisecond, false},
		{"TCP with losses", "tcp", 1, 4000, 1200, 300 * time.Microsecond, true},
		{"UDP with losses", "udp", 1, 2000, 200, time.Millisecond, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := len(c.Lines())
			if tt.drops {
				drops.restart(t)
			}
			lost := drops.dropped(t)
			for range tt.connections {
				if err := spread(l, tt.network, port, tt.writes, tt.size, tt.every); err != nil {
					t.Fatal(err)
				}
			}
			lost = drops.dropped(t) - lost
			if lost == 0 != !tt.drops {
				t.Fatalf("%d packets were dropped of %d", lost, drops.seen(t))
			}
			var sums map[string]arrivals
			settled := time.Now()
			e2e.Await(t, "the last flow records", 30*time.Second, func() bool {
				now := arrivalsTo(readCollected(t, c.Lines()[before:]).flows, port)
				if !maps.Equal(now, sums) {
					sums, settled = now, time.Now()
				}
				return time.Since(settled) > 3*time.Second // flow intervals last a second
			})
			t.Logf("%d dropped: %+v", lost, sums)
			for _, node := range e2e.Routers {
				want := arrivals{packets: sums["athos"].packets}
				if node != "athos" {
					want.missing = lost
				}
				// for offloaded packets, packets counts segments, and missing
				// counts sequence numbers
				if got := sums[node]; got.missing != want.missing || got.unknown > 0 ||
					tt.network == "udp" && got.packets != want.packets-want.missing {
					t.Errorf("%s: %+v, want %+v", node, got, want)
				}
			}
		})
	}
	if _, err := os.Stat("/sys/devices/system/cpu/cpu1"); err != nil {
		t.Log("this machine has one CPU: packets could not use several")
	}
}
