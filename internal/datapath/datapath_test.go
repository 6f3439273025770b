// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/test/testnet"
)

// wire is two nodes with a link between them; one of them gets the programs.
const wire = `
name: wire
permanent-neighbours: true
nodes: [{name: near}, {name: far}]
links:
  - ends:
      - {node: near, interface: eth0, addresses: 2001:db8::1/64}
      - {node: far, interface: eth0, addresses: 2001:db8::2/64}
traffic: [{name: ping, kind: ping, from: near, to: far, count: 20, interval: 5ms, size: 56}]
`

func raise(t *testing.T, name string) *lab.Lab {
	t.Helper()
	testnet.NeedRoot(t)
	topology, err := lab.Parse("wire", []byte(wire))
	if err != nil {
		t.Fatal(err)
	}
	l, err := lab.Up(t.Context(), topology, lab.Options{Name: name, Owned: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return l
}

func index(t *testing.T) model.IfIndex {
	t.Helper()
	device, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	return model.IfIndex(device.Attrs().Index)
}

func linkAddress(t *testing.T) []byte {
	t.Helper()
	device, err := netlink.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	return device.Attrs().HardwareAddr
}

func configuration(i model.IfIndex, mode datapath.AttachMode) datapath.Config {
	return datapath.Config{
		Node: model.NodeConfig{
			ID: 2, IDWide: 2,
			Interfaces: []model.Interface{{Index: i, Name: "eth0", ID: 1, IDWide: 1, Roles: model.RoleIngress | model.RoleEgress}},
			Namespaces: []model.Namespace{{ID: 123}},
		},
		Attach: map[model.IfIndex]datapath.AttachMode{i: mode},
	}
}

// seen is how many packets the interface's hooks have counted.
func seen(t *testing.T, d *datapath.Datapath) (ingress, egress uint64) {
	t.Helper()
	counters, err := d.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counters {
		for o := range model.NumOutcomes {
			ingress += c.Ingress[o]
			egress += c.Egress[o]
		}
	}
	return ingress, egress
}

// tcModes are the tc attachments of this kernel, best first.
func tcModes(t *testing.T) []datapath.AttachMode {
	t.Helper()
	tcx := health.ReadKernel().TCX
	if tcx.Err != nil {
		t.Fatalf("whether this kernel has tcx: %v", tcx.Err)
	}
	if !tcx.Yes {
		return []datapath.AttachMode{datapath.AttachClsact}
	}
	return []datapath.AttachMode{datapath.AttachTCX, datapath.AttachClsact}
}

// TestModes attaches in every mode, swaps under traffic, restarts and removes.
func TestModes(t *testing.T) {
	l := raise(t, "wm-dp-modes")
	ping := l.Topology().Traffic[0]
	tc := tcModes(t)
	for _, mode := range append([]datapath.AttachMode{datapath.AttachAuto, datapath.AttachXDP}, tc...) {
		t.Run(string(mode), func(t *testing.T) {
			path := pintest.Directory(t)
			open := func() (d *datapath.Datapath) {
				t.Helper()
				err := l.Node("near").Do(func() (err error) {
					d, err = datapath.Open(datapath.Options{PinPath: path})
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			apply := func(d *datapath.Datapath) {
				t.Helper()
				err := l.Node("near").Do(func() error { return d.Apply(configuration(index(t), mode)) })
				if err != nil {
					t.Fatal(err)
				}
			}
			send := func() {
				t.Helper()
				r, err := l.Send(t.Context(), ping)
				if err != nil || r.Received != ping.Count {
					t.Fatalf("ping: %+v, %v", r, err)
				}
			}
			d := open()
			apply(d)
			ingress, egress := mode, mode
			switch mode {
			case datapath.AttachAuto: // it fills traces for the stack
				ingress, egress = tc[0], tc[0]
			case datapath.AttachXDP:
				egress = tc[0]
			}
			if status := d.Interfaces(); len(status) != 1 || status[0].Ingress != ingress || status[0].Egress != egress {
				t.Errorf("status %+v, want ingress by %s and egress by %s", status, ingress, egress)
			}
			send()
			in, out := seen(t, d)
			if in < uint64(ping.Count) || out < uint64(ping.Count) {
				t.Errorf("%d packets in and %d out, want at least %d", in, out, ping.Count)
			}
			apply(d) // a reload keeps the counters
			d.Close()

			send() // without an agent the programs stay
			d = open()
			in2, out2 := seen(t, d)
			if in2 < in+uint64(ping.Count) || out2 < out+uint64(ping.Count) {
				t.Errorf("after a restart %d in and %d out, want at least %d more than %d and %d", in2, out2, ping.Count, in, out)
			}
			apply(d)
			send()
			if err := l.Node("near").Do(d.Remove); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path); !os.IsNotExist(err) {
				t.Errorf("pins are left: %v", err)
			}
			err := l.Node("near").Do(func() error { return nothingAttached(slices.Contains(tc, datapath.AttachTCX)) })
			if err != nil {
				t.Error(err)
			}
			send()
		})
	}
}

func nothingAttached(hasTCX bool) error {
	device, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	if x := device.Attrs().Xdp; x != nil && x.Attached {
		return fmt.Errorf("an XDP program is left: %+v", x)
	}
	for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
		if filters, _ := netlink.FilterList(device, parent); len(filters) > 0 {
			return fmt.Errorf("a filter is left: %v", filters)
		}
	}
	if !hasTCX {
		return nil
	}
	for _, kind := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		found, err := link.QueryPrograms(link.QueryOptions{Target: device.Attrs().Index, Attach: kind})
		if err != nil {
			return err
		}
		if len(found.Programs) > 0 {
			return fmt.Errorf("a tcx program is left: %+v", found.Programs)
		}
	}
	return nil
}

// TestModeChange changes from one mode to another and back.
func TestModeChange(t *testing.T) {
	l := raise(t, "wm-dp-change")
	path := pintest.Directory(t)
	modes := append([]datapath.AttachMode{datapath.AttachXDP}, tcModes(t)...)
	err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: path})
		if err != nil {
			return err
		}
		defer d.Remove()
		for _, mode := range append(modes, datapath.AttachXDP) {
			if err := d.Apply(configuration(index(t), mode)); err != nil {
				return err
			}
			if got := d.Interfaces()[0].Ingress; got != mode {
				return fmt.Errorf("attached by %s, want %s", got, mode)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFailedApply keeps everything running when an interface cannot be served.
func TestFailedApply(t *testing.T) {
	l := raise(t, "wm-dp-fail")
	path := pintest.Directory(t)
	mode := tcModes(t)[0]
	err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: path})
		if err != nil {
			return err
		}
		defer d.Remove()
		good := configuration(index(t), mode)
		if err := d.Apply(good); err != nil {
			return err
		}
		before := fmt.Sprint(d.Interfaces())
		bad := configuration(index(t), mode)
		// loopback has no native XDP: it fails after eth0 was already swapped
		bad.Node.Interfaces = append(bad.Node.Interfaces, model.Interface{Index: 1, Name: "lo", ID: 2, IDWide: 2})
		bad.Attach[1] = datapath.AttachXDP
		if err := d.Apply(bad); err == nil {
			return fmt.Errorf("native XDP on loopback was accepted")
		}
		if after := fmt.Sprint(d.Interfaces()); after != before {
			return fmt.Errorf("served %s, want as before: %s", after, before)
		}
		if _, err := os.Stat(filepath.Join(path, "interface_1")); !os.IsNotExist(err) {
			return fmt.Errorf("pins of the failed interface are left: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInterfaceGone forgets an interface that was deleted while no agent ran.
func TestInterfaceGone(t *testing.T) {
	l := raise(t, "wm-dp-gone")
	path := pintest.Directory(t)
	err := l.Node("near").Do(func() error {
		d, err := datapath.Open(datapath.Options{PinPath: path})
		if err != nil {
			return err
		}
		i := index(t)
		cfg := configuration(i, datapath.AttachAuto)
		if err := d.Apply(cfg); err != nil {
			return err
		}
		if f, err := d.Forwarding(); err != nil || len(f.Entrances()) > 0 {
			return fmt.Errorf("interface %d counts as forwarding fast: %v", i, err)
		}
		cfg.Fast = map[model.IfIndex]bool{i: true}
		if err := d.Apply(cfg); err != nil {
			return err
		}
		want := map[model.IfIndex]datapath.Entrance{i: {Address: [6]byte(linkAddress(t)), InTC: d.Interfaces()[0].Ingress != datapath.AttachXDP}}
		if f, err := d.Forwarding(); err != nil || !maps.Equal(f.Entrances(), want) {
			return fmt.Errorf("%+v forward fast, want %+v: %v", f.Entrances(), want, err)
		}
		d.Close()
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		if err := netlink.LinkDel(device); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
		if d, err = datapath.Open(datapath.Options{PinPath: path}); err != nil {
			return err
		}
		if err := d.Apply(datapath.Config{}); err != nil {
			return err
		}
		if left := d.Interfaces(); len(left) != 0 {
			return fmt.Errorf("still served: %+v", left)
		}
		if f, err := d.Forwarding(); err != nil || len(f.Entrances()) > 0 {
			return fmt.Errorf("interface %d still counts as forwarding fast: %v", i, err)
		}
		return d.Remove()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSameIndex serves an interface again that was recreated with its old index.
func TestSameIndex(t *testing.T) {
	for _, mode := range []datapath.AttachMode{datapath.AttachXDP, datapath.AttachTCX, datapath.AttachClsact} {
		t.Run(string(mode), func(t *testing.T) {
			l := raise(t, "wm-dp-same")
			path := pintest.Directory(t)
			err := l.Node("near").Do(func() error {
				d, err := datapath.Open(datapath.Options{PinPath: path})
				if err != nil {
					return err
				}
				defer d.Remove()
				old := index(t)
				if err := d.Apply(configuration(old, mode)); err != nil {
					return err
				}
				if !d.Intact() {
					return fmt.Errorf("not intact right after Apply")
				}
				device, err := netlink.LinkByName("eth0")
				if err != nil {
					return err
				}
				if err := netlink.LinkDel(device); err != nil {
					return err
				}
				again := netlink.NewLinkAttrs()
				again.Name, again.Index = "eth0", int(old)
				if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: again, PeerName: "peer0"}); err != nil {
					return err
				}
				if d.Intact() {
					return fmt.Errorf("intact without programs")
				}
				if err := d.Apply(configuration(index(t), mode)); err != nil {
					return err
				}
				if !d.Intact() {
					return fmt.Errorf("not served again")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestRecordsOfTheEnd reads the records that remain without a reader: removing a
// data plane loses nothing that programs wrote.
func TestRecordsOfTheEnd(t *testing.T) {
	l := raise(t, "wm-dp-end")
	ping := l.Topology().Traffic[0]
	serve := func(node string, change func(*datapath.Config)) (d *datapath.Datapath) {
		t.Helper()
		err := l.Node(node).Do(func() (err error) {
			if d, err = datapath.Open(datapath.Options{PinPath: pintest.Directory(t)}); err != nil {
				return err
			}
			c := configuration(index(t), datapath.AttachAuto)
			change(&c)
			return d.Apply(c)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Node(node).Do(d.Remove); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	far := serve("far", func(c *datapath.Config) { c.Node.Namespaces[0].Remove = true })
	serve("near", func(c *datapath.Config) {
		c.Node.Encapsulations = []model.Encapsulation{{
			Name: "all", Interface: c.Node.Interfaces[0].Index, Mode: model.ModeInline, Frequency: model.Frequency{K: 1, N: 1},
			Match:   model.Match{Destination: netip.MustParsePrefix("2001:db8::2/128")},
			Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 24}),
		}}
	})
	if err := far.SetRecordsWanted(datapath.AllRecords); err != nil {
		t.Fatal(err)
	}
	if r, err := l.Send(t.Context(), ping); err != nil || r.Received != ping.Count {
		t.Fatalf("ping: %+v, %v", r, err)
	}
	if err := far.SetRecordsWanted(0); err != nil {
		t.Fatal(err)
	}
	var records int
	if err := far.ReadWaiting(datapath.Samples{Record: func(datapath.Record) { records++ }}); err != nil || records != ping.Count {
		t.Errorf("%d records of %d packets, %v", records, ping.Count, err)
	}
}
