// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/ioam"
)

// aboutFlows are an aggregated flow, a single postcard and the delay of a measured flow.
func aboutFlows(flow, namespace int, node, measured string) []record.Record {
	of := record.Packet{Source: storetest.Source(flow), Destination: storetest.Destination(flow), NextHeader: 17}
	return []record.Record{
		&record.Flow{Time: instant.Of(start), Node: node, Role: record.Transit, Namespace: ioam.NamespaceID(namespace), Packet: of, Packets: 7},
		&record.Postcard{Time: instant.Of(start), Node: node, Role: record.Transit, Namespace: ioam.NamespaceID(namespace), Packet: of},
		&record.Delay{Measurement: record.Measurement{
			Time: instant.Of(start), Flow: measured, FlowID: loss.FlowID(flow), Scope: record.WholeWay, From: 1, To: 2, Start: instant.Of(start),
			FromNode: node,
		}, Method: loss.MeanOfSums, Samples: 1, Min: 5, Mean: 5, P95: 5},
	}
}

// flowRecordsOf are random records of flows of three nodes over ten minutes, and single postcards.
func flowRecordsOf(random *rand.Rand, n int) (list []record.Record) {
	nodes := []string{"athos", "porthos", "aramis"}
	for i := range n {
		k, flow := random.IntN(3), random.IntN(30)
		at := start.Add(time.Duration(i) * 10 * time.Minute / time.Duration(n))
		of := record.Packet{Source: storetest.Source(flow), Destination: storetest.Destination(flow), NextHeader: 58, FlowLabel: uint32(flow % 2)}
		if flow%4 > 0 {
			from, to := uint16(1000+flow), uint16(443)
			of.NextHeader, of.SourcePort, of.DestinationPort = 6, &from, &to
		}
		id := record.NewField(uint32(flow%7), flow%5 > 0)
		id.Present = id.Valid
		if random.IntN(10) == 0 {
			of.Length = 100
			p := &record.Postcard{Time: instant.Of(at), Node: nodes[k], Role: record.NodeRole(k + 1), Namespace: 1, FlowID: id, Packet: of}
			if random.IntN(3) > 0 {
				p.Data.TransitDelay = record.NewField(uint32(random.IntN(100_000)), true)
			}
			list = append(list, p)
			continue
		}
		f := &record.Flow{
			Time: instant.Of(at), Node: nodes[k], Role: record.NodeRole(k + 1), Namespace: 1, FlowID: id, Packet: of,
			Egress:  fmt.Sprintf("eth%d", random.IntN(2)),
			Packets: uint64(random.IntN(1000)), Bytes: uint64(random.IntN(1e6)), EndReason: record.EndInterval,
		}
		if random.IntN(5) > 0 {
			f.First, f.Last = instant.Of(at.Add(-10*time.Second)), instant.Of(at.Add(-time.Duration(random.IntN(1000))*time.Millisecond))
		}
		if flow%3 > 0 && random.IntN(4) > 0 {
			count := 1 + random.IntN(100)
			f.TransitDelay = &record.Delays{
				Min: uint32(random.IntN(1000)), Max: 1000 + uint32(random.IntN(1e6)), Sum: uint64(count * random.IntN(10_000)), Count: uint64(count),
			}
		}
		if flow%2 > 0 {
			f.Reordered = record.NewField(uint64(random.IntN(3)), true)
			f.SequenceGaps = record.NewField(uint64(random.IntN(5)), random.IntN(6) > 0)
		}
		list = append(list, f)
	}
	return list
}

// plainFlow is a flow of the plain computation.
type plainFlow struct {
	records, postcards, packets, bytes, missing, late, unknown uint64
	missingKnown, lateKnown                                    bool
	first, last                                                time.Time
	held, cards                                                plainHeld
}

type plainHeld struct{ count, least, most, sum uint64 }

func (h *plainHeld) add(count, least, most, sum uint64) {
	if count == 0 {
		return
	}
	if h.count == 0 || least < h.least {
		h.least = least
	}
	h.count, h.most, h.sum = h.count+count, max(h.most, most), h.sum+sum
}

// flowText is the key of a flow as text.
func flowText(node, role string, id *uint32, source, destination string, header int, from, to *uint16, label uint32) string {
	text := fmt.Sprint(node, " ", role, " ", source, " ", destination, " ", header, " ", label)
	if id != nil {
		text += fmt.Sprint(" flow ", *id)
	}
	if from != nil {
		text += fmt.Sprint(" ports ", *from, " ", *to)
	}
	return text
}

// plainly sums up records of flows, by the steps of their times; a step of 0 is the whole time.
func plainly(list []record.Record, step time.Duration) map[string]*plainFlow {
	all := map[string]*plainFlow{}
	of := func(at instant.Time, node string, role record.NodeRole, id record.Field[uint32], p *record.Packet) *plainFlow {
		var flow *uint32
		if id.Valid {
			flow = &id.Value
		}
		key := flowText(node, role.String(), flow, p.Source.String(), p.Destination.String(), int(p.NextHeader), p.SourcePort,
			p.DestinationPort, p.FlowLabel)
		if step > 0 {
			key += at.Truncate(step).Format(" 15:04:05")
		}
		if all[key] == nil {
			all[key] = &plainFlow{}
		}
		return all[key]
	}
	for _, r := range list {
		var f *plainFlow
		var first, last time.Time
		switch r := r.(type) {
		case *record.Flow:
			f = of(r.Time, r.Node, r.Role, r.FlowID, &r.Packet)
			f.records, f.packets, f.bytes = f.records+1, f.packets+r.Packets, f.bytes+r.Bytes
			first, last = r.Time.Time, r.Time.Time
			if !r.First.IsZero() {
				first, last = r.First.Time, r.Last.Time
			}
			if d := r.TransitDelay; d != nil {
				f.held.add(d.Count, uint64(d.Min), uint64(d.Max), d.Sum)
			}
			if r.SequenceGaps.Valid {
				f.missing, f.missingKnown = f.missing+r.SequenceGaps.Value, true
			} else if r.Reordered.Valid {
				f.unknown++
			}
			if r.Reordered.Valid {
				f.late, f.lateKnown = f.late+r.Reordered.Value, true
			}
		case *record.Postcard:
			f = of(r.Time, r.Node, r.Role, r.FlowID, &r.Packet)
			f.postcards++
			first, last = r.Time.Time, r.Time.Time
			if d := r.Data.TransitDelay; d.Valid {
				f.cards.add(1, uint64(d.Value), uint64(d.Value), uint64(d.Value))
			}
		}
		if f.first.IsZero() || first.Before(f.first) {
			f.first = first
		}
		if last.After(f.last) {
			f.last = last
		}
	}
	return all
}

// is reports whether sums are those of the plain computation.
func (f *plainFlow) is(s *query.FlowSums) bool {
	if f == nil {
		return false
	}
	held := f.held
	if held.count == 0 {
		held = f.cards
	}
	same := func(got *uint64, want uint64, known bool) bool {
		return (got != nil) == known && (!known || *got == want)
	}
	return s.Records == f.records && s.Postcards == f.postcards && s.Packets == f.packets && s.Bytes == f.bytes && s.Unknown == f.unknown &&
		same(s.Missing, f.missing, f.missingKnown) && same(s.Late, f.late, f.lateKnown) &&
		s.First.Equal(f.first) && s.Last.Equal(f.last) && (s.Held == nil) == (held.count == 0) &&
		(s.Held == nil || s.Held.Count == held.count && s.Held.Min == int64(held.least) && s.Held.Max == int64(held.most) &&
			s.Held.Mean == int64(held.sum/held.count))
}

func nameOfFlow(f *query.AggregatedFlow) string {
	return flowText(f.Node, f.Role, f.FlowID, f.From, f.To, int(f.NextHeader), f.SourcePort, f.DestinationPort, f.FlowLabel)
}

// Flows have the sums of their records, in each order, in each step, and with each filter.
func TestAggregatedFlows(t *testing.T) {
	list := flowRecordsOf(rand.New(rand.NewPCG(7, 7)), 3000)
	s := serve(t, start, list[:2000], list[2000:])
	want, steps := plainly(list, 0), plainly(list, time.Minute)
	for order, of := range map[string]func(*query.AggregatedFlow) int64{
		"packets": func(f *query.AggregatedFlow) int64 { return int64(f.Packets) },
		"bytes":   func(f *query.AggregatedFlow) int64 { return int64(f.Bytes) },
		"missing": func(f *query.AggregatedFlow) int64 {
			if f.Missing == nil {
				return -1
			}
			return int64(*f.Missing)
		},
	} {
		var a query.AggregatedFlows
		s.ask("/v1/flows", &a, append(all, "order", order, "limit", "1000", "step", "1m")...)
		if len(a.Flows) != len(want) || a.Cut != nil || a.Step != time.Minute.Nanoseconds() || len(want) != 90 {
			t.Fatalf("%d flows, want %d; %+v", len(a.Flows), len(want), a.Answer)
		}
		points := 0
		for i := range a.Flows {
			f := &a.Flows[i]
			if !want[nameOfFlow(f)].is(&f.FlowSums) {
				t.Errorf("%s: %+v %+v\nwant %+v", nameOfFlow(f), f.FlowSums, f.Held, want[nameOfFlow(f)])
			}
			for k := range f.Series {
				point := &f.Series[k]
				if points++; !steps[nameOfFlow(f)+point.Time.Format(" 15:04:05")].is(&point.FlowSums) {
					t.Errorf("%s at %v: %+v", nameOfFlow(f), point.Time, point.FlowSums)
				}
			}
		}
		if points != len(steps) {
			t.Errorf("%d steps, want %d", points, len(steps))
		}
		if !slices.IsSortedFunc(a.Flows, func(a, b query.AggregatedFlow) int { return cmp.Compare(of(&b), of(&a)) }) {
			t.Errorf("not by %s", order)
		}
		var few query.AggregatedFlows
		s.ask("/v1/flows", &few, append(all, "order", order, "limit", "5", "buckets", "3")...)
		if len(few.Flows) != 5 || few.Cut == nil || few.Cut.Reason != "limit" || nameOfFlow(&few.Flows[4]) != nameOfFlow(&a.Flows[4]) ||
			len(few.Flows[0].Series) == 0 {
			t.Errorf("%d flows, %+v", len(few.Flows), few.Cut)
		}
	}
	var none query.AggregatedFlows
	s.ask("/v1/flows", &none, append(all, "node", "' OR 1=1 --")...)
	if len(none.Flows) != 0 {
		t.Errorf("%+v", none)
	}
}

// With a filter or a condition, questions about records have the answer of a collector that got only those selected.
func TestRecordsSelected(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	list := append(flowRecordsOf(random, 600), delayRecordsOf(random, 600)...)
	s := serve(t, start, list[:400], list[400:])
	ofFlows := []string{"/v1/flows?order=bytes&limit=1000&step=1m", "/v1/flows?order=missing&limit=10"}
	ofDelays := []string{"/v1/delay?compare=5m", "/v1/delay?step=1m&limit=7&compare=90s"}
	for _, test := range []struct {
		condition  string // as of waymark collect
		parameters []string
		paths      []string
	}{
		{
			`kind in ["flow", "postcard"] and within(packet.source, "2001:db8::/123") and packet.source_port in [1005, 1006, 1007] and packet.destination_port == 443`,
			[]string{"source", "2001:db8::/123", "port", "443", "next_header", "6", "destination", "2001:db8:8000::4/126"}, ofFlows,
		},
		{`kind in ["flow", "postcard"] and packet.next_header == 58 and node == "athos"`, []string{"next_header", "58", "namespace", "1", "node", "athos"}, ofFlows},
		{`kind in ["flow", "postcard"] and flow_id == 1 and packet.source_port == 1001`, []string{"flow_id", "1", "source_port", "1001"}, ofFlows},
		{`kind == "flow" and sequence_gaps > 2 and transit_delay_ns?.max > 5000 or kind == "postcard" and data.transit_delay_ns > 10000`, nil, ofFlows},
		{`true`, nil, append(ofFlows, ofDelays...)},
		{`flow == "gold"`, []string{"flow", "gold"}, ofDelays},
		{`kind == "delay" and mean_ns > 40 and from_clock_error_ns != nil and (method == "round-trip" or samples == 1)`, nil, ofDelays},
	} {
		program, err := recordfilter.Filter{Where: test.condition}.Compile()
		if err != nil {
			t.Fatal(test.condition, err)
		}
		var selected []record.Record
		for _, r := range list {
			if is, _ := program.Match(r); is {
				selected = append(selected, r)
			}
		}
		if len(selected) == 0 || len(selected) == len(list) != (test.condition == "true") {
			t.Errorf("%s: %d records", test.condition, len(selected))
		}
		only := serve(t, start, selected)
		for _, path := range test.paths {
			want := only.items(path)
			for _, parameters := range [][]string{test.parameters, {"where", test.condition}} {
				if parameters == nil {
					continue
				}
				if got := s.items(path, parameters...); !slices.Equal(got, want) || len(got) == 0 ||
					strings.Contains(path, "step") && !strings.Contains(strings.Join(got, ""), `"series":[`) {
					t.Errorf("%s with %v: %d items, want %d\n%.2000s\nwant\n%.2000s", path, parameters, len(got), len(want),
						strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		}
	}
	for _, bad := range [][3]string{
		{"/v1/flows", "where", "mean_ns > 1"}, {"/v1/delay", "where", "packets > 1"}, {"/v1/flows", "order", "late"},
		{"/v1/delay", "method", "one-way"}, {"/v1/flows", "flow_id", "4294967296"}, {"/v1/flows", "step", "1ms"}, {"/v1/delay", "compare", "x"},
	} {
		if code, body := s.ask(bad[0], nil, append(all, bad[1:]...)...); code != http.StatusBadRequest {
			t.Errorf("%v: %d %s", bad, code, body)
		}
	}
}

// delayRecordsOf are random delays of three flows over ten minutes: of blocks, most of which follow one another, and of
// periods with test packets.
func delayRecordsOf(random *rand.Rand, n int) (list []record.Record) {
	for i := range n {
		flow, at := random.IntN(3), start.Add(time.Duration(i/6)*10*time.Second/4).Truncate(time.Second)
		m := record.Measurement{
			Time: instant.Of(at.Add(time.Second)), Node: "athos", Flow: []string{"gold", "silver", ""}[flow], FlowID: loss.FlowID(5 + flow),
			Scope: record.WholeWay, From: 1, To: 2, FromNode: "athos", Start: instant.Of(at), Length: uint64(2 * time.Second),
		}
		if flow == 2 {
			m.FromNode = ""
		}
		if random.IntN(3) == 0 {
			m.Scope, m.To, m.ToNode = record.OneSegment, 3, "porthos"
		}
		d := &record.Delay{Measurement: m, Samples: 1, Method: loss.Method(random.IntN(int(loss.NumMethods)))}
		d.Jitter.Present = true
		d.Mean = int64(math.Exp(random.Float64()*16)) - int64(random.IntN(200))
		d.Min, d.P95 = d.Mean, d.Mean
		if d.Method == loss.OneWay || d.Method == loss.TwoWay || d.Method == loss.RoundTrip {
			d.Samples = 1 + uint64(random.IntN(60))
			d.Min, d.P95 = d.Mean-int64(random.IntN(100)), d.Mean+int64(random.IntN(1e6))
			d.Jitter = record.NewField(uint64(random.IntN(1000)), true)
		}
		if random.IntN(4) > 0 {
			d.FromClockError = record.NewField(uint64(random.IntN(1000)), true)
			d.ToClockError = record.NewField(uint64(random.IntN(1000)), random.IntN(4) > 0)
		}
		if random.IntN(9) == 0 {
			d.Warning = "flow_delay_high"
		}
		list = append(list, d)
	}
	return list
}

// Delays are summed up as their records say, one by one.
func TestMeasuredDelays(t *testing.T) {
	list := delayRecordsOf(rand.New(rand.NewPCG(5, 5)), 4000)
	s := serve(t, start, list[:1000], list[1000:])
	type sums struct {
		records []*record.Delay
	}
	name := func(flow string, id int64, scope string, from, to int64, method string) string {
		return fmt.Sprint(flow, id, scope, from, to, method)
	}
	want := map[string]*sums{}
	for _, r := range list {
		d := r.(*record.Delay)
		key := name(d.Flow, int64(d.FlowID), d.Scope.String(), int64(d.From), int64(d.To), d.Method.String())
		if want[key] == nil {
			want[key] = &sums{}
		}
		want[key].records = append(want[key].records, d)
	}
	var a query.MeasuredDelays
	s.ask("/v1/delay", &a, append(all, "step", "1m")...)
	if len(a.Delays) != len(want) || a.Cut != nil || len(want) != 36 {
		t.Fatalf("%d delays, want %d", len(a.Delays), len(want))
	}
	for i := range a.Delays {
		d := &a.Delays[i]
		checkDelay(t, d, want[name(d.Flow, d.FlowID, d.Scope, d.From, d.To, d.Method)].records)
	}
	if !slices.IsSortedFunc(a.Delays, func(a, b query.MeasuredDelay) int { return cmp.Compare(b.Mean, a.Mean) }) {
		t.Error("the slowest is not the first")
	}
	var few query.MeasuredDelays
	s.ask("/v1/delay", &few, append(all, "limit", "3")...)
	if len(few.Delays) != 3 || few.Cut == nil || few.Delays[2].Method != a.Delays[2].Method {
		t.Errorf("%+v", few)
	}
}

// checkDelay compares a delay with its records.
func checkDelay(t *testing.T, d *query.MeasuredDelay, of []*record.Delay) {
	t.Helper()
	slices.SortStableFunc(of, func(a, b *record.Delay) int {
		return cmp.Or(a.Start.Compare(b.Start.Time), cmp.Compare(a.Mean, b.Mean))
	})
	var values []int64
	var samples, unknown, beyond uint64
	total, jitter, jitters := 0.0, 0.0, 0.0
	least, clocks := int64(math.MaxInt64), [2]uint64{}
	for i, r := range of {
		samples, total, least = samples+r.Samples, total+float64(r.Mean)*float64(r.Samples), min(least, r.Min)
		for range r.Samples {
			values = append(values, r.P95)
		}
		if r.Jitter.Valid {
			jitter, jitters = jitter+float64(r.Jitter.Value*r.Samples), jitters+float64(r.Samples)
		} else if i > 0 && of[i-1].Start.Add(time.Duration(of[i-1].Length)).Equal(r.Start.Time) {
			jitter, jitters = jitter+math.Abs(float64(r.Mean-of[i-1].Mean)), jitters+1
		}
		if clocks[0] = max(clocks[0], r.FromClockError.Value); r.ToClockError.Valid {
			clocks[1] = max(clocks[1], r.ToClockError.Value)
		} else {
			unknown++
		}
		if r.Warning != "" {
			beyond++
		}
	}
	inSteps := uint64(0)
	for _, point := range d.Series {
		inSteps += point.Samples
	}
	p95 := exact(values, 0.95)
	off := math.Abs(float64(d.P95 - p95))
	if d.Records != uint64(len(of)) || d.Samples != samples || inSteps != samples || d.Min != least ||
		d.Mean != int64(total/float64(samples)) ||
		off > 0.022*math.Abs(float64(p95)) || d.MaxP95 != slices.Max(values) || d.Unknown != unknown || d.Beyond != beyond ||
		*d.FromClock != clocks[0] || *d.ToClock != clocks[1] || d.Jitter == nil || *d.Jitter != int64(jitter/jitters) {
		t.Errorf("%+v\nwant %d records, %d samples, least %d, mean %f, p95 %d, jitter %f of %f, clocks %v, %d unknown, %d beyond",
			d, len(of), samples, least, total/float64(samples), p95, jitter, jitters, clocks, unknown, beyond)
	}
	oneClock := d.Method == "two-way" || d.Method == "round-trip"
	if (len(d.Warnings) == 0) != (oneClock || d.Min >= 0 && unknown == 0 && float64(clocks[0]+clocks[1]) <= math.Abs(float64(d.Mean))) {
		t.Errorf("%s: %v", d.Method, d.Warnings)
	}
}
