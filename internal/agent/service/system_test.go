// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/kmsgtest"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/testnet"
)

func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }

func TestKernelSystem(t *testing.T) {
	testnet.Alone(t, func() {
		testnet.AddVeth(t, "wma", "wmb", 1600)
		testnet.SetUp(t, "wma", "2001:db8:5::1/64")
		testnet.SetUp(t, "wmb")
		var k service.Kernel
		l, ok, err := k.Link("wma")
		if err != nil || !ok || l.MTU != 1600 || !l.Up || l.Index == 0 {
			t.Errorf("wma: %+v, %v, %v", l, ok, err)
		}
		if _, ok, err := k.Link("wmz"); ok || err != nil {
			t.Errorf("an interface that does not exist: %v, %v", ok, err)
		}
		if id, err := k.NodeID(); err != nil || id != ioam.NodeIDUnavailable {
			t.Errorf("node id %d, %v; want the kernel's default", id, err)
		}
		checkDevices(t, l.Index)
		testnet.Set(t, "ipv6/ioam6_id", "77")
		testnet.Set(t, "ipv6/ioam6_id_wide", "7777777")
		testnet.Set(t, "ipv6/conf/wma/ioam6_id", "201")
		testnet.Set(t, "ipv6/conf/wma/ioam6_id_wide", "201201")
		id, errA := k.NodeID()
		wide, errB := k.NodeIDWide()
		short, errC := k.InterfaceID("wma")
		long, errD := k.InterfaceIDWide("wma")
		if err := errors.Join(errA, errB, errC, errD); err != nil || id != 77 || wide != 7777777 || short != 201 || long != 201201 {
			t.Errorf("ids %d, %d, %d, %d, %v", id, wide, short, long, err)
		}
		if id, err := k.InterfaceID("wmz"); err != nil || id != ioam.InterfaceIDUnavailable {
			t.Errorf("id of an interface that does not exist: %d, %v", id, err)
		}
		if h := k.InterfaceHealth("wma", 1600); h != (health.Interface{Name: "wma", MTU: 1600, Veth: true}) {
			t.Errorf("health of a veth: %+v", h)
		}
		if peer, err := netlink.LinkByName("wmb"); err != nil || netlink.LinkSetDown(peer) != nil {
			t.Fatalf("set wmb down: %v", err)
		}
		if a, b := k.InterfaceHealth("wma", 1600), k.InterfaceHealth("wmb", 1600); a.Down || !a.NoCarrier || !b.Down || b.NoCarrier {
			t.Errorf("wmb is down, so wma has no carrier: %+v, %+v", a, b)
		}
		testnet.SetUp(t, "wmb")
		testnet.Set(t, "ipv6/conf/wma/ioam6_enabled", "1")
		if h := k.InterfaceHealth("wma", 1600); !h.KernelIOAM6 {
			t.Errorf("ioam6_enabled is not seen: %+v", h)
		}
		for _, forwards := range []bool{false, true} {
			testnet.Set(t, "ipv6/conf/all/forwarding", map[bool]string{false: "0", true: "1"}[forwards])
			if k.Forwards() != forwards {
				t.Errorf("whether this node forwards: %v", !forwards)
			}
		}
		if why := k.NoRoute(netip.MustParseAddr("2001:db8:5::2")); why != "" {
			t.Errorf("a neighbour has no route: %s", why)
		}
		if why := k.NoRoute(netip.MustParseAddr("2001:db8:6::2")); why != "no route" {
			t.Errorf("an address without route: %q", why)
		}
		if source, err := k.SourceTo(netip.MustParseAddr("2001:db8:5::2")); err != nil || source != netip.MustParseAddr("2001:db8:5::1") {
			t.Errorf("source %v, %v", source, err)
		}
		if source, err := k.SourceTo(netip.MustParseAddr("2001:db8:6::2")); err == nil {
			t.Errorf("source %v for an address without route", source)
		}
	})
}

// checkDevices gives an interface a VLAN device, where the kernel has them, and a
// bridge.
func checkDevices(t *testing.T, lower model.IfIndex) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "wma.7", int(lower)
	var want []config.Device
	switch err := netlink.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: 7}); {
	case errors.Is(err, unix.EOPNOTSUPP): // not in this kernel
	case err != nil:
		t.Fatal(err)
	default:
		want = append(want, config.Device{Index: indexOf(t, "wma.7"), Lower: lower})
	}
	attrs = netlink.NewLinkAttrs()
	attrs.Name = "wmbr"
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	port, err := netlink.LinkByIndex(int(lower))
	if err = errors.Join(err, netlink.LinkAdd(bridge)); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetMaster(port, bridge); err != nil {
		t.Fatal(err)
	}
	want = append(want, config.Device{Index: lower, Master: indexOf(t, "wmbr")}, config.Device{Index: indexOf(t, "wmbr"), Bridge: true})
	devices, err := service.Kernel{}.Devices()
	byIndex := func(a, b config.Device) int { return cmp.Compare(a.Index, b.Index) }
	slices.SortFunc(devices, byIndex)
	slices.SortFunc(want, byIndex)
	if err != nil || !slices.Equal(devices, want) {
		t.Errorf("masters and VLAN devices are %+v, %v; want %+v", devices, err, want)
	}
	if err := netlink.LinkSetNoMaster(port); err != nil {
		t.Fatal(err)
	}
}

func indexOf(t *testing.T, name string) model.IfIndex {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return model.IfIndex(l.Attrs().Index)
}

func TestKernelWatchesLinks(t *testing.T) {
	testnet.Alone(t, func() {
		ctx, cancel := context.WithCancel(context.Background())
		var changes atomic.Int64
		begun, done := make(chan struct{}), make(chan error, 1)
		changed := func() {
			if changes.Add(1) == 1 {
				close(begun)
			}
		}
		ns := testnet.Here(t)
		go func() {
			done <- ns.Do(func() error { return service.Kernel{}.WatchLinks(ctx, changed) })
		}()
		<-begun
		testnet.AddVeth(t, "wma", "wmb", 1600)
		agenttest.Eventually(t, "an interface that appears is seen", func() bool { return changes.Load() > 1 })
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the end of the watch: %v", err)
		}
	})
}

// When any program adds or removes a filter or a queueing discipline, the kernel reports the interface.
func TestKernelWatchesFilters(t *testing.T) {
	testnet.Alone(t, func() {
		ctx, cancel := context.WithCancel(context.Background())
		heard, done := make(chan model.IfIndex, 100), make(chan error, 1)
		ns := testnet.Here(t)
		testnet.AddVeth(t, "wma", "wmb", 1600)
		testnet.SetUp(t, "wma")
		testnet.SetUp(t, "wmb")
		go func() {
			done <- ns.Do(func() error {
				return service.Kernel{}.WatchFilters(ctx, func(index model.IfIndex) { heard <- index })
			})
		}()
		// Until the watch has begun, changes elsewhere make no difference.
		watched := indexOf(t, "wma")
		agenttest.Eventually(t, "the watch begins", func() bool {
			testnet.Run(t, "tc qdisc add dev wmb clsact; tc qdisc del dev wmb clsact")
			return len(heard) > 0
		})
		qdisc := &netlink.GenericQdisc{QdiscType: "clsact",
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: int(watched), Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "other", Type: ebpf.SchedCLS, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		filter := &netlink.BpfFilter{Fd: program.FD(), Name: "other", DirectAction: true, FilterAttrs: netlink.FilterAttrs{
			LinkIndex: int(watched), Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 7, Protocol: unix.ETH_P_ALL}}
		for _, change := range []struct {
			what string
			do   func() error
		}{
			{"a qdisc is added", func() error { return netlink.QdiscAdd(qdisc) }},
			{"a filter is added", func() error { return netlink.FilterAdd(filter) }},
			{"a filter is removed", func() error { return netlink.FilterDel(filter) }},
			{"a qdisc is removed", func() error { return netlink.QdiscDel(qdisc) }},
		} {
			for quiet := false; !quiet; { // the change before may have made several
				select {
				case <-heard:
				case <-time.After(50 * time.Millisecond):
					quiet = true
				}
			}
			if err := change.do(); err != nil {
				t.Fatalf("%s: %v", change.what, err)
			}
			select {
			case index := <-heard:
				if index != watched {
					t.Errorf("%s: a notification about interface %d, not %d", change.what, index, watched)
				}
			case <-time.After(patience.Of(10 * time.Second)):
				t.Fatalf("%s: no notification", change.what)
			}
		}
		cancel()
		<-done
	})
}
