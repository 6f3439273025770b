// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
)

// changeBound is how soon a change of the kernel's routes must have its effect.
const changeBound = 100 * time.Millisecond

// changePause is between changes: shorter than what is remembered may last.
const changePause = 300 * time.Millisecond

// twoWays is `ecmp` with one way in use, by porthos. The routers in the middle
// run no agent: their captures see every packet.
func twoWays(t *testing.T) *lab.Topology {
	t.Helper()
	top := builtin(t, "ecmp")
	for _, node := range []string{"athos", "aramis"} {
		for i := range top.Node(node).Routes {
			r := &top.Node(node).Routes[i]
			r.Via = r.Via[:1]
		}
	}
	top.Node("porthos").Agent, top.Node("dartagnan").Agent = nil, nil
	return top
}

// raiseTwoWays brings it up with athos and aramis forwarding fast.
func raiseTwoWays(t *testing.T, top *lab.Topology) *lab.Lab {
	t.Helper()
	forwardFast(t, top, "athos", "aramis")
	l := raise(t, top)
	openEnds(t, l, "alpha", "porthos", "dartagnan", "beta")
	must(t, l.Node("dartagnan"), "ethtool", "-K", "eth1", "gro", "on")
	must(t, l.Node("porthos"), "ethtool", "-K", "eth1", "gro", "on")
	return l
}

// change is one change of the way to beta.
type change struct {
	began, done time.Time
	way         string // the node in the middle, from then on
}

// crossing is a stream over two ways, and what is seen of it in the middle.
type crossing struct {
	lab     *lab.Lab
	stream  *stream
	seen    map[string]*arrivals
	changes []change
	bound   time.Duration // how soon a change must have its effect
}

// startCrossing lets traffic flow by porthos.
func startCrossing(t *testing.T, l *lab.Lab) *crossing {
	t.Helper()
	c := &crossing{lab: l, stream: startStream(t, l), seen: map[string]*arrivals{}, bound: changeBound}
	for _, node := range []string{"porthos", "dartagnan"} {
		c.seen[node] = watchArrivals(t, l, c.stream, node, "eth0")
	}
	c.note("porthos", time.Now())
	time.Sleep(200 * time.Millisecond)
	return c
}

func (c *crossing) note(way string, began time.Time) {
	c.changes = append(c.changes, change{began, time.Now(), way})
}

// change runs a command in athos that makes packets take a way.
func (c *crossing) change(t *testing.T, way string, command ...string) {
	t.Helper()
	began := time.Now()
	must(t, c.lab.Node("athos"), command...)
	c.note(way, began)
}

// stop ends the stream and wants its packets to have taken each way in its
// time: none may be seen elsewhere once the bound has passed.
func (c *crossing) stop(t *testing.T) streamResult {
	t.Helper()
	r := c.stream.stop(t)
	seen := map[string][]arrival{}
	for node, a := range c.seen {
		seen[node] = a.stop(t)
	}
	ended := r.sent[len(r.sent)-1]
	var latest time.Duration
	for i, now := range c.changes {
		until := ended
		if i+1 < len(c.changes) {
			until = c.changes[i+1].began
		}
		settled := now.done.Add(c.bound)
		sent := r.sentIn(settled, until) // 0: the next change came before
		for node, all := range seen {
			count, last := 0, now.done
			for _, a := range all {
				if a.at.After(now.done) && a.at.Before(until) {
					count, last = count+1, a.at
				}
			}
			took := last.Sub(now.done)
			if node != now.way {
				latest = max(latest, last.Sub(now.began))
			}
			switch {
			case node == now.way && count < (sent-streamBurst)/2:
				t.Errorf("change %d: only %d packets came by %s in %v, and %d were sent", i, count, node, until.Sub(now.done), sent)
			case node != now.way && took > c.bound:
				t.Errorf("change %d to %s: %d packets came by %s still, the last after %v", i, now.way, count, node, took)
			}
		}
	}
	t.Logf("%d datagrams, %d of them late; a change took %v at most, its command included", len(r.sent), r.late, latest)
	return r
}

// Packets follow the kernel's routes as they change, and none is lost for it.
func TestForwardFollowsRoutes(t *testing.T) {
	needRedirection(t)
	l := raiseTwoWays(t, twoWays(t))
	athos := l.Node("athos")
	hop := map[string]string{"porthos": "2001:db8:12::2", "dartagnan": "2001:db8:14::2"}
	must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", hop["dartagnan"], "table", "100")
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
			before := forwardsOf(t, l, "athos")
			c := startCrossing(t, l)
			flip(t, c, tt.there, tt.back)
			r := c.stop(t)
			r.checkWhole(t, r.sent[0], time.Now())
			f := forwardsOf(t, l, "athos")
			if n := f.sum() - before.sum(); f.stack != before.stack || n != uint64(len(r.sent)) {
				t.Errorf("athos forwarded %d of %d packets fast, %d by the stack; left to it: %v", n, len(r.sent), f.stack-before.stack, f.toStack)
			}
		})
	}
	t.Run("neighbour", func(t *testing.T) { followNeighbour(t, l) })
}

// followNeighbour: one whose address at the link changes gets packets at the
// new one.
func followNeighbour(t *testing.T, l *lab.Lab) {
	t.Helper()
	porthos := l.Node("porthos")
	first, second := linkAddress(t, porthos, "eth0"), net.HardwareAddr{2, 0, 0, 0, 0x12, 2}
	// what is sent to the second address is received and routed like the rest
	must(t, porthos, "ip", "link", "add", "link", "eth0", "address", second.String(), "name", "second", "type", "macvlan", "mode", "bridge")
	must(t, porthos, "ip", "link", "set", "second", "up")
	before := forwardsOf(t, l, "athos")
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
			t.Errorf("change %d: packets came to another address than %x for %v", i, want, took)
		}
	}
	f := forwardsOf(t, l, "athos")
	if n := f.sum() - before.sum(); f.stack != before.stack || n != uint64(len(r.sent)) {
		t.Errorf("athos forwarded %d of %d packets fast, %d by the stack; left to it: %v", n, len(r.sent), f.stack-before.stack, f.toStack)
	}
}

// linkAddress is the address of an interface at its link.
func linkAddress(t *testing.T, n *lab.Node, name string) (address net.HardwareAddr) {
	t.Helper()
	if err := n.Do(func() error {
		device, err := net.InterfaceByName(name)
		if err == nil {
			address = device.HardwareAddr
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return address
}

// When the interface that packets leave by goes down, they take the other way
// within the bound; once it is gone, at once.
func TestForwardSurvivesLinks(t *testing.T) {
	needRedirection(t)
	l := raiseTwoWays(t, twoWays(t))
	athos, porthos := l.Node("athos"), l.Node("porthos")
	must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "metric", "2048")
	must(t, athos, "sysctl", "-w", "net.ipv6.conf.eth1.ignore_routes_with_linkdown=1")
	for node, name := range map[*lab.Node]string{athos: "eth1", porthos: "eth0"} {
		must(t, node, "sysctl", "-w", "net.ipv6.conf."+name+".keep_addr_on_down=1")
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
			must(t, tt.node, strings.Fields(tt.command)...)
			c.note("dartagnan", began)
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
			must(t, tt.node, strings.Fields(tt.undo)...)
			must(t, athos, "ip", "-6", "route", "replace", "2001:db8:2::/64", "via", "2001:db8:12::2")
			await(t, "the first way", 5*time.Second, func() bool { return usesFirstWay(t, l) })
		})
	}
}

// usesFirstWay tells whether the kernel sends to beta by porthos again, whose
// address it has learned.
func usesFirstWay(t *testing.T, l *lab.Lab) bool {
	t.Helper()
	_, _ = l.Send(t.Context(), lab.Traffic{Kind: lab.KindPing, From: "alpha", To: "beta", Count: 1, Size: 56})
	route := must(t, l.Node("athos"), "ip", "-6", "route", "get", "2001:db8:2::2")
	state := neighbourOf(t, l.Node("athos"), "2001:db8:12::2").State
	return strings.Contains(route, " dev eth1 ") && state&^(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED) != 0
}
