// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/ioam"
)

// What the data plane exports of a packet is told to the last field.
func TestPostcardOfAnExport(t *testing.T) {
	x, err := NewExports("porthos", model.NodeConfig{
		ID:         2,
		Interfaces: []model.Interface{{Index: 2, Name: "eth0", ID: 201, IDWide: 201}, {Index: 3, Name: "eth1", ID: 202, IDWide: 202}},
		Namespaces: []model.Namespace{{ID: 123}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := x.Postcard(datapath.Postcard{
		Time: time.Date(2026, 11, 21, 5, 21, 0, 1, time.UTC),
		Export: model.Export{
			Role: model.ExportRole(2), Ingress: 2, Egress: 3, HopLimit: 63,
			Option: ioam.DirectExport{Namespace: 123, Flags: 0x85, ExtensionFlags: 0xc1, Type: 0xc00000, FlowID: 7, Sequence: 9},
			Flow: model.Flow{
				Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), NextHeader: 17,
				SourcePort: 4242, DestinationPort: 9, FlowLabel: 5,
			},
			Length: 128,
		},
	})
	const want = `{"kind":"postcard","time":"2026-11-21T05:21:00.000000001Z","node":"porthos","role":"transit",` +
		`"ingress":"eth0","egress":"eth1","ingress_ifindex":2,"egress_ifindex":3,"option":"direct-export","namespace":123,"trace_type":"0xc00000",` +
		`"flags":"0x85","extension_flags":"0xc1","flow_id":7,"sequence":9,` +
		`"packet":{"source":"2001:db8:1::2","destination":"2001:db8:2::2","next_header":17,"source_port":4242,"destination_port":9,"flow_label":5,"length":128},` +
		`"data":{"hop_limit":63,"node_id":2,"ingress_id":201,"egress_id":202}}`
	if got, err := json.Marshal(p); err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
}
