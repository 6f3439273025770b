// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// scene feeds an engine, and judges it every second as an agent does.
type scene struct {
	e    *Engine
	now  time.Duration
	list []Finding
	at   []time.Duration // of the findings
}

func newScene(t *testing.T) *scene {
	s := &scene{e: run(t, Settings{})}
	s.e.SetClockError(0)
	return s
}

// play lets time pass, with a number of records in each second.
func (s *scene) play(last time.Duration, perSecond int, make func(i int) record.Record) {
	for end := s.now + last; s.now < end; {
		for i := range perSecond {
			s.e.Add(start.Add(s.now+time.Duration(i)*time.Second/time.Duration(perSecond)), make(i))
		}
		s.now += time.Second
		s.e.Advance(start.Add(s.now))
		for _, f := range s.e.Judge(start.Add(s.now)) {
			s.list, s.at = append(s.list, f), append(s.at, s.now)
		}
	}
}

// found are the names of the findings since it was called.
func (s *scene) found() string {
	var names []string
	for _, f := range s.list {
		names = append(names, f.Event)
	}
	s.list, s.at = nil, nil
	return strings.Join(names, " ")
}

func usualWay(int) record.Record { return way(2, 8*time.Microsecond, 30*time.Microsecond) }
func slowWay(int) record.Record  { return way(2, 8*time.Microsecond, 80*time.Millisecond) }

// A queue that gets slow is found within ten seconds at its own segment, once, and so is its end.
func TestSlowSegmentIsFound(t *testing.T) {
	for _, perSecond := range []int{1000, 100, 25, 5} {
		s := newScene(t)
		s.play(35*time.Second, perSecond, usualWay)
		if got := s.found(); got != "" {
			t.Fatalf("%d/s: %s", perSecond, got)
		}
		s.play(40*time.Second, perSecond, slowWay)
		if len(s.list) != 1 || s.list[0].Event != record.EventSegmentSlow {
			t.Fatalf("%d/s: %+v", perSecond, s.list)
		}
		f := s.list[0]
		most := 10 * time.Second
		if perSecond < 20 {
			most = 25 * time.Second // two intervals
		}
		if f.Place != (Place{NodeID: 2, EgressID: 202}) || f.Next != (Place{NodeID: 3, IngressID: 301}) || f.Source != "2001:db8:1::/64" ||
			f.HeldIncluded ||
			f.P95 < 79e6 || f.P95 > 81e6 || f.Usual < 29e3 || f.Usual > 31e3 ||
			s.at[0] > 35*time.Second+most ||
			f.Since.After(f.At) ||
			f.At.Sub(start) != s.at[0] {
			t.Errorf("%d/s: %+v at %v", perSecond, f, s.at[0])
		}
		s.found()
		s.play(25*time.Second, perSecond, usualWay)
		if len(s.list) != 1 || s.list[0].Event != record.EventSegmentUsual || s.list[0].NewUsual || !s.list[0].Since.Equal(f.At) ||
			s.list[0].P95 > 31e3 {
			t.Errorf("%d/s: %+v", perSecond, s.list)
		}
	}
}

// One hiccup in an interval is no event, although it makes the whole interval slow; nor is anything without
// a baseline, of few packets, or by clocks of which it is not known how good they are.
func TestNotSlow(t *testing.T) {
	s := newScene(t)
	s.play(20*time.Second, 100, slowWay)
	s.play(20*time.Second, 100, usualWay)
	for range 5 {
		s.play(time.Second, 100, slowWay)
		s.play(29*time.Second, 100, usualWay)
	}
	s.play(40*time.Second, 1, slowWay)
	if got := s.found(); got != "" {
		t.Error(got)
	}
	s.e.SetClockError(UnknownClock)
	s.play(40*time.Second, 100, slowWay)
	s.e.SetClockError(int64(time.Second))
	s.play(40*time.Second, 100, slowWay)
	if got := s.found(); got != "" {
		t.Error(got)
	}
	s.e.SetClockError(0)
	s.play(20*time.Second, 100, slowWay)
	if got := s.found(); got != record.EventSegmentSlow {
		t.Error(got)
	}
	// Nothing passes any more: it is not said that it is over.
	s.play(90*time.Second, 100, func(int) record.Record { return trace("2001:db8:1::1", "2001:db8:3::1", hop{1, 0, 101, 0, -1}) })
	if len(s.list) != 1 || s.list[0].Event != record.EventNotSeen || s.list[0].Ends != record.EventSegmentSlow {
		t.Errorf("%+v", s.list)
	}
}

// A node that holds packets is found by one clock, whatever is known of those of others. What stays slow is
// usual after ten minutes, and that is said.
func TestHeldLongAndNewUsual(t *testing.T) {
	s := newScene(t)
	s.e.SetClockError(UnknownClock)
	s.play(30*time.Second, 50, usualWay)
	s.play(12*time.Minute, 50, func(int) record.Record { return way(2, 3*time.Millisecond, 30*time.Microsecond) })
	if len(s.list) != 2 || s.list[0].Event != record.EventHeldLong || s.list[0].Place != (Place{NodeID: 2, IngressID: 201, EgressID: 202}) ||
		s.list[1].Event != record.EventHeldUsual || !s.list[1].NewUsual {
		t.Errorf("%+v", s.list)
	}
}

// block makes records of a flow's blocks between two nodes, of which so many packets of 500 are lost.
func block(lost uint64) func(int) record.Record {
	return func(int) record.Record {
		l := &record.Loss{}
		l.Flow, l.Source, l.SIDs = "red", netip.MustParseAddr("2001:db8:1::1"), []netip.Addr{netip.MustParseAddr("fc00:3::d6")}
		l.Scope, l.From, l.To, l.FromNode, l.ToNode = record.OneSegment, 1, 2, "r2", "r3"
		l.Sent, l.Lost = record.NewField(uint64(500), true), record.NewField(lost, true)
		return l
	}
}

// Losses of a measured flow begin and end at their segment.
func TestLossIsFound(t *testing.T) {
	s := newScene(t)
	s.play(30*time.Second, 1, block(0))
	s.play(3*time.Second, 1, block(0))
	s.play(12*time.Second, 1, block(40))
	if len(s.list) != 1 || s.list[0].Event != record.EventLoss || s.list[0].Place != (Place{Node: "r2"}) ||
		s.list[0].Next != (Place{Node: "r3"}) ||
		s.list[0].Flow != "red" ||
		s.list[0].Loss.Lost < 40 ||
		s.at[0] > 36*time.Second {
		t.Errorf("%+v at %v", s.list, s.at)
	}
	s.found()
	s.play(45*time.Second, 1, block(0))
	if len(s.list) != 1 || s.list[0].Event != record.EventLossEnded || s.list[0].Loss.Lost != 12*40 {
		t.Errorf("%+v", s.list)
	}
	s.found()
	s.play(30*time.Second, 1, func(i int) record.Record { // one packet now and then, of a few
		l := block(uint64(i % 2))(i).(*record.Loss)
		l.Sent = record.NewField(uint64(1), true)
		return l
	})
	if got := s.found(); got != "" {
		t.Error(got)
	}
}

// A loss that the last second of an interval shows is found, although the interval is not whole.
func TestLossAtTheEndOfAPart(t *testing.T) {
	e := New(Settings{}, start.Add(8*time.Second))
	e.Add(start.Add(9500*time.Millisecond), block(40)(0))
	e.Advance(start.Add(10 * time.Second))
	if found := e.Judge(start.Add(10 * time.Second)); len(found) != 1 || found[0].Event != record.EventLoss || found[0].Loss.Lost != 40 {
		t.Errorf("%+v", found)
	}
}

// flows are packets of flows 0 to n-1, each on the path that choose says.
func flowsBy(n int, choose func(flow int) int) func(int) record.Record {
	return func(i int) record.Record {
		flow := i % n
		r := way(choose(flow), 8*time.Microsecond, 30*time.Microsecond)
		port := uint16(1000 + flow)
		r.Packet.SourcePort, r.Packet.DestinationPort = &port, new(uint16)
		return r
	}
}

// Flows that take another path are found, with the share that moved. New flows are not, nor is traffic that is
// spread over paths packet by packet.
func TestMovesAreFound(t *testing.T) {
	spread := func(flow int) int { return []int{2, 9}[flow%2] }
	s := newScene(t)
	s.play(30*time.Second, 320, flowsBy(32, spread))
	s.play(15*time.Second, 320, flowsBy(32, func(flow int) int {
		if flow < 24 {
			return 9
		}
		return spread(flow)
	}))
	if len(s.list) != 1 || s.list[0].Event != record.EventPathsMoved {
		t.Fatalf("%+v", s.list)
	}
	f := s.list[0]
	if f.From[1].NodeID != 2 || f.To[1].NodeID != 9 || f.Moved < 0.36 || f.Moved > 0.39 || f.Flows != 12 || s.at[0] > 35*time.Second ||
		f.P99Change == nil ||
		*f.P99Change != 0 {
		t.Errorf("%+v at %v", f, s.at)
	}
	s.found()
	s.play(40*time.Second, 320, flowsBy(32, spread)) // and back
	if got := s.found(); got != record.EventPathsMoved {
		t.Error(got)
	}

	s = newScene(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 { // one elephant after another, each on its path
		middle, port := []int{2, 9}[random.IntN(2)], uint16(random.Uint32())
		s.play(5*time.Second, 200, func(int) record.Record {
			r := way(middle, 8*time.Microsecond, 30*time.Microsecond)
			r.Packet.SourcePort, r.Packet.DestinationPort = &port, &port
			return r
		})
	}
	s.play(60*time.Second, 320, flowsBy(32, func(int) int { return []int{2, 9}[random.IntN(2)] })) // packet by packet
	s.play(40*time.Second, 2000, flowsBy(1000, spread))                                            // more than are watched
	if got := s.found(); got != "" {
		t.Errorf("%s", got)
	}
	s.play(20*time.Second, 2000, flowsBy(1000, func(int) int { return 2 }))
	if len(s.list) != 1 || s.list[0].Moved < 0.35 || s.list[0].Moved > 0.65 {
		t.Errorf("%+v", s.list)
	}
	for _, p := range s.e.pairs {
		if len(p.known.flows) > mostFlows {
			t.Errorf("%d flows", len(p.known.flows))
		}
	}
}

// A node in the middle that writes nothing any more is found by the gap that it leaves; a path that goes
// round it leaves none. It is no move of paths.
func TestSilentNodeIsFound(t *testing.T) {
	gap := func(int) record.Record {
		r := way(2, 8*time.Microsecond, 30*time.Microsecond)
		r.Nodes = append(r.Nodes[:1:1], r.Nodes[2])
		return r
	}
	s := newScene(t)
	s.play(24*time.Second, 100, usualWay)
	s.play(12*time.Second, 100, gap)
	if len(s.list) != 1 || s.list[0].Event != record.EventNodeSilent || s.list[0].Place.NodeID != 2 || s.list[0].Before.NodeID != 1 ||
		s.list[0].Next.NodeID != 3 ||
		s.at[0] > 28*time.Second {
		t.Fatalf("%+v at %v", s.list, s.at)
	}
	s.found()
	s.play(24*time.Second, 100, usualWay)
	if got := s.found(); got != record.EventNodeHeard {
		t.Error(got)
	}
	round := func(int) record.Record {
		r := way(2, 8*time.Microsecond, 30*time.Microsecond)
		r.Nodes = append(r.Nodes[:1:1], r.Nodes[2])
		r.Nodes[1].HopLimit = record.NewField(uint8(63), true)
		return r
	}
	s.play(30*time.Second, 100, round)
	if got := s.found(); got != record.EventPathsMoved {
		t.Error(got)
	}
	s.play(20*time.Second, 100, func(i int) record.Record { // some packets have a gap all the time
		if i%3 == 0 {
			return gap(i)
		}
		return usualWay(i)
	})
	if got := s.found(); got != "" && got != record.EventPathsMoved {
		t.Error(got)
	}
}

// Nothing that nodes write makes it grow without a bound, or panic.
func TestWatchesAreBounded(t *testing.T) {
	s := newScene(t)
	random := rand.New(rand.NewPCG(5, 6))
	s.play(60*time.Second, 3000, func(int) record.Record {
		r := trace(
			fmt.Sprintf("2001:db8:%x::1", random.IntN(300)),
			"2001:db8:ffff::1",
			hop{
				random.IntN(3),
				random.IntN(3),
				random.IntN(3),
				0,
				-1,
			},
			hop{random.IntN(50), 1, 2, time.Duration(random.Int64N(1e8)), time.Duration(random.Int64N(1e7))},
			hop{3, 1, 0, time.Duration(random.Int64N(1e9)), -1},
		)
		r.Nodes = r.Nodes[:1+random.IntN(3)]
		r.Nodes[len(r.Nodes)-1].HopLimit = record.NewField(uint8(random.Uint32()), random.IntN(2) == 0)
		return r
	})
	w := &s.e.watches
	if len(w.slow.suspects) > mostSuspects || len(w.slow.begun) > mostSuspects || len(w.silent.begun) > mostSilent ||
		len(w.losses.begun) > mostLosing {
		t.Errorf("%d, %d, %d, %d", len(w.slow.suspects), len(w.slow.begun), len(w.silent.begun), len(w.losses.begun))
	}
	for range 3 * mostFindings {
		w.add(Finding{})
	}
	if len(w.found) != mostFindings {
		t.Errorf("%d findings", len(w.found))
	}
}

// Of losses that are not seen any more, the event says what they were when they began: what was lost since is more than
// the packets that were sent by then.
func TestLossIsNotSeen(t *testing.T) {
	s := newScene(t)
	s.play(12*time.Second, 1, block(0))
	s.play(40*time.Second, 1, block(400))
	if len(s.list) != 1 || s.list[0].Event != record.EventLoss {
		t.Fatalf("%+v", s.list)
	}
	want := "not known any more, because too few packets come: " + s.list[0].facts()
	s.found()
	s.play(90*time.Second, 1, usualWay)
	if len(s.list) != 1 || s.list[0].Event != record.EventNotSeen || s.list[0].facts() != want {
		t.Errorf("%+v, want %s", s.list, want)
	}
}

// When the clock is set back, what goes on ends as it would have, and lasts no time below zero.
func TestClockIsSetBack(t *testing.T) {
	s := newScene(t)
	both := func(one func(int) record.Record, lost uint64) func(int) record.Record {
		return func(i int) record.Record {
			if i == 0 {
				return block(lost)(0)
			}
			return one(i)
		}
	}
	s.play(35*time.Second, 100, both(usualWay, 0))
	s.play(25*time.Second, 100, both(slowWay, 40))
	if got := s.found(); got != "loss_began segment_slow" && got != "segment_slow loss_began" {
		t.Fatal(got)
	}
	s.now -= 50 * time.Minute
	s.play(45*time.Second, 100, both(usualWay, 0))
	for _, f := range s.list {
		if f.At.Before(f.Since) {
			t.Errorf("%s lasted from %v to %v", f.Event, f.Since, f.At)
		}
	}
	if got := s.found(); got != "segment_usual loss_ended" {
		t.Errorf("%q", got)
	}
}

// A joined path whose nodes have ids is the same when a node gets a name, and when it gets another one.
func TestRenamedNode(t *testing.T) {
	s := newScene(t)
	joined := func(name string) func(int) record.Record {
		return func(i int) record.Record {
			all := way(2, 0, 0)
			r := &record.Path{Packet: all.Packet, Verdict: record.PathArrived, Complete: true}
			if i%10 == 0 {
				r.Verdict, r.Complete, all.Nodes = record.PathLost, false, all.Nodes[:2]
			}
			for k, n := range all.Nodes {
				r.Nodes = append(r.Nodes, record.PathNode{NodeData: n})
				if k == 1 {
					r.Nodes[k].Node = name
				}
			}
			return r
		}
	}
	s.play(25*time.Second, 100, joined(""))
	if got := s.found(); got != "loss_began" {
		t.Errorf("%q", got)
	}
	s.play(90*time.Second, 100, joined("r2"))
	s.play(90*time.Second, 100, joined("athos"))
	if got := s.found(); got != "" {
		t.Errorf("%q", got)
	}
}

// What ends says how slow it was at worst: the event that began may tell of the first instants.
func TestWorstMeanwhile(t *testing.T) {
	s := newScene(t)
	s.play(120*time.Second, 40, usualWay)
	s.list = nil
	s.play(15*time.Second, 40, func(int) record.Record { return way(2, 8*time.Microsecond, 400*time.Microsecond) })
	s.play(30*time.Second, 40, slowWay)
	s.play(40*time.Second, 40, usualWay)
	if len(s.list) != 2 || s.list[0].P95 > int64(time.Millisecond) || s.list[1].Worst < int64(70*time.Millisecond) {
		t.Fatalf("%+v", s.list)
	}
	e := s.list[1].Record("r3")
	if !strings.Contains(e.Facts, "as usual again, after ") || !strings.HasSuffix(e.Facts, "ms at worst") {
		t.Error(e.Facts)
	}
	if !slices.ContainsFunc(e.Values, func(v record.Value) bool { return v.Name == "worst_p95_ns" && v.Number >= 7e7 }) {
		t.Errorf("%+v", e.Values)
	}
}
