// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/test/e2e"
)

// While its agent is dead, a router looks routes up in the kernel, and after five
// seconds leaves packets to its stack, until a new agent comes. No packet is
// lost, and a changed route takes effect as soon as cached next hops have
// expired.
func TestForwardWithoutAgent(t *testing.T) {
	e2e.NeedRedirection(t)
	const helped = 5 * time.Second
	l := raiseTwoWays(t, twoWays(t))
	to := func(hop string) []string {
		return []string{"ip", "-6", "route", "replace", "2001:db8:2::/64", "via", hop}
	}
	c := startCrossing(t, l)
	c.bound = 100*time.Millisecond + changeBound // cached next hops expire after 100 ms without the agent
	pid := e2e.AgentProcess(t, l, "athos")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	c.change(t, "dartagnan", to("2001:db8:14::2")...)
	time.Sleep(changePause)
	c.change(t, "porthos", to("2001:db8:12::2")...)
	time.Sleep(changePause)
	if n := e2e.StackForwards(t, l, "athos"); n > 0 {
		t.Errorf("the stack of athos forwarded %d packets %v after the agent's end", n, time.Since(killed))
	}
	e2e.Await(t, "forwarding by the stack", helped+time.Second, func() bool { return e2e.StackForwards(t, l, "athos") > 0 })
	if took := time.Since(killed); took < helped-100*time.Millisecond {
		t.Errorf("the stack forwarded %v after the agent's end", took)
	}
	if _, err := l.Node("athos").StartAgent(t.Context(), l.Topology().Node("athos").Agent.Config); err != nil {
		t.Fatal(err)
	}
	e2e.AwaitRouting(t, l) // a busy machine takes a moment from the agent's answer to its first report
	before := e2e.ForwardsOf(t, l, "athos")
	c.change(t, "dartagnan", to("2001:db8:14::2")...)
	time.Sleep(changePause)
	r := c.stop(t)
	r.checkWhole(t, r.sent[0], time.Now())
	f := e2e.ForwardsOf(t, l, "athos")
	if f.Sum()+f.Stack != uint64(len(r.sent)) || f.Stack != f.ToStack["agent"] {
		t.Errorf("athos forwarded %d of %d packets fast, %d by the stack; left to it: %v", f.Sum(), len(r.sent), f.Stack, f.ToStack)
	}
	if f.Stack != before.Stack || f.Sum() < before.Sum()+streamRate/10 {
		t.Errorf("with a new agent, athos forwarded %d packets fast, %d by the stack", f.Sum()-before.Sum(), f.Stack-before.Stack)
	}
	for _, w := range e2e.StatusOf(t, l, "athos").Warnings {
		if w.Code == health.RoutesUnwatched {
			t.Errorf("the new agent warns: %s", w.Text)
		}
	}
}

// A reload changes how packets are forwarded, without loss or duplicates.
func TestForwardReload(t *testing.T) {
	t.Parallel()
	e2e.NeedRedirection(t)
	top := e2e.Domain(t, e2e.Modes("xdp")[0])
	forwardFast(t, top, e2e.Routers...)
	l := e2e.Raise(t, top)
	e2e.OpenEnds(t, l, "alpha", "beta")
	s := startStream(t, l)
	reload := func(want string) {
		t.Helper()
		for _, node := range e2e.Routers {
			rewriteAs(t, l, node, want)
			e2e.SignalAgent(t, l, node, syscall.SIGHUP)
		}
		for _, node := range e2e.Routers {
			e2e.Await(t, "forwarding "+want, 10*time.Second, func() bool {
				return e2e.StatusInterface(t, l, node, "eth0").Forwarding == want
			})
		}
	}
	for range 2 {
		before := e2e.StackForwards(t, l, "porthos")
		time.Sleep(100 * time.Millisecond)
		if after := e2e.StackForwards(t, l, "porthos"); after != before {
			t.Errorf("the stack of porthos forwarded %d packets while it was to forward fast", after-before)
		}
		reload("stack")
		before, fast := e2e.StackForwards(t, l, "porthos"), e2e.ForwardsOf(t, l, "porthos").Sum()
		time.Sleep(100 * time.Millisecond)
		if f := e2e.ForwardsOf(t, l, "porthos"); f.Stack < before+streamRate/50 || f.Sum() != fast {
			t.Errorf("in 100 ms of forwarding by the stack, it forwarded %d packets, and %d went past it", f.Stack-before, f.Sum()-fast)
		}
		reload("fast")
	}
	r := s.stop(t)
	t.Logf("%d datagrams, %d of them late", len(r.sent), r.late)
	r.checkWhole(t, r.sent[0], time.Now())
	count := uint64(len(r.sent))
	for _, node := range e2e.Routers {
		if f := e2e.ForwardsOf(t, l, node); f.Sum()+f.Stack != count || f.Sum() == 0 || f.Stack == 0 {
			t.Errorf("%s forwarded %d packets fast and %d by the stack, want %d in all", node, f.Sum(), f.Stack, count)
		}
	}
	e2e.CheckCounters(t, l, "aramis", map[string]uint64{"tunnel_decapsulated": count})
}

// When the other end of a link stops receiving in batches, its veth can no longer
// send what XDP redirects. As soon as the kernel reports this, the stack sends,
// and no more packets are lost.
func TestForwardToDeviceThatCannot(t *testing.T) {
	e2e.NeedRedirection(t)
	const bound = 50 * time.Millisecond
	top := e2e.Domain(t, e2e.Modes("xdp")[0])
	forwardFast(t, top, "aramis")
	l := e2e.Raise(t, top)
	e2e.OpenEnds(t, l, "alpha", "beta")
	s := startStream(t, l)
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	e2e.Must(t, l.Node("beta"), "ethtool", "-K", "eth0", "gro", "off")
	off := time.Now()
	time.Sleep(changePause)
	e2e.Must(t, l.Node("beta"), "ethtool", "-K", "eth0", "gro", "on")
	e2e.Await(t, "forwarding without the stack", time.Second, func() bool {
		before := e2e.StackForwards(t, l, "aramis")
		time.Sleep(20 * time.Millisecond)
		return e2e.StackForwards(t, l, "aramis") == before
	})
	r := s.stop(t)
	r.checkWhole(t, r.sent[0], began)
	r.checkWhole(t, off.Add(bound), time.Now())
	lost := r.lost(began, off.Add(bound))
	f := e2e.ForwardsOf(t, l, "aramis")
	t.Logf("%d datagrams were lost; the stack forwarded %d", len(lost), f.Stack)
	if most := int(bound.Seconds() * streamRate); len(lost) > most {
		t.Errorf("%d datagrams were lost, want at most the %d of %v", len(lost), most, bound)
	}
	if f.Stack < streamRate/10 || f.Stack != f.ToStack["device"] || f.Sum() == 0 {
		t.Errorf("aramis forwarded %d packets fast, its stack %d; left to it: %v", f.Sum(), f.Stack, f.ToStack)
	}
}
