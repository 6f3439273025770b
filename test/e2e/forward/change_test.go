// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// Packets follow the kernel's routes as they change, without loss.
func TestForwardFollowsRoutes(t *testing.T) {
	e2e.NeedRedirection(t)
	l := raiseTwoWays(t, twoWays(t))
	athos := l.Node("athos")
	hop := map[string]string{"porthos": "2001:db8:12::2", "dartagnan": "2001:db8:14::2"}
	e2e.Must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", hop["dartagnan"], "table", "100")
	flip := func(t *testing.T, c *crossing, there, back []string) {
		for range 2 {
			c.change(t, "dartagnan", there...)
			time.Sleep(changePause)
			c.change(t, "porthos", back...)
			time.Sleep(changePause)
		}
	}
	for _, tt := range []struct {
		name        string
		there, back []string
	}{
		{"route",
			[]string{"ip", "-6", "route", "replace", "2001:db8:2::/64", "via", hop["dartagnan"]},
			[]string{"ip", "-6", "route", "replace", "2001:db8:2::/64", "via", hop["porthos"]}},
		{"longer prefix",
			[]string{"ip", "-6", "route", "add", "2001:db8:2::2", "via", hop["dartagnan"]},
			[]string{"ip", "-6", "route", "del", "2001:db8:2::2"}},
		{"rule",
			[]string{"ip", "-6", "rule", "add", "to", "2001:db8:2::/64", "lookup", "100"},
			[]string{"ip", "-6", "rule", "del", "to", "2001:db8:2::/64", "lookup", "100"}},
		{"rule by source and port",
			[]string{"ip", "-6", "rule", "add", "from", "2001:db8:1::2", "dport", "9000", "lookup", "100"},
			[]string{"ip", "-6", "rule", "del", "from", "2001:db8:1::2", "dport", "9000", "lookup", "100"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := e2e.ForwardsOf(t, l, "athos")
			c := startCrossing(t, l)
			flip(t, c, tt.there, tt.back)
			r := c.stop(t)
			r.checkWhole(t, r.sent[0], time.Now())
			f := e2e.ForwardsOf(t, l, "athos")
			if n := f.Sum() - before.Sum(); f.Stack != before.Stack || n != uint64(len(r.sent)) {
				t.Errorf("athos forwarded %d of %d packets fast, %d by the stack; left to it: %v", n, len(r.sent), f.Stack-before.Stack, f.ToStack)
			}
		})
	}
	t.Run("neighbour", func(t *testing.T) { followNeighbour(t, l) })
}

// followNeighbour checks that packets follow a neighbour to its new link-layer
// address.
func followNeighbour(t *testing.T, l *lab.Lab) {
	t.Helper()
	porthos := l.Node("porthos")
	first, second := linkAddress(t, porthos, "eth0"), net.HardwareAddr{2, 0, 0, 0, 0x12, 2}
	// packets to the second address are received and routed like the rest
	e2e.Must(
		t,
		porthos,
		"ip",
		"link",
		"add",
		"link",
		"eth0",
		"address",
		second.String(),
		"name",
		"second",
		"type",
		"macvlan",
		"mode",
		"bridge",
	)
	e2e.Must(t, porthos, "ip", "link", "set", "second", "up")
	before := e2e.ForwardsOf(t, l, "athos")
	c := startCrossing(t, l)
	for i := range 4 {
		address := []net.HardwareAddr{second, first}[i%2]
		c.change(t, "porthos", "ip", "-6", "neigh", "replace", "2001:db8:12::2", "lladdr", address.String(), "dev", "eth1", "nud", "permanent")
		time.Sleep(changePause)
	}
	r := c.stop(t)
	r.checkWhole(t, r.sent[0], time.Now())
	all := c.seen["porthos"].all
	for i, now := range c.changes {
		want, until := [][6]byte{[6]byte(first), [6]byte(second)}[i%2], time.Now()
		if i+1 < len(c.changes) {
			until = c.changes[i+1].began
		}
		var took time.Duration
		for _, a := range all {
			if a.to != want && a.at.After(now.done) && a.at.Before(until) {
				took = a.at.Sub(now.done)
			}
		}
		if took > changeBound {
			t.Errorf("change %d: packets went to an address other than %x for %v", i, want, took)
		}
	}
	f := e2e.ForwardsOf(t, l, "athos")
	if n := f.Sum() - before.Sum(); f.Stack != before.Stack || n != uint64(len(r.sent)) {
		t.Errorf("athos forwarded %d of %d packets fast, %d by the stack; left to it: %v", n, len(r.sent), f.Stack-before.Stack, f.ToStack)
	}
}

// When the outgoing interface goes down, packets take the other way within the
// bound; when it is deleted, at once.
func TestForwardSurvivesLinks(t *testing.T) {
	e2e.NeedRedirection(t)
	l := raiseTwoWays(t, twoWays(t))
	athos, porthos := l.Node("athos"), l.Node("porthos")
	e2e.Must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "metric", "2048")
	e2e.Must(t, athos, "sysctl", "-w", "net.ipv6.conf.eth1.ignore_routes_with_linkdown=1")
	for node, name := range map[*lab.Node]string{athos: "eth1", porthos: "eth0"} {
		e2e.Must(t, node, "sysctl", "-w", "net.ipv6.conf."+name+".keep_addr_on_down=1")
	}
	for _, tt := range []struct {
		name    string
		node    *lab.Node
		command string
		undo    string
		bound   time.Duration
	}{
		{"down", athos, "ip link set eth1 down", "ip link set eth1 up", changeBound},
		{"carrier", porthos, "ip link set eth0 down", "ip link set eth0 up", changeBound},
		{"deleted", athos, "ip link del eth1", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := startCrossing(t, l)
			began := time.Now()
			e2e.Must(t, tt.node, strings.Fields(tt.command)...)
			c.recordCrossing("dartagnan", began)
			time.Sleep(500 * time.Millisecond)
			done := c.changes[1].done
			r := c.stop(t)
			r.checkWhole(t, r.sent[0], began)
			r.checkWhole(t, done.Add(tt.bound), time.Now())
			lost := r.lost(began, done.Add(tt.bound))
			t.Logf("%d datagrams were lost", len(lost))
			if most := int(changeBound.Seconds() * streamRate); len(lost) > most {
				t.Errorf("%d datagrams were lost around the change, want at most the %d of %v", len(lost), most, changeBound)
			}
			if tt.undo == "" {
				return
			}
			e2e.Must(t, tt.node, strings.Fields(tt.undo)...)
			e2e.Must(t, athos, "ip", "-6", "route", "replace", "2001:db8:2::/64", "via", "2001:db8:12::2")
			e2e.Await(t, "the first way", 5*time.Second, func() bool { return usesFirstWay(t, l) })
		})
	}
}

// usesFirstWay reports whether the kernel sends to beta through porthos again and
// has resolved its address.
func usesFirstWay(t *testing.T, l *lab.Lab) bool {
	t.Helper()
	_, _ = l.Send(t.Context(), lab.Traffic{Kind: lab.KindPing, From: "alpha", To: "beta", Count: 1, Size: 56})
	route := e2e.Must(t, l.Node("athos"), "ip", "-6", "route", "get", "2001:db8:2::2")
	state := neighbourOf(t, l.Node("athos"), "2001:db8:12::2").State
	return strings.Contains(route, " dev eth1 ") && state&^(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED) != 0
}
