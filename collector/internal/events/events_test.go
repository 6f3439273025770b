// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// began is when a whole interval begins.
var began = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// keptEvents is a sink that keeps the events that it gets.
type keptEvents struct {
	sink.Sink
	events []*record.Event
}

func (l *keptEvents) Offer(records ...record.Record) {
	for _, r := range records {
		l.events = append(l.events, r.(*record.Event))
	}
}

// newEvents are those since it was called.
func (l *keptEvents) newEvents() (list []*record.Event) {
	list, l.events = l.events, nil
	return list
}

func names(list []*record.Event) string {
	var text []string
	for _, e := range list {
		text = append(text, e.Name)
	}
	return strings.Join(text, " ")
}

// scene is a Finder, and packets that it is offered.
type scene struct {
	*Finder
	keptEvents
	now     time.Time
	packets *storetest.Packets
	notes   []string
}

func newScene(t testing.TB, file string, clockError time.Duration) *scene {
	s := &scene{now: began, packets: storetest.NewPackets(1, 20, 1, 300, began, 10*time.Millisecond)}
	s.begin(file, clockError)
	return s
}

func (s *scene) begin(file string, clockError time.Duration) {
	write := func(l slog.Level, text string) { s.notes = append(s.notes, l.String()+": "+text) }
	s.Finder = New(Options{
		Node: "keeper", ClockError: clockError, File: file, Log: write,
		Names: func() []nodenames.Node {
			link := nodenames.Interface{ID: 22, IDWide: ioam.InterfaceIDWideUnavailable, Name: "west0"}
			return []nodenames.Node{{ID: 2, IDWide: ioam.NodeIDWideUnavailable, Name: "r2", Interfaces: []nodenames.Interface{link}}}
		},
	}, s.now)
	s.Tell(&s.keptEvents)
}

// add looks at records of a time.
func (s *scene) add(at time.Time, list []record.Record) { s.Finder.add(at, s.selected(at, list)) }

// play offers 100 packets a second over three nodes, of which one in lost is lost after the second, 0: none.
func (s *scene) play(seconds, lost int, change func(*record.Path)) {
	for range seconds {
		for i := range 100 {
			one := s.packets.Of(1, []int{1, 2, 3}, lost > 0 && i%lost == 0)
			for k := range one.Nodes {
				one.Nodes[k].EgressID = record.NewField(ioam.InterfaceID(11*(k+1)), true)
			}
			if change != nil {
				change(one)
			}
			s.add(s.now.Add(time.Duration(i)*10*time.Millisecond), []record.Record{one})
		}
		s.now = s.now.Add(time.Second)
		s.look(s.now)
	}
}

// Losses of joined packets are told once, at their segment, and their end is; the next collector knows what began.
func TestLoss(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.jsonl")
	s := newScene(t, file, -1)
	s.play(12, 0, nil)
	if list := s.newEvents(); len(list) != 0 {
		t.Fatalf("%+v", list[0])
	}
	s.play(30, 20, nil)
	list := s.newEvents()
	if len(list) != 1 {
		t.Fatal(names(list))
	}
	e := list[0]
	if e.Name != record.EventLoss || e.Node != "keeper" || e.Label("from_node") != "r2" || e.Label("egress") != "west0" ||
		e.Label("to_node") != "noded" ||
		e.Label("evidence") != "counters" || e.Severity != record.SeverityError || e.ID == "" {
		t.Errorf("%+v", e)
	}
	if text := strings.Join(s.notes, "\n"); strings.Count(text, "\n") != 0 ||
		!strings.HasPrefix(text, "WARN: loss_began: packets are lost after r2 west0 > noded") {
		t.Errorf("%q", text)
	}
	g := &metrics.Gatherer{}
	s.Collect(g)
	if got := fmt.Sprint(g.Families()); !strings.Contains(got, record.EventLoss) {
		t.Errorf("%s", got)
	}
	s.begin(file, -1) // the next collector
	s.play(10, 20, nil)
	if list := s.newEvents(); len(list) != 0 {
		t.Errorf("what lasts is a second event: %s", names(list))
	}
	s.play(60, 0, nil)
	if list = s.newEvents(); len(list) != 1 || list[0].Name != record.EventLossEnded || list[0].ID != e.ID {
		t.Errorf("%s", names(list))
	}
	s.play(10, 20, nil)
	s.begin(file, -1)
	s.newEvents()
	s.play(125, 0, nil)
	if list = s.newEvents(); len(list) != 1 || list[0].Name != record.EventNotSeen {
		t.Errorf("%s", names(list))
	}
}

// IPFIX records of measured flows lack the names of points. Still, each segment of each flow has events of its own, with
// its own counts.
func TestLossOfFlows(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), -1)
	for flow, lost := range map[string]uint64{"north": 2, "south": 20, "west": 0} {
		for from := range loss.PointID(3) {
			l := &record.Loss{Sent: record.NewField(uint64(1000), true), Lost: record.NewField(uint64(0), true)}
			l.Flow, l.FlowID, l.Scope, l.From, l.To = flow, loss.FlowID(len(flow)), record.OneSegment, from, from+1
			l.Source, l.SIDs = netip.MustParseAddr("2001:db8:ff::1"), []netip.Addr{netip.MustParseAddr("fc00:3::d6")}
			if from == 1 {
				l.Lost.Value = lost
			}
			s.add(s.now, []record.Record{l})
		}
	}
	s.look(s.now.Add(time.Second))
	var texts []string
	for _, e := range s.newEvents() {
		texts = append(texts, e.Facts+" "+e.Label("evidence"))
	}
	slices.Sort(texts)
	if want := []string{
		"packets are lost after point 1 > point 2 (flow north): 2 of 1000, 0.2% counters",
		"packets are lost after point 1 > point 2 (flow south): 20 of 1000, 2% counters",
	}; !slices.Equal(texts, want) {
		t.Errorf("%q", texts)
	}
	if n := s.log.Totals().Begun[record.EventLoss]; n != 2 {
		t.Errorf("%d have begun", n)
	}
}

// A node that holds packets long is an event, whatever the clocks. A slow segment is one only if the error of clocks is
// known.
func TestSlow(t *testing.T) {
	late := func(one *record.Path) {
		for k := 2; k < len(one.Nodes); k++ {
			one.Nodes[k].Timestamp.Value = one.Nodes[k].Timestamp.Value.Add(50 * time.Millisecond)
		}
	}
	for _, c := range []struct {
		clockError time.Duration
		change     func(*record.Path)
		want       string
	}{
		{-1, late, ""},
		{0, late, record.EventSegmentSlow},
		{time.Second, late, ""},
		{-1, func(one *record.Path) { one.Nodes[1].TransitDelay.Value += 5_000_000 }, record.EventHeldLong},
	} {
		s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), c.clockError)
		s.play(30, 0, nil)
		s.newEvents()
		s.play(25, 0, c.change)
		list := s.newEvents()
		if got := names(list); got != c.want {
			t.Errorf("clocks %v: %q, want %q", c.clockError, got, c.want)
		}
		if len(list) == 1 && list[0].Label("from_node") != "r2" && list[0].Label("node_name") != "r2" {
			t.Errorf("%+v", list[0])
		}
	}
}

// Packets beyond the rate are counted, over the whole second; what is counted of flows is always looked at. What
// is not joined is never looked at.
func TestRate(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), 0)
	list := make([]record.Record, Rate)
	for i := range list {
		list[i] = s.packets.Of(1, []int{1, 2, 3}, false)
	}
	for part := range parts {
		at := began.Add(time.Duration(part) * time.Second / parts)
		if got := len(s.selected(at, list)); got != Rate/parts {
			t.Errorf("%d of part %d", got, part)
		}
		list := []record.Record{&record.Loss{}, &record.Flow{}, &record.EdgeFlow{}, &record.Postcard{}, &record.Warning{}}
		if got := len(s.selected(at, list)); got != 3 {
			t.Errorf("%d others", got)
		}
	}
	if s.unexamined != Rate*parts-Rate {
		t.Errorf("%d", s.unexamined)
	}
}

// A node that gets a name, or another one, is still the same: no paths move, and losses after it go on.
func TestRenamedNode(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), -1)
	named := func(name string) func(*record.Path) {
		return func(one *record.Path) { one.Nodes[0].Node = name }
	}
	s.play(25, 20, named(""))
	if list := s.newEvents(); names(list) != record.EventLoss {
		t.Errorf("%q", names(list))
	}
	s.play(80, 20, named("athos"))
	s.play(80, 20, named("porthos"))
	if list := s.newEvents(); len(list) != 0 {
		t.Errorf("%q: %+v", names(list), list[0])
	}
	s.play(60, 0, nil)
	if list := s.newEvents(); names(list) != record.EventLossEnded {
		t.Errorf("%q", names(list))
	}
}

// The operator gets few lines a minute, and names from the network move no cursor.
func TestLines(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), 0)
	for i := range 3 * eventlog.MostLines {
		s.tell(&record.Event{Name: record.EventPathsMoved, Subject: fmt.Sprint(i)}, s.now)
	}
	if s.newEvents(); len(s.notes) != eventlog.MostLines {
		t.Errorf("%d lines", len(s.notes))
	}
	s.tell(&record.Event{Name: record.EventPathsMoved, Subject: "next"}, s.now.Add(time.Minute))
	if text := s.notes[eventlog.MostLines]; !strings.HasPrefix(text, "WARN: 40 more events") {
		t.Error(text)
	}
	s = newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), 0)
	s.play(20, 10, func(one *record.Path) {
		for k := range one.Nodes {
			one.Nodes[k].Node = "\x1b]0;x\x07" + one.Nodes[k].Node
		}
	})
	if text := strings.Join(s.notes, "\n"); !strings.Contains(text, record.EventLoss) || strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("%q", text)
	}
}

// Records that it is offered are looked at until its context ends; those without room are counted.
func TestRun(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), 0)
	const offered = 50_000
	for range offered { // more than wait, and nothing is taken
		s.Finder.Offer(&record.Loss{})
	}
	waiting := uint64(s.queue.Len())
	if stats := s.Stats(); s.unexamined == 0 || waiting == 0 || waiting+s.unexamined != offered || stats.Offered != waiting ||
		stats.Written != 0 {
		t.Errorf("%d of %d wait, %d are counted; %+v", waiting, offered, s.unexamined, stats)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	for end := time.Now().Add(patience.Of(10 * time.Second)); s.engine.Totals().Records < waiting && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := s.engine.Totals().Records; got != waiting {
		t.Errorf("%d of %d were looked at", got, waiting)
	}
	cancel()
	<-done
}

// Records that still wait when the context ends are examined, and their events are told.
func TestEndTells(t *testing.T) {
	s := newScene(t, filepath.Join(t.TempDir(), "events.jsonl"), -1)
	s.play(12, 0, nil)
	s.now = time.Now() // Run looks by the clock
	for i := range 1000 {
		one := s.packets.Of(1, []int{1, 2, 3}, i%2 == 0)
		s.Finder.Offer(one)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if s.queue.Len() != 0 || s.Stats().Written != 1000 {
		t.Errorf("%d wait, %+v", s.queue.Len(), s.Stats())
	}
	if list := s.newEvents(); names(list) != record.EventLoss {
		t.Errorf("%q", names(list))
	}
}

func BenchmarkAdd(b *testing.B) {
	s := newScene(b, filepath.Join(b.TempDir(), "events.jsonl"), 0)
	list := make([]record.Record, 1000)
	for i := range list {
		list[i] = s.packets.Of(i%300, []int{1, 2, 3, 4, 5}, false)
	}
	at := began
	for b.Loop() {
		at = at.Add(time.Second / parts)
		s.add(at, list)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(list)), "ns/packet")
}
