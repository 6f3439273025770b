// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/ioam"
)

// The first thread of a process is parked rather than ended when its goroutine
// ends locked: it would keep a namespace for ever.
func init() { runtime.LockOSThread() }

// inNamespace runs fn on a thread in a network namespace of its own.
func inNamespace(t *testing.T, fn func()) {
	t.Helper()
	needRoot(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the namespace
		ns, err := netns.New()
		if err != nil {
			t.Errorf("make a network namespace: %v", err)
			return
		}
		defer ns.Close()
		fn()
	}()
	<-done
}

func addVeth(t *testing.T, name, peer string) {
	t.Helper()
	link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name, MTU: 1600}, PeerName: peer}
	if err := netlink.LinkAdd(link); err != nil {
		t.Errorf("add %s: %v", name, err)
	}
}

func setUp(t *testing.T, name, address string) {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err == nil {
		err = netlink.LinkSetUp(l)
	}
	if err == nil && address != "" {
		var a *netlink.Addr
		if a, err = netlink.ParseAddr(address); err == nil {
			a.Flags = 0x02 // IFA_F_NODAD
			err = netlink.AddrAdd(l, a)
		}
	}
	if err != nil {
		t.Errorf("bring %s up: %v", name, err)
	}
}

func writeSysctl(t *testing.T, name, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys/net/ipv6", name), []byte(value), 0o644); err != nil {
		t.Error(err)
	}
}

func TestKernelSystem(t *testing.T) {
	inNamespace(t, func() {
		addVeth(t, "wma", "wmb")
		setUp(t, "wma", "2001:db8:5::1/64")
		setUp(t, "wmb", "")
		var k kernel
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
		writeSysctl(t, "ioam6_id", "77")
		writeSysctl(t, "ioam6_id_wide", "7777777")
		writeSysctl(t, "conf/wma/ioam6_id", "201")
		writeSysctl(t, "conf/wma/ioam6_id_wide", "201201")
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
		if h := k.InterfaceHealth("wma", 1600); h != (health.Interface{Name: "wma", MTU: 1600}) {
			t.Errorf("health of a veth: %+v", h)
		}
		writeSysctl(t, "conf/wma/ioam6_enabled", "1")
		if h := k.InterfaceHealth("wma", 1600); !h.KernelIOAM6 {
			t.Errorf("ioam6_enabled is not seen: %+v", h)
		}
		for _, forwards := range []bool{false, true} {
			writeSysctl(t, "conf/all/forwarding", map[bool]string{false: "0", true: "1"}[forwards])
			if k.Forwards() != forwards {
				t.Errorf("whether this node forwards: %v", !forwards)
			}
		}
		if why := k.NoRoute(mustAddr("2001:db8:5::2")); why != "" {
			t.Errorf("a neighbour has no route: %s", why)
		}
		if why := k.NoRoute(mustAddr("2001:db8:6::2")); why != "no route" {
			t.Errorf("an address without route: %q", why)
		}
		if source, err := k.SourceTo(mustAddr("2001:db8:5::2")); err != nil || source != mustAddr("2001:db8:5::1") {
			t.Errorf("source %v, %v", source, err)
		}
		if source, err := k.SourceTo(mustAddr("2001:db8:6::2")); err == nil {
			t.Errorf("source %v for an address without route", source)
		}
	})
}

func TestKernelWatchesLinks(t *testing.T) {
	inNamespace(t, func() {
		ctx, cancel := context.WithCancel(context.Background())
		var changes atomic.Int64
		begun, done := make(chan struct{}), make(chan error, 1)
		changed := func() {
			if changes.Add(1) == 1 {
				close(begun)
			}
		}
		ns, err := netns.Get()
		if err != nil {
			t.Error(err)
			cancel()
			return
		}
		defer ns.Close()
		go func() {
			runtime.LockOSThread()
			if err := netns.Set(ns); err != nil {
				done <- err
				return
			}
			done <- kernel{}.WatchLinks(ctx, changed)
		}()
		<-begun
		addVeth(t, "wma", "wmb")
		eventually(t, "an interface that appears is seen", func() bool { return changes.Load() > 1 })
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the end of the watch: %v", err)
		}
	})
}

func TestRemoveWithoutAgent(t *testing.T) {
	needRoot(t)
	place := api.At(t.TempDir(), 9)
	removed, _, err := Remove(place, func(string) (Datapath, error) { return nil, errors.New("nothing to open") })
	if removed || err != nil {
		t.Errorf("nothing was left: %v, %v", removed, err)
	}
	if _, err := os.Stat(place.Dir); err == nil {
		t.Error("looking for what is left made the runtime directory")
	}

	held, err := acquire(place)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Remove(place, nil); !errors.Is(err, ErrAgentRuns) {
		t.Errorf("removed under a running agent: %v", err)
	}
	held.release()
	if removed, _, err := Remove(place, nil); removed || err != nil {
		t.Errorf("an agent that pinned nothing: %v, %v", removed, err)
	}
	if _, err := os.Stat(place.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the runtime directory is left: %v", err)
	}
}

func TestLockSurvivesItsDirectory(t *testing.T) {
	place := api.At(t.TempDir(), 10)
	first, err := acquire(place)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.clear(); err != nil {
		t.Fatal(err)
	}
	second, err := acquire(place)
	if err != nil {
		t.Fatalf("after the holder removed everything: %v", err)
	}
	defer second.release()
	if _, err := acquire(place); !errors.Is(err, ErrAgentRuns) {
		t.Errorf("a second holder: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := WaitEnded(ctx, place); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a holder that stays: %v", err)
	}
	second.release()
	if err := WaitEnded(context.Background(), place); err != nil {
		t.Errorf("waiting for a holder that went: %v", err)
	}
}
