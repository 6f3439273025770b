// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
)

// openTap makes a tap, or opens an existing one, as a virtual machine does.
func openTap(t *testing.T, name string, flags uint16) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { file.Close() })
	request, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTapOfVirtualMachine checks that XDP does not remove headers from frames
// whose checksum offsets are passed outside the frame, and that it does from
// others; the next process to open the tap may change which kind it is.
func TestTapOfVirtualMachine(t *testing.T) {
	l := raise(t, "wm-dp-tap")
	tcx := tcModes(t)[0]
	err := l.Node("near").Do(func() error {
		plain := openTap(t, "tap0", 0)
		if err := unix.IoctlSetInt(int(plain.Fd()), unix.TUNSETPERSIST, 1); err != nil {
			return err
		}
		link, err := netlink.LinkByName("tap0")
		if err != nil {
			return err
		}
		i := model.IfIndex(link.Attrs().Index)
		d, err := datapath.Open(datapath.Options{PinPath: pintest.Directory(t)})
		if err != nil {
			return err
		}
		defer d.Remove()
		config := func(mode datapath.AttachMode, change func(*model.NodeConfig)) datapath.Config {
			c := configuration(i, mode)
			c.Node.Interfaces[0].Name = "tap0"
			change(&c.Node)
			return c
		}
		keep := func(*model.NodeConfig) {}
		remove := func(c *model.NodeConfig) { c.Namespaces[0].Remove = true }
		strip := func(c *model.NodeConfig) {
			c.Interfaces[0].Roles, c.Interfaces[0].Boundary = model.RoleEgress, model.BoundaryStrip
		}
		served := func(c datapath.Config, want datapath.AttachMode) {
			t.Helper()
			if err := d.Apply(c); err != nil {
				t.Error(err)
			} else if got := d.Interfaces()[0].Ingress; got != want || !d.Intact() {
				t.Errorf("served by %s, want %s; intact: %v", got, want, d.Intact())
			}
		}
		served(config(datapath.AttachAuto, remove), datapath.AttachXDP)
		plain.Close()
		openTap(t, "tap0", unix.IFF_VNET_HDR)
		if d.Intact() {
			t.Error("the tap changed unnoticed")
		}
		served(config(datapath.AttachAuto, remove), tcx)
		served(config(datapath.AttachXDP, keep), datapath.AttachXDP)
		served(config(datapath.AttachAuto, keep), datapath.AttachXDP)
		for _, change := range []func(*model.NodeConfig){remove, strip} {
			if err := d.Apply(config(datapath.AttachXDP, change)); err == nil || !strings.Contains(err.Error(), "attach: tcx") {
				t.Errorf("headers may be removed: %v", err)
			}
			served(config(datapath.AttachAuto, change), tcx)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
