// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/lab"
)

// trunk is a node that inserts, one that removes and switches, and one that
// sees what comes of it: VLANs cross all of them.
const trunk = `
name: trunk
nodes:
  - name: near
    agent:
      node: {id: 1}
      interfaces: [{name: eth0, id: 101, attach: ATTACH, role: [ingress, egress]}]
      namespaces: [{id: 123}]
      encapsulations: [{name: all, interface: eth0, match: {destination: "2001:db8:2::/64"}, RULE, options: [{trace: {namespace: 123, type: 0xc00000, size: 16}}]}]
  - name: switch
    agent:
      node: {id: 2}
      interfaces: [{name: eth0, id: 201, attach: ATTACH, role: [ingress, egress]}]
      namespaces: [{id: 123, remove: REMOVE}]
      decapsulations: [{tunnel-destination: "2001:db8:ff::3"}]
  - {name: far}
links:
  - {mtu: 1700, ends: [{node: near, interface: eth0}, {node: switch, interface: eth0}]}
  - {mtu: 1700, ends: [{node: switch, interface: eth1}, {node: far, interface: eth0}]}
`

// tap reads whole frames, with the tag that the kernel keeps beside them.
type tap struct{ fd, index int }

func (p *tap) open(name string) error {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
	p.index = device.Attrs().Index
	if p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	return errors.Join(
		unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
		unix.SetsockoptTimeval(p.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}),
		unix.Bind(p.fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: p.index}))
}

// next is the next frame from a certain source address of the link layer.
func (p *tap) next(source []byte) ([]byte, error) {
	frame, beside := make([]byte, 2000), make([]byte, 256)
	for {
		n, m, _, _, err := unix.Recvmsg(p.fd, frame, beside, 0)
		if err != nil {
			return nil, err
		}
		got := frame[:n]
		if n < 14 || !bytes.Equal(got[6:12], source) {
			continue
		}
		messages, err := unix.ParseSocketControlMessage(beside[:m])
		if err != nil {
			return nil, err
		}
		for _, message := range messages {
			// struct tpacket_auxdata: status, two lengths, two offsets, TCI, TPID
			if d := message.Data; len(d) >= 20 && binary.NativeEndian.Uint32(d)&unix.TP_STATUS_VLAN_VALID != 0 {
				tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(d[18:]))
				tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(d[16:]))
				got = append(append(bytes.Clone(got[:12]), tag...), got[12:]...)
			}
		}
		return got, nil
	}
}

// Frames with 0 to 2 VLAN tags get a trace and lose it again, and come out with
// the tags that they had.
func TestTaggedFrames(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct{ name, rule, remove, added, removed string }{
		{"inline", "mode: inline", "true", "encap_inserted", "inline_removed"},
		{"encap", `mode: encap, tunnel: {source: "2001:db8:ff::1", destination: "2001:db8:ff::3"}`, "false", "encap_tunneled", "tunnel_decapsulated"},
	} {
		for _, attach := range append([]config.Attach{"xdp"}, tcModes()...) {
			t.Run(fmt.Sprintf("%s by %s", mode.name, attach), func(t *testing.T) {
				l := raiseText(t, "trunk", strings.NewReplacer("ATTACH", string(attach), "RULE", mode.rule, "REMOVE", mode.remove).Replace(trunk))
				s := l.Node("switch")
				must(t, s, "ip", "link", "add", "br0", "type", "bridge")
				must(t, s, "ip", "link", "set", "br0", "up")
				for _, port := range []string{"eth0", "eth1"} {
					must(t, s, "ip", "link", "set", port, "master", "br0")
				}
				await(t, "the bridge forwards", 10*time.Second, func() bool {
					return strings.Count(must(t, s, "bridge", "link", "show"), "state forwarding") == 2
				})
				traces := keep(t, l, "switch")
				for i, tags := range [][]uint16{nil, {0x8100}, {0x88a8}, {0x88a8, 0x8100}, {0x8100, 0x8100}} {
					checkTagged(t, l, tags)
					for _, r := range traces.read(t, 1) {
						if got, want := way(r), "1 ->101 hop limit 64, 2 201>- hop limit 63"; got != want || r.Packet.Length != 48 {
							t.Errorf("tags %#x: %d bytes, %s; want 48, %s", tags, r.Packet.Length, got, want)
						}
					}
					checkCounters(t, l, "near", map[string]uint64{mode.added: uint64(i + 1)})
					checkCounters(t, l, "switch", map[string]uint64{mode.removed: uint64(i + 1), "decap_failed": 0})
				}
			})
		}
	}
}

// checkTagged sends a frame with tags from near and wants it at far.
func checkTagged(t *testing.T, l *lab.Lab, tags []uint16) {
	t.Helper()
	var from, to tap
	source := []byte{2, 0, 0, 0, 0, 1}
	frame := append([]byte{2, 0, 0, 0, 0, 9}, source...)
	for i, protocol := range tags {
		frame = binary.BigEndian.AppendUint16(frame, protocol)
		frame = binary.BigEndian.AppendUint16(frame, uint16(0x6000+100*(i+1))) // a priority, and the VLAN
	}
	frame = append(frame, 0x86, 0xdd)
	frame = append(frame, packet(7, 64, nil, []byte("in a tag"))...)
	frame[len(frame)-8-40+6] = 59
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
		t.Fatalf("a frame with the tags %#x did not come out: %v", tags, err)
	}
	if !bytes.Equal(got, frame) {
		t.Errorf("tags %#x: came out as\n%x, want\n%x", tags, got, frame)
	}
}
