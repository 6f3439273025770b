// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/ioam"
)

// learned is how long it takes until the nodes that reply to hop limits are known.
const learned = 3 * time.Second

// A link that drops silently is named, with the node before and after it, within a second; the
// other path stays as it is. Afterwards all is well again.
func TestBrokenLink(t *testing.T) {
	for link, places := range map[string][2]string{
		"here>r1": {"this node", "node 1"}, "r1>r2": {"node 1", "node 2"}, "r2>r4": {"node 2", "r4"},
	} {
		n := square(t)
		want(t, link+": at first", n.run(learned))
		began := n.now
		n.down[link] = true
		events := n.run(time.Second)
		if len(events) != 1 {
			t.Fatalf("%s: %+v", link, events)
		}
		e := events[0]
		flows := 2
		if link == "here>r1" {
			flows = 4
		}
		if !begins(e.After, places[0]) || !begins(e.Before, places[1]) || e.Evidence != EvidenceHopLimit || e.Flows != flows || e.FlowsOf != 4 {
			t.Errorf("%s: %s", link, short(e))
		}
		t.Logf("%s: known after %v", link, e.At.Sub(n.m.at(began)))
		if since := e.Since.Sub(n.m.at(began)); since < 0 || since > 100*time.Millisecond {
			t.Errorf("%s: since %v after it broke", link, since)
		}
		s := n.m.States()[0]
		if s.Lost != flows || s.Answered != 4-flows || len(s.Places) != 1 || s.Places[0].Flows != flows {
			t.Errorf("%s: %+v", link, s)
		}
		n.down[link] = false
		events = n.run(time.Second)
		if len(events) != 1 || events[0].Kind != Recovered || events[0].Flows != flows || events[0].Lasted < 900*time.Millisecond ||
			events[0].Lasted > 1200*time.Millisecond ||
			events[0].Unanswered == 0 {
			t.Errorf("%s: %+v", link, events)
		}
		if s := n.m.States()[0]; s.Lost != 0 || s.Answered != 4 || len(s.Places) != 0 {
			t.Errorf("%s: %+v", link, s)
		}
	}
}

func begins(s, with string) bool { return len(s) >= len(with) && s[:len(with)] == with }

// A flow that routing moves is no loss, even if probes were lost meanwhile.
func TestMovedPath(t *testing.T) {
	n := square(t)
	n.run(learned)
	n.down["r1>r2"] = true
	want(t, "before routing notices", n.run(150*time.Millisecond))
	n.route = func(string, int) []string { return []string{"r1", "r3", "r4"} }
	want(t, "moved", n.run(2*time.Second), "path r4 2/4 1>2>4 to 1>3>4")
	if s := n.m.States()[0]; s.Paths[0].Flows != 4 || s.Paths[1].Flows != 0 || s.Unanswered == 0 || s.Lost != 0 {
		t.Errorf("%+v", s)
	}
	// Back and forth with each probe: counted, and not told with each.
	turn := 0
	n.down["r1>r2"] = false
	n.route = func(string, int) []string {
		if turn++; turn/4%2 == 0 {
			return []string{"r1", "r2", "r4"}
		}
		return []string{"r1", "r3", "r4"}
	}
	if events := n.run(20 * time.Second); len(events) > 5 {
		t.Errorf("%d events of flows that go back and forth", len(events))
	}
	if c := n.m.Counts(); c.Moves < 100 {
		t.Errorf("%d moves", c.Moves)
	}
}

// Nodes with names are called by them in places, in the hops of paths, and in what people read of changes.
func TestNamedNodes(t *testing.T) {
	n := square(t)
	n.named = map[ioam.NodeID]string{1: "athos", 2: "porthos"}
	n.run(learned)
	n.down["r1>r2"] = true
	want(t, "lost", n.run(time.Second), `loss r4 2/4 after "athos (2001:db8:0:0:7231::)" before "porthos (2001:db8:0:0:7232::)" by hop-limit`)
	var hops []string
	for _, p := range n.m.States()[0].Paths {
		for _, h := range p.Hops {
			hops = append(hops, h.Name)
		}
	}
	if slices.Sort(hops); !slices.Equal(hops, []string{"", "", "", "athos", "athos", "porthos"}) {
		t.Errorf("hops %q", hops)
	}
	n.down = map[string]bool{}
	n.run(time.Second)
	n.route = func(string, int) []string { return []string{"r1", "r3", "r4"} }
	for _, e := range n.run(10 * time.Second) {
		if e.Kind == PathChange && (e.Path != "1>3>4" || e.Named != [2]string{"athos > porthos > r4", "athos > 3 > r4"}) {
			t.Errorf("%+v", e)
		}
		n.named = nil
	}
	if n.named != nil {
		t.Error("no change of paths")
	}
}

// Parallel links between the same nodes have names of their own in the table, too.
func TestNamedParallelLinks(t *testing.T) {
	m := &Monitor{names: func(id ioam.NodeID) string { return map[ioam.NodeID]string{1: "athos"}[id] }}
	d := &destination{Destination: Destination{Name: "r4"}}
	for _, out := range []ioam.InterfaceID{11, 12, 12} {
		p := &path{hops: []hop{{id: 1, ingress: 5, egress: out}, {id: 4}}, shown: make([]shown, 2)}
		p.key = d.keyOf(p)
		d.paths = append(d.paths, p)
	}
	var texts []string
	for _, p := range d.paths {
		texts = append(texts, m.named(d, p))
	}
	if want := []string{"athos > r4", "athos/5-12 > r4/0-0", "athos > r4 #2"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
}

// A router that says nothing is no place: it is between the two that do.
func TestSilentRouters(t *testing.T) {
	n := newNetwork(t, Config{}, map[string]ioam.NodeID{"r1": 1, "r2": 0, "r3": 0, "r4": 4, "r5": 5}, "r5")
	n.route = func(string, int) []string { return []string{"r1", "r2", "r3", "r4", "r5"} }
	n.routers["r2"].mute, n.routers["r3"].mute = true, true
	n.run(learned)
	n.down["r3>r4"] = true
	events := n.run(time.Second)
	if len(events) != 1 || !begins(events[0].After, "node 1 ") || !begins(events[0].Before, "node 4 ") || events[0].AfterHop != 1 {
		t.Errorf("%+v", events)
	}
	// Nobody replies to hop limits at all: the place is not known, and not guessed.
	n = newNetwork(t, Config{}, map[string]ioam.NodeID{"r1": 1, "r2": 2, "r5": 5}, "r5")
	n.route = func(string, int) []string { return []string{"r1", "r2", "r5"} }
	n.routers["r1"].mute, n.routers["r2"].mute = true, true
	n.run(learned)
	n.down["r1>r2"] = true
	want(t, "mute", n.run(time.Second), `loss r5 4/4 after "" before "" by none`)
}

// Copies show how far probes get where no node replies to hop limits.
func TestCopies(t *testing.T) {
	for _, asks := range []bool{true, false} {
		n := newNetwork(t, Config{Loopback: asks}, map[string]ioam.NodeID{"r1": 1, "r2": 2, "r3": 3, "r5": 5}, "r5")
		n.route = func(string, int) []string { return []string{"r1", "r2", "r3", "r5"} }
		for _, r := range n.routers {
			r.mute, r.copies = true, true
		}
		n.run(learned)
		n.down["r2>r3"] = true
		line := `loss r5 4/4 after "node 2 (2001:db8:0:0:7232::)" before "r5" by copy`
		if !asks {
			line = `loss r5 4/4 after "" before "" by none`
		}
		want(t, "asks for copies", n.run(time.Second), line)
		if c := n.m.Counts(); (c.Copies > 0) != asks || c.Malformed != 0 {
			t.Errorf("%+v", c)
		}
		n.down["r2>r3"] = false
		want(t, "afterwards", n.run(time.Second), "recovered r5 4/4")
	}
}

// A node that says that it has no route is the place, whether or not others reply.
func TestError(t *testing.T) {
	n := square(t)
	n.run(learned)
	n.routers["r2"].noRoute = true
	events := n.run(time.Second)
	if len(events) != 1 || !begins(events[0].After, "node 2") || events[0].Evidence != EvidenceError || events[0].Error != "no route" ||
		events[0].Flows != 2 {
		t.Errorf("%+v", events)
	}
	n.routers["r2"].noRoute = false
	want(t, "afterwards", n.run(time.Second), "recovered r4 2/4")
	n.refuse = syscall.ENETUNREACH
	events = n.run(time.Second)
	if len(events) != 1 || events[0].After != "this node" || events[0].Evidence != EvidenceError || events[0].Flows != 4 {
		t.Errorf("%+v", events)
	}
	if s := n.m.States()[0]; s.NodeError != syscall.ENETUNREACH.Error() {
		t.Errorf("%+v", s)
	}
}

// Limits of errors look like no loss, and what this node asks stays below them.
func TestErrorLimits(t *testing.T) {
	n := square(t)
	for _, r := range n.routers {
		r.limit = &node{tokens: 6}
	}
	want(t, "well", n.run(5*time.Minute))
	for name, count := range n.errors {
		if count > 40 { // a minute's survey, and some at first
			t.Errorf("%s sent %d errors in 5 minutes", name, count)
		}
	}
	n.down["r2>r4"] = true
	events := n.run(time.Second)
	if len(events) != 1 || !begins(events[0].After, "node 2") || events[0].Before != "r4" {
		t.Errorf("%+v", events)
	}
}

// The agent of the destination has ended: its kernel is there, so no link is blamed.
func TestStoppedAgent(t *testing.T) {
	n := square(t)
	n.run(learned)
	n.routers["r4"].stopped = true
	events := n.run(time.Second)
	if len(events) != 1 || events[0].After != "" || !events[0].Refused || events[0].Flows != 4 {
		t.Errorf("%+v", events)
	}
}

// A destination that answers only some probes, as one beyond its rate, loses probes and no path.
func TestUnluckyAnswers(t *testing.T) {
	n := square(t)
	n.run(learned)
	n.routers["r4"].unlucky = 2
	n.route = func(_ string, flow int) []string { return []string{"r1", "r2", "r4"} }
	n.run(movePause)
	n.routers["r4"].received = 0
	events := n.run(10 * time.Second)
	for _, e := range events {
		if e.Kind == Loss && e.After != "" && e.Before != "r4" {
			t.Errorf("%+v", e)
		}
	}
	if s := n.m.States()[0]; s.LastMinute.Lost == 0 || s.LastMinute.Finished == 0 {
		t.Errorf("%+v", s.LastMinute)
	}
}

// A destination that never answered is said to be unanswered, once, with the last node on the way.
func TestNeverAnswered(t *testing.T) {
	n := square(t)
	n.down["r2>r4"], n.down["r3>r4"] = true, true
	events := n.run(30 * time.Second)
	if len(events) != 1 || events[0].Kind != Unanswered || events[0].Flows != 4 || events[0].AfterHop != 2 || events[0].Before != "" {
		t.Errorf("%+v", events)
	}
	n.down["r2>r4"], n.down["r3>r4"] = false, false
	want(t, "at last", n.run(time.Second), "recovered r4 4/4")
}

// Another configuration keeps what is known of destinations that stay, and nothing of others.
func TestConfigure(t *testing.T) {
	n := square(t)
	n.routers["r5"] = &router{id: 5}
	n.route = func(to string, _ int) []string { return []string{"r1", "r2", to} }
	n.run(learned)
	before := n.m.States()[0]
	c := n.m.config
	c.Destinations = append(slices.Clone(c.Destinations), Destination{"r5", n.address("r5")})
	c.Interval = 50 * time.Millisecond
	if err := n.m.Configure(c, n.now); err != nil {
		t.Fatal(err)
	}
	want(t, "configured", n.run(learned))
	after := n.m.States()
	if len(after) != 2 || after[0].Sent <= before.Sent || after[0].Unanswered != 0 || after[0].Paths[0].Received <= before.Paths[0].Received ||
		after[1].Answered != 4 {
		t.Errorf("%+v", after)
	}
	c.Destinations = c.Destinations[1:]
	c.Flows = 8
	if err := n.m.Configure(c, n.now); err != nil {
		t.Fatal(err)
	}
	want(t, "one less, more flows", n.run(learned))
	if s := n.m.States(); len(s) != 1 || s[0].Name != "r5" || s[0].Answered != 8 || s[0].Sent < after[1].Sent {
		t.Errorf("%+v", s)
	}
}

// What was told of a destination ends when it is probed no more, and is told again under another name.
func TestAbandoned(t *testing.T) {
	lost := func() *network {
		n := square(t)
		n.run(learned)
		n.down["r1>r2"] = true
		want(t, "lost", n.run(time.Second), `loss r4 2/4 after "node 1 (2001:db8:0:0:7231::)" before "node 2 (2001:db8:0:0:7232::)" by hop-limit`)
		return n
	}
	configure := func(n *network, change func(*Config)) []Event {
		c := n.m.config
		c.Destinations = slices.Clone(c.Destinations)
		change(&c)
		if err := n.m.Configure(c, n.now); err != nil {
			t.Fatal(err)
		}
		return n.m.Events()
	}
	n := lost()
	want(t, "the same", configure(n, func(c *Config) { c.Interval = 50 * time.Millisecond }))
	list := configure(n, func(c *Config) { c.Destinations = nil })
	want(t, "removed", list, "abandoned r4, never false")
	if e := list[0]; e.Lasted < 900*time.Millisecond || e.Lasted > 1100*time.Millisecond {
		t.Errorf("%+v", e)
	}
	n = lost()
	want(t, "renamed", configure(n, func(c *Config) { c.Destinations[0].Name = "edge" }), "abandoned r4, never false")
	want(
		t,
		"afterwards",
		n.run(time.Second),
		`loss edge 2/4 after "node 1 (2001:db8:0:0:7231::)" before "node 2 (2001:db8:0:0:7232::)" by hop-limit`,
	)
	n.down = map[string]bool{}
	want(t, "at last", n.run(time.Second), "recovered edge 2/4")
	n = lost()
	want(t, "other flows", configure(n, func(c *Config) { c.Flows = 8 }), "abandoned r4, never false")
	n = lost()
	n.m.Abandon()
	want(t, "ended", n.m.Events(), "abandoned r4, never false")
	n = square(t)
	n.run(learned)
	want(t, "all was well", configure(n, func(c *Config) { c.Destinations = nil }))
}

// No more is sent than the budget allows, searches included, and nothing in a burst after a pause.
func TestBudget(t *testing.T) {
	n := newNetwork(t, Config{Rate: 10_000}, map[string]ioam.NodeID{"r1": 1, "r4": 4}, "r4")
	n.route = func(string, int) []string { return []string{"r1", "r4"} }
	n.m.config.Rate = 20
	if err := n.m.Configure(n.m.config, n.now); err != nil {
		t.Fatal(err)
	}
	n.run(10 * time.Second)
	if n.sent > 20*10+36 {
		t.Errorf("%d packets in 10s", n.sent)
	}
	if c := n.m.Counts(); c.Suppressed < 100 || c.Skipped != 0 {
		t.Errorf("%d packets were suppressed, %d skipped", c.Suppressed, c.Skipped)
	}
	n = square(t)
	n.run(learned)
	sent, before := n.sent, n.m.Counts()
	n.now += time.Minute // the machine slept
	n.run(100 * time.Millisecond)
	if c := n.m.Counts(); c.Skipped < 100 || c.Suppressed != before.Suppressed {
		t.Errorf("after a pause, %d packets were skipped, and %d suppressed", c.Skipped, c.Suppressed-before.Suppressed)
	}
	if more := n.sent - sent; more > 40 {
		t.Errorf("%d packets after a pause", more)
	}
}

// Memory is bounded, whatever the network does: paths that are new with each probe, and answers of
// strangers.
func TestBounded(t *testing.T) {
	n := square(t)
	n.route = func(string, int) []string { return []string{"r1", "r2", "r4"} }
	for i := range 3000 {
		n.routers["r2"].id = ioam.NodeID(1000 + i)
		n.run(100 * time.Millisecond)
	}
	d := n.m.destinations[0]
	if len(d.paths) > len(d.flows)+mostPaths || len(n.m.nodes) > mostNodes || len(n.m.walks) > mostWalks || len(d.moves.list) > mostMoves ||
		len(d.places) > mostPlaces {
		t.Errorf("%d paths, %d nodes, %d walks", len(d.paths), len(n.m.nodes), len(n.m.walks))
	}
	seen := map[string]bool{}
	for _, p := range n.m.States()[0].Paths {
		if seen[p.Key] {
			t.Errorf("two paths are called %s", p.Key)
		}
		seen[p.Key] = true
	}
}
