// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/collect"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// begin is when the story begins; it ends ten minutes later.
var (
	begin  = time.Date(2026, 11, 21, 11, 50, 0, 0, time.UTC)
	end    = begin.Add(10 * time.Minute)
	period = "from=2026-11-21T11:50:00Z&until=2026-11-21T12:00:00Z"

	hourBefore = "from=2026-11-21T10:50:00Z&until=2026-11-21T11:00:00Z" // with traces only
	secondHalf = "from=2026-11-21T11:55:00Z&until=2026-11-21T12:00:00Z" // after the second flow moved
)

// hostile is the name of a node: it must be shown as it is, and nothing else may come of it.
const hostile = `<img src=x onerror="document.title='taken over'">`

var names = map[int]string{1: "athos", 2: "porthos", 3: "planchet", 4: "dartagnan", 9: "aramis", 10: hostile}

// story is what a store has: packets of four flows, of which the second moves to another path after five minutes,
// and the third takes two paths at all times; losses of two measured flows, of which one has uncertain blocks; and
// flows from edge to edge, of which one does not say what it lost.
func story() (packets []*record.Path, others []record.Record) {
	p := storetest.NewPackets(1, 20, 1, 50, begin, 100*time.Millisecond)
	for i := range 6000 {
		flow, path := i%4, []int{1, 2, 3, 9}
		switch {
		case flow == 0:
			path = []int{10, 2, 9}
		case flow == 1 && i >= 3000, flow == 2 && i%8 == 2:
			path = []int{1, 4, 3, 9}
		}
		one := p.Of(flow, path, i%50 == 7)
		for n := range one.Nodes {
			node := &one.Nodes[n]
			node.Node = names[path[n]]
			if path[n] == 4 { // it is slow
				node.TransitDelay.Value += 5_000_000
				delayRest(one, n+1, 5_000_000)
			}
		}
		packets = append(packets, one)
	}
	return packets, slices.Concat(losses(), edges(), traces(), happened())
}

// happened are events, the latest first: one has what must not become a part of the page.
func happened() (list []record.Record) {
	for i, name := range []string{record.EventLossEnded, record.EventSegmentSlow, record.EventLoss} {
		e := &record.Event{
			Time: instant.Of(end.Add(-time.Duration(i+1) * time.Minute)), Node: "keeper", Name: name, Severity: record.SeverityError,
			Subject: "porthos > aramis", Facts: "packets are lost after " + hostile,
			Labels: []record.Label{{Name: "from", Text: hostile}}, Values: []record.Value{{Name: "lost", Number: 6}},
		}
		if name == record.EventLossEnded {
			e.Severity = record.SeverityInfo
		}
		list = append(list, e)
	}
	return list
}

// mostTraces is how many traces the story has.
const mostTraces = 300

// traces are of packets an hour before. With traces, lost packets are not known.
func traces() (list []record.Record) {
	for i := range mostTraces {
		at := begin.Add(-time.Hour + time.Duration(i)*time.Second)
		r := &record.Trace{
			Time: instant.Of(at), Namespace: 124, TraceType: 0xf00000,
			Packet: record.Packet{Source: storetest.Source(1), Destination: storetest.Destination(1), NextHeader: 17, Length: 100},
		}
		for n, node := range []int{1, 2, 9} {
			r.Nodes = append(r.Nodes, record.NodeData{
				NodeName: names[node], HopLimit: record.NewField(uint8(64-n), true), NodeID: record.NewField(ioam.NodeID(node), true),
				Timestamp: record.NewField(at.Add(time.Duration(n)*time.Millisecond), true),
			})
		}
		list = append(list, r)
	}
	return list
}

// delayRest makes a packet later from one of its nodes on.
func delayRest(p *record.Path, from int, by int64) {
	if from >= len(p.Nodes) {
		return
	}
	since := *p.Nodes[from].SincePrevious + by
	p.Nodes[from].SincePrevious = &since
	for i := from; i < len(p.Nodes); i++ {
		p.Nodes[i].Timestamp.Value = p.Nodes[i].Timestamp.Value.Add(time.Duration(by))
	}
	if p.Delay != nil {
		whole := *p.Delay + by
		p.Delay = &whole
	}
}

// losses are those of gold and silver, in blocks of ten seconds: gold loses one of a hundred packets in every second
// block on its second segment; each tenth block of it is uncertain.
func losses() (list []record.Record) {
	for block := range 60 {
		for _, way := range []struct {
			flow     string
			id       loss.FlowID
			scope    record.Scope
			from, to loss.PointID
			names    [2]string
			lossy    bool
		}{
			{"gold", 5, record.WholeWay, 0, 2, [2]string{"athos", "aramis"}, true},
			{"gold", 5, record.OneSegment, 0, 1, [2]string{"athos", "porthos"}, false},
			{"gold", 5, record.OneSegment, 1, 2, [2]string{"porthos", "aramis"}, true}, {"silver", 6, record.WholeWay, 0, 1, [2]string{"athos", "aramis"}, false},
		} {
			start := begin.Add(time.Duration(block) * 10 * time.Second)
			l := &record.Loss{
				Measurement: record.Measurement{
					Time: instant.Of(
						start.Add(11 * time.Second),
					), Node: "athos", Flow: way.flow, FlowID: way.id, Scope: way.scope, From: way.from, To: way.to,
					FromNode: way.names[0], ToNode: way.names[1], Block: record.NewField(uint64(block), true), Start: instant.Of(start),
					Length: uint64(10 * time.Second),
				},
				Verdict: loss.Measured, Sent: record.NewField(uint64(100), true), Lost: record.NewField(uint64(0), true),
				Received: record.NewField(uint64(100), true), Duplicated: record.NewField(uint64(0), true),
			}
			switch {
			case way.lossy && block%10 == 0:
				l.Verdict, l.ToReasons, l.Lost, l.Duplicated = loss.Uncertain, loss.ClockWorse, record.NewField(
					uint64(0),
					false,
				), record.NewField(
					uint64(0),
					false,
				)
			case way.lossy && block%2 == 1:
				l.Lost, l.Received = record.NewField(uint64(1), true), record.NewField(uint64(99), true)
			}
			list = append(list, l)
		}
	}
	return list
}

// edges are records of two flows from edge to edge.
func edges() (list []record.Record) {
	for i := range 60 {
		at := instant.Of(begin.Add(time.Duration(i) * 10 * time.Second))
		one := &record.EdgeFlow{
			Time: at, Node: "aramis", Namespace: 300, Type: 0x7000, Source: storetest.Source(1), Destination: storetest.Destination(1), Packets: 99,
			First: at, Last: at,
			Lost: record.NewField(uint64(1), true), Duplicates: record.NewField(uint64(0), true), Reordered: record.NewField(uint64(2), true),
		}
		other := *one
		var unknown record.Field[uint64]
		other.Source, other.Lost, other.Duplicates, other.Reordered = storetest.Source(2), unknown, unknown, unknown
		list = append(list, one, &other)
	}
	return list
}

// running is what a collector that runs would know.
func running() query.Live {
	now := time.Now()
	exporter := func(name string, node int, records, missed uint64) collect.Exporter {
		return collect.Exporter{
			Address: storetest.Exporter(node), Domain: uint32(node), Name: name, First: begin, Last: now,
			Exported: now, Messages: records / 10, Records: records, Missed: missed,
		}
	}
	silent := exporter("porthos", 2, 2000, 0)
	silent.Last = now.Add(-time.Hour)
	return query.Live{
		Collector: &record.Statistics{
			Counts:  []record.Count{{Name: "postcards_late", Meaning: "Postcards that came too late.", Value: 17}},
			Waiting: 3,
		},
		Exporters: []collect.Exporter{exporter("athos", 1, 12345, 0), silent, exporter(hostile, 10, 777, 42)}, Began: begin,
	}
}

// recent are packets of now, for the live stream: the last three are lost.
func recent() (list []record.Record) {
	p := storetest.NewPackets(2, 20, 1, 50, time.Now().Add(-4*time.Second), 100*time.Millisecond)
	for i := range 40 {
		one := p.Of(i%3, []int{1, 2, 9}, i >= 37)
		for n := range one.Nodes {
			one.Nodes[n].Node = names[[]int{1, 2, 9}[n]]
		}
		list = append(list, one)
	}
	now := instant.Of(time.Now())
	for _, lost := range []uint64{0, 7} {
		list = append(list, &record.Loss{
			Measurement: record.Measurement{Time: now, Start: now, Flow: "gold", FlowID: 5, Scope: record.WholeWay, To: loss.PointID(1 + lost)},
			Verdict:     loss.Measured, Sent: record.NewField(uint64(100), true), Lost: record.NewField(lost, true),
			Received: record.NewField(100-lost, true),
		})
	}
	return list
}

// route is a packet's path as the console writes it.
func route(p *record.Path) string {
	var nodes []string
	for _, n := range p.Nodes {
		nodes = append(nodes, n.Node)
	}
	return strings.Join(nodes, " → ")
}

// sourceOf and destinationOf are the addresses of a flow, as text.
func sourceOf(flow int) string      { return storetest.Source(flow).String() }
func destinationOf(flow int) string { return storetest.Destination(flow).String() }
