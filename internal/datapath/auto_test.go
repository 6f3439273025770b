// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// TestAutoFallsBack serves loopback, which has no native XDP, with the best mode
// of the kernel; other modes are refused with a cure.
func TestAutoFallsBack(t *testing.T) {
	l := raise(t, "wm-dp-auto")
	path := pintest.Directory(t)
	best := tcModes(t)[0]
	err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: path})
		if err != nil {
			return err
		}
		defer d.Remove()
		if best != datapath.AttachTCX {
			err := d.Apply(configuration(1, datapath.AttachTCX))
			if err == nil || !strings.Contains(err.Error(), "set attach: clsact") {
				return fmt.Errorf("tcx on a kernel without it: %v, want the cure", err)
			}
		}
		removing := configuration(1, datapath.AttachAuto)
		removing.Node.Namespaces[0].Remove = true
		if err := d.Apply(removing); err != nil {
			return err
		}
		s := d.Interfaces()[0]
		if s.Ingress != best || s.Egress != best || s.NativeXDPRefused == "" {
			return fmt.Errorf("served %+v, want %s both ways and why not XDP", s, best)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// kernelForwardsInXDP reports whether the kernel says which devices can send what XDP redirects.
func kernelForwardsInXDP() bool {
	_, err := netlink.GenlFamilyGet("netdev")
	return err == nil
}

// TestAutoChooses takes XDP where headers are removed or nothing is filled, so before
// receive offload, and tc where the stack gets what was filled, or the device is a veth
// that does not forward fast, or the kernel forwards nothing in XDP. A hook that is in place
// stays in its mode.
func TestAutoChooses(t *testing.T) {
	l := raise(t, "wm-dp-choose")
	path := pintest.Directory(t)
	late := tcModes(t)[0]
	remove := func(c *datapath.Config) { c.Node.Namespaces[0].Remove = true }
	forwards := datapath.AttachXDP
	if !kernelForwardsInXDP() {
		forwards = late
	}
	fast := func(c *datapath.Config) { c.Fast = map[model.IfIndex]bool{c.Node.Interfaces[0].Index: true} }
	err := l.Node("near").Do(func() error {
		openTap(t, "tap0", 0)
		for _, tt := range []struct {
			name   string
			device string
			change func(*datapath.Config)
			want   datapath.AttachMode
		}{
			{"fills", "tap0", func(*datapath.Config) {}, late},
			{"removes", "tap0", remove, datapath.AttachXDP},
			{"ends tunnels", "tap0", func(c *datapath.Config) {
				c.Node.Decapsulations = []model.Decapsulation{{TunnelDestination: netip.MustParseAddr("2001:db8::1")}}
			}, datapath.AttachXDP},
			{"no namespace", "tap0", func(c *datapath.Config) { c.Node.Namespaces = nil }, datapath.AttachXDP},
			{"edge", "tap0", func(c *datapath.Config) { c.Node.Interfaces[0].Roles = 0 }, datapath.AttachXDP},
			{"forwards fast", "eth0", fast, forwards},
			{"a veth removes", "eth0", remove, late},
			{"a veth at the edge", "eth0", func(c *datapath.Config) { c.Node.Interfaces[0].Roles = 0 }, late},
			{"a veth removes and forwards fast", "eth0", func(c *datapath.Config) { remove(c); fast(c) }, forwards},
		} {
			if err := chooses(t, path, tt.name, tt.device, tt.change, tt.want); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// chooses serves a device with attach: auto, then with what it fills for the stack.
func chooses(t *testing.T, path, name, device string, change func(*datapath.Config), want datapath.AttachMode) error {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	config := func() datapath.Config {
		c := configuration(model.IfIndex(link.Attrs().Index), datapath.AttachAuto)
		c.Node.Interfaces[0].Name = device
		return c
	}
	d, err := datapath.Open(datapath.Options{PinPath: path})
	if err != nil {
		return err
	}
	changed := config()
	change(&changed)
	if err := d.Apply(changed); err != nil {
		return err
	}
	if got := d.Interfaces()[0].Ingress; got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
	if err := d.Apply(config()); err != nil {
		return err
	}
	if got := d.Interfaces()[0].Ingress; got != want {
		t.Errorf("%s, then fills: %s, want %s as before", name, got, want)
	}
	return d.Remove()
}
