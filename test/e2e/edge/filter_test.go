// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// filtering has a router that is an edge with policies of namespaces: where packets arrive,
// or where they leave.
const filtering = `
name: filtering
permanent-neighbours: true
nodes:
  - {name: left, routes: [{to: "::/0", via: 2001:db8:1::1}]}
  - name: router
    agent:
      node: {id: 2}
      interfaces:
        - {name: %[1]s, id: 201, role: [ingress, egress], attach: %[3]s}
        - {name: %[2]s, id: 202, role: [], boundary: {default: drop, namespaces: {123: ignore, 7: strip}}, attach: %[3]s}
  - {name: right, routes: [{to: "::/0", via: 2001:db8:2::1}]}
links:
  - ends:
      - {node: left, interface: eth0, addresses: 2001:db8:1::2/64}
      - {node: router, interface: eth0, addresses: 2001:db8:1::1/64}
  - ends:
      - {node: router, interface: eth1, addresses: 2001:db8:2::1/64}
      - {node: right, interface: eth0, addresses: 2001:db8:2::2/64}
`

// Headers of packets, and what is left of them behind the edge.
const (
	traceOf123 = "310e0000 007b0800 80000000 00000000"
	traceOf7   = "310e0000 00070800 80000000 00000000"
	edgeOf123  = "110a0003 007b4000 00000001"
	edgeOf7    = "110a0003 00074000 00000001"
	edgeOf9    = "110a0003 00094000 00000001"
	another    = "1e04 00000000"
)

var filtered = []struct {
	name, header string // the first octet of each header is its Next Header
	first        byte
	left         string // "": it is dropped
	leftFirst    byte
}{
	{"a namespace that passes", "1101 0100" + edgeOf123, 60, "1101 0100" + edgeOf123, 60},
	{"one that is stripped", "1101 0100" + edgeOf7, 60, "-", 17},
	{"one that is dropped", "1101 0100" + edgeOf9, 60, "", 0},
	{"stripped after a Hop-by-Hop header of others", "3c00" + another + "1101 0100" + edgeOf7, 0, "1100" + another, 0},
	{"stripped from both headers", "3c02 0100" + traceOf7 + "0102 0000" + "1101 0100" + edgeOf7, 0, "-", 17},
	{"one stays of a Hop-by-Hop header", "1104 0100" + traceOf7 + traceOf123 + "0102 0000", 0, "1102 0100" + traceOf123 + "0102 0000", 0},
	{"one stays of both headers", "3c04 0100" + traceOf7 + traceOf123 + "0102 0000" + "1102 0100" + edgeOf7 + "0104 00000000" + "0100", 0, "1102 0100" + traceOf123 + "0102 0000", 0},
	{"dropped for the second header", "3c02 0100" + traceOf123 + "0102 0000" + "1101 0100" + edgeOf9, 0, "", 0},
}

// An edge filters by namespace, in Hop-by-Hop and in Destination Options headers: the host
// behind it gets none of those that may not pass, and its kernel takes what is left. Another
// policy is in force at once.
func TestEdgeFiltersByNamespace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ inside, edge, attach string }{
		{"eth0", "eth1", string(e2e.TCModes()[0])}, {"eth1", "eth0", string(e2e.TCModes()[0])}, {"eth1", "eth0", "xdp"},
	} {
		t.Run(tt.edge+", "+tt.attach, func(t *testing.T) {
			t.Parallel()
			l := e2e.RaiseText(t, "filtering", fmt.Sprintf(filtering, tt.inside, tt.edge, tt.attach))
			received := listenUDP(t, l)
			checkFiltered(t, l)
			if n := received(); n != 6 {
				t.Errorf("the host's socket received %d datagrams, want 6", n)
			}
			counters := e2e.StatusInterface(t, l, "router", tt.edge)
			outcomes := map[bool]map[string]uint64{true: counters.Ingress, false: counters.Egress}[tt.edge == "eth0"]
			if outcomes["boundary_ignored"] != 1 || outcomes["boundary_stripped"] != 5 || outcomes["boundary_dropped"] != 2 {
				t.Errorf("the edge counted %v", outcomes)
			}
			if counters.Boundary != "drop" || counters.Namespaces["123"] != "ignore" || counters.Namespaces["7"] != "strip" {
				t.Errorf("status: boundary %s, namespaces %v", counters.Boundary, counters.Namespaces)
			}
			instance, err := l.Node("router").Instance()
			if err != nil {
				t.Fatal(err)
			}
			change := api.InterfaceChange{
				Boundary: &config.Boundary{
					Default:    model.BoundaryStrip,
					Namespaces: []model.NamespacePolicy{{Namespace: 9, Boundary: model.BoundaryIgnore}},
				},
			}
			if _, err := api.NewClient(instance.Socket()).SetInterface(t.Context(), tt.edge, change); err != nil {
				t.Fatal(err)
			}
			got, bare := e2e.Exchange(t, l, packetsTo(t)), withHeader(t, 1, 17, "-")
			bare[7]--
			if !bytes.Equal(got[1], bare) || len(got) != len(filtered) || !bytes.Contains(got[3], craft.Hex(t, edgeOf9)) {
				t.Errorf("with other policies, %d packets arrived: %x", len(got), got)
			}
		})
	}
}

// withHeader is a datagram whose flow label is its number.
func withHeader(t *testing.T, number int, first byte, header string) []byte {
	t.Helper()
	datagram := craft.Datagram(9, 9, byte(number), 1, 2, 3)
	packet := e2e.Packet(number, 64, craft.Hex(t, strings.Trim(header, "-")), datagram)
	packet[6] = first
	return craft.Seal(packet)
}

func packetsTo(t *testing.T) (list [][]byte) {
	t.Helper()
	for i, tt := range filtered {
		list = append(list, withHeader(t, i+1, tt.first, tt.header))
	}
	return list
}

// checkFiltered sends all packets, and compares what arrives.
func checkFiltered(t *testing.T, l *lab.Lab) {
	t.Helper()
	got := e2e.Exchange(t, l, packetsTo(t))
	for i, tt := range filtered {
		packet, arrived := got[i+1]
		if arrived == (tt.left == "") {
			t.Errorf("%s: arrived %v", tt.name, arrived)
			continue
		}
		if !arrived {
			continue
		}
		want := withHeader(t, i+1, tt.leftFirst, tt.left)
		want[7]-- // the router's hop
		if !bytes.Equal(packet, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, hex.Dump(packet), hex.Dump(want))
		}
	}
}

// listenUDP counts the datagrams that a socket of the host receives.
func listenUDP(t *testing.T, l *lab.Lab) (received func() int) {
	t.Helper()
	var conn net.PacketConn
	err := l.Node("right").Do(func() (err error) {
		conn, err = net.ListenPacket("udp6", net.JoinHostPort(e2e.RightAddress.String(), "9"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func() (n int) {
		b := make([]byte, 64)
		for conn.SetReadDeadline(time.Now().Add(patience.Of(200*time.Millisecond))) == nil {
			if _, _, err := conn.ReadFrom(b); err != nil {
				break
			}
			n++
		}
		return n
	}
}
