// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math/rand/v2"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Every field that the data plane exports for a packet is in the record.
func TestPostcardOfAnExport(t *testing.T) {
	x, err := NewRecorder("porthos", model.NodeConfig{
		ID:         2,
		Interfaces: []model.Interface{{Index: 2, Name: "eth0", ID: 201, IDWide: 201}, {Index: 3, Name: "eth1", ID: 202, IDWide: 202}},
		Namespaces: []model.Namespace{{ID: 123}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := x.Postcard(datapath.Postcard{
		Time: time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC),
		Postcard: model.Postcard{
			Role: model.NodeRole(2), Ingress: 2, Egress: 3, HopLimit: 63,
			Option: ioam.DirectExport{Namespace: 123, Flags: 0x85, ExtensionFlags: 0xc1, Type: 0xc00000, FlowID: 7, Sequence: 9},
			Flow: model.Flow{
				Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), NextHeader: 17,
				SourcePort: 4242, DestinationPort: 9, FlowLabel: 5,
			},
			Length: 128,
		},
	})
	const want = `{"kind":"postcard","time":"2026-11-21T05:21:00.000000001Z","node":"porthos","role":"transit",` +
		`"ingress":"eth0","egress":"eth1","ingress_ifindex":2,"egress_ifindex":3,"option":"direct-export","namespace":123,` +
		`"trace_type":"0xc00000",` +
		`"flags":"0x85","extension_flags":"0xc1","flow_id":7,"sequence":9,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,` +
		`"flow_label":5,"length":128},` +
		`"data":{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202}}`
	if got := record.AppendJSON(nil, p); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Records in memory that had others are those of new memory.
func TestPostcardsInUsedMemory(t *testing.T) {
	x, err := NewRecorder("porthos", model.NodeConfig{
		ID:         2,
		Interfaces: []model.Interface{{Index: 2, Name: "eth0", ID: 201, IDWide: 201}, {Index: 3, Name: "eth1", ID: 202, IDWide: 202}},
		Namespaces: []model.Namespace{{ID: 1, Data: 11}, {ID: 2, Data: 22}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	few := func() uint32 { return r.Uint32N(5) }
	cards := make([]datapath.Postcard, 3*postcardsTogether+7)
	for range 20 {
		for i := range cards {
			cards[i] = datapath.Postcard{
				Time: time.Unix(0, r.Int64()).UTC(),
				Postcard: model.Postcard{
					Role: model.NodeRole(few()), Ingress: model.IfIndex(few()), Egress: model.IfIndex(few()), HopLimit: uint8(few()), Time: r.Int64(),
					TransitDelay: few(), QueueDepth: few(), Length: int(few()),
					Option: ioam.DirectExport{
						Namespace: ioam.NamespaceID(few()), Flags: uint8(few()), ExtensionFlags: uint8(few() << 6), FlowID: few(), Sequence: few(),
						Type: []ioam.TraceType{0, 0x800000, 0xf80000, 0xfff000}[r.IntN(4)],
					},
					Flow: model.Flow{
						Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"),
						NextHeader: ioam.NextHeader(few()), SourcePort: uint16(few() / 3), DestinationPort: uint16(few() / 4), FlowLabel: few(),
					},
				},
			}
		}
		clock, n := record.Clock{Format: ioam.TimestampPTP}, 0
		x.Postcards(cards, clock, func(records ...record.Record) {
			for _, got := range records {
				want := x.Postcard(cards[n])
				want.Clock = clock
				if !reflect.DeepEqual(got, record.Record(want)) {
					t.Fatalf("got  %+v\nwant %+v", got, want)
				}
				n++
			}
		})
		if n != len(cards) {
			t.Fatalf("%d records of %d postcards", n, len(cards))
		}
	}
}
