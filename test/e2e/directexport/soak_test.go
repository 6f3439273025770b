// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// A collector that is ended, in peace or by SIGKILL, and started again, again and
// again, while the first node exports a postcard for each of many packets: each of
// them was received, or is counted where it was lost, or may have been. WAYMARK_SOAK
// says for how long (10m, for example).
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
	// Little is then unsure: a host that may hold more makes more so.
	if out, err := l.Node("beta").Command(t.Context(), "sysctl", "-qw", "net.ipv4.tcp_rmem=4096 131072 262144").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := startCounting(t, l)
	ended, done := make(chan struct{}), make(chan uint64, 1)
	go func() { done <- sendUntil(t, l, ended) }()
	var sum account
	for life := 0; ; life++ {
		awaitExporters(t, l, "athos")
		time.Sleep(lasts / time.Duration(restarts+1))
		if life == restarts {
			break
		}
		sum = endLife(t, l, c, sum, life%2 == 1)
		time.Sleep(lasts / time.Duration(restarts+1) / 10)
		c = startCounting(t, l)
	}
	close(ended)
	sent := <-done - droppedBy(t, l.Node("alpha"), "eth0")
	e2e.Await(t, "all is sent", 60*time.Second, func() bool {
		e := e2e.StatusOf(t, l, "athos").Records.Exporters[0]
		return e.Queued == 0 && *e.Connected
	})
	time.Sleep(patience.Of(time.Second))
	sum = endLife(t, l, c, sum, false)
	status := e2e.StatusOf(t, l, "athos")
	counts, _ := exportCounts(t, l, "athos")
	lost := uint64(0)
	for _, i := range status.Interfaces {
		lost += i.RecordsLost
	}
	e := status.Records.Exporters[0]
	said := fmt.Sprintf("%d packets: %d postcards, %d suppressed, %d lost in rings; %d read: %d written, %d dropped, %d failed; %d received, %d unsure",
		sent, counts.Postcards, counts.ExportsSuppressed, lost, status.Records.Read, e.Written, e.Dropped, e.Failed, sum.received, e.Unsure)
	t.Log(said)
	if counts.Postcards+counts.ExportsSuppressed+lost != sent || status.Records.Read != counts.Postcards ||
		e.Written+e.Dropped+e.Failed != status.Records.Read || sum.received > e.Written || e.Written > sum.received+e.Unsure || sum.received == 0 {
		t.Error(said)
	}
}

// sendUntil sends packets until it is told to end, and tells how many.
func sendUntil(t *testing.T, l *lab.Lab, ended <-chan struct{}) (sent uint64) {
	for {
		select {
		case <-ended:
			return sent
		default:
		}
		r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 20_000, Interval: 2 * time.Microsecond, Size: 100, Port: 9000})
		if err != nil {
			t.Error(err)
			return sent
		}
		sent += uint64(r.Sent)
	}
}

// droppedBy is how many packets a device has lost, as where its peer has no room:
// a slow machine's router never sees them.
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
