// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/pintest"
)

// TestLeft reads what a data plane left that no agent serves any more.
func TestLeft(t *testing.T) {
	l := raise(t, "wm-dp-left")
	ends := []netip.Addr{netip.MustParseAddr("2001:db8:3::1"), netip.MustParseAddr("2001:db8:4::1")}
	for _, mode := range append([]datapath.AttachMode{datapath.AttachXDP}, tcModes(t)...) {
		t.Run(string(mode), func(t *testing.T) {
			path := pintest.Directory(t)
			do := func(fn func(d *datapath.Datapath) error) {
				t.Helper()
				if err := l.Node("near").Do(func() error {
					d, err := datapath.Open(datapath.Options{PinPath: path})
					if err != nil {
						return err
					}
					return fn(d)
				}); err != nil {
					t.Fatal(err)
				}
			}
			attached := func() (list []datapath.InterfaceStatus) {
				t.Helper()
				if err := l.Node("near").Do(func() (err error) {
					list, err = datapath.Attached(path)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				return list
			}
			do(func(d *datapath.Datapath) error {
				if list := attached(); len(list) != 0 {
					t.Errorf("before anything is attached: %+v", list)
				}
				c := configuration(index(t), mode)
				c.Node.Decapsulations = []model.Decapsulation{{TunnelDestination: ends[1]}, {TunnelDestination: ends[0]}}
				if err := d.Apply(c); err != nil {
					return err
				}
				return d.Close()
			})
			if list := attached(); len(list) != 1 || list[0].Name != "eth0" || list[0].Ingress != mode || list[0].Egress == "" {
				t.Errorf("left on %+v, want eth0 by %s", list, mode)
			}
			do(func(d *datapath.Datapath) error {
				if got, err := d.Decapsulations(); err != nil || !slices.Equal(got, ends) {
					t.Errorf("tunnels that end here: %v, %v; want %v", got, err, ends)
				}
				if err := d.Remove(); err != nil {
					return err
				}
				got, err := d.Decapsulations()
				if len(got) != 0 {
					t.Errorf("tunnels that end here after the removal: %v", got)
				}
				return err
			})
		})
	}
}

// Pins of a deleted interface treat no packets any more.
func TestNothingIsLeftOnAnInterfaceThatIsGone(t *testing.T) {
	l := raise(t, "wm-dp-gone")
	path := pintest.Directory(t)
	if err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: path})
		if err != nil {
			return err
		}
		c := configuration(index(t), datapath.AttachAuto)
		c.Node.Decapsulations = []model.Decapsulation{{TunnelDestination: netip.MustParseAddr("2001:db8:3::1")}}
		if err := d.Apply(c); err != nil {
			return err
		}
		d.Close()
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(device); err != nil {
			return err
		}
		list, err := datapath.Attached(path)
		if err != nil || len(list) != 0 {
			t.Errorf("left: %+v, %v", list, err)
		}
		if d, err = datapath.Open(datapath.Options{PinPath: path}); err != nil {
			return err
		}
		if ends, err := d.Decapsulations(); err != nil || len(ends) != 0 {
			t.Errorf("tunnels that end here: %v, %v", ends, err)
		}
		return d.Remove()
	}); err != nil {
		t.Fatal(err)
	}
}

// When a goroutine ends locked to the first thread of a process, that thread is
// parked rather than ended, and would keep a namespace for ever.
func init() { runtime.LockOSThread() }

// holdings are ways to keep a network namespace in existence.
var holdings = []struct {
	name string
	hold func(t *testing.T, ns netns.NsHandle) (release func())
}{
	{"an open file", func(t *testing.T, ns netns.NsHandle) func() { return func() { ns.Close() } }},
	{"a mount", func(t *testing.T, ns netns.NsHandle) func() {
		ns.Close()
		mounted, err := netns.NewNamed("wm-dp-held")
		if err != nil {
			t.Error(err)
		}
		mounted.Close()
		return func() {
			if err := netns.DeleteNamed("wm-dp-held"); err != nil {
				t.Error(err)
			}
		}
	}},
	{"a socket", func(t *testing.T, ns netns.NsHandle) func() {
		ns.Close()
		socket, err := net.ListenPacket("udp6", "[::]:0")
		if err != nil {
			t.Error(err)
			return func() {}
		}
		return func() { socket.Close() }
	}},
}

// TestNamespaceGone keeps a network namespace alive by one holder only: the
// namespace is gone once that holder releases it.
func TestNamespaceGone(t *testing.T) {
	for _, tt := range holdings {
		t.Run(tt.name, func(t *testing.T) {
			path := pintest.Directory(t)
			released := make(chan func(), 1)
			go func() {
				runtime.LockOSThread() // and never unlocked: the thread ends, and with it its use of the namespace
				defer close(released)
				ns, err := netns.New()
				if err != nil {
					t.Error(err)
					return
				}
				release := tt.hold(t, ns)
				for range 2 { // the second agent finds what the first one made
					d, err := datapath.Open(datapath.Options{PinPath: path})
					if err != nil {
						t.Error(err)
						break
					}
					d.Close()
				}
				released <- release
			}()
			release, ok := <-released
			if !ok {
				t.FailNow()
			}
			time.Sleep(300 * time.Millisecond) // a namespace without holders disappears faster
			if gone, err := datapath.NamespaceGone(path); gone || err != nil {
				t.Errorf("while it is held: gone %v, %v", gone, err)
			}
			release()
			for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				gone, err := datapath.NamespaceGone(path)
				if gone && err == nil {
					break
				}
				if time.Since(begin) > patience.Of(10*time.Second) {
					t.Fatalf("long after the last hold: gone %v, %v", gone, err)
				}
			}
		})
	}
	if gone, err := datapath.NamespaceGone(t.TempDir()); gone || err != nil {
		t.Errorf("without a pin: gone %v, %v, want false", gone, err)
	}
}
