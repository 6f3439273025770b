// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// exporter is the exporter of an agent, which sends to a collector until the test ends.
func exporter(t *testing.T, node, address string) *ipfixsink.Sink {
	t.Helper()
	encoder, err := ipfixsink.NewEncoder(ipfix.EnterpriseExample)
	if err != nil {
		t.Fatal(err)
	}
	facts := func() sink.Facts {
		links := []sink.Interface{{Index: 2, Name: "eth0", ID: 2}}
		return sink.Facts{Node: node, NodeID: 7, NodeIDWide: ioam.NodeIDWideUnavailable, Interfaces: links}
	}
	env := sink.Environment{Log: slog.New(slog.DiscardHandler), Facts: facts, Changes: &sink.Changes{}, Shared: &sync.Map{}}
	out, err := ipfixsink.New(ipfixsink.Config{Transport: ipfixsink.UDP, Address: address, Domain: 1, Refresh: time.Second}, encoder, env)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { out.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return out
}

// Aggregated flows, postcards without a number and measured delays that an agent's exporter sends are in the answers, and
// the answer about paths says that they came instead.
func TestRecordsOfAnExporter(t *testing.T) {
	r := run(t, fmt.Sprintf(file, t.TempDir()))
	out := exporter(t, "porthos", r.to)
	now := time.Now().Truncate(time.Second)
	port, other := uint16(40000), uint16(443)
	of := record.Packet{
		Source: storetest.Source(1), Destination: storetest.Destination(1), NextHeader: 6, SourcePort: &port,
		DestinationPort: &other, FlowLabel: 9,
	}
	const n = 5
	for i := range n {
		at := now.Add(time.Duration(i-n) * time.Second)
		out.Offer(&record.Flow{
			Time: instant.Of(at), Role: record.Transit, IngressIfIndex: 2, EgressIfIndex: 2, Namespace: 123, TraceType: 0xf80000,
			FlowID: record.NewField(uint32(77), true), Packet: of, Packets: 100, Bytes: 12_800,
			First: instant.Of(at.Add(-time.Second)), Last: instant.Of(at),
			TransitDelay: &record.Delays{Min: uint32(1000 + i), Max: uint32(9000 + i), Sum: 300_000, Count: 100},
			SequenceGaps: record.NewField(uint64(i), true), Reordered: record.NewField(uint64(1), true),
			HopLimit: record.HopLimits{Min: 62, Max: 63}, EndReason: record.EndInterval,
		}, &record.Postcard{
			Time: instant.Of(at), Role: record.Transit, IngressIfIndex: 2, EgressIfIndex: 2, Option: ioam.IOAMDirectExport.String(),
			Namespace: 123,
			TraceType: 0x080000, Packet: of, Raw: ioam.NodeData{Type: 0x080000, Bytes: []byte{0, 0, 0x10, byte(i)}},
		}, &record.Delay{
			Measurement: record.Measurement{
				Time: instant.Of(at), Flow: "gold", FlowID: 5, Scope: record.WholeWay, From: 0, To: 2, Start: instant.Of(at),
				Length: uint64(time.Second), Block: record.NewField(uint64(at.Unix()), true),
			},
			Method: loss.MeanOfSums, Samples: 1, Min: int64(1000 + 10*i), Mean: int64(1000 + 10*i), P95: int64(1000 + 10*i),
			Jitter:         record.Field[uint64]{Present: true},
			FromClockError: record.NewField(uint64(20), true), ToClockError: record.NewField(uint64(30), true),
		})
	}
	r.until("all records are written", func(h *query.Health) bool { return h.Store.Records >= 3*n })
	var flows query.AggregatedFlows
	r.ask("/v1/flows?namespace=123&node=porthos", &flows)
	if len(flows.Flows) != 2 {
		t.Fatalf("%+v", flows)
	}
	f, card := &flows.Flows[0], &flows.Flows[1]
	if *f.FlowID != 77 || f.Role != "transit" || f.From != of.Source.String() || *f.SourcePort != port || f.FlowLabel != 9 ||
		f.Records != n ||
		f.Packets != 100*n || f.Bytes != 12_800*n || *f.Missing != 10 || *f.Late != n || f.Unknown != 0 ||
		*f.Held != (query.HeldFor{Count: 100 * n, Min: 1000, Mean: 3000, Max: 9004}) || !f.Last.Equal(now.Add(-time.Second)) {
		t.Errorf("%+v %+v", f, f.Held)
	}
	if card.FlowID != nil || card.Postcards != n || card.Packets != 0 ||
		*card.Held != (query.HeldFor{Count: n, Min: 4096, Mean: 4098, Max: 4100}) {
		t.Errorf("%+v %+v", card, card.Held)
	}
	var delays query.MeasuredDelays
	r.ask("/v1/delay?flow=gold&step=1s&since=10m", &delays)
	if len(delays.Delays) != 1 || len(delays.Delays[0].Series) != n {
		t.Fatalf("%+v", delays)
	}
	if d := &delays.Delays[0]; d.Method != "mean-of-sums" || d.Samples != n || d.Min != 1000 || d.Mean != 1020 || *d.Jitter != 10 ||
		*d.FromClock != 20 || *d.ToClock != 30 || d.Unknown != 0 || len(d.Warnings) != 0 {
		t.Errorf("%+v", d)
	}
	var paths query.Paths
	r.ask("/v1/paths", &paths)
	if i := paths.Instead; i == nil || i.Flows != n || i.Postcards != n {
		t.Errorf("%+v", i)
	}
}
