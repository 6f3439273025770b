// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"encoding/binary"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Packets follow changes of the router itself: another node's address that
// becomes its own, and MTUs.
func TestForwardFollowsNode(t *testing.T) {
	e2e.NeedRedirection(t)
	l := raiseTwoWays(t, twoWays(t))
	t.Run("address", func(t *testing.T) { followAddress(t, l) })
	t.Run("MTU", func(t *testing.T) { followMTU(t, l) })
}

// followAddress checks that packets to an address are delivered to the router
// while it has that address, and that none is lost.
func followAddress(t *testing.T, l *lab.Lab) {
	t.Helper()
	c := startCrossing(t, l)
	// captures do not see what is forwarded fast, only what goes to the stack
	c.seen["athos"] = watchArrivals(t, l, c.stream, "athos", "eth0")
	takes := startTaker(t, l.Node("athos"), c.stream)
	for _, device := range []string{"lo", "eth1", "eth0"} {
		// with a prefix route, the kernel would briefly have no other route to
		// the address
		c.change(t, "athos", "ip", "-6", "addr", "add", "2001:db8:2::2/128", "dev", device, "nodad", "noprefixroute")
		time.Sleep(changePause)
		c.change(t, "porthos", "ip", "-6", "addr", "del", "2001:db8:2::2/128", "dev", device)
		time.Sleep(changePause)
	}
	r := c.stop(t)
	taken := takes.stop()
	for _, number := range taken {
		r.came = append(r.came, make([]uint8, max(0, number+1-len(r.came)))...)
		if r.came[number]++; r.came[number] > 1 {
			t.Fatalf("datagram %d reached both athos and beta", number)
		}
	}
	r.checkWhole(t, r.sent[0], time.Now())
	if want := int(3 * (changePause - changeBound).Seconds() * streamRate / 4); len(taken) < want {
		t.Errorf("athos took %d datagrams, want at least %d", len(taken), want)
	}
}

// followMTU checks that while a link is too narrow, the sender gets an error for
// each datagram, and that all arrive once it is wide again. Datagrams may vanish
// only until the agent hears of a smaller MTU.
func followMTU(t *testing.T, l *lab.Lab) {
	t.Helper()
	const size, wide, narrow = 1400 - 48, "1700", 1300
	const pause = 2*changeBound + 200*time.Millisecond
	before := e2e.ForwardsOf(t, l, "athos")
	s := startStreamOf(t, l, size)
	errors, capture := watchTooBig(t, l, s, "2001:db8:1::1")
	changes := []change{{done: time.Now(), way: wide}}
	time.Sleep(pause)
	for _, mtu := range []string{"1300", wide, "1300", wide} {
		began := time.Now()
		e2e.Must(t, l.Node("athos"), "ip", "link", "set", "eth1", "mtu", mtu)
		changes = append(changes, change{began, time.Now(), mtu})
		time.Sleep(pause)
	}
	changes = append(changes, change{began: time.Now()})
	r := s.stop(t)
	if stats, err := capture.Stop(); err != nil || stats.Dropped > 0 {
		t.Fatal(err, stats)
	}
	answered, vanished := 0, 0
	for number, at := range r.sent {
		came := number < len(r.came) && r.came[number] > 0
		mtus := errors.mtus[number]
		answered += len(mtus)
		i := 0
		for i+2 < len(changes) && at.After(changes[i+1].began.Add(-changeBound)) {
			i++
		}
		now := changes[i]
		settled := at.After(now.done.Add(changeBound))
		switch {
		case came && len(mtus) > 0, len(mtus) > 1, len(mtus) == 1 && mtus[0] != narrow:
			t.Fatalf("datagram %d arrived: %v, and was answered with the MTUs %v", number, came, mtus)
		case came || len(mtus) > 0:
			if settled && came != (now.way == wide) {
				t.Fatalf("datagram %d, sent %v after the MTU became %s, arrived: %v", number, at.Sub(now.done), now.way, came)
			}
		case settled, now.way == wide:
			t.Fatalf("datagram %d, sent %v after the MTU became %s, vanished", number, at.Sub(now.done), now.way)
		default:
			vanished++
		}
	}
	f := e2e.ForwardsOf(t, l, "athos")
	t.Logf("%d datagrams, %d of them too big, %d vanished", len(r.sent), answered, vanished)
	if n := int(f.ToStack["mtu"] - before.ToStack["mtu"]); n < answered || answered < streamRate/10 {
		t.Errorf("athos answered %d packets, and left %d to the stack as too big", answered, n)
	}
}

// When an interface is deleted, the kernel itself takes packets elsewhere: even
// with an agent that is stopped and cached next hops that stay valid, none is
// lost once the interface is gone.
func TestForwardToVanishedInterface(t *testing.T) {
	e2e.NeedRedirection(t)
	l := raiseTwoWays(t, twoWays(t))
	athos := l.Node("athos")
	e2e.Must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "metric", "2048")
	instance, err := athos.Instance()
	if err != nil {
		t.Fatal(err)
	}
	watched, err := ebpf.LoadPinnedMap(filepath.Join(api.Root, "bpf", instance.ID, "forwarding"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer watched.Close()
	before := e2e.ForwardsOf(t, l, "athos")
	c := startCrossing(t, l)
	c.stream.stay(t) // each CPU has its own cache
	resume := e2e.StopAgent(t, l, "athos")
	believe(t, watched)
	time.Sleep(50 * time.Millisecond)
	began := time.Now()
	e2e.Must(t, athos, "ip", "link", "del", "eth1")
	c.recordCrossing("dartagnan", began)
	done := c.changes[1].done
	time.Sleep(changePause)
	heard := time.Now()
	byStack := e2e.StackForwards(t, l, "athos") - before.Stack
	resume()
	r := c.stop(t)
	r.checkWhole(t, r.sent[0], began)
	r.checkWhole(t, done, time.Now())
	sent := r.sentIn(done, heard)
	f := e2e.ForwardsOf(t, l, "athos")
	t.Logf(
		"%d datagrams were lost in the %v of the command; the stack forwarded %d of the next %d",
		len(r.lost(began, done)),
		done.Sub(began),
		byStack,
		sent,
	)
	if byStack == 0 || f.ToStack["device"]-before.ToStack["device"] < byStack {
		t.Errorf(
			"the stack of athos forwarded %d of %d packets that were to leave by an interface that was gone; left to it: %v",
			byStack,
			sent,
			f.ToStack,
		)
	}
	if n := f.Sum() - before.Sum(); n < uint64(r.sentIn(r.sent[0], began)) {
		t.Errorf("athos forwarded only %d packets fast", n)
	}
}

// believe makes a node's programs treat next hops as watched for some seconds,
// starting with an empty cache.
func believe(t *testing.T, forwarding *ebpf.Map) {
	t.Helper()
	value := make([]byte, 16) // struct forwarding
	if err := forwarding.Lookup(uint32(0), &value); err != nil {
		t.Fatal(err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	generation := binary.NativeEndian.Uint32(value[8:])
	binary.NativeEndian.PutUint64(value, uint64(now.Nano())+uint64(3*time.Second))
	binary.NativeEndian.PutUint32(value[8:], generation+1<<20) // a generation that the agent will not use
	if err := forwarding.Put(uint32(0), value); err != nil {
		t.Fatal(err)
	}
}
