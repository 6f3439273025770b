// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/craft"
	"github.com/waymark-net/waymark/test/e2e"
)

// trunk has a node that inserts, one that removes and switches, and one that
// receives the result; VLANs cross all of them.
const trunk = `
name: trunk
nodes:
  - name: near
    agent:
      node: {id: 1}
      interfaces: [{name: eth0, id: 101, attach: ATTACH, role: [ingress, egress]}]
      namespaces: [{id: 123}, {id: 124}]
      encapsulations:
        - {name: inline, interface: eth0, match: {destination: "2001:db8:2::/64"}, mode: inline, options: [{trace: {namespace: 123, type: 0xc00000, size: 16}}]}
        - {name: encap, interface: eth0, match: {destination: "2001:db8:3::/64"}, mode: encap, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::3"}, options: [{trace: {namespace: 124, type: 0xc00000, size: 16}}]}
  - name: switch
    agent:
      node: {id: 2}
      interfaces: [{name: eth0, id: 201, attach: ATTACH, role: [ingress, egress]}]
      namespaces: [{id: 123, remove: true}, {id: 124}]
      decapsulations: [{tunnel-destination: "2001:db8:ff::3"}]
  - {name: far}
links:
  - {mtu: 1700, ends: [{node: near, interface: eth0}, {node: switch, interface: eth0}]}
  - {mtu: 1700, ends: [{node: switch, interface: eth1}, {node: far, interface: eth0}]}
`

// Frames with 0 to 2 VLAN tags get a trace, inline and in a tunnel, lose it again, and keep their tags.
func TestTaggedFrames(t *testing.T) {
	t.Parallel()
	for _, attach := range append([]config.Attach{"xdp"}, e2e.TCModes()...) {
		t.Run(string(attach), func(t *testing.T) {
			l := e2e.RaiseText(t, "trunk", strings.ReplaceAll(trunk, "ATTACH", string(attach)))
			s := l.Node("switch")
			e2e.Must(t, s, "ip", "link", "add", "br0", "type", "bridge")
			e2e.Must(t, s, "ip", "link", "set", "br0", "up")
			for _, port := range []string{"eth0", "eth1"} {
				e2e.Must(t, s, "ip", "link", "set", port, "master", "br0")
			}
			e2e.Await(t, "the bridge forwards", 10*time.Second, func() bool {
				return strings.Count(e2e.Must(t, s, "bridge", "link", "show"), "state forwarding") == 2
			})
			for _, mode := range []struct{ name, to, added, removed string }{
				{"inline", "2001:db8:2::2", "encap_inserted", "inline_removed"},
				{"encap", "2001:db8:3::2", "encap_tunneled", "tunnel_decapsulated"},
			} {
				t.Run(mode.name, func(t *testing.T) {
					traces := e2e.Keep(t, l, "switch")
					for i, tags := range [][]uint16{nil, {0x8100}, {0x88a8}, {0x88a8, 0x8100}, {0x8100, 0x8100}} {
						checkTagged(t, l, tags, mode.to)
						for _, r := range traces.Read(t, 1) {
							if got, want := e2e.Way(r), "1 ->101 hop limit 64, 2 201>- hop limit 63"; got != want || r.Packet.Length != 48 {
								t.Errorf("tags %#x: %d bytes, %s; want 48, %s", tags, r.Packet.Length, got, want)
							}
						}
						e2e.CheckCounters(t, l, "near", map[string]uint64{mode.added: uint64(i + 1)})
						e2e.CheckCounters(t, l, "switch", map[string]uint64{mode.removed: uint64(i + 1), "decap_failed": 0})
					}
				})
			}
		})
	}
}

// checkTagged sends a frame with tags from near to an address, and checks that it arrives at far.
func checkTagged(t *testing.T, l *lab.Lab, tags []uint16, address string) {
	t.Helper()
	var from, to tap
	source := []byte{2, 0, 0, 0, 0, 1}
	var list []craft.Tag
	for i, protocol := range tags {
		list = append(list, craft.Tag{Type: protocol, Control: uint16(0x6000 + 100*(i+1))}) // priority and VLAN
	}
	packet := e2e.Packet(7, 64, nil, []byte("in a tag"))
	packet[6] = craft.NoNext
	destination := netip.MustParseAddr(address).As16()
	copy(packet[24:40], destination[:])
	frame := craft.Ethernet([]byte{2, 0, 0, 0, 0, 9}, source, packet, list...)
	if err := l.Node("far").Do(func() error { return to.open("eth0") }); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(to.fd)
	if err := l.Node("near").Do(func() error { return from.open("eth0") }); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(from.fd)
	if err := unix.Sendto(from.fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: from.index, Halen: 6}); err != nil {
		t.Fatal(err)
	}
	got, err := to.next(source)
	if err != nil {
		t.Fatalf("a frame with the tags %#x did not arrive: %v", tags, err)
	}
	if !bytes.Equal(got, frame) {
		t.Errorf("tags %#x: arrived as\n%x, want\n%x", tags, got, frame)
	}
}
