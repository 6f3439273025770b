// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// amount is the number of packets and bytes of a flow or a capture.
type amount struct{ packets, bytes uint64 }

// amounts sums flow records by node, protocol and destination port.
func amounts(flows []record.Flow) map[string]amount {
	sums := map[string]amount{}
	for _, f := range flows {
		key := fmt.Sprintf("%s %d %d", f.Node, f.Packet.NextHeader, portOf(f.Packet))
		sums[key] = amount{sums[key].packets + f.Packets, sums[key].bytes + f.Bytes}
	}
	return sums
}

func portOf(p record.Packet) uint16 {
	if p.DestinationPort == nil {
		return 0
	}
	return *p.DestinationPort
}

// awaitAmounts waits until flow records add up to what was sent, at every node,
// and checks that the sums stay the same.
func awaitAmounts(t *testing.T, c *e2e.Collecting, from int, want map[string]amount) []record.Flow {
	t.Helper()
	everywhere := map[string]amount{}
	for _, node := range e2e.Routers {
		for flow, sum := range want {
			everywhere[node+" "+flow] = sum
		}
	}
	var flows []record.Flow
	read := func() map[string]amount {
		flows = readCollected(t, c.Lines()[from:]).flows
		return amounts(flows)
	}
	e2e.Await(t, "the flows of every node", 5*time.Second, func() bool {
		sums := read()
		return len(sums) >= len(everywhere) &&
			!slices.ContainsFunc(slices.Collect(maps.Keys(everywhere)), func(k string) bool { return sums[k].packets < everywhere[k].packets })
	})
	if sums := read(); !maps.Equal(sums, everywhere) {
		t.Errorf("flows, by node, protocol and port\n%v\nwant\n%v", sums, everywhere)
	}
	return flows
}

// exportCounts sums what a node's interfaces count of exports, and their packets.
func exportCounts(t *testing.T, l *lab.Lab, node string) (sum api.Interface, packets uint64) {
	t.Helper()
	for _, i := range e2e.StatusOf(t, l, node).Interfaces {
		sum.Postcards += i.Postcards
		sum.ExportsSuppressed += i.ExportsSuppressed
		for _, counts := range []map[string]uint64{i.Ingress, i.Egress} {
			for _, n := range counts {
				packets += n
			}
		}
	}
	return sum, packets
}

// segments counts the TCP segments to a port that beta receives, as they are on
// the wire.
type segments struct {
	capture *lab.Capture
	lock    sync.Mutex
	sum     amount
}

func startSegments(t *testing.T, l *lab.Lab, port uint16) *segments {
	t.Helper()
	a := &segments{}
	var err error
	a.capture, err = l.Capture("beta", "eth0", lab.CaptureOptions{Each: func(p lab.Packet) {
		if ip := p.Data[14:]; !p.Outgoing && len(ip) >= 60 && ip[6] == 6 && binary.BigEndian.Uint16(ip[42:]) == port {
			a.lock.Lock()
			defer a.lock.Unlock()
			a.sum = amount{a.sum.packets + 1, a.sum.bytes + uint64(p.Length-14)}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *segments) stop(t *testing.T) amount {
	t.Helper()
	if stats, err := a.capture.Stop(); err != nil || stats.Dropped > 0 {
		t.Errorf("the capture at beta missed %d packets (%v)", stats.Dropped, err)
	}
	return a.sum
}
