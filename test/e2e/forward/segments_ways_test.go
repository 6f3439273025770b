// SPDX-License-Identifier: Apache-2.0

package forward

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

const (
	// segmentConfigurations is how many configurations a regular test compares.
	segmentConfigurations = 40
	// ofOneSegmentWorld is how many share the settings that an agent sees once a second.
	ofOneSegmentWorld = 20
)

// segmentRoute adds a route with one of the behaviours, in a minority of cases to
// another prefix, in another table, twice, or with what only the stack has.
func (c *chooser) segmentRoute() {
	b := behaviours[c.IntN(len(behaviours))]
	prefix, rest, _ := strings.Cut(b.command, " ")
	switch c.IntN(16) {
	case 0: // nested in others, or around them
		prefix = pick(
			c,
			"fc00:1::/64",
			"fc00:1::/32",
			"fcbb:bb00::/32",
			"fcbb:bb00:1:2::/64",
			"2001:db8:e0::/44",
			"2001:db8:e1::/64",
			"::/0",
			"fc00:3::/48",
		)
	case 1:
		rest += " table 101"
	case 2:
		rest += " mtu 1300"
	case 3:
		rest += " expires 500"
	case 4:
		prefix += " from 2001:db8:5:1::/64"
	}
	c.commands = append(c.commands, fmt.Sprintf("route add %s %s metric %d", prefix, rest, 1024+c.IntN(2)))
}

// segmentConfiguration returns what is added to two routers with routes to segments.
func (c *chooser) segmentConfiguration() (commands, undo []string) {
	c.commands = nil
	for range 3 + c.IntN(10) {
		c.segmentRoute()
	}
	switch c.IntN(12) {
	case 0:
		c.commands = append(
			c.commands,
			pick(
				c,
				"rule add pref 100 from 2001:db8:5:1::/64 lookup 101",
				"rule add pref 100 to fc00:1::/64 lookup 101",
				"rule add pref 100 to fc00:1::/64 lookup main",
				"rule add pref 100 iif eth0 lookup main",
				"rule add pref 100 iif eth1 blackhole",
				"rule add pref 100 ipproto udp dport 0-1000 lookup main",
			),
		)
	case 1:
		c.commands = append(c.commands, "route add fc00:2:0:0::/64 nexthop via 2001:db8:11::2 nexthop via 2001:db8:13::2")
	case 2:
		c.commands = append(c.commands, "route add fc00:1::/60 nexthop encap seg6local action End dev eth1 nexthop via 2001:db8:13::2 dev eth3")
	case 3:
		c.commands = append(c.commands, "nexthop add id 7 encap seg6local action End dev eth1", "route add fc00:1::/56 nhid 7")
	case 4:
		c.commands = append(
			c.commands,
			"route add "+pick(c, "fc00:1::e", "fc00:1::/64", "2001:db8:e1::/48")+" via 2001:db8:12::5 dev eth2 metric "+pick(c, "512", "2048"),
		)
	case 5:
		c.commands = append(c.commands, "route add local fc00:1::e dev lo")
	case 6:
		c.commands = append(c.commands, "route add "+pick(c, "prohibit", "blackhole", "unreachable")+" fc00:2::/64")
	case 7:
		c.commands = append(c.commands, "route add fc00:1::d0/124 encap seg6local action End dev eth0 table local")
	}
	undo = inverse(c.commands)
	if c.IntN(8) == 0 { // the kernel passes over routes by a link that is down, if it is told to
		port := 1 + c.IntN(3)
		c.commands = append(c.commands, fmt.Sprintf("link set eth%d mtu 1280", port))
		undo = append(undo, fmt.Sprintf("link set eth%d mtu 1500", port))
	}
	return c.commands, undo
}

// segmentWorlds returns settings of the node that behaviours depend on, and what
// undoes them.
func (c *chooser) segmentWorlds(number int) (settings, undo [][]string) {
	add := func(do, back string) {
		settings, undo = append(settings, strings.Fields(do)), append(undo, strings.Fields(back))
	}
	if number == 0 {
		return nil, nil
	}
	if c.IntN(2) == 0 {
		add("ip sr tunsrc set "+pick(c, "::", "2001:db8:fe::7"), "ip sr tunsrc set 2001:db8:ff::1")
	}
	if c.IntN(3) == 0 {
		add("sysctl -qw net.ipv6.conf.eth0.seg6_require_hmac="+pick(c, "1", "-1"), "sysctl -qw net.ipv6.conf.eth0.seg6_require_hmac=0")
	}
	if c.IntN(3) == 0 {
		add("sysctl -qw net.ipv6.fib_multipath_hash_policy=1", "sysctl -qw net.ipv6.fib_multipath_hash_policy=0")
	}
	if c.IntN(3) == 0 {
		add("sysctl -qw net.ipv6.conf.eth0.seg6_enabled=1", "sysctl -qw net.ipv6.conf.eth0.seg6_enabled=0")
	}
	return settings, undo
}

// setAll runs commands in both routers.
func (w *twins) setAll(t *testing.T, commands [][]string) {
	t.Helper()
	for _, command := range commands {
		e2e.Must(t, w.plain, command...)
		e2e.Must(t, w.fast, command...)
	}
	if len(commands) > 0 {
		time.Sleep(looked)
	}
}

// Whatever routes with segments there are, and whatever they are added to, packets
// leave a router as they would leave the kernel: at once after a change, and when the
// programs know the new behaviours. WAYMARK_WAYS is how many configurations are tried,
// WAYMARK_SEED repeats a run.
func TestForwardSegmentWays(t *testing.T) {
	e2e.NeedRedirection(t)
	count := int(numberOf(t, "WAYMARK_WAYS", segmentConfigurations))
	seed := numberOf(t, "WAYMARK_SEED", rand.Uint64())
	t.Logf("WAYMARK_WAYS=%d WAYMARK_SEED=%d", count, seed)
	w := raiseSegmentTwins(t, "xdp")
	var destinations []string
	for _, b := range behaviours {
		destinations = append(destinations, b.to...)
	}
	packets, fast, known, done := 0, 0, 0, 0
	few := func() bool { return fast < packets/40 || known < done/6 } // half of the packets come before the programs know the behaviours
	var back [][]string
	for ; done < count || done < 3*count && few(); done++ { // some seeds have few ways by chance
		c := newChooser(seed, done)
		if done%ofOneSegmentWorld == 0 {
			w.setAll(t, back)
			var settings [][]string
			settings, back = c.segmentWorlds(done)
			w.setAll(t, settings)
			t.Logf("configuration %d: settings %v", done, settings)
		}
		commands, undo := c.segmentConfiguration()
		w.try(t, commands)
		for _, wait := range []bool{false, true} {
			if wait && w.learnSegments(t) {
				known++
			}
			s := segmenter{c.Rand}
			var trials []trial
			for range trialsOfEach {
				trials = append(trials, s.packet(w, destinations))
				trials = append(trials, good(w, pick(c, destinations...)))
			}
			differ, n := w.compare(t, trials)
			packets, fast = packets+len(trials), fast+n
			if differ > 0 {
				t.Fatalf("configuration %d of WAYMARK_SEED=%d, waited %v:\nip -6 %s", done, seed, wait, strings.Join(commands, "\nip -6 "))
			}
		}
		w.try(t, undo)
	}
	t.Logf(
		"%d of %d packets went fast; the programs knew the behaviours in %d of %d configurations; left to the stack: %v",
		fast,
		packets,
		known,
		done,
		e2e.ForwardsOf(t, w.lab, "fast").ToStack,
	)
	if few() {
		t.Errorf("only %d of %d packets went fast", fast, packets)
	}
}

// learnSegments waits until the programs know the behaviours, or for as long as that
// takes: for some configurations they never do.
func (w *twins) learnSegments(t *testing.T) bool {
	t.Helper()
	for begun := time.Now(); !e2e.KnowsSegments(t, w.state); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > patience.Of(600*time.Millisecond) {
			return false
		}
	}
	return true
}

// Without an agent, the stack has all segments as soon as what the programs know may be
// old.
func TestForwardSegmentsWithoutAgent(t *testing.T) {
	e2e.NeedRedirection(t)
	w := raiseSegmentTwins(t, "xdp")
	w.both(t, "route add "+behaviours[0].command)
	e2e.AwaitSegments(t, w.lab, "fast")
	send := func() int {
		t.Helper()
		_, fast := w.compare(t, []trial{good(w, "fc00:1::e"), good(w, "fc00:1::e")})
		return fast
	}
	if send() != 2 {
		t.Error("the packets did not go fast")
	}
	if err := syscall.Kill(e2e.AgentProcess(t, w.lab, "fast"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if fast := send(); fast != 0 {
		t.Errorf("%d packets went fast", fast)
	}
	for _, n := range []string{"plain", "fast"} { // nothing tells the programs
		e2e.Must(
			t,
			w.lab.Node(n),
			"ip",
			"-6",
			"route",
			"replace",
			"fc00:1::e",
			"encap",
			"seg6local",
			"action",
			"End.X",
			"nh6",
			"2001:db8:13::5",
			"dev",
			"eth1",
		)
	}
	send()
}

// Packets follow a change of their segment's route as soon as the agent has heard of
// it: the stack has them until the programs know the new behaviour.
func TestForwardSegmentChanges(t *testing.T) {
	e2e.NeedRedirection(t)
	w := raiseSegmentTwins(t, "xdp")
	const cross, tunnel = "encap seg6local action End.X nh6 2001:db8:12::3 dev eth2", "encap seg6 mode encap segs fc00:2::1"
	compare := func(what string, fast int) {
		t.Helper()
		var trials []trial
		for range 4 {
			trials = append(trials, good(w, "fc00:1::e"), good(w, "2001:db8:e1::1"))
		}
		if differ, n := w.compare(t, trials); differ > 0 || fast >= 0 && n != fast*len(trials)/2 {
			t.Errorf("%s: %d of %d packets differ, %d went fast", what, differ, len(trials), n)
		}
	}
	for _, step := range []struct {
		command string
		fast    int // how many of the two destinations
	}{
		{"route add fc00:1::e encap seg6local action End dev eth1", 1},
		{"route add 2001:db8:e1::/48 " + tunnel + " dev eth1", 2},
		{"route replace fc00:1::e " + cross, 2},
		{"route replace 2001:db8:e1::/48 " + tunnel + ",fc00:3::1 dev eth1", 2},
		{"route replace 2001:db8:e1::/48 " + tunnel + ",fc00:3::1,fc00:3::2,fc00:3::3,fc00:3::4,fc00:3::5,fc00:3::6,fc00:3::7,fc00:3::8,fc00:3::9,fc00:3::a dev eth1", 1},
		{"route replace fc00:1::e via 2001:db8:11::4 dev eth1", 1},
		{"route add fc00:1::/64 " + cross, 1},
		{"route replace fc00:1::e encap seg6local action End dev eth1", 1},
		{"route del fc00:1::e", 1},
		{"route add fc00:1::e encap seg6local action End dev eth1", 1},
		{"route replace fc00:1::e via 2001:db8:11::4 dev eth1", 1},
		{"route del fc00:1::e", 1},
		{"route add fc00:1::e " + cross + " metric 2048", 1},
		{"route add fc00:1::e encap seg6local action End dev eth1 metric 512", 0},
		{"route del fc00:1::e metric 2048", 1},
		{"route replace 2001:db8:e1::/48 encap seg6 mode encap.red segs fc00:3::5 dev eth1", 2},
		{"rule add pref 100 from 2001:db8:77::/64 lookup 100", 0},
		{"rule del pref 100 from 2001:db8:77::/64 lookup 100", 2},
		{"link set eth2 down", 1},
		{"link set eth2 up", 1},
	} {
		w.both(t, step.command)
		compare("at once after "+step.command, -1)
		if step.fast > 0 {
			e2e.AwaitSegments(t, w.lab, "fast")
			compare("after "+step.command, step.fast)
		}
	}
}
