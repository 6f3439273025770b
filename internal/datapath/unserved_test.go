// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/srv6"
)

// TestTap checks that both filters note packets of a flow in every form that it has, and no
// others, take none, and note none of a served interface. That of an interface which is no
// member notes none for another host.
func TestTap(t *testing.T) {
	for _, served := range []bool{false, true} {
		for _, member := range []bool{false, true} {
			cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: measuredForms(t)[0].path})
			p, taps, program := loadTapAt(t, &cfg, served, member)
			for _, tt := range measuredForms(t) {
				flow := model.MeasuredFlow{Direction: model.DirectionTransit, Path: tt.path}
				out := flow
				out.Name, out.Direction = "blue", model.DirectionOut
				next := measuringConfig(flow, out)
				next.Interfaces = cfg.Interfaces
				p.measure(t, next)
				for i, frames := range [][][]byte{tt.whole, tt.other} {
					for _, frame := range frames {
						copy(frame, make([]byte, 6)) // the loopback's address
						notes(t, taps, program, frame, i == 0 && !served, tt.name)
						frame[5] = 9
						notes(t, taps, program, frame, i == 0 && !served && member, tt.name+", for another host")
					}
				}
			}
		}
	}
}

// TestTapReach checks how far the filter looks: as far as the ingress hook does where the
// packet is at hand, within 512 octets.
func TestTapReach(t *testing.T) {
	path := measuredPath(14)
	cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: srv6.Path{Segments: path}})
	_, taps, program := loadTapAt(t, &cfg, false, false)
	for length, want := range map[int]bool{8: true, 136: true, 240: true, 256: false} { // 40 + 256 + 8 + 14*16 = 528
		frame := measuredPacket(t, path[0], reversed(path), 13)
		copy(frame, make([]byte, 6))
		ip := frame[14:]
		header := append([]byte{ip[6], byte(length/8 - 1), 1, byte(length - 4)}, make([]byte, length-4)...)
		if length == 256 {
			header[3] = 0
		}
		long := slices.Concat(frame[:14+40], header, ip[40:])
		long[14+6] = 0
		binary.BigEndian.PutUint16(long[14+4:], uint16(len(long)-14-40))
		notes(t, taps, program, long, want, fmt.Sprintf("%d octets before the segments", length))
	}
}

// loadTapAt loads a filter where the kernel runs it, which is the loopback.
func loadTapAt(t *testing.T, cfg *model.NodeConfig, served, member bool) (*programs, *Taps, *ebpf.Program) {
	t.Helper()
	const loopback = 1
	cfg.Interfaces = cfg.Interfaces[:2]
	cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = 77, 78
	if served {
		cfg.Interfaces[1].Index = loopback
	}
	p := loadPrograms(t, *cfg, 77, fixedTime)
	p.measure(t, *cfg)
	program, err := p.site.program(tapHook(member))
	if err != nil {
		t.Fatal(err)
	}
	d := &Datapath{shared: mapSet{mapUnserved: p.maps[mapUnserved]}}
	d.measured.Store(p.site.own.measured)
	return p, &Taps{datapath: d, table: p.site.own.measured, names: map[model.IfIndex]string{loopback: "lo"}}, program
}

// notes checks whether a filter notes a packet; it takes none.
func notes(t *testing.T, taps *Taps, program *ebpf.Program, frame []byte, want bool, name string) {
	t.Helper()
	taken, err := program.Run(&ebpf.RunOptions{Data: frame})
	if err != nil {
		t.Fatal(err)
	}
	got := taps.Read()
	if taken != 0 || (len(got) == 1) != want || want && got[0] != (Unserved{Interface: "lo", Flow: "red", Packets: 1}) {
		t.Errorf("%s: took %d, noted %+v, want it noted: %v", name, taken, got, want)
	}
}

// TestNotesOfAnotherTable checks that notes with the numbers of another table's flows are not
// taken for those of this one.
func TestNotesOfAnotherTable(t *testing.T) {
	cfg := measuringConfig(model.MeasuredFlow{Direction: model.DirectionIn, Path: measuredForms(t)[0].path})
	_, taps, program := loadTapAt(t, &cfg, false, false)
	frame := measuredForms(t)[0].whole[0]
	copy(frame, make([]byte, 6))
	taps.table = &measuredTable{}
	notes(t, taps, program, frame, false, "another table")
}

// TestUntouched checks which interfaces are looked at: those whose packets no hook has seen.
func TestUntouched(t *testing.T) {
	link := func(kind, name string, index, parent int) netlink.Link {
		a := netlink.LinkAttrs{Name: name, Index: index, ParentIndex: parent, NetNsID: -1}
		if kind == "loopback" {
			a.RawFlags = unix.IFF_LOOPBACK
		}
		return &netlink.GenericLink{LinkAttrs: a, LinkType: kind}
	}
	g := &generation{interfaces: []compiledInterface{{index: 2}, {index: 3}}, uppers: []abiInterface{{Ifindex: 10}, {Ifindex: 30}, {Ifindex: 6}, {Ifindex: 40}}}
	peer := link("veth", "peer", 8, 2)
	foreign := link("macvlan", "container", 9, 2)
	foreign.Attrs().NetNsID = 4
	member := func(kind, name string, index, master, parent int) netlink.Link {
		l := link(kind, name, index, parent)
		l.Attrs().MasterIndex = master
		return l
	}
	links := []netlink.Link{
		link("loopback", "lo", 1, 0), link("device", "served", 2, 0), link("veth", "outside", 3, 50), link("device", "eth2", 4, 0),
		link("vlan", "eth2.7", 5, 4), link("vlan", "served.7", 6, 2), link("macvlan", "above", 7, 6), peer, foreign,
		link("ip6tnl", "tunnel", 11, 0), link("wireguard", "wg0", 12, 0), link("vlan", "loop", 13, 13),
		link("vlan", "two-tags", 14, 6), link("vlan", "three-tags", 15, 14), // the hook reads two
		// the interface below has their packets in a tunnel, or encrypted
		link("gre", "gre", 16, 2), link("ip6gre", "ip6gre", 17, 2), link("sit", "sit", 18, 2), link("xfrm", "xfrm", 19, 2), link("macsec", "macsec", 20, 2),
		link("vti6", "vti6", 21, 2), link("vxlan", "vxlan", 22, 2), link("netkit", "netkit", 23, 2), link("ipvlan", "ipvlan", 24, 2),
		// some of these masters' members are served
		link("bridge", "br0", 10, 0), member("device", "port", 25, 10, 0), member("vlan", "port.7", 26, 10, 4), member("device", "served", 2, 10, 0), member("vlan", "served.8", 27, 10, 2),
		link("bond", "bond0", 30, 0), member("device", "slave", 31, 30, 0), link("vlan", "bond0.7", 32, 30),
		link("vrf", "vrf0", 40, 0), member("device", "in-vrf", 41, 40, 0),
		// and none of this one's
		link("bridge", "br1", 50, 0), member("device", "port-of-br1", 51, 50, 0),
	}
	names := map[bool][]string{}
	at := g.untouched(links)
	for _, l := range links {
		if isMember, ok := at[model.IfIndex(l.Attrs().Index)]; ok {
			names[isMember] = append(names[isMember], l.Attrs().Name)
		}
	}
	slices.Sort(names[false])
	slices.Sort(names[true])
	want := map[bool][]string{
		false: {"br1", "container", "eth2", "eth2.7", "gre", "in-vrf", "ip6gre", "loop", "macsec", "netkit", "peer", "port-of-br1", "sit", "three-tags", "vti6", "vxlan", "wg0", "xfrm"},
		true:  {"port", "port.7", "slave"},
	}
	if !maps.EqualFunc(names, want, slices.Equal[[]string]) {
		t.Errorf("%v, want %v", names, want)
	}
}
