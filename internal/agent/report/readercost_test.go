// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// tracedLine is the trace of a packet over two nodes.
const tracedLine = `{"kind":"trace","time":"2026-11-21T16:13:02.000020000Z","node":"r3","namespace":123,"trace_type":"0xfa0000",` +
	`"option":"pre-allocated-trace","overflow":false,"remaining":0,` +
	`"packet":{"source":"2001:db8:1::1","destination":"2001:db8:2::1","next_header":17,"source_port":40001,"destination_port":9000,` +
	`"length":128},` +
	`"nodes":[{"hop_limit":64,"node_id":1,"ingress_id":101,"egress_id":102,"timestamp":"2026-11-21T16:13:02.000010000Z",` +
	`"transit_delay_ns":8000,"queue_depth":0},` +
	`{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202,"timestamp":"2026-11-21T16:13:02.000020000Z","transit_delay_ns":9000,` +
	`"queue_depth":0}]}`

// A reader gets what it asked for and waits for nothing else. WAYMARK_RECORDS=1000000 with -v measures what that costs
// the agent and the reader together.
func TestCostOfReaders(t *testing.T) {
	n := 3000
	if text := os.Getenv("WAYMARK_RECORDS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1000 {
			t.Fatalf("WAYMARK_RECORDS=%s: want a number from 1000 on", text)
		}
	}
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	parsed, err := record.Parse([]byte(tracedLine))
	if err != nil {
		t.Fatal(err)
	}
	usual := parsed.(*record.Trace)
	wanted := *usual
	port := uint16(443)
	wanted.Packet.DestinationPort = &port
	const rounds = 10
	batch := make([]record.Record, 100)
	for i := range batch {
		batch[i] = usual
	}
	batch[len(batch)-1] = &wanted
	for _, c := range []struct {
		name  string
		reads bool
		f     api.RecordFilter
		each  int // records of a batch that it gets
	}{
		{"no reader", false, api.RecordFilter{}, 0},
		{"--port of none", true, api.RecordFilter{Port: 444}, 0},
		{"--port of 1 in 100", true, api.RecordFilter{Port: 443}, 1},
		{"--where of 1 in 100", true, api.RecordFilter{Where: "packet.destination_port == 443"}, 1},
		{"all", true, api.RecordFilter{}, 100},
	} {
		var got atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		done, ready := make(chan error, 1), make(chan struct{})
		if c.reads {
			go func() {
				done <- h.Client.Observe(ctx, c.f, func() { close(ready) }, func([]byte) error { got.Add(1); return nil })
			}()
			select {
			case <-ready:
			case err := <-done:
				t.Fatal(err)
			}
		}
		before, want := spent(t), int64(0)
		for range n / len(batch) / rounds {
			for range rounds { // fewer records than have room
				h.records.Offer(batch...)
			}
			want += int64(rounds * c.each)
			for until := time.Now().Add(patience.Of(10 * time.Second)); got.Load() < want; time.Sleep(200 * time.Microsecond) {
				if time.Now().After(until) {
					t.Fatalf("%s: %d of %d records came", c.name, got.Load(), want)
				}
			}
		}
		t.Logf("%-20s %4d ns of CPU for each record that is made", c.name, (spent(t)-before).Nanoseconds()/int64(n))
		cancel()
		if c.reads {
			<-done
		}
		if lost := h.records.stream.Dropped(); got.Load() != want || lost != 0 {
			t.Errorf("%s: %d records came, want %d; %d were lost", c.name, got.Load(), want, lost)
		}
		agenttest.Eventually(t, "the reader is gone", func() bool { return h.records.stream.Observers() == 0 })
	}
}

// spent is the CPU time of the process so far.
func spent(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
