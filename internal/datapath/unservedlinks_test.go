// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/test/craft"
)

var (
	flowSource = netip.MustParseAddr("2001:db8:a::1")
	flowSID    = netip.MustParseAddr("2001:db8:5:1::e0")
)

// arriving is a configuration with a flow that arrives.
func arriving(c datapath.Config) datapath.Config {
	c.Node.Measurement = model.Measurement{Block: time.Second, Flows: []model.MeasuredFlow{{
		Name: "red", Direction: model.DirectionIn, Source: flowSource, Path: srv6.Path{Segments: []netip.Addr{flowSID}},
	}}}.WithDefaults()
	return c
}

// inNode runs a test where interfaces may be made, with a data plane that is removed.
func inNode(t *testing.T, name string, run func(*datapath.Datapath)) {
	t.Helper()
	l := raise(t, name)
	if err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: pintest.Directory(t)})
		if err != nil {
			return err
		}
		run(d)
		return d.Remove()
	}); err != nil {
		t.Fatal(err)
	}
}

// addPair makes two interfaces whose packets come to the first, which may be a member.
func addPair(t *testing.T, first string, at int, master netlink.Link) (near, far netlink.Link) {
	t.Helper()
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: first, Index: at, Flags: unix.IFF_UP}, PeerName: first + "p"}
	if err := netlink.LinkAdd(pair); err != nil {
		t.Fatal(err)
	}
	near, far = linkOf(t, first), linkOf(t, first+"p")
	if master != nil {
		if err := netlink.LinkSetMaster(near, master); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []netlink.Link{near, far} {
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
	}
	return near, far
}

func linkOf(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// sendFlow sends a packet of the flow to a link-layer address, and awaits what is noted.
func sendFlow(t *testing.T, l netlink.Link, to []byte) {
	t.Helper()
	header, err := srv6.SRH{NextHeader: craft.NoNext, Segments: []netip.Addr{flowSID}}.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	ip := craft.Between(flowSource.String(), flowSID.String(), craft.Routing).With(header)
	frame := slices.Concat(to, l.Attrs().HardwareAddr, []byte{0x86, 0xdd}, ip)
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(s)
	if err := unix.Sendto(s, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
}

// follow lets taps follow the interfaces.
func follow(t *testing.T, taps *datapath.Taps, noticed time.Time) {
	t.Helper()
	if left, err := taps.Follow(noticed); err != nil || left != 0 {
		t.Fatalf("%d left, %v", left, err)
	}
}

// noted checks at which interfaces packets of the flow were noted since the last time.
func noted(t *testing.T, what string, taps *datapath.Taps, want ...datapath.Unserved) {
	t.Helper()
	if got := taps.Read(); !slices.Equal(got, want) {
		t.Errorf("%s: noted %+v, want %+v", what, got, want)
	}
}

// TestTapFollowsInterfaces checks that an interface is looked at again after it was replaced by
// one with the same index, or got the programs of another set, and that packets for other
// hosts are not noted.
func TestTapFollowsInterfaces(t *testing.T) {
	inNode(t, "wm-taps", func(d *datapath.Datapath) {
		c := arriving(configuration(index(t), datapath.AttachClsact))
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		near, far := addPair(t, "tap0", 0, nil)
		taps := d.NewTaps()
		defer taps.Close()
		first, second := time.Unix(1, 0), time.Unix(2, 0)
		follow(t, taps, first)
		at := datapath.Unserved{Interface: "tap0", Flow: "red", Packets: 1}
		opened := at
		opened.Since = first
		sendFlow(t, far, near.Attrs().HardwareAddr)
		noted(t, "a new interface", taps, opened)
		sendFlow(t, far, near.Attrs().HardwareAddr)
		noted(t, "a known interface", taps, at)
		sendFlow(t, far, []byte{2, 0, 0, 0, 9, 9})
		noted(t, "for another host", taps)

		sendFlow(t, far, near.Attrs().HardwareAddr)
		c.Node.TimestampFormat++ // a constant of the programs
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		follow(t, taps, second)
		noted(t, "before there was another set of programs", taps, at)
		sendFlow(t, far, near.Attrs().HardwareAddr)
		noted(t, "with another set of programs", taps, at)

		sendFlow(t, far, near.Attrs().HardwareAddr)
		if err := netlink.LinkDel(near); err != nil {
			t.Fatal(err)
		}
		near, far = addPair(t, "tap0", near.Attrs().Index, nil)
		follow(t, taps, second)
		opened.Since = second
		sendFlow(t, far, near.Attrs().HardwareAddr)
		opened.Packets = 2 // and that before
		noted(t, "another interface with the same index", taps, opened)
	})
}

// TestTapAtMembers checks that packets of a flow which come by a bridge's member are noted if
// that is not served and another member is, and that those of the served one are not.
func TestTapAtMembers(t *testing.T) {
	inNode(t, "wm-tap-members", func(d *datapath.Datapath) {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "up0"}}); err != nil {
			t.Fatal(err)
		}
		bridge := linkOf(t, "up0")
		served, toServed := addPair(t, "ms0", 0, bridge)
		_, toOther := addPair(t, "mu0", 0, bridge)
		if err := netlink.LinkSetUp(bridge); err != nil {
			t.Fatal(err)
		}
		bridge = linkOf(t, "up0")
		c := arriving(configuration(model.IfIndex(served.Attrs().Index), datapath.AttachClsact))
		c.Node.Interfaces[0].Name = "ms0"
		c.Node.Uppers = []model.Upper{{Index: model.IfIndex(bridge.Attrs().Index), Roles: model.RoleIngress | model.RoleEgress}}
		if err := d.Apply(c); err != nil {
			t.Fatal(err)
		}
		taps := d.NewTaps()
		defer taps.Close()
		noticed := time.Unix(1, 0)
		follow(t, taps, noticed)
		sendFlow(t, toServed, bridge.Attrs().HardwareAddr)
		noted(t, "by the served member", taps)
		follow(t, taps, noticed)
		sendFlow(t, toOther, bridge.Attrs().HardwareAddr)
		noted(t, "by the other member", taps, datapath.Unserved{Interface: "mu0", Flow: "red", Packets: 1})
	})
}
