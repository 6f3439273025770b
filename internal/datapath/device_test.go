// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath/attach"
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/datapath/forward"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/test/craft"
)

// TestFastIn checks where devices may forward fast. The kernel's devices are
// described, not made, because not every kernel has them.
func TestFastIn(t *testing.T) {
	attributes := netlink.LinkAttrs{Name: "wm-none", EncapType: "ether", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	inMaster, plain := attributes, attributes
	inMaster.MasterIndex = 1 // lo, which is no VRF
	plain.EncapType = "none"
	_, unreported := netlink.GenlFamilyGet("netdev") // nothing forwards in XDP on such a kernel
	inXDP := unreported == nil
	for _, tt := range []struct {
		name     string
		link     netlink.Link
		fast     bool
		xdp, tcx bool
	}{
		{"not asked for", &netlink.Veth{LinkAttrs: attributes}, false, false, false},
		{"veth", &netlink.Veth{LinkAttrs: attributes}, true, inXDP, true},
		{"tap of a virtual machine", &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_VNET_HDR}, true, false, true},
		{"tap of whole frames", &netlink.Tuntap{LinkAttrs: attributes, Mode: netlink.TUNTAP_MODE_TAP}, true, inXDP, true},
		{"tap that tells nothing", &netlink.Tuntap{LinkAttrs: attributes}, true, false, true},
		{"bond", &netlink.Bond{LinkAttrs: attributes}, true, false, true},
		{"features unknown", &netlink.Device{LinkAttrs: attributes}, true, false, true},
		{"member", &netlink.Veth{LinkAttrs: inMaster}, true, false, false},
		{"no Ethernet", &netlink.Veth{LinkAttrs: plain}, true, false, false},
	} {
		d := attach.DeviceOf(tt.link, tt.fast)
		if d.FastIn(attach.XDP) != tt.xdp || d.FastIn(attach.TCX) != tt.tcx {
			t.Errorf("%s: in XDP %v, in tc %v; want %v, %v", tt.name, d.FastIn(attach.XDP), d.FastIn(attach.TCX), tt.xdp, tt.tcx)
		}
		if said := d.Refused(attach.XDP) != ""; said != (tt.fast && !tt.xdp) {
			t.Errorf("%s: in XDP, %q", tt.name, d.Refused(attach.XDP))
		}
	}
}

// TestDeviceIsCurrent checks that a changed address is noticed where it matters.
func TestDeviceIsCurrent(t *testing.T) {
	enterRouter(t)
	link, err := netlink.LinkByIndex(int(arrivalIndex))
	if err != nil {
		t.Fatal(err)
	}
	fast, stack := attach.DeviceOf(link, true), attach.DeviceOf(link, false)
	if !fast.IsCurrent(arrivalIndex) {
		t.Error("an unchanged device is not current")
	}
	if err := netlink.LinkSetHardwareAddr(link, departureAddress); err != nil {
		t.Fatal(err)
	}
	if fast.IsCurrent(arrivalIndex) || !stack.IsCurrent(arrivalIndex) {
		t.Error("the address changed, which matters only to a device that forwards fast")
	}
}

// TestNextHopsOfNeighbours sends packets through a router to many adjacent
// addresses: the cache must keep nearly all of them.
func TestNextHopsOfNeighbours(t *testing.T) {
	enterRouter(t)
	const destinations = 256
	cfg := model.NodeConfig{
		ID:         2,
		Interfaces: []model.Interface{{Index: arrivalIndex, Name: "in", ID: 1, MTU: 1500}},
	}
	p := loadProgramsOn(t, cfg, arrivalIndex, fastArrival, fixedTime, hookIngressXDP)
	p.routes(t, forward.Routing{MTU: forward.AnyMTU}, 0)
	for i := range destinations {
		header := craft.IPv6{Next: craft.NoNext, HopLimit: 64, Source: addresses[0], Destination: addresses[1]}
		frame := craft.Ethernet(arrivalAddress, neighbourAddress, header.With(make([]byte, 8)))
		frame[atHBH-1] = byte(i)
		if verdict, _ := runOn(t, p.xdp, frame); verdict != 4 {
			t.Fatalf("packet %d: verdict %d, want XDP_REDIRECT", i, verdict)
		}
	}
	kept := make(map[byte]bool)
	var index uint32
	var set bpf.ABINextHopSet
	for it := p.maps[bpf.MapNextHops].Iterate(); it.Next(&index, &set); {
		for _, way := range set.Ways {
			if way.Ifindex == uint32(departureIndex) {
				kept[bpf.AddressOf(way.Destination).As16()[15]] = true
			}
		}
	}
	if len(kept) < destinations*95/100 {
		t.Errorf("%d of %d next hops are kept", len(kept), destinations)
	}
}
