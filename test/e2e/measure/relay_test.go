// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/lab/linkrelay"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// Flows of the topology srv6, as a whole.
var north, south = part{"north", 0, 3}, part{"south", 0, 2}

// ofFlows are the packets of both flows, without those of the agents.
var ofFlows = linkloss.Selection{LastSID: netip.MustParsePrefix("fc00:3::d6/128")}

func startRelay(t *testing.T, l *lab.Lab, node string, rule linkrelay.Rule) *lab.Relay {
	t.Helper()
	rule.Selection = ofFlows
	r, err := l.StartRelay(node, "eth1", rule)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func stopRelay(t *testing.T, r *lab.Relay) lab.Relayed {
	t.Helper()
	done, err := r.Stop()
	if err != nil || done.Sent != done.Packets || done.Sent == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	return done
}

// datagrams sends so many over a path, one each half millisecond.
func datagrams(t *testing.T, l *lab.Lab, count int, to string) (began time.Time) {
	t.Helper()
	began = time.Now()
	if _, err := l.Send(t.Context(), lab.Traffic{
		Kind: lab.KindUDP, From: "alpha", To: "beta", Address: netip.MustParseAddr(to), Count: count, Interval: 500 * time.Microsecond,
		Size: 100, Port: 9001,
	}); err != nil {
		t.Fatal(err)
	}
	return began
}

const toNorth, toSouth = "2001:db8:21::2", "2001:db8:22::2"

// TestDelayedLink holds the packets of a flow between north1 and north2, for a while, and for longer
// than the guard allows, which a reload makes shorter.
func TestDelayedLink(t *testing.T) {
	l := e2e.Raise(t, srv6With(t, []string{"south"}, "mean-delay: true",
		"mean-delay: true, mask: 0x1c, even: 0x04, odd: 0x0c, delay-even: 0x14, delay-odd: 0x1c, max-delay: 15ms"))
	t.Run("delay", func(t *testing.T) { measureDelay(t, l) })
	shorter := srv6With(t, []string{"south"}, "guard: 450ms", "guard: 200ms")
	for _, n := range shorter.Nodes {
		if n.Agent == nil {
			continue
		}
		if err := l.Node(n.Name).Reconfigure(t.Context(), n.Agent.Config); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("beyond the guard", func(t *testing.T) { delayBeyondGuard(t, l) })
}

// measureDelay delays packets between north1 and north2: the measured delay there is
// that of the relay, nearly none elsewhere, by the sums of all packets' times as by those of
// packets with a second mark, and the flow is beyond its threshold.
func measureDelay(t *testing.T, l *lab.Lab) {
	t.Helper()
	r := observe(t, l)
	r.awaitExact(t, north)
	const injected, jitter, tolerance = 30 * time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond
	var held, longest time.Duration
	var began time.Time
	for range 5 { // the relay of a busy machine holds packets for longer, and not all for as long
		began = time.Now()
		relay := startRelay(t, l, "north1", linkrelay.Rule{Delay: injected, Jitter: jitter, Seed: 9})
		datagrams(t, l, 4000, toNorth)
		r.awaitAfter(t, time.Now(), north)
		done := stopRelay(t, relay)
		held, longest = time.Duration(done.MeanNS), max(longest, time.Duration(done.LongestNS)) // results of earlier turns may come late
		if held <= injected+tolerance/2 {
			break
		}
		t.Logf("the relay held packets for %v", held)
	}
	for _, tt := range []struct {
		part
		want time.Duration
		code health.Code
	}{
		{north, held, health.FlowDelayHigh}, {part{"north", 0, 1}, 0, ""}, {part{"north", 1, 2}, held, ""}, {part{"north", 2, 3}, 0, ""},
	} {
		delays := make(map[loss.Method]int)
		for _, d := range r.delaysOf(tt.part) {
			if !d.Start.Add(time.Duration(d.Length)).After(began) {
				continue
			}
			delays[d.Method]++
			spread, code := tolerance, tt.code
			if d.Method == loss.DoubleMarking { // the delay of a packet or two, and no threshold is about it
				if code = ""; tt.want > 0 {
					spread += jitter
				}
			}
			most := tt.want + spread
			if d.Method == loss.DoubleMarking && tt.want > 0 {
				most = max(most, longest+tolerance) // it may be the packet that a busy relay held for longest
			}
			if got := time.Duration(d.Mean); got < tt.want-spread || got > most || d.Warning != string(code) {
				t.Errorf(
					"%v, block %d: delay %v by %v, warning %q; the relay held packets for %v",
					tt.part,
					d.Block.Value,
					got,
					d.Method,
					d.Warning,
					held,
				)
			}
		}
		if len(delays) != 2 { // of each method, as many as there are certain blocks: on a busy machine, perhaps one
			t.Errorf("%v: number of delays by method: %v", tt.part, delays)
		}
	}
	if held < injected-time.Millisecond || held > injected+tolerance {
		t.Errorf("the relay held packets for %v", held)
	}
	if sent, lost, _ := r.sum(t, north, began); sent != 4000 || lost != 0 {
		t.Errorf("%d sent, %d lost", sent, lost)
	}
	if status := e2e.Must(t, l.Node("ingress"), e2e.Program, "status", "--wide"); !strings.Contains(status, "more than max-delay: 15ms") {
		t.Errorf("%s", status)
	}
}

// reorder reorders packets across the ends of blocks, and loses some: none of those
// that are late is called lost.
func reorder(t *testing.T, l *lab.Lab) {
	t.Helper()
	r := observe(t, l)
	r.awaitExact(t, north, south)
	lose(t, l, "north2", "eth1", linkloss.Rule{Burst: 1, Every: 50, LastSID: ofFlows.LastSID})
	jitter := startRelay(t, l, "north1", linkrelay.Rule{Delay: 50 * time.Millisecond, Jitter: 40 * time.Millisecond, Seed: 1})
	order := startRelay(t, l, "south", linkrelay.Rule{Every: 10, By: 3, Hold: linkrelay.DefaultHold})
	const count = 6000
	began := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		datagrams(t, l, count, toSouth)
	}()
	datagrams(t, l, count, toNorth)
	<-done
	end := time.Now()
	r.awaitAfter(t, end, north, south)
	stopRelay(t, jitter)
	// a busy machine sends with gaps, and a packet that nothing overtakes is not held for ever
	if o := stopRelay(t, order); o.Overtaken < count/10*8/10 {
		t.Errorf("%+v", o)
	}
	injected := lossesByLink(t, l)["north2 eth1"][0].LostPackets
	for _, tt := range []struct {
		part
		sent, lost uint64
	}{
		{north, count, injected}, {part{"north", 0, 1}, count, 0}, {part{"north", 1, 2}, count, 0}, {part{"north", 2, 3}, count, injected},
		{south, count, 0}, {part{"south", 0, 1}, count, 0}, {part{"south", 1, 2}, count, 0},
	} {
		sent, lost, blocks := r.sum(t, tt.part, began)
		if sent != tt.sent || lost != tt.lost || blocks < 3 {
			t.Errorf("%v: %d sent, %d lost in %d blocks; want %d and %d", tt.part, sent, lost, blocks, tt.sent, tt.lost)
		}
	}
}

// delayBeyondGuard delays packets for longer than the guard allows: those at the ends of
// blocks make them uncertain, and none is called lost.
func delayBeyondGuard(t *testing.T, l *lab.Lab) {
	t.Helper()
	r := observe(t, l)
	r.awaitExact(t, north)
	relay := startRelay(t, l, "north1", linkrelay.Rule{Delay: 350 * time.Millisecond})
	datagrams(t, l, 4000, toNorth)
	end := time.Now()
	r.awaitAfter(t, end, north)
	stopRelay(t, relay)
	violated := 0
	for _, each := range r.lossesOf(part{"north", 1, 2}) {
		if each.Lost.Value > 0 {
			t.Errorf("block %d: %s", each.Block.Value, record.AppendLine(nil, each))
		}
		if each.Sent.Value > 0 && strings.Contains(each.ToReasons.String(), "guard_violated") {
			violated++
		}
	}
	if violated == 0 {
		t.Error("no block is uncertain")
	}
}
