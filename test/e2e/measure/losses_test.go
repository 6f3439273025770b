// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/test/e2e"
)

// readFlows reads the blocks of each of a router's flows until the test ends.
func readFlows(t *testing.T, l *lab.Lab, node string, names ...string) map[string]*reader {
	t.Helper()
	return readFlowsFrom(t, l, node, 0, names...)
}

// readFlowsFrom leaves out blocks before one.
func readFlowsFrom(t *testing.T, l *lab.Lab, node string, from uint64, names ...string) map[string]*reader {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	readers := make(map[string]*reader)
	for _, name := range names {
		readers[name] = newReader()
		readers[name].from = from
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		client := api.NewClient(instance.Socket())
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			flows, err := client.MeasuredFlows(ctx)
			if err != nil { // an agent that begins anew answers later
				continue
			}
			for _, f := range flows {
				if r := readers[f.Flow.Name]; r != nil {
					r.addFlow(f)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return readers
}

// raiseSRv6 raises the topology srv6 with agents that attach in a way of tc, and with other
// changes of their configurations.
func raiseSRv6(t *testing.T, attach string, oldnew ...string) *lab.Lab {
	t.Helper()
	return e2e.Raise(t, srv6With(t, nil, append(oldnew, "attach: clsact", "attach: "+attach)...))
}

// srv6With is that topology, in which some nodes have no agent.
func srv6With(t *testing.T, without []string, oldnew ...string) *lab.Topology {
	t.Helper()
	top := e2e.Builtin(t, "srv6")
	for i, n := range top.Nodes {
		if slices.Contains(without, n.Name) {
			top.Nodes[i].Agent = nil
		} else if n.Agent != nil {
			e2e.Reconfigure(t, top, n.Name, oldnew...)
		}
	}
	return top
}

// lose has a link lose packets until the test ends.
func lose(t *testing.T, l *lab.Lab, node, device string, rule linkloss.Rule) {
	t.Helper()
	added, err := l.AddLoss(node, device, rule)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := l.RemoveLoss(node, device, added.Number); err != nil {
			t.Error(err)
		}
	})
}

// restart removes the programs of a node, and starts its agent anew.
func restart(t *testing.T, l *lab.Lab, node string) {
	t.Helper()
	e2e.Must(t, l.Node(node), e2e.Program, "agent", "stop", "--remove")
	if _, err := l.Node(node).StartAgent(t.Context(), l.Topology().Node(node).Agent.Config); err != nil {
		t.Fatal(err)
	}
}

// step is a part of a flow's path: from one router to the next.
type step struct {
	flow, from, device, to string
	rules                  []linkloss.Rule
}

func steps() []step {
	prefix := netip.MustParsePrefix
	source, egress := prefix("2001:db8:ff::1/128"), prefix("fc00:3::d6/128")
	north, south := prefix("fc00:11::e/128"), prefix("fc00:21::e/128")
	return []step{
		{"north", "ingress", "eth1", "north1", []linkloss.Rule{
			{Burst: 1, Every: 50, Source: source},
			{Burst: 1, Every: 1, FirstSID: south}, // takes another way
		}},
		{"north", "north1", "eth1", "north2", []linkloss.Rule{{Probability: 0.02, Seed: 5, FirstSID: north}}},
		{"north", "north2", "eth1", "egress", []linkloss.Rule{{Burst: 3, Every: 200, Destination: egress, LastSID: egress}}},
		{"south", "ingress", "eth2", "south", []linkloss.Rule{
			{Probability: 0.01, Seed: 9, FirstSID: south},
			{Burst: 1, Every: 150, LastSID: prefix("fc00:3::/32")},
		}},
		{"south", "south", "eth1", "egress", []linkloss.Rule{{Burst: 5, Every: 300, Source: prefix("2001:db8:ff::/64")}}},
	}
}

// exchange sends UDP and TCP over both paths at a time.
func exchange(t *testing.T, l *lab.Lab) {
	t.Helper()
	var group sync.WaitGroup
	for i, address := range []string{"2001:db8:21::2", "2001:db8:22::2"} {
		for j, traffic := range []lab.Traffic{
			{Kind: lab.KindUDP, Count: 2000, Interval: time.Millisecond, Size: 300},
			{Kind: lab.KindTCP, Bytes: 2 << 20},
		} {
			traffic.From, traffic.To = "alpha", "beta"
			traffic.Address, traffic.Port = netip.MustParseAddr(address), uint16(9100+2*i+j)
			group.Go(func() {
				r, err := l.Send(t.Context(), traffic)
				if err != nil {
					t.Error(err)
				}
				if traffic.Kind == lab.KindUDP && r.Lost() == 0 {
					t.Errorf("no datagram to %s was lost", address)
				}
			})
		}
	}
	group.Wait()
}

// TestInjectedLosses compares, for each flow and each part of its path, what the nodes
// counted with what the lab lost on the links: the difference is exactly that. The flow north
// meets programs that are attached in the kernel's best way, and south those in the other one.
func TestInjectedLosses(t *testing.T) {
	top, best := e2e.Builtin(t, "srv6"), string(e2e.TCModes()[0])
	north := map[string][]string{"ingress": {"eth1"}, "north1": {"eth0", "eth1"}, "north2": {"eth0", "eth1"}, "egress": {"eth0"}}
	for node, names := range north {
		for _, name := range names {
			of := "{name: " + name + ", boundary: ignore, attach: "
			e2e.Reconfigure(t, top, node, of+"clsact", of+best)
		}
	}
	l := e2e.Raise(t, top)
	for node, names := range map[string][2]string{"ingress": {"eth1", "eth2"}, "egress": {"eth0", "eth2"}} {
		for i, want := range []string{best, "clsact"} {
			if in := e2e.StatusInterface(t, l, node, names[i]); in.IngressHook != want {
				t.Errorf("the ingress hook of %s at %s is %s, want %s", names[i], node, in.IngressHook, want)
			}
		}
	}
	for _, s := range steps() {
		for _, rule := range s.rules {
			if _, err := l.AddLoss(s.from, s.device, rule); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Losses of the way back are not of these flows, whose packets take the other direction.
	// (The agents' own questions and answers go on when the traffic has ended.)
	if _, err := l.AddLoss("north2", "eth0", linkloss.Rule{Burst: 1, Every: 40,
		Destination: netip.MustParsePrefix("2001:db8:1::/64")}); err != nil {
		t.Fatal(err)
	}
	restart(t, l, "ingress") // its programs, attached after the losses, come before them all the same
	counted := map[string]map[string]*reader{
		"ingress": readFlows(t, l, "ingress", "north", "south"), "egress": readFlows(t, l, "egress", "north", "south"),
		"north1": readFlows(t, l, "north1", "north"), "north2": readFlows(t, l, "north2", "north"), "south": readFlows(t, l, "south", "south"),
	}
	exchange(t, l)
	awaitQuiet(t, l)
	lost := lossesByLink(t, l)
	for _, s := range steps() {
		rules := lost[s.from+" "+s.device]
		if len(rules) != len(s.rules) {
			t.Fatalf("%s %s has %d rules, want %d", s.from, s.device, len(rules), len(s.rules))
		}
		total := uint64(0)
		for _, r := range rules {
			total += r.LostPackets
		}
		sent := rules[0].Packets // it is about all packets of the flow
		what := fmt.Sprintf("%s from %s to %s", s.flow, s.from, s.to)
		awaitSum(t, counted[s.from][s.flow], what+", sender", sent)
		awaitSum(t, counted[s.to][s.flow], what+", receiver", sent-total)
		t.Logf("%s: %d sent, %d lost", what, sent, total)
		if total == 0 {
			t.Errorf("%s: nothing was lost", what)
		}
		for _, r := range []*reader{counted[s.from][s.flow], counted[s.to][s.flow]} {
			if sum := r.sum(t); sum.Late+sum.Early+sum.Unmarked+sum.Unsized > 0 {
				t.Errorf("%s: %+v", what, sum)
			}
		}
	}
	for _, device := range []string{"eth1", "eth2"} {
		if r := lost["ingress "+device][0]; r.Packets == r.Frames {
			t.Errorf("no frame was offloaded: %+v", r)
		}
	}
	if r := lost["ingress eth1"][1]; r.Counts != (linkloss.Counts{}) {
		t.Errorf("the flow of the other path was seen: %+v", r)
	}
	if r := lost["north2 eth0"][0]; r.LostPackets == 0 {
		t.Errorf("nothing was lost on the way back: %+v", r)
	}
}

// awaitQuiet waits until nothing is sent any more: a lost FIN is sent again.
func awaitQuiet(t *testing.T, l *lab.Lab) {
	t.Helper()
	const quiet = time.Second
	var last []lab.Loss
	for since, until := time.Now(), time.Now().Add(patience.Of(10*time.Second)); time.Since(since) < quiet; time.Sleep(50 * time.Millisecond) {
		now, err := l.Losses()
		if err != nil || time.Now().After(until) {
			t.Fatalf("packets are still sent (%v): %+v", err, now)
		}
		if !slices.Equal(now, last) {
			last, since = now, time.Now()
		}
	}
}

// lossesByLink asks the command, as a user does, for the rules of each link.
func lossesByLink(t *testing.T, l *lab.Lab) map[string][]lab.Loss {
	t.Helper()
	code, stdout, stderr := e2e.Waymark(t, "lab", "loss", "show", "--name", l.Name(), "--json")
	var list []lab.Loss
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 {
		t.Fatalf("lab loss show: code %d, %v, %s", code, err, stderr)
	}
	byLink := make(map[string][]lab.Loss)
	for _, s := range list {
		byLink[s.Node+" "+s.Interface] = append(byLink[s.Node+" "+s.Interface], s)
	}
	return byLink
}
