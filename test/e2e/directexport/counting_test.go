// SPDX-License-Identifier: Apache-2.0

package directexport

import (
	"bytes"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// account holds the exporter's counts of postcards that are written, and of those that
// are unsure or not acknowledged, and how many postcards collectors received.
type account struct{ written, unsure, unacknowledged, received uint64 }

// endLife ends a collector, and compares what it received with what the exporter
// counted for it.
func endLife(t *testing.T, l *lab.Lab, c *counting, traffic *traffic, before account, kill bool) account {
	t.Helper()
	if kill {
		traffic.paused(func() { // it has printed all that it has read
			e2e.Await(t, "the collector has printed what was written", 20*time.Second, func() bool {
				e := e2e.StatusOf(t, l, "athos").Records.Sinks[0]
				return e.Queued == 0 && c.lines.count.Load() >= e.Written-before.written
			})
			if err := c.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		})
	}
	received, cut := c.end(kill, func() uint64 { return e2e.StatusOf(t, l, "athos").Records.Read })
	e2e.Await(
		t,
		"the exporter has noticed it",
		10*time.Second,
		func() bool { return !*e2e.StatusOf(t, l, "athos").Records.Sinks[0].Connected },
	)
	e := e2e.StatusOf(t, l, "athos").Records.Sinks[0]
	now := account{e.Written, e.Unsure, e.Unacknowledged, before.received + received}
	written, unsure, unacknowledged := now.written-before.written, now.unsure-before.unsure, now.unacknowledged-before.unacknowledged
	said := fmt.Sprintf("a collector (killed: %v) received %d of %d that were written, %d of them unsure; %d besides are not acknowledged",
		kill, received, written, unsure, unacknowledged)
	t.Log(said)
	if received > written+unacknowledged || written > received+unsure || kill && received == written || !cut && received < written {
		t.Error(said)
	}
	return now
}

// counting is a collector whose postcards are only counted.
type counting struct {
	*e2e.Collecting
	lines *lineCounter
}

// startCounting starts a counting collector in beta.
func startCounting(t *testing.T, l *lab.Lab) *counting {
	t.Helper()
	cmd := l.Node("beta").Command(t.Context(), e2e.Program, "collect", "--json", "--records",
		"--listen", fmt.Sprintf("tcp://[::]:%d", collectorPort))
	lines := &lineCounter{with: []byte(`{"kind":"postcard",`)}
	return &counting{e2e.StartCollect(t, cmd.Cmd, func() error {
		cmd.Stdout = lines
		return cmd.Start()
	}), lines}
}

// partingTime is how long an ending collector waits for exporters to close their
// connections before it cuts them.
const partingTime = 2 * time.Second

// end ends the collector, and returns how many postcards it received and whether
// it cut connections. A collector to be killed has been stopped, and is killed when more
// postcards were made, so that its host holds some that it has not read. made
// returns how many postcards were made so far.
func (c *counting) end(kill bool, made func() uint64) (received uint64, cut bool) {
	c.T.Helper()
	signal := func(s os.Signal) {
		if err := c.Cmd.Process.Signal(s); err != nil {
			c.T.Fatal(err)
		}
	}
	if kill {
		before := made()
		e2e.Await(c.T, "more postcards", 10*time.Second, func() bool { return made() > before+5000 })
		time.Sleep(patience.Of(200 * time.Millisecond))
		signal(os.Kill)
	} else {
		signal(os.Interrupt)
	}
	c.Ended = true
	start := time.Now()
	if err := c.Cmd.Wait(); err != nil && !kill {
		c.T.Fatalf("collect ended with %v: %s", err, c.lines.other)
	}
	return c.lines.count.Load(), kill || time.Since(start) >= partingTime
}

// lineCounter counts the complete lines with a prefix, and keeps the last one without it.
type lineCounter struct {
	with  []byte
	rest  []byte
	count atomic.Uint64
	other string
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
			c.count.Add(1)
		} else {
			c.other = string(line)
		}
	}
	c.rest = append(c.rest[:0], whole...)
	return len(b), nil
}
