// SPDX-License-Identifier: Apache-2.0

package known

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// at is a time in seconds after start.
func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// node is the exporter of a node.
func node(n byte) join.Exporter {
	return join.Exporter{Addr: netip.AddrFrom16([16]byte{0x20, 1, 15: n}), Domain: uint32(n)}
}

// r1 encapsulates, r2 forwards, r3 decapsulates.
var (
	r1, r2, r3 = node(1), node(2), node(3)
	key        = FlowKey{Namespace: 123, FlowID: 7}
)

// world is a Base and Routes, with a session for each node.
type world struct {
	base   *Base
	routes *Routes
}

func newWorld() *world { return &world{NewBase(), NewRoutes()} }

func (w *world) message(e join.Exporter, m Arrived) { w.base.Message(Feed{e, e.Domain}, e, m, start) }

func (w *world) report(e join.Exporter, since, until float64, change ...func(*Report)) {
	r := Report{Since: at(since), Until: at(until), Counted: at(until + 0.01), Served: at(0), Sampling: 1}
	for _, c := range change {
		c(&r)
	}
	w.base.Report(Feed{e, e.Domain}, key.Namespace, r)
}

// pass is a packet that all nodes report.
func (w *world) pass(when float64, nodes ...join.Exporter) {
	var stops []Stop
	for i, e := range nodes {
		role := record.Transit
		switch e {
		case r1:
			role = record.Encapsulating
		case r3:
			role = record.Decapsulating
		}
		stops = append(stops, Stop{Exporter: e, Role: role, Time: at(when).Add(time.Duration(i) * time.Millisecond)})
	}
	w.routes.Learn(key, stops, at(when))
}

// after asks about a packet that was last seen at a node.
func (w *world) after(e join.Exporter, when float64, sequence uint32) Verdict {
	return LostAfter(Question{Key: key, Sequence: sequence, Last: Stop{Exporter: e, Time: at(when)}, Slack: time.Second / 2}, w.routes, w.base)
}

// whole is the first message of a session.
var whole = Arrived{First: true, Understood: true}

func (v Verdict) text() string {
	text := v.Fate.String()
	for _, d := range v.Doubt {
		text += fmt.Sprintf(" %d:%v", d.Exporter.Domain, d.Doubt)
	}
	return text
}

// healthy is a world in which r3 has reported until 9 s.
func healthy(w *world) {
	w.message(r3, whole)
	w.report(r3, 0, 1)
	w.pass(2, r1, r2, r3)
	w.report(r3, 0, 9)
}

// lostCases are what is known of r3, and what follows for a packet that was last seen at
// r2 at 10 s.
var lostCases = map[string]struct {
	do   func(w *world)
	want string
}{
	"r3 has reported":                         {func(w *world) { healthy(w); w.report(r3, 0, 11) }, "lost"},
	"nothing is known":                        {func(*world) {}, "unknown 0:none_after"},
	"only r2 was ever seen":                   {func(w *world) { w.pass(2, r1, r2) }, "unknown 0:none_after"},
	"r3 does not say until when":              {func(w *world) { w.pass(2, r1, r2, r3) }, "unknown 3:unheard"},
	"r3 has not reported since":               {healthy, "unknown 3:late"},
	"r3 has reported until the packet itself": {func(w *world) { healthy(w); w.report(r3, 0, 10) }, "unknown 3:late"},
	"r3 is known since a later time": {func(w *world) {
		w.pass(2, r1, r2, r3)
		w.message(r3, Arrived{Understood: true}) // not the first of its session
		w.report(r3, 0, 10.2)
		w.report(r3, 0, 12)
	}, "unknown 3:began"},
	"r3's session began later": {func(w *world) {
		w.pass(2, r1, r2, r3)
		w.message(r3, whole)
		w.report(r3, 10.2, 12)
	}, "unknown 3:began"},
	"r3's queue overflowed": {func(w *world) { healthy(w); w.report(r3, 10.5, 11) }, "unknown 3:gap"},
	"messages of r3 are missing, or its programs did not run": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{Gaps: 5, Missed: 5, Understood: true})
		w.report(r3, 0, 11)
	}, "unknown 3:gap"},
	"messages of r3 may still come": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{Gaps: 5, Awaited: 5, Understood: true})
		w.report(r3, 0, 11)
	}, "unknown 3:gap"},
	"messages of r3 changed places": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{Gaps: 5, Awaited: 5, Understood: true})
		w.report(r3, 0, 11)
		w.message(r3, Arrived{Gaps: 5, Understood: true})
	}, "lost"},
	"two gaps, one filled": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{Gaps: 5, Awaited: 5, Understood: true})
		w.message(r3, Arrived{Gaps: 7, Awaited: 2, Understood: true})
		w.report(r3, 0, 11)
		w.message(r3, Arrived{Gaps: 7, Missed: 2, Understood: true})
	}, "unknown 3:gap"},
	"messages were missing before": {func(w *world) {
		w.pass(2, r1, r2, r3)
		w.message(r3, whole)
		w.report(r3, 0, 1)
		w.message(r3, Arrived{Gaps: 5, Missed: 5, Understood: true})
		w.report(r3, 0, 9)
		w.message(r3, Arrived{Gaps: 5, Missed: 5, Understood: true})
		w.report(r3, 0, 11)
	}, "lost"},
	"records of r3 were not understood": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{})
		w.report(r3, 0, 11)
	}, "unknown 3:not_understood"},
	"messages after those may be missing": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{})
		w.report(r3, 0, 9.2)
		w.message(r3, Arrived{Breaks: 1, Understood: true})
		w.report(r3, 0, 11)
	}, "unknown 3:gap"},
	"messages after those came": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{})
		w.report(r3, 0, 9.2)
		w.message(r3, Arrived{Breaks: 1, Understood: true})
		w.report(r3, 0, 9.3)
		w.message(r3, Arrived{Breaks: 1, Understood: true})
		w.report(r3, 0, 11)
	}, "lost"},
	"an old report of r3 comes again after a gap": {func(w *world) {
		healthy(w)
		w.message(r3, Arrived{Gaps: 5, Missed: 5, Understood: true})
		w.report(r3, 0, 11)
		w.message(r3, Arrived{Gaps: 5, Missed: 5, Understood: true, Late: true})
		w.report(r3, 0, 9)
		w.message(r3, Arrived{Gaps: 5, Missed: 5, Understood: true})
		w.report(r3, 0, 12)
	}, "unknown 3:gap"},
	"a record of r3 was impossible": {func(w *world) { healthy(w); w.base.TroubleOf(Feed{r3, 3}); w.report(r3, 0, 11) }, "unknown 3:not_understood"},
	"a message of r3 was malformed": {func(w *world) { healthy(w); w.base.NoteUnread(r3); w.report(r3, 0, 11) }, "unknown 3:not_understood"},
	"one of another session was":    {func(w *world) { healthy(w); w.base.NoteUnread(r2); w.report(r3, 0, 11) }, "lost"},
	"r3 suppressed postcards":       {func(w *world) { healthy(w); w.report(r3, 0, 11, func(r *Report) { r.Suppressed = 1 }) }, "unknown 3:suppressed"},
	"r3 suppressed some before": {func(w *world) {
		w.message(r3, whole)
		w.report(r3, 0, 1)
		w.pass(2, r1, r2, r3)
		some := func(r *Report) { r.Suppressed = 1 }
		w.report(r3, 0, 9, some)
		w.report(r3, 0, 11, some)
	}, "lost"},
	"r3 suppressed one while it counted": {func(w *world) {
		w.message(r3, whole)
		w.report(r3, 0, 1)
		w.pass(2, r1, r2, r3)
		some := func(r *Report) { r.Suppressed, r.Counted = 1, r.Until.Add(time.Second) }
		w.report(r3, 0, 9.3, some)
		w.report(r3, 0, 12, func(r *Report) { r.Suppressed = 1 })
	}, "unknown 3:suppressed"},
	"r3 lost records":      {func(w *world) { healthy(w); w.report(r3, 0, 11, func(r *Report) { r.Lost = 1 }) }, "unknown 3:dropped"},
	"r3 sent not all":      {func(w *world) { healthy(w); w.report(r3, 0, 11, func(r *Report) { r.NotSent = 1 }) }, "unknown 3:dropped"},
	"r3 counts from 0":     {func(w *world) { some(w, 5); w.report(r3, 0, 11) }, "unknown 3:dropped"},
	"r3's clock went back": {func(w *world) { healthy(w); w.report(r3, 0, 8); w.report(r3, 0, 11) }, "lost"}, // 8 to 11 is known
	"r3 began anew": {func(w *world) {
		healthy(w)
		anew := func(r *Report) { r.Served = at(9.2) }
		w.report(r3, 9.2, 9.2, anew)
		w.report(r3, 9.2, 11, anew)
	}, "unknown 3:changed"},
	"r3 began anew, and a packet came": {func(w *world) {
		healthy(w)
		anew := func(r *Report) { r.Served = at(9.2) }
		w.report(r3, 9.2, 9.2, anew)
		w.pass(9.4, r1, r2, r3)
		w.report(r3, 9.2, 11, anew)
	}, "lost"},
	"r3 makes a postcard of every second": {func(w *world) {
		w.message(r3, whole)
		w.pass(2, r1, r2, r3)
		w.report(r3, 0, 11, func(r *Report) { r.Sampling = 2 })
	}, "unknown 3:sampled"},
	"r3's session broke":       {func(w *world) { healthy(w); w.base.End(r3) }, "unknown 3:late"},
	"r3's session broke later": {func(w *world) { healthy(w); w.report(r3, 0, 11); w.base.End(r3) }, "lost"},
	"r3 reports twice, one breaks": {func(w *world) {
		healthy(w)
		second := Feed{"another session", r3.Domain}
		w.base.Message(second, r3, whole, start)
		w.base.Report(second, 123, Report{Since: at(0), Until: at(11), Counted: at(11), Served: at(0), Sampling: 1})
	}, "lost"},
	"a node between is silent": {func(w *world) {
		healthy(w)
		w.pass(3, r1, r2, node(4), r3)
		w.report(r3, 0, 11)
	}, "unknown 4:unheard"},
	"a report of another namespace": {func(w *world) {
		healthy(w)
		w.base.Report(Feed{r3, 3}, 124, Report{Since: at(0), Until: at(11), Counted: at(11), Served: at(0), Sampling: 1})
	}, "unknown 3:late"},
}

// A packet was last seen at r2 at 10 s. What is known of r3 decides.
func TestLostAfter(t *testing.T) {
	for name, c := range lostCases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.do(w)
			if got := w.after(r2, 10, 41).text(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func some(w *world, lost uint64) {
	w.message(r3, whole)
	w.report(r3, 0, 1, func(r *Report) { r.Lost = lost })
	w.pass(2, r1, r2, r3)
	w.report(r3, 0, 9, func(r *Report) { r.Lost = lost })
}

// Of a node that makes a postcard of every second packet, the ones that it makes are
// expected.
func TestSampledPackets(t *testing.T) {
	w := newWorld()
	w.message(r3, whole)
	w.pass(2, r1, r2, r3)
	w.report(r3, 0, 11, func(r *Report) { r.Sampling = 2 })
	if got := w.after(r2, 10, 40).text(); got != "lost" {
		t.Errorf("%s, want lost", got)
	}
}

// Clocks that differ: r3's is an hour ahead, and what counts is its own time.
func TestClocksDiffer(t *testing.T) {
	const ahead = 3600
	for until, want := range map[float64]string{11: "unknown 3:late", ahead + 10: "unknown 3:late", ahead + 11: "lost"} {
		w := newWorld()
		w.message(r3, whole)
		w.routes.Learn(
			key,
			[]Stop{
				{Exporter: r1, Role: record.Encapsulating, Time: at(2)},
				{Exporter: r2, Role: record.Transit, Time: at(2)},
				{Exporter: r3, Role: record.Decapsulating, Time: at(ahead + 2)},
			},
			at(2),
		)
		w.report(r3, 0, until)
		if got := w.after(r2, 10, 0).text(); got != want {
			t.Errorf("until %v: %s, want %s", until, got, want)
		}
	}
}

// A flow that never arrived is judged by what the namespace knows: any node that was seen
// after r2 must be known, and one of them decapsulates.
func TestOtherFlowsKnowTheWay(t *testing.T) {
	w := newWorld()
	w.message(r3, whole)
	other := FlowKey{Namespace: 123, FlowID: 8}
	w.routes.Learn(
		other,
		[]Stop{{Exporter: r2, Role: record.Transit, Time: at(2)}, {Exporter: node(4), Role: record.Transit, Time: at(2)}},
		at(2),
	)
	w.message(node(4), whole)
	w.report(node(4), 0, 11)
	if got := w.after(r2, 10, 0).text(); got != "unknown 0:no_end" {
		t.Errorf("%s", got)
	}
	w.routes.Learn(
		other,
		[]Stop{{Exporter: r2, Role: record.Transit, Time: at(3)}, {Exporter: r3, Role: record.Decapsulating, Time: at(3)}},
		at(3),
	)
	w.report(r3, 0, 11)
	v := w.after(r2, 10, 0)
	if got := v.text(); got != "lost" || v.Next != (join.Exporter{}) {
		t.Errorf("%s, next %v", got, v.Next)
	}
	w.pass(4, r1, r2, r3)
	if v := w.after(r2, 10, 0); v.Next != r3 {
		t.Errorf("next %v: the flow's own way goes on at r3", v.Next)
	}
}

// What senders can make a Base and Routes keep is bounded.
func TestBounds(t *testing.T) {
	w := newWorld()
	for i := range uint32(3 * maxFeeds) {
		e := join.Exporter{Addr: r1.Addr, Domain: i}
		w.base.Message(Feed{"forged", i}, e, whole, start)
		w.base.Report(Feed{"forged", i}, 1, Report{Since: at(0), Until: at(1), Counted: at(1), Served: at(0), Sampling: 1})
	}
	if len(w.base.feeds) > maxFeeds || len(w.base.exporters) > maxFeeds {
		t.Errorf("%d feeds of %d exporters", len(w.base.feeds), len(w.base.exporters))
	}
	w.base.Message(Feed{"later", 1}, r3, whole, start.Add(2*time.Hour)) // the others are idle
	if len(w.base.feeds) != 1 || len(w.base.ended) > maxEnded || len(w.base.exporters) > maxEnded+1 {
		t.Errorf("%d feeds, %d ended, of %d exporters", len(w.base.feeds), len(w.base.ended), len(w.base.exporters))
	}
	for i := range 3 * maxFeedsOf {
		w.base.Message(Feed{i, 1}, r2, whole, start)
	}
	if n := len(w.base.exporters[r2]); n != maxFeedsOf {
		t.Errorf("%d feeds of one exporter", n)
	}
	w.message(r3, whole)
	for i := range 3 * maxSpans {
		w.report(r3, 0, float64(i), func(r *Report) { r.Lost = uint64(i / 2) })
	}
	if n := len(w.base.feeds[Feed{r3, 3}].namespaces[123].spans); n > maxSpans {
		t.Errorf("%d spans", n)
	}
	for i := range uint32(maxFlows + 100) {
		w.routes.Learn(
			FlowKey{FlowID: i},
			[]Stop{
				{Exporter: join.Exporter{Domain: i}, Time: at(1)},
				{Exporter: join.Exporter{Domain: i % 200}, Role: record.Decapsulating, Time: at(1)},
			},
			at(1),
		)
	}
	if len(w.routes.flows) != maxFlows || w.routes.order.Len() != maxFlows || len(w.routes.steps) > maxSteps {
		t.Errorf("%d flows, %d steps", len(w.routes.flows), len(w.routes.steps))
	}
	pairs := NewPairs()
	for i := range uint32(maxPairs + 100) {
		pairs.Count(1, []Stop{{Exporter: join.Exporter{Domain: i}}}, Verdict{Fate: record.PathLost})
	}
	if len(pairs.Of) != maxPairs || pairs.Rest != (Totals{Packets: 100, Lost: 100}) {
		t.Errorf("%d pairs, the rest %+v", len(pairs.Of), pairs.Rest)
	}
}

// Packets are counted at each node that reported them.
func TestPairs(t *testing.T) {
	p := NewPairs()
	all := []Stop{{Exporter: r1}, {Exporter: r2}, {Exporter: r3}}
	p.Count(123, all, Verdict{Fate: record.PathArrived})
	p.Count(123, all[:2], Verdict{Fate: record.PathLost, Next: r3})
	p.Count(123, all[:1], Verdict{Fate: record.PathUnknown, Next: r2})
	p.Count(123, all[:1], Verdict{Fate: record.PathUnknown})
	for pair, want := range map[Pair]Totals{
		{123, r1, r2}: {Packets: 3, Unknown: 1}, {123, r2, r3}: {Packets: 2, Lost: 1}, {123, r1, join.Exporter{}}: {Packets: 1, Unknown: 1},
	} {
		if got := p.Of[pair]; got == nil || *got != want {
			t.Errorf("%v: %+v, want %+v", pair, got, want)
		}
	}
	if len(p.Of) != 3 {
		t.Errorf("%d pairs", len(p.Of))
	}
}

// A packet is lost only if all nodes that may have got it say so: also one that the flow's packets
// pass seldom, and where there are more ways than are remembered, all of the namespace.
func TestManyWays(t *testing.T) {
	// exits are nodes after r1, of which all but a silent one report, and the flow alternates.
	after := func(t *testing.T, exits, silent int, rest ...func(*world)) string {
		t.Helper()
		w := newWorld()
		for i := range exits {
			e := join.Exporter{Addr: r3.Addr, Domain: uint32(100 + i)}
			if i != silent {
				w.message(e, whole)
				w.report(e, 0, 11)
			}
			for again := range 3 {
				w.routes.Learn(
					key,
					[]Stop{{Exporter: r1, Role: record.Encapsulating, Time: at(2)}, {Exporter: e, Role: record.Decapsulating, Time: at(2)}},
					at(float64(again)),
				)
			}
		}
		for range 3 { // the latest ways are not the silent one's
			for _, i := range []uint32{1, 2, 3} {
				w.routes.Learn(
					key,
					[]Stop{
						{Exporter: r1, Role: record.Encapsulating, Time: at(3)},
						{Exporter: join.Exporter{Addr: r3.Addr, Domain: 100 + i}, Role: record.Decapsulating, Time: at(3)},
					},
					at(3),
				)
			}
		}
		for _, do := range rest {
			do(w)
		}
		return w.after(r1, 10, 0).text()
	}
	flows := func(when float64) func(*world) {
		return func(w *world) {
			for i := range uint32(maxFlows) {
				w.routes.Learn(FlowKey{Namespace: 5, FlowID: i}, []Stop{{Exporter: node(9), Role: record.Encapsulating, Time: at(4)}}, at(when))
			}
			w.pass(when, r1, join.Exporter{Addr: r3.Addr, Domain: 101}, r3)
			w.message(r3, whole)
			w.report(r3, 0, 11)
		}
	}
	for name, tt := range map[string]struct{ got, want string }{
		"all report":                {after(t, 4, -1), "lost"},
		"a fourth way":              {after(t, 4, 0), "unknown 100:unheard"},
		"as many as are remembered": {after(t, maxRoutes, 0), "unknown 100:unheard"},
		"one more":                  {after(t, maxRoutes+1, 0), "unknown 100:unheard"},
		"one more, all report":      {after(t, maxRoutes+1, -1), "lost"},
		"as many as the namespace":  {after(t, maxAfter, 5), "unknown 105:unheard"},
		"more":                      {after(t, maxAfter+1, 5), "unknown 0:too_many"},
		"more, all report":          {after(t, maxAfter+1, -1), "unknown 0:too_many"},
		"the flow made room":        {after(t, 4, 0, flows(5)), "unknown 100:unheard"},
		"the way was left an hour ago": {after(t, 4, 0, func(w *world) {
			w.routes.Learn(key, []Stop{
				{Exporter: r1, Role: record.Encapsulating, Time: at(3700)},
				{Exporter: join.Exporter{Addr: r3.Addr, Domain: 101}, Role: record.Decapsulating, Time: at(3700)},
			}, at(3700))
		}), "lost"},
		"a node that never says the time": {after(t, 4, -1, func(w *world) {
			e := node(8)
			w.message(e, whole)
			w.report(e, 0, 11)
			w.routes.Learn(key, []Stop{
				{Exporter: r1, Role: record.Encapsulating, Time: at(4)},
				{Exporter: e, Role: record.Transit, Time: time.Time{}},
				{Exporter: join.Exporter{Addr: r3.Addr, Domain: 101}, Role: record.Decapsulating, Time: at(4)},
			}, at(4))
		}), "unknown 8:no_time"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", name, tt.got, tt.want)
		}
	}
}

// A node that reports nothing lies between two that do: a packet that is lost after the first one
// may have passed it, and its hop limits say that it is there.
func TestSilentNodesBetween(t *testing.T) {
	for _, tt := range []struct {
		first, last uint8
		silent      int
	}{{63, 62, 0}, {63, 61, 1}, {63, 58, 4}, {0, 61, 0}, {63, 0, 0}, {61, 63, 0}} {
		w := newWorld()
		for _, e := range []join.Exporter{r1, r3} {
			w.base.Message(Feed{e, e.Domain}, e, whole, at(0))
			w.report(e, 0, 10)
		}
		w.routes.Learn(
			key,
			[]Stop{
				{Exporter: r1, Role: record.Encapsulating, Time: at(2), HopLimit: tt.first},
				{Exporter: r3, Role: record.Decapsulating, Time: at(2), HopLimit: tt.last},
			},
			at(2),
		)
		if v := w.after(r1, 3, 1); v.Fate != record.PathLost || v.Silent != tt.silent || v.Next != r3 {
			t.Errorf("%d to %d: %s, %d silent, want %d", tt.first, tt.last, v.text(), v.Silent, tt.silent)
		}
	}
}
