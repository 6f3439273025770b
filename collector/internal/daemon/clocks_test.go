// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/internal/sink/ipfixsink"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/ipfix"
)

// exporting runs the exporter of an agent until the test ends.
func exporting(t *testing.T, to, node string, domain uint32) func(...record.Record) {
	t.Helper()
	e, err := ipfixsink.Open(
		ipfixsink.Config{Transport: ipfixsink.UDP, Address: to, Domain: domain, Refresh: time.Minute},
		ipfix.EnterpriseExample,
		sink.Environment{
			Log: slog.New(slog.DiscardHandler), Changes: &sink.Changes{}, Shared: &sync.Map{},
			Facts: func() sink.Facts { return sink.Facts{Node: node, NodeID: ioam.NodeID(domain)} },
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { e.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return e.Offer
}

// postcardOf is the postcard of a node, by its place on the way, of a packet.
func postcardOf(place int, role record.NodeRole, number uint32) *record.Postcard {
	now := time.Now()
	raw := binary.BigEndian.AppendUint32(nil, uint32(64-place)<<24|uint32(place+1))
	return &record.Postcard{
		Time: instant.Of(now), Role: role, IngressIfIndex: 2, EgressIfIndex: 3, Option: ioam.IOAMDirectExport.String(), Namespace: 123,
		TraceType: 0x800000, ExtensionFlags: 0xc0, FlowID: record.NewField[uint32](7, true), Sequence: record.NewField(number, true),
		Packet: record.Packet{
			Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), NextHeader: 58, Length: 100,
		},
		Raw: ioam.NodeData{Type: 0x800000, Bytes: raw},
	}
}

// A packet says how wrong the clock of each node was that reported it, as far as exporters say: a node that exports its
// blocks says it of itself, and the ingress of a flow says it of the flow's points. Of one that does neither, nothing is
// known.
func TestClockErrorsOfPackets(t *testing.T) {
	t.Parallel()
	r := run(t, fmt.Sprintf(file+"join: {wait: 500ms}\n", t.TempDir()))
	nodes := []string{"athos", "porthos", "dartagnan", "aramis"}
	offers := make([]func(...record.Record), len(nodes))
	for i, name := range nodes {
		offers[i] = exporting(t, r.to, name, uint32(i+1))
	}
	want := "athos 5000, porthos 3000, dartagnan unknown, aramis 6000"
	got := ""
	number := uint32(0)
	for end := time.Now().Add(patience.Of(60 * time.Second)); got != want; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s, want %s", got, want)
		}
		number++
		now := time.Now()
		m := record.Measurement{
			Time: instant.Of(now), Flow: "gold", FlowID: 9, Scope: record.WholeWay, From: 0, To: 2, FromNode: "athos", ToNode: "aramis",
			Block: record.NewField(uint64(now.Unix()-2), true), Start: instant.Of(now.Truncate(time.Second)), Length: uint64(time.Second),
		}
		for i, offer := range offers {
			role := []record.NodeRole{record.Encapsulating, record.Transit, record.Transit, record.Decapsulating}[i]
			offer(postcardOf(i, role, number))
		}
		offers[0](&record.Delay{
			Measurement: m, Method: loss.MeanOfSums, Samples: 1, Jitter: record.Field[uint64]{Present: true},
			FromClockError: record.NewField[uint64](5000, true), ToClockError: record.NewField[uint64](6000, true),
		})
		offers[1](record.NewBlock(
			m,
			200*time.Millisecond,
			&loss.Reading{Flow: 8, Point: 1, Block: now.Unix() - 2, Packets: 5, Octets: 500, ClockError: 3000},
			loss.Selection{},
		))
		got = r.clocks()
	}
}

// clocks are the clock errors of the latest packet.
func (r *running) clocks() string {
	r.t.Helper()
	var a query.Packets
	r.ask("/v1/packets?since=5m&limit=1", &a)
	var list []string
	for _, p := range a.Packets {
		for _, n := range p.Nodes {
			text := "unknown"
			if n.ClockError != nil {
				text = fmt.Sprint(*n.ClockError)
			}
			list = append(list, n.Name+" "+text)
		}
	}
	return strings.Join(list, ", ")
}
