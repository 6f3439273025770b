// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
)

// A collector that is ended and started again, again and again, while the first
// node exports a postcard for each of many packets: each of them was received, or
// is counted where it was lost. WAYMARK_SOAK says for how long (10m, for example).
func TestDirectExportCollectorRestarts(t *testing.T) {
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
	c := startCounting(t, l)
	ended, done := make(chan struct{}), make(chan lab.TrafficResult, 1)
	go func() {
		var sum lab.TrafficResult
		defer func() { done <- sum }()
		for {
			select {
			case <-ended:
				return
			default:
			}
			r, err := l.Send(t.Context(), lab.Traffic{Kind: lab.KindUDP, From: "alpha", To: "beta", Count: 20_000, Interval: 2 * time.Microsecond, Size: 100, Port: 9000})
			if err != nil {
				t.Error(err)
				return
			}
			sum.Sent += r.Sent
		}
	}()
	received := uint64(0)
	for life := 0; ; life++ {
		time.Sleep(lasts / time.Duration(restarts+1))
		if life == restarts {
			break
		}
		received += endCounting(t, c)
		time.Sleep(lasts / time.Duration(restarts+1) / 10)
		c = startCounting(t, l)
	}
	close(ended)
	sent := uint64((<-done).Sent)
	status := statusOf(t, l, "athos")
	await(t, "all is sent", 30*time.Second, func() bool {
		status = statusOf(t, l, "athos")
		return status.Records.Exporters[0].Queued == 0
	})
	time.Sleep(time.Second)
	received += endCounting(t, c)
	sum, _ := exportCounts(t, l, "athos")
	lost := uint64(0)
	for _, i := range status.Interfaces {
		lost += i.RecordsLost
	}
	e := status.Records.Exporters[0]
	account := fmt.Sprintf("%d packets: %d postcards, %d suppressed, %d lost in rings; %d read: %d written, %d dropped, %d failed; %d received",
		sent, sum.Postcards, sum.ExportsSuppressed, lost, status.Records.Read, e.Written, e.Dropped, e.Failed, received)
	t.Log(account)
	if sum.Postcards+sum.ExportsSuppressed+lost != sent || status.Records.Read != sum.Postcards ||
		e.Written+e.Dropped+e.Failed != status.Records.Read || received != e.Written {
		t.Error(account)
	}
}

// startCounting runs a collector in beta that only counts.
func startCounting(t *testing.T, l *lab.Lab) *collecting {
	t.Helper()
	cmd := l.Node("beta").Command(t.Context(), program, "collect", "--records", "--output", os.DevNull,
		"--listen", fmt.Sprintf("tcp://[::]:%d", collectorPort))
	return startCollect(t, cmd.Cmd, cmd.Start)
}

var countedPostcards = regexp.MustCompile(`(?m)^ *(\d+) +postcards:`)

// endCounting gives how many postcards the collector received.
func endCounting(t *testing.T, c *collecting) uint64 {
	t.Helper()
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.ended = true
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("collect ended with %v", err)
	}
	counted := countedPostcards.FindStringSubmatch(c.notes.String())
	if counted == nil {
		return 0
	}
	n, err := strconv.ParseUint(counted[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
