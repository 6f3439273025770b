// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// A collector is repeatedly ended, by SIGINT or SIGKILL, and started again while
// the first node exports a postcard for each of many packets. Each postcard was
// received, is counted as lost, or is counted as unsure. WAYMARK_SOAK sets the
// duration (for example 10m).
func TestDirectExportCollectorRestarts(t *testing.T) {
	t.Parallel()
	lasts, restarts := 12*time.Second, 3
	if s := os.Getenv("WAYMARK_SOAK"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		lasts, restarts = d, 10
	}
	top := directExports(t, "udp://[2001:db8:2::2]:4739\", message-size: 1200", "tcp://[2001:db8:2::2]:4739\"")
	for _, node := range e2e.Routers[1:] {
		e2e.Reconfigure(t, top, node, "export: every}", "export: none}")
	}
	l := e2e.Raise(t, top)
	// A small buffer keeps the unsure count low: all that the host may still hold
	// is unsure.
	if out, err := l.Node("beta").Command(t.Context(), "sysctl", "-qw", "net.ipv4.tcp_rmem=4096 131072 262144").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := startCounting(t, l)
	ended, done := make(chan struct{}), make(chan uint64, 1)
	traffic := &traffic{}
	go func() { done <- traffic.sendUntil(t, l, ended) }()
	var sum account
	for life := 0; ; life++ {
		awaitExporters(t, l, "athos")
		time.Sleep(lasts / time.Duration(restarts+1))
		if life == restarts {
			break
		}
		sum = endLife(t, l, c, traffic, sum, life%2 == 1)
		time.Sleep(lasts / time.Duration(restarts+1) / 10)
		c = startCounting(t, l)
	}
	close(ended)
	sent := <-done - droppedBy(t, l.Node("alpha"), "eth0")
	e2e.Await(t, "all is sent", 60*time.Second, func() bool {
		e := e2e.StatusOf(t, l, "athos").Records.Sinks[0]
		return e.Queued == 0 && *e.Connected
	})
	time.Sleep(patience.Of(time.Second))
	sum = endLife(t, l, c, traffic, sum, false)
	status := e2e.StatusOf(t, l, "athos")
	counts, _ := exportCounts(t, l, "athos")
	lost := uint64(0)
	for _, i := range status.Interfaces {
		lost += i.RecordsLost
	}
	e := status.Records.Sinks[0]
	said := fmt.Sprintf(
		"%d packets: %d postcards, %d suppressed, %d lost in rings; %d read: %d written, %d dropped, %d failed; "+
			"%d received, %d unsure, %d unacknowledged",
		sent,
		counts.Postcards,
		counts.ExportsSuppressed,
		lost,
		status.Records.Read,
		e.Written,
		e.Dropped,
		e.Failed,
		sum.received,
		e.Unsure,
		e.Unacknowledged,
	)
	t.Log(said)
	if counts.Postcards+counts.ExportsSuppressed+lost != sent || status.Records.Read != counts.Postcards ||
		e.Written+e.Dropped+e.Failed != status.Records.Read || sum.received > e.Written+e.Unacknowledged ||
		e.Written > sum.received+e.Unsure ||
		sum.received == 0 {
		t.Error(said)
	}
}

// traffic sends packets.
type traffic struct{ sending sync.Mutex }

// paused calls a function while nothing is sent.
func (x *traffic) paused(do func()) {
	x.sending.Lock()
	defer x.sending.Unlock()
	do()
}

// sendUntil sends packets until ended is closed, and returns how many.
func (x *traffic) sendUntil(t *testing.T, l *lab.Lab, ended <-chan struct{}) (sent uint64) {
	for {
		select {
		case <-ended:
			return sent
		default:
		}
		x.sending.Lock()
		r, err := l.Send(
			t.Context(),
			lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 20_000, Interval: 2 * time.Microsecond, Size: 100, Port: 9000},
		)
		x.sending.Unlock()
		if err != nil {
			t.Error(err)
			return sent
		}
		sent += uint64(r.Sent)
	}
}

// droppedBy returns how many packets a device dropped, for example when its peer
// had no room: a slow machine's router never sees them.
func droppedBy(t *testing.T, n *lab.Node, name string) (packets uint64) {
	t.Helper()
	err := n.Do(func() error {
		device, err := netlink.LinkByName(name)
		if err == nil {
			packets = device.Attrs().Statistics.TxDropped
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packets
}

// Agents are reloaded with flow tables of other sizes, killed and started again,
// under traffic: each packet is in exactly one flow record. Not parallel: an
// agent must be killed before it sends its next interval.
func TestDirectExportFlowsOutliveAgents(t *testing.T) {
	top := directExports(t, "export: every}", "export: aggregate}", "node: {", "node: {flows: 64, ")
	l, c := raiseCollecting(t, top)
	stop := e2e.StartTraffic(t, l)
	intervals := func(node string) (records int) {
		for _, f := range readCollected(t, c.Lines()).flows {
			if f.Node == node && f.EndReason == record.EndInterval {
				records++
			}
		}
		return records
	}
	for i, node := range e2e.Routers {
		for k, size := range []int{4096, 8, 300} {
			apply(t, l, node, "flows: 64", fmt.Sprintf("flows: %d", size), "{id: 123,", fmt.Sprintf("{id: 123, data: %d,", 10*i+k))
		}
		// What an agent has read and not yet sent dies with it, so it is killed
		// just after it sent an interval. Evicted flows are sent at any time.
		before := intervals(node)
		e2e.Await(t, "the next interval of "+node, 5*time.Second, func() bool { return intervals(node) > before })
		e2e.Await(t, "all messages of the interval of "+node, 5*time.Second, func() bool {
			status := e2e.StatusOf(t, l, node).Records
			return status.Sinks[0].Written == status.Read
		})
		e2e.Restart(t, l, node, syscall.SIGKILL)
		awaitExporters(t, l, node)
	}
	time.Sleep(patience.Of(time.Second))
	sum := stop()
	if sum.Lost() > 0 || sum.Sent < 1000 {
		t.Errorf("traffic %+v", sum)
	}
	n := uint64(sum.Sent)
	awaitAmounts(t, c, 0, map[string]amount{"17 9000": {n, n * 148}})
	_, stats := c.Stop()
	for cause, n := range stats.Malformed {
		if n > 0 && cause != "sequence_gap" && cause != "sequence_out_of_order" { // a killed agent's session begins anew
			t.Errorf("%s: %d", cause, n)
		}
	}
}
