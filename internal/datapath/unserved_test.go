// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/model"
)

// TestTap checks that the filter notes packets of a flow in every form that it has, and no
// others, takes none, and notes none of a served interface.
func TestTap(t *testing.T) {
	const loopback = 1 // where the kernel runs it
	for _, served := range []bool{false, true} {
		first := model.MeasuredFlow{Direction: model.DirectionIn, Path: measuredForms(t)[0].path}
		cfg := measuringConfig(first)
		cfg.Interfaces = cfg.Interfaces[:2]
		cfg.Interfaces[0].Index, cfg.Interfaces[1].Index = 77, 78
		if served {
			cfg.Interfaces[1].Index = loopback
		}
		p := loadPrograms(t, cfg, 77, fixedTime)
		program, err := p.site.program(hookTap)
		if err != nil {
			t.Fatal(err)
		}
		taps := &Taps{datapath: &Datapath{shared: mapSet{mapUnserved: p.maps[mapUnserved]}}, names: map[model.IfIndex]string{loopback: "lo"}}
		taps.datapath.measured.Store(p.site.own.measured)
		for _, tt := range measuredForms(t) {
			flow := model.MeasuredFlow{Direction: model.DirectionTransit, Path: tt.path}
			out := flow
			out.Name, out.Direction = "blue", model.DirectionOut
			next := measuringConfig(flow, out)
			next.Interfaces = cfg.Interfaces
			p.measure(t, next)
			for i, frames := range [][][]byte{tt.whole, tt.other} {
				for _, frame := range frames {
					taken, err := program.Run(&ebpf.RunOptions{Data: frame})
					if err != nil {
						t.Fatal(err)
					}
					got := taps.Read()
					want := i == 0 && !served
					if taken != 0 || (len(got) == 1) != want || want && got[0] != (Unserved{Interface: "lo", Flow: "red", Packets: 1}) {
						t.Errorf("%s, served %v: took %d, noted %+v, want it noted: %v", tt.name, served, taken, got, want)
					}
				}
			}
		}
	}
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
	g := &generation{interfaces: []compiledInterface{{index: 2}, {index: 3}}, uppers: []abiInterface{{Ifindex: 10}}}
	peer := link("veth", "peer", 8, 2)
	foreign := link("macvlan", "container", 9, 2)
	foreign.Attrs().NetNsID = 4
	got := slices.Sorted(maps.Values(g.untouched([]netlink.Link{
		link("loopback", "lo", 1, 0), link("device", "served", 2, 0), link("veth", "outside", 3, 50), link("device", "eth2", 4, 0),
		link("vlan", "eth2.7", 5, 4), link("vlan", "served.7", 6, 2), link("macvlan", "above", 7, 6), peer, foreign,
		link("bridge", "br0", 10, 0), link("ip6tnl", "tunnel", 11, 0), link("wireguard", "wg0", 12, 0), link("vlan", "loop", 13, 13),
	})))
	if want := []string{"container", "eth2", "eth2.7", "loop", "peer", "wg0"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
