// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"context"
	"encoding/hex"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// RemovedHeader is a record as the data plane makes it: a UDP packet of 128 bytes
// and a header with one node's data.
func RemovedHeader(t *testing.T, destination string) datapath.Record {
	t.Helper()
	header, err := hex.DecodeString("1102" + "0100" + "310e0000" + "007b0800" + "80000000" + "3f000002" + "01020000")
	if err != nil {
		t.Fatal(err)
	}
	packet := make([]byte, 48)
	packet[0], packet[6], packet[7] = 0x60, 17, 63
	copy(packet[8:], netip.MustParseAddr("2001:db8:1::2").AsSlice())
	copy(packet[24:], netip.MustParseAddr(destination).AsSlice())
	packet[41], packet[43] = 42, 9 // ports
	return datapath.Record{
		Time:      time.Unix(1_800_000_000, 1).UTC(),
		Interface: 2,
		Outcome:   model.OutcomeTunnelDecapsulated,
		Length:    128,
		Packet:    packet,
		Header:    header,
	}
}

// Observe reads records in the background until the test ends.
func Observe(t *testing.T, c *api.Client, f api.RecordFilter) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	lines, ready, done := make(chan string, 100), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if err := c.Observe(ctx, f, func() { close(ready) }, func(line []byte) error { lines <- string(line); return nil }); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	select {
	case <-ready:
	case <-time.After(patience.Of(5 * time.Second)):
		t.Fatal("not observing within 5 s")
	}
	return lines
}

func Receive(t *testing.T, lines <-chan string) record.Trace {
	t.Helper()
	select {
	case line := <-lines:
		var r record.Trace
		if err := record.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return r
	case <-time.After(patience.Of(5 * time.Second)):
		t.Fatal("no record within 5 s")
		return record.Trace{}
	}
}
