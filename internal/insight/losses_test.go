// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// segmentOf is a block of a flow between two neighbouring points, as IPFIX has it: without the names of points.
func segmentOf(flow string, id loss.FlowID, from loss.PointID, sent, lost uint64) *record.Loss {
	l := &record.Loss{Sent: record.NewField(sent, true), Lost: record.NewField(lost, true)}
	l.Flow, l.FlowID, l.Source, l.SIDs = flow, id, netip.MustParseAddr("2001:db8:ff::1"), []netip.Addr{netip.MustParseAddr("fc00:3::d6")}
	l.Scope, l.From, l.To = record.OneSegment, from, from+1
	return l
}

// blocksOf makes the records of a second: the whole ways of two flows and their segments, and a flow without a name.
func blocksOf(second int) record.Record {
	whole := segmentOf("north", 1, 0, 211, 2)
	whole.Scope, whole.To = record.WholeWay, 3
	list := []record.Record{
		whole, segmentOf("north", 1, 0, 211, 0), segmentOf("north", 1, 1, 211, 2), segmentOf("north", 1, 2, 209, 0),
		segmentOf("south", 2, 0, 100, 0), segmentOf("south", 2, 1, 100, 2), segmentOf("", 77, 0, 50, 10), segmentOf("", 78, 0, 50, 0),
	}
	return list[second%len(list)]
}

// text is what findings tell: the text, and where.
func textsOf(list []Finding) (texts []string) {
	for _, f := range list {
		e := f.Record("keeper")
		texts = append(texts, e.Facts+" ["+e.Label("evidence")+" "+e.Label("flow_id")+" "+e.Label("from_point")+" "+e.Label("to_point")+"]")
	}
	slices.Sort(texts)
	return texts
}

// Flows whose points have no names lose packets each by itself, at its segment: neither other segments, nor other
// flows, nor the record of the whole way are in the numbers. Each ends by itself.
func TestLossOfFlowsWithoutNames(t *testing.T) {
	s := newScene(t)
	s.play(time.Second, 8, blocksOf)
	want := []string{
		"packets are lost after point 0 > point 1 (flow 77): 10 of 50, 20% [counters 77 0 1]",
		"packets are lost after point 1 > point 2 (flow north): 2 of 211, 0.948% [counters 1 1 2]",
		"packets are lost after point 1 > point 2 (flow south): 2 of 100, 2% [counters 2 1 2]",
	}
	if got := textsOf(s.list); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	subjects := make(map[string]bool)
	for i := range s.list {
		subjects[s.list[i].Subject()] = true
	}
	if len(subjects) != len(want) {
		t.Errorf("subjects: %v", subjects) // one of them would not be told
	}
	s.found()
	s.play(60*time.Second, 8, func(i int) record.Record {
		l := blocksOf(i).(*record.Loss)
		if l.Flow == "north" && l.From == 1 {
			l.Lost = record.NewField(uint64(0), true)
		}
		return l
	})
	if len(s.list) != 1 || s.list[0].Event != record.EventLossEnded || s.list[0].Flow != "north" {
		t.Errorf("%v", textsOf(s.list))
	}
}

// A total outage of which the second point answers that nothing came is a loss of all packets, and ends; one of which it does
// not answer is none, because it is not known.
func TestTotalOutageIsALossIfItIsKnown(t *testing.T) {
	s := newScene(t)
	s.play(20*time.Second, 1, func(int) record.Record { return segmentOf("south", 2, 0, 100, 100) })
	if len(s.list) != 1 || s.list[0].Event != record.EventLoss || !strings.Contains(s.list[0].facts(), "100 of 100, 100%") {
		t.Fatalf("%v", textsOf(s.list))
	}
	s.found()
	s.play(60*time.Second, 1, func(int) record.Record { return segmentOf("south", 2, 0, 100, 0) })
	if len(s.list) != 1 || s.list[0].Event != record.EventLossEnded {
		t.Errorf("%v", textsOf(s.list))
	}
	s.found()
	s.play(60*time.Second, 1, func(int) record.Record {
		l := segmentOf("south", 2, 0, 100, 0)
		l.Verdict, l.ToReasons, l.Lost = loss.Uncertain, loss.Missing, record.Field[uint64]{Present: true}
		return l
	})
	if len(s.list) != 0 {
		t.Errorf("without an answer: %v", textsOf(s.list))
	}
}

// When the name of a point becomes known, later events have it, and a loss that has begun goes on. A later record without
// the name changes nothing.
func TestNamesOfPointsBecomeKnown(t *testing.T) {
	s := newScene(t)
	s.play(5*time.Second, 1, func(int) record.Record { return segmentOf("red", 1, 1, 500, 40) })
	subject := s.list[0].Subject()
	s.found()
	s.play(40*time.Second, 1, func(i int) record.Record {
		l := segmentOf("red", 1, 1, 500, 40)
		if i%2 == 0 {
			l.FromNode = "r2"
		}
		return l
	})
	if got := s.found(); got != "" {
		t.Errorf("%q", got)
	}
	s.play(40*time.Second, 1, func(int) record.Record { return segmentOf("red", 1, 1, 500, 0) })
	s.found()
	s.play(5*time.Second, 1, func(int) record.Record { l := segmentOf("red", 1, 1, 500, 40); l.FromNode = "r2"; return l })
	s.play(5*time.Second, 1, func(int) record.Record { return segmentOf("red", 1, 1, 500, 40) })
	if len(s.list) != 1 || s.list[0].Subject() != subject || !strings.Contains(s.list[0].facts(), "after r2 > point 2 (flow red)") {
		t.Errorf("%v", textsOf(s.list))
	}
}

// Flows without a name are different paths of a report.
func TestReportOfFlowsWithoutNames(t *testing.T) {
	e := run(t, Settings{})
	e.Add(start, segmentOf("", 77, 0, 50, 10), segmentOf("", 78, 0, 40, 0))
	e.Advance(start.Add(10 * time.Second))
	e.Add(start.Add(11*time.Second), segmentOf("", 77, 0, 50, 10), segmentOf("", 78, 0, 40, 0))
	paths := e.Report(start, start.Add(time.Hour), start.Add(15*time.Second)).Pairs[0].Paths
	if len(paths) != 2 || paths[0].FlowID != 77 || paths[0].Packets != 100 || paths[1].FlowID != 78 || paths[1].Packets != 80 {
		t.Errorf("%+v", paths)
	}
}

// A segment of which it is not known what was lost may have lost all: its path has no loss, not even one of zero, and
// says where it is uncertain. A flow of which nothing is known is shown with what was sent.
func TestUncertainLoss(t *testing.T) {
	e := run(t, Settings{})
	missing := func(flow string, id loss.FlowID, from loss.PointID, sent uint64) *record.Loss {
		l := segmentOf(flow, id, from, sent, 0)
		l.Lost, l.Verdict, l.ToReasons = record.Field[uint64]{Present: true}, loss.Uncertain, loss.Missing
		return l
	}
	e.Add(start, segmentOf("south", 2, 0, 1000, 0), segmentOf("south", 2, 1, 900, 0), missing("south", 2, 1, 100), missing("east", 3, 0, 500))
	e.Add(start, segmentOf("north", 1, 0, 200, 2), segmentOf("north", 1, 1, 198, 0))
	check := func(r *Report) {
		t.Helper()
		if len(r.Pairs) != 1 || len(r.Pairs[0].Paths) != 3 {
			t.Fatalf("%+v", r.Pairs)
		}
		south, east, north := r.Pairs[0].Paths[0], r.Pairs[0].Paths[1], r.Pairs[0].Paths[2]
		if south.Loss != nil || south.Packets != 1000 || len(south.Hops[0].Verdicts) != 0 ||
			!slices.Equal(south.Hops[1].Verdicts, []Verdict{Uncertain}) ||
			south.Hops[1].Uncertain != 1 || south.Hops[1].Loss != (Loss{900, 0}) || south.Hops[1].Packets != 1000 {
			t.Errorf("%+v", south)
		}
		if east.Flow != "east" || east.Loss != nil || east.Packets != 500 || east.Hops[0].Uncertain != 1 {
			t.Errorf("%+v", east)
		}
		if north.Loss == nil || *north.Loss != (Loss{200, 2}) {
			t.Errorf("%+v", north)
		}
	}
	check(e.Report(start, start.Add(time.Hour), start.Add(time.Second)))
	e.Advance(start.Add(10 * time.Second))
	check(e.Report(start, start.Add(time.Hour), start.Add(11*time.Second))) // from what is kept
	e.Add(start.Add(12*time.Second), segmentOf("south", 2, 0, 10, 0), segmentOf("south", 2, 1, 10, 0))
	south := e.Report(start.Add(10*time.Second), start.Add(time.Hour), start.Add(15*time.Second)).Pairs[0].Paths[0]
	if south.Loss == nil || *south.Loss != (Loss{10, 0}) {
		t.Errorf("what is over is still there: %+v", south)
	}
}

// A block in which the ingress sent nothing is not uncertain, although the nodes after it say nothing of it.
func TestIdleFlowIsNotUncertain(t *testing.T) {
	for _, c := range []struct {
		why       loss.Reasons
		sent      uint64
		uncertain bool
	}{{0, 0, false}, {loss.Restarted, 0, false}, {loss.UnservedInterface, 0, true}, {0, 1, true}} {
		e := run(t, Settings{})
		e.Add(start, segmentOf("south", 2, 0, 1000, 0), segmentOf("south", 2, 1, 1000, 0))
		whole, second := segmentOf("south", 2, 0, c.sent, 0), segmentOf("south", 2, 1, 0, 0)
		whole.Scope, whole.To, whole.FromReasons, second.Sent = record.WholeWay, 2, c.why, record.Field[uint64]{Present: true}
		for _, l := range []*record.Loss{whole, second} {
			l.Block, l.Lost, l.ToReasons = record.NewField(uint64(7), true), record.Field[uint64]{Present: true}, loss.Missing
		}
		e.Add(start, whole, second)
		if p := e.Report(start, start.Add(time.Hour), start.Add(time.Second)).Pairs[0].Paths[0]; (p.Loss == nil) != c.uncertain {
			t.Errorf("%+v: %+v", c, p)
		}
	}
}

// Each of many flows between two prefixes has its own event and its own hops, and paths of packets keep their room: what
// is slow there is found as without the flows.
func TestManyFlowsOfAPair(t *testing.T) {
	const flows, segments = mostMeasured + 20, 4
	s := newScene(t)
	i := 0
	blocks := func(int) record.Record { // of all flows in turn, and packets between
		if i++; i%20 == 0 {
			return usualWay(i)
		}
		from := i % segments
		return segmentOf("", loss.FlowID(1000+i/segments%flows), loss.PointID(from), 100, uint64(3*(from%2)))
	}
	s.play(60*time.Second, 2*flows*segments, blocks)
	began := make(map[uint32]bool)
	for i := range s.list {
		if f := &s.list[i]; f.Event == record.EventLoss && f.FlowSegment.To == 2 {
			began[f.FlowID] = true
		}
	}
	if len(began) != mostMeasured || !began[1000] {
		t.Errorf("%d flows lose packets, want %d", len(began), mostMeasured)
	}
	r := s.e.Report(start, start.Add(s.now), start.Add(s.now))
	measured, packets := 0, 0
	for _, p := range r.Pairs {
		for i := range p.Paths {
			switch {
			case p.Paths[i].Flow != "" || p.Paths[i].FlowID != 0:
				measured++
			case len(p.Paths[i].Hops) > 0:
				packets++
			}
		}
	}
	if measured != mostMeasured || packets == 0 {
		t.Errorf("%d measured flows and %d paths of packets", measured, packets)
	}
	s.found()
	s.play(30*time.Second, 2*flows*segments, func(n int) record.Record {
		if r := blocks(n); r.Kind() == record.KindLoss {
			return r
		}
		return slowWay(n)
	})
	if !strings.Contains(s.found(), record.EventSegmentSlow) {
		t.Error("with many flows, no event tells of the slow segment")
	}
}
