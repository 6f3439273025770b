// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
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
	for _, node := range routers[1:] {
		reconfigure(t, top, node, "export: every}", "export: none}")
	}
	l := raise(t, top)
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
	await(t, "all is sent", 60*time.Second, func() bool {
		e := statusOf(t, l, "athos").Records.Exporters[0]
		return e.Queued == 0 && *e.Connected
	})
	time.Sleep(time.Second)
	sum = endLife(t, l, c, sum, false)
	status := statusOf(t, l, "athos")
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

// account is what the exporter has written and collectors have received.
type account struct{ written, unsure, received uint64 }

// endLife ends a collector, and compares what it received with what the exporter
// counts for it.
func endLife(t *testing.T, l *lab.Lab, c *counting, before account, kill bool) account {
	t.Helper()
	received, cut := c.end(kill, func() uint64 { return statusOf(t, l, "athos").Records.Read })
	await(t, "the exporter has noticed it", 10*time.Second, func() bool { return !*statusOf(t, l, "athos").Records.Exporters[0].Connected })
	e := statusOf(t, l, "athos").Records.Exporters[0]
	now := account{e.Written, e.Unsure, before.received + received}
	written, unsure := now.written-before.written, now.unsure-before.unsure
	said := fmt.Sprintf("a collector (killed: %v) received %d of %d that were written, %d of them unsure", kill, received, written, unsure)
	t.Log(said)
	if received > written || written > received+unsure || kill && received == written || !cut && received < written {
		t.Error(said)
	}
	return now
}

// counting is a collector of which only the number of postcards matters.
type counting struct {
	*collecting
	lines *lineCounter
}

// startCounting runs one in beta.
func startCounting(t *testing.T, l *lab.Lab) *counting {
	t.Helper()
	cmd := l.Node("beta").Command(t.Context(), program, "collect", "--json", "--records",
		"--listen", fmt.Sprintf("tcp://[::]:%d", collectorPort))
	lines := &lineCounter{with: []byte(`{"kind":"postcard",`)}
	return &counting{startCollect(t, cmd.Cmd, func() error {
		cmd.Stdout = lines
		return cmd.Start()
	}), lines}
}

// partingTime is how long a collector that ends lets exporters take to end their
// connections; then it cuts them.
const partingTime = 2 * time.Second

// end ends it, and gives how many postcards it has received, and whether it has
// cut connections. One that is killed hangs before, until there was more for it:
// so its host has some that it has not read. made is how many there have been.
func (c *counting) end(kill bool, made func() uint64) (received uint64, cut bool) {
	c.t.Helper()
	signal := func(s os.Signal) {
		if err := c.cmd.Process.Signal(s); err != nil {
			c.t.Fatal(err)
		}
	}
	if kill {
		signal(syscall.SIGSTOP)
		before := made()
		await(c.t, "more postcards", 10*time.Second, func() bool { return made() > before+5000 })
		time.Sleep(200 * time.Millisecond)
		signal(os.Kill)
	} else {
		signal(os.Interrupt)
	}
	c.ended = true
	start := time.Now()
	if err := c.cmd.Wait(); err != nil && !kill {
		c.t.Fatalf("collect ended with %v", err)
	}
	return c.lines.count, kill || time.Since(start) >= partingTime
}

// lineCounter counts the whole lines that begin in one way.
type lineCounter struct {
	with  []byte
	rest  []byte
	count uint64
}

func (c *lineCounter) Write(b []byte) (int, error) {
	c.rest = append(c.rest, b...)
	whole := c.rest
	for {
		line, behind, found := bytes.Cut(whole, []byte{'\n'})
		if !found {
			break
		}
		if whole = behind; bytes.HasPrefix(line, c.with) {
			c.count++
		}
	}
	c.rest = append(c.rest[:0], whole...)
	return len(b), nil
}
