// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Times of athos' neighbours: reachable for at most three quarters of a second
// (RFC 4861 §6.3.2), then probed three times. The delay before probes is zero,
// because each probe would otherwise count as a use of the neighbour until the
// next one.
const (
	reachableTime = 3 * 500 * time.Millisecond / 2
	probeTime     = 3 * 100 * time.Millisecond
	lookTime      = 1200 * time.Millisecond // until the agent reports which neighbours are in use
)

// The kernel keeps confirming a neighbour that only fast forwarding uses, like
// any other, while it answers; when it disappears, the kernel notices.
func TestForwardKeepsNeighbours(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	top := twoWays(t)
	top.PermanentNeighbours = false
	l := raiseTwoWays(t, top)
	athos, porthos := l.Node("athos"), l.Node("porthos")
	const hop = "2001:db8:12::2"
	for _, setting := range []string{"base_reachable_time_ms=500", "delay_first_probe_time=0", "retrans_time_ms=100"} {
		e2e.Must(t, athos, "sysctl", "-w", "net.ipv6.neigh.eth1."+setting)
	}
	// porthos has a permanent entry for athos, whose answers would count as use
	// of the neighbour
	e2e.Must(t, porthos, "ip", "neigh", "replace", "2001:db8:12::1", "dev", "eth0", "lladdr", linkAddress(t, athos, "eth1").String(), "nud",
		"permanent")
	// the first packets wait in the stack until neighbours are resolved
	e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindPing, Count: 2, Interval: 100 * time.Millisecond, Size: 56})
	old := linkAddress(t, porthos, "eth0")
	e2e.Must(t, athos, "ip", "neigh", "change", hop, "dev", "eth1", "lladdr", old.String(), "nud", "reachable", "extern_learn")
	stack := e2e.StackForwards(t, l, "athos")
	c := startCrossing(t, l)

	var states []int
	confirmed, stale := time.Now(), time.Duration(0)
	for began := time.Now(); time.Since(began) < 3*time.Second; time.Sleep(20 * time.Millisecond) {
		state := neighbourOf(t, athos, hop).State
		if len(states) == 0 || states[len(states)-1] != state {
			states = append(states, state)
		}
		if state == netlink.NUD_REACHABLE {
			confirmed = time.Now()
		}
		stale = max(stale, time.Since(confirmed))
	}
	t.Logf("states %v, at most %v between confirmations", states, stale)
	for _, state := range states {
		if state&(netlink.NUD_REACHABLE|netlink.NUD_STALE|netlink.NUD_DELAY|netlink.NUD_PROBE) == 0 {
			t.Errorf("the neighbour was in state %#x while it answered; states %v", state, states)
		}
	}
	if most := reachableTime + lookTime + probeTime; stale > most || len(states) < 3 {
		t.Errorf("the neighbour was not confirmed for %v, want %v at most; states %v", stale, most, states)
	}
	if n := e2e.StackForwards(t, l, "athos"); n != stack {
		t.Errorf("the stack of athos forwarded %d packets", n-stack)
	}

	if flags := neighbourOf(t, athos, hop).Flags; flags&netlink.NTF_EXT_LEARNED == 0 {
		t.Errorf("the flags of a neighbour that a routing daemon had learned are %#x", flags)
	}

	// The peer disappears silently: another machine takes its place.
	before := time.Now()
	e2e.Must(t, porthos, "ip", "addr", "del", "2001:db8:12::2/64", "dev", "eth0")
	e2e.Must(t, porthos, "ip", "link", "set", "eth0", "address", "02:00:00:00:12:09")
	gone := time.Now()
	most := reachableTime + probeTime + lookTime
	time.Sleep(most + 500*time.Millisecond)
	r := c.stream.stop(t)
	all := c.seen["porthos"].stop(t)
	c.seen["dartagnan"].stop(t)
	r.checkWhole(t, r.sent[0], before.Add(-100*time.Millisecond))
	dead := slices.DeleteFunc(all, func(a arrival) bool { return a.to != [6]byte(old) || a.at.Before(gone) })
	if len(dead) == 0 {
		t.Fatal("no packet to the neighbour that is gone was seen")
	}
	took := dead[len(dead)-1].at.Sub(gone)
	t.Logf("the kernel noticed the neighbour's end after %v", took)
	if took > most {
		t.Errorf("packets were sent to a neighbour that was gone for %v, want %v at most", took, most)
	}
	if state := neighbourOf(t, athos, hop).State; state&(netlink.NUD_FAILED|netlink.NUD_INCOMPLETE) == 0 && state != 0 {
		t.Errorf("the neighbour that is gone is in state %#x", state)
	}
}
