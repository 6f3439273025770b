// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
)

// While its agent is dead, a router asks the kernel, and after five seconds its
// stack forwards, until a new agent comes: no packet is lost, and changed routes
// count as soon as what was remembered is not used any more.
func TestForwardWithoutAgent(t *testing.T) {
	needRedirection(t)
	const helped = 5 * time.Second
	l := raiseTwoWays(t, twoWays(t))
	to := func(hop string) []string {
		return []string{"ip", "-6", "route", "replace", "2001:db8:2::/64", "via", hop}
	}
	c := startCrossing(t, l)
	c.bound = 100*time.Millisecond + changeBound // of the agent's silence
	pid := agentProcess(t, l, "athos")
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	c.change(t, "dartagnan", to("2001:db8:14::2")...)
	time.Sleep(changePause)
	c.change(t, "porthos", to("2001:db8:12::2")...)
	time.Sleep(changePause)
	if n := stackForwards(t, l, "athos"); n > 0 {
		t.Errorf("the stack of athos forwarded %d packets %v after the agent's end", n, time.Since(killed))
	}
	await(t, "forwarding by the stack", helped+time.Second, func() bool { return stackForwards(t, l, "athos") > 0 })
	if took := time.Since(killed); took < helped-100*time.Millisecond {
		t.Errorf("the stack forwarded %v after the agent's end", took)
	}
	if _, err := l.Node("athos").StartAgent(t.Context(), l.Topology().Node("athos").Agent.Config); err != nil {
		t.Fatal(err)
	}
	before := forwardsOf(t, l, "athos")
	c.change(t, "dartagnan", to("2001:db8:14::2")...)
	time.Sleep(changePause)
	r := c.stop(t)
	r.checkWhole(t, r.sent[0], time.Now())
	f := forwardsOf(t, l, "athos")
	if f.sum()+f.stack != uint64(len(r.sent)) || f.stack != f.toStack["agent"] {
		t.Errorf("athos forwarded %d of %d packets fast, %d by the stack; left to it: %v", f.sum(), len(r.sent), f.stack, f.toStack)
	}
	if f.stack != before.stack || f.sum() < before.sum()+streamRate/10 {
		t.Errorf("with a new agent, athos forwarded %d packets fast, %d by the stack", f.sum()-before.sum(), f.stack-before.stack)
	}
	for _, w := range statusOf(t, l, "athos").Warnings {
		if w.Code == health.RoutesUnwatched {
			t.Errorf("the new agent warns: %s", w.Text)
		}
	}
}

// A reload changes how packets are forwarded, and loses and doubles none.
func TestForwardReload(t *testing.T) {
	needRedirection(t)
	top := domain(t, modes("xdp")[0])
	forwardFast(t, top, routers...)
	l := raise(t, top)
	openEnds(t, l, "alpha", "beta")
	s := startStream(t, l)
	reload := func(want string) {
		t.Helper()
		for _, node := range routers {
			rewriteAs(t, l, node, want)
			signalAgent(t, l, node, syscall.SIGHUP)
		}
		for _, node := range routers {
			await(t, "forwarding "+want, 10*time.Second, func() bool {
				return statusInterface(t, l, node, "eth0").Forwarding == want
			})
		}
	}
	for range 2 {
		before := stackForwards(t, l, "porthos")
		time.Sleep(100 * time.Millisecond)
		if after := stackForwards(t, l, "porthos"); after != before {
			t.Errorf("the stack of porthos forwarded %d packets while it was to forward fast", after-before)
		}
		reload("stack")
		before, fast := stackForwards(t, l, "porthos"), forwardsOf(t, l, "porthos").sum()
		time.Sleep(100 * time.Millisecond)
		if f := forwardsOf(t, l, "porthos"); f.stack < before+streamRate/50 || f.sum() != fast {
			t.Errorf("in 100 ms of forwarding by the stack, it forwarded %d packets, and %d went past it", f.stack-before, f.sum()-fast)
		}
		reload("fast")
	}
	r := s.stop(t)
	t.Logf("%d datagrams, %d of them late", len(r.sent), r.late)
	r.checkWhole(t, r.sent[0], time.Now())
	count := uint64(len(r.sent))
	for _, node := range routers {
		if f := forwardsOf(t, l, node); f.sum()+f.stack != count || f.sum() == 0 || f.stack == 0 {
			t.Errorf("%s forwarded %d packets fast and %d by the stack, want %d in all", node, f.sum(), f.stack, count)
		}
	}
	checkCounters(t, l, "aramis", map[string]uint64{"tunnel_decapsulated": count})
}

// rewriteAs gives an agent the file that it began with, with another way to
// forward.
func rewriteAs(t *testing.T, l *lab.Lab, node, forwarding string) {
	t.Helper()
	before := string(l.Topology().Node(node).Agent.Config)
	after := strings.ReplaceAll(before, "forwarding: fast", "forwarding: "+forwarding)
	if err := os.WriteFile(filepath.Join(l.Directory(), node+".yaml"), []byte(after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// When the other end of a link ceases to receive in batches, its veth cannot
// send what XDP redirects any more: as soon as the kernel says so, the stack
// sends, and no more is lost.
func TestForwardToDeviceThatCannot(t *testing.T) {
	needRedirection(t)
	const bound = 50 * time.Millisecond
	top := domain(t, modes("xdp")[0])
	forwardFast(t, top, "aramis")
	l := raise(t, top)
	openEnds(t, l, "alpha", "beta")
	s := startStream(t, l)
	time.Sleep(200 * time.Millisecond)
	began := time.Now()
	must(t, l.Node("beta"), "ethtool", "-K", "eth0", "gro", "off")
	off := time.Now()
	time.Sleep(changePause)
	must(t, l.Node("beta"), "ethtool", "-K", "eth0", "gro", "on")
	await(t, "forwarding without the stack", time.Second, func() bool {
		before := stackForwards(t, l, "aramis")
		time.Sleep(20 * time.Millisecond)
		return stackForwards(t, l, "aramis") == before
	})
	r := s.stop(t)
	r.checkWhole(t, r.sent[0], began)
	r.checkWhole(t, off.Add(bound), time.Now())
	lost := r.lost(began, off.Add(bound))
	f := forwardsOf(t, l, "aramis")
	t.Logf("%d datagrams were lost; the stack forwarded %d", len(lost), f.stack)
	if most := int(bound.Seconds() * streamRate); len(lost) > most {
		t.Errorf("%d datagrams were lost, want at most the %d of %v", len(lost), most, bound)
	}
	if f.stack < streamRate/10 || f.stack != f.toStack["device"] || f.sum() == 0 {
		t.Errorf("aramis forwarded %d packets fast, its stack %d; left to it: %v", f.sum(), f.stack, f.toStack)
	}
}
