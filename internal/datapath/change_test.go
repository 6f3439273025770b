// SPDX-License-Identifier: Apache-2.0

package datapath_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/pintest"
	"github.com/waymark-net/waymark/ioam"
)

// manyInterfaces makes veths and a configuration that serves one end of each.
func manyInterfaces(t *testing.T, number int) datapath.Config {
	t.Helper()
	cfg := datapath.Config{Attach: make(map[model.IfIndex]datapath.AttachMode)}
	cfg.Node.ID, cfg.Node.IDWide = 2, 2
	cfg.Node.Namespaces = []model.Namespace{{ID: 123}}
	for i := range number {
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprint("near", i)}, PeerName: fmt.Sprint("far", i)}
		if err := netlink.LinkAdd(veth); err != nil {
			t.Fatal(err)
		}
		index := model.IfIndex(veth.Attrs().Index)
		cfg.Node.Interfaces = append(cfg.Node.Interfaces, model.Interface{
			Index: index, Name: veth.Name, ID: ioam.InterfaceID(i + 1), IDWide: ioam.InterfaceIDWide(i + 1),
			Roles: model.RoleIngress | model.RoleEgress,
		})
		cfg.Node.Encapsulations = append(cfg.Node.Encapsulations, encapsulationTo(i, index))
		cfg.Attach[index] = datapath.AttachXDP
	}
	return cfg
}

func encapsulationTo(i int, index model.IfIndex) model.Encapsulation {
	return model.Encapsulation{
		Name: fmt.Sprint("to ", i), Interface: index,
		Match:   model.Match{Destination: netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, byte(i >> 8), byte(i)}), 32)},
		Options: model.Traces(model.TraceOption{Namespace: 123, Type: 0xc00000, Size: 16}),
	}
}

// egressPrograms are the ids of the programs on the interfaces.
func egressPrograms(t *testing.T, cfg datapath.Config) (ids []ebpf.ProgramID) {
	t.Helper()
	for _, i := range cfg.Node.Interfaces {
		result, err := link.QueryPrograms(link.QueryOptions{Target: int(i.Index), Attach: ebpf.AttachTCXEgress})
		if err != nil || len(result.Programs) != 1 {
			t.Fatalf("%s has the programs %+v: %v", i.Name, result, err)
		}
		ids = append(ids, result.Programs[0].ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// All interfaces share their programs, and a change that fits into the tables
// loads none. This includes changes of roles, boundaries and namespaces, and
// adding or removing a served interface.
func TestChangesLoadNoPrograms(t *testing.T) {
	if tcModes(t)[0] != datapath.AttachTCX {
		t.Skip("this kernel cannot report what is attached (no tcx)")
	}
	const number = 12
	l := raise(t, "wm-dp-change")
	err := l.Node("near").Do(func() error {
		cfg := manyInterfaces(t, number)
		d, err := datapath.Open(datapath.Options{PinPath: pintest.Directory(t)})
		if err != nil {
			return err
		}
		defer d.Remove()
		last := cfg.Node.Interfaces[number-1]
		cfg.Node.Interfaces[0].Roles = model.RoleIngress // so that edges are compiled in, of both kinds
		cfg.Node.Interfaces[2].Roles, cfg.Node.Interfaces[2].Boundary = model.RoleIngress, model.BoundaryStrip
		cfg.Node.Interfaces[2].Policies = []model.NamespacePolicy{{Namespace: 123, Boundary: model.BoundaryDrop}}
		cfg.Node.Interfaces, cfg.Node.Encapsulations = cfg.Node.Interfaces[:number-1], cfg.Node.Encapsulations[:number-1]
		if err := d.Apply(cfg); err != nil {
			return err
		}
		loaded := egressPrograms(t, cfg)
		if len(loaded) != 1 {
			t.Errorf("%d interfaces have %d programs", number-1, len(loaded))
		}
		for _, change := range []struct {
			name string
			make func()
		}{
			{"nothing", func() {}},
			{"a namespace", func() { cfg.Node.Namespaces = append(cfg.Node.Namespaces, model.Namespace{ID: 7, Data: 9}) }},
			{"a role and a policy", func() {
				cfg.Node.Interfaces[1].Roles, cfg.Node.Interfaces[1].Boundary = 0, model.BoundaryStrip
			}},
			{"a policy of a namespace", func() {
				cfg.Node.Interfaces[1].Policies = []model.NamespacePolicy{{Namespace: 7, Boundary: model.BoundaryIgnore}}
			}},
			{"an encapsulation", func() { cfg.Node.Encapsulations[3].Options[0].Trace.Size = 64 }},
			{"fewer encapsulations", func() { cfg.Node.Encapsulations = cfg.Node.Encapsulations[:2] }},
			{"an interface more", func() {
				cfg.Node.Interfaces = append(cfg.Node.Interfaces, last)
				cfg.Node.Encapsulations = append(cfg.Node.Encapsulations, encapsulationTo(number-1, last.Index))
			}},
			{"an interface less", func() {
				cfg.Node.Interfaces = cfg.Node.Interfaces[:number-2]
				cfg.Node.Encapsulations = cfg.Node.Encapsulations[:2]
			}},
		} {
			change.make()
			if err := d.Apply(cfg); err != nil {
				return fmt.Errorf("%s: %w", change.name, err)
			}
			if now := egressPrograms(t, cfg); !slices.Equal(now, loaded) {
				t.Errorf("%s: programs %v, before %v", change.name, now, loaded)
			}
		}
		cfg.Node.ID = 3 // which is a constant in the programs
		if err := d.Apply(cfg); err != nil {
			return err
		}
		if now := egressPrograms(t, cfg); len(now) != 1 || slices.Equal(now, loaded) {
			t.Errorf("with another node id, the programs are %v, before %v", now, loaded)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// While one interface replaces another, both have counters, even when the tables
// have no room for more.
func TestInterfaceReplacedAtFullRoom(t *testing.T) {
	const number = 16 // as many as the smallest tables have room for
	l := raise(t, "wm-dp-full")
	err := l.Node("near").Do(func() error {
		cfg := manyInterfaces(t, number+1)
		d, err := datapath.Open(datapath.Options{PinPath: pintest.Directory(t)})
		if err != nil {
			return err
		}
		defer d.Remove()
		all := cfg.Node
		cfg.Node.Interfaces, cfg.Node.Encapsulations = all.Interfaces[:number], all.Encapsulations[:number]
		if err := d.Apply(cfg); err != nil {
			return err
		}
		cfg.Node.Interfaces, cfg.Node.Encapsulations = all.Interfaces[1:], all.Encapsulations[1:]
		if err := d.Apply(cfg); err != nil {
			return fmt.Errorf("one interface for another: %w", err)
		}
		if served := d.Interfaces(); len(served) != number || served[number-1].Index != all.Interfaces[number].Index {
			t.Errorf("served are %+v", served)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
