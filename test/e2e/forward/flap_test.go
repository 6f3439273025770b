// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// flap is a pair of changes in athos: there makes packets take dartagnan, back
// porthos again.
type flap struct {
	there, back func() error
	breaks      bool // packets may be lost until the agent hears of it
}

// flaps are the ways to change the route; only a broken link loses packets. No
// rule matches ports, because then no next hop would be cached for a second.
func flaps(t *testing.T, l *lab.Lab) []flap {
	t.Helper()
	toBeta, beta := mustPrefix(t, "2001:db8:2::/64"), mustPrefix(t, "2001:db8:2::2/128")
	porthos, dartagnan := net.ParseIP("2001:db8:12::2"), net.ParseIP("2001:db8:14::2")
	longer := &netlink.Route{Dst: beta, Gw: dartagnan}
	rule := netlink.NewRule()
	rule.Family, rule.Dst, rule.Table = netlink.FAMILY_V6, toBeta, 100
	send := func(gateway net.IP) func() error {
		return func() error { return netlink.RouteReplace(&netlink.Route{Dst: toBeta, Gw: gateway, Priority: 1024}) }
	}
	mac := linkAddress(t, l.Node("porthos"), "eth0")
	eth1 := func(change func(netlink.Link) error) func() error {
		return func() error {
			link, err := netlink.LinkByName("eth1")
			if err != nil {
				return err
			}
			return change(link)
		}
	}
	return []flap{
		{there: send(dartagnan), back: send(porthos)},
		{there: func() error { return netlink.RouteAdd(longer) }, back: func() error { return netlink.RouteDel(longer) }},
		{there: func() error { return netlink.RuleAdd(rule) }, back: func() error { return netlink.RuleDel(rule) }},
		{breaks: true, there: eth1(netlink.LinkSetDown), back: eth1(func(link netlink.Link) error {
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
			hop := &netlink.Neigh{LinkIndex: link.Attrs().Index, IP: porthos, HardwareAddr: mac, State: netlink.NUD_PERMANENT}
			return errors.Join(netlink.NeighSet(hop), send(porthos)())
		})},
	}
}

func mustPrefix(t *testing.T, text string) *net.IPNet {
	t.Helper()
	_, prefix, err := net.ParseCIDR(text)
	if err != nil {
		t.Fatal(err)
	}
	return prefix
}

// flapLosses counts datagrams that did not arrive.
type flapLosses struct {
	atBreaks, elsewhere int // sent until the bound after a link broke, and at other times
}

// flapBreaks is how often each of the flaps happens, and so how often a link
// breaks.
const flapBreaks = 3

// flapAtRandom changes the way to beta in an order given by a seed, and checks
// that packets follow.
func flapAtRandom(t *testing.T, l *lab.Lab, seed uint64) flapLosses {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	between := func(shortest, longest time.Duration) time.Duration {
		return shortest + time.Duration(random.Int64N(int64(longest-shortest)))
	}
	var all []flap
	for range flapBreaks {
		all = append(all, flaps(t, l)...)
	}
	// half of them shorter than the agent's pause between two looks, half longer
	var pauses []time.Duration
	for range all {
		pauses = append(pauses, between(5*time.Millisecond, 15*time.Millisecond), between(changeBound, 150*time.Millisecond))
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	random.Shuffle(len(pauses), func(i, j int) { pauses[i], pauses[j] = pauses[j], pauses[i] })
	c := startCrossing(t, l)
	var breaks []change
	for i, f := range all {
		c.alter(t, "dartagnan", f.there)
		if f.breaks {
			breaks = append(breaks, c.changes[len(c.changes)-1])
		}
		time.Sleep(pauses[2*i])
		c.alter(t, "porthos", f.back)
		time.Sleep(pauses[2*i+1])
	}
	time.Sleep(changePause) // let the last change settle
	r := c.stop(t)
	var lost flapLosses
	for _, number := range r.lost(r.sent[0], time.Now()) {
		at := r.sent[number]
		if slices.ContainsFunc(breaks, func(b change) bool { return at.After(b.began) && at.Before(b.done.Add(changeBound)) }) {
			lost.atBreaks++
		} else {
			lost.elsewhere++
		}
	}
	return lost
}

// However routes flap, no packet takes an old way after the bound. No packet is
// lost that forwarding by the stack would not lose, except on a broken link until
// the agent hears of it.
func TestForwardFlaps(t *testing.T) {
	e2e.NeedRedirection(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	l := raiseTwoWays(t, twoWays(t))
	athos := l.Node("athos")
	e2e.Must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "table", "100")
	e2e.Must(t, athos, "ip", "-6", "route", "add", "2001:db8:2::/64", "via", "2001:db8:14::2", "metric", "2048")
	e2e.Must(t, athos, "sysctl", "-qw", "net.ipv6.conf.eth1.keep_addr_on_down=1")
	before := e2e.ForwardsOf(t, l, "athos")
	fast := flapAtRandom(t, l, seed)
	f := e2e.ForwardsOf(t, l, "athos")
	forwarding(t, l, "athos", "stack")
	stack := flapAtRandom(t, l, seed)
	t.Logf("lost with fast forwarding: %+v, and by the stack: %+v", fast, stack)
	if fast.elsewhere > stack.elsewhere {
		t.Errorf("%d datagrams were lost where no link broke, and %d with forwarding by the stack", fast.elsewhere, stack.elsewhere)
	}
	if most := stack.atBreaks + flapBreaks*int(changeBound.Seconds()*streamRate); fast.atBreaks > most {
		t.Errorf("%d datagrams were lost where links broke, want at most %d", fast.atBreaks, most)
	}
	if n, left := f.Sum()-before.Sum(), f.Stack-before.Stack; n < 10*left {
		t.Errorf("athos forwarded %d packets fast, %d by the stack; left to it: %v", n, left, f.ToStack)
	}
}
