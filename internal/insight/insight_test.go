// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

var start = time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)

// hop is what a node writes: when the packet came, how long it was held.
type hop struct {
	id, in, out int
	at, held    time.Duration // held below 0: not known
}

func trace(source, destination string, hops ...hop) *record.Trace {
	r := &record.Trace{Packet: record.Packet{Source: netip.MustParseAddr(source), Destination: netip.MustParseAddr(destination), Length: 100}}
	r.Overflow = record.NewField(false, true)
	for i, h := range hops {
		n := record.NodeData{
			HopLimit:  record.NewField(uint8(64-i), true),
			NodeID:    record.NewField(ioam.NodeID(h.id), true),
			IngressID: record.NewField(ioam.InterfaceID(h.in), h.in != 0), EgressID: record.NewField(ioam.InterfaceID(h.out), h.out != 0),
			Timestamp:    record.NewField(start.Add(h.at), true),
			TransitDelay: record.NewField(uint32(max(h.held, 0)), h.held >= 0),
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// way is a packet by node 1, a node in the middle, and node 3, with times in microseconds.
func way(middle int, held, queue time.Duration) *record.Trace {
	return trace("2001:db8:1::1", "2001:db8:2::1",
		hop{1, 0, 101, 0, -1},
		hop{middle, 201, 202, 10 * time.Microsecond, held},
		hop{3, 301, 0, 10*time.Microsecond + held + queue, -1})
}

func run(t *testing.T, s Settings) *Engine {
	t.Helper()
	e := New(s, start)
	e.Watch(start, true)
	return e
}

// Two ways of one pair of prefixes have their shares, and each hop its own times: held at the node, and
// from its egress to the arrival at the next. Quantiles are within 2.2% of the exact ones.
func TestPathsOfAPair(t *testing.T) {
	e := run(t, Settings{Prefixes: []NamedPrefix{{"customer", netip.MustParsePrefix("2001:db8:2::/48")},
		{"all", netip.MustParsePrefix("2001:db8::/32")}}})
	random := rand.New(rand.NewPCG(1, 2))
	var held, queued, whole []int64
	for i := range 4000 {
		h, q := time.Duration(random.Int64N(9000)+500), time.Duration(math.Exp(10+3*random.Float64()))
		middle := 2
		if i%4 == 0 {
			middle = 9
		} else {
			held, queued, whole = append(held, int64(h)), append(queued, int64(q)), append(whole, int64(10*time.Microsecond+h+q))
		}
		e.Add(start.Add(time.Duration(i)*time.Millisecond), way(middle, h, q))
	}
	r := e.Report(start, start.Add(time.Hour), start.Add(5*time.Second))
	if len(r.Pairs) != 1 || r.Pairs[0].Source != "all" || r.Pairs[0].Destination != "customer" || r.Pairs[0].Packets != 4000 ||
		r.Watched != int64(5*time.Second) || r.Records != 4000 {
		t.Fatalf("%+v", r)
	}
	paths := r.Pairs[0].Paths
	if len(paths) != 2 || paths[0].Share != 0.75 || paths[1].Share != 0.25 || paths[0].ID == paths[1].ID || paths[0].Incomplete != 0 {
		t.Fatalf("%+v", paths)
	}
	hops := paths[0].Hops
	if want := []Place{{NodeID: 1, EgressID: 101}, {NodeID: 2, IngressID: 201, EgressID: 202}, {NodeID: 3, IngressID: 301}}; len(hops) != 3 ||
		!slices.EqualFunc(hops, want, func(h HopReport, p Place) bool { return h.Place == p }) {
		t.Fatalf("%+v", hops)
	}
	near(t, "held", hops[1].Held, held)
	near(t, "to next", hops[1].ToNext, queued)
	near(t, "path", paths[0].Delay, whole)
	if *hops[0].ToNext.P50 < 9780 || *hops[0].ToNext.P50 > 10_220 || hops[0].Held != nil || hops[2].ToNext != nil || hops[2].Held != nil {
		t.Errorf("%+v", hops)
	}
}

func near(t *testing.T, what string, q *Quantiles, exact []int64) {
	t.Helper()
	slices.Sort(exact)
	if q == nil || q.Count != uint64(len(exact)) {
		t.Errorf("%s: %+v, want %d values", what, q, len(exact))
		return
	}
	for part, got := range map[float64]*int64{0.5: q.P50, 0.95: q.P95, 0.99: q.P99, 1: q.Max} {
		want := exact[int(math.Ceil(part*float64(len(exact))))-1]
		if got == nil || math.Abs(float64(*got-want)) > 0.022*float64(want) {
			t.Errorf("%s: quantile %v is %v, exactly %d", what, part, got, want)
		}
	}
}

// A report may give prefixes a name that they had none of when the records came, and adds up what is in it.
func TestRegroup(t *testing.T) {
	e := run(t, Settings{})
	for i := range 10 {
		r := way(2, 0, 0)
		r.Packet.Source = netip.MustParseAddr([]string{"2001:db8:1:1::1", "2001:db8:1:2::1"}[i%2])
		e.Add(start, r)
	}
	r := e.Report(start, start.Add(time.Hour), start.Add(time.Second), NamedPrefix{"wide", netip.MustParsePrefix("2001:db8:1::/48")},
		NamedPrefix{"host", netip.MustParsePrefix("2001:db8:2::1/128")})
	if len(r.Pairs) != 1 || r.Pairs[0].Source != "wide" || r.Pairs[0].Destination != "2001:db8:2::/64" || r.Pairs[0].Packets != 10 ||
		r.Pairs[0].Paths[0].Share != 1 || len(r.Pairs[0].Paths) != 1 {
		t.Errorf("%+v", r.Pairs)
	}
}

// A hop whose queue gets long is slow within the interval, its neighbours are not; the baseline does not
// follow until what is slow has been usual for ten minutes.
func TestSlow(t *testing.T) {
	e := run(t, Settings{})
	now := start
	send := func(seconds int, queue time.Duration) {
		for range seconds {
			for i := range 50 {
				e.Add(now, way(2, 8*time.Microsecond+time.Duration(i), queue+time.Duration(i)*time.Microsecond))
			}
			now = now.Add(time.Second)
			e.Advance(now)
		}
	}
	verdicts := func() (all [][]Verdict) {
		for _, h := range e.Report(now.Add(-time.Minute), now, now).Pairs[0].Paths[0].Hops {
			all = append(all, h.Verdicts)
		}
		return all
	}
	send(15, 50*time.Microsecond)
	if got := verdicts(); !cmp.Equal(got, [][]Verdict{{}, {}, {}}) {
		t.Errorf("before: %v", got)
	}
	send(5, 80*time.Millisecond)
	if got := verdicts(); !cmp.Equal(got, [][]Verdict{{}, {Slow}, {}}) {
		t.Errorf("after 5 s: %v", got)
	}
	if got := e.Report(now.Add(-5*time.Second), now, now).Pairs[0].Paths[0].Hops[1]; *got.Baseline.ToNext > int64(110*time.Microsecond) {
		t.Errorf("usual is %+v", got.Baseline)
	}
	for range 10 { // a queue that is slow lets few packets pass
		for i := range 4 {
			e.Add(now, way(2, 8*time.Microsecond+time.Duration(i), 900*time.Millisecond))
		}
		now = now.Add(time.Second)
		e.Advance(now)
	}
	if got := verdicts(); !cmp.Equal(got, [][]Verdict{{}, {Slow}, {}}) {
		t.Errorf("few packets: %v", got)
	}
	send(300, 80*time.Millisecond)
	if got := verdicts(); !cmp.Equal(got, [][]Verdict{{}, {Slow}, {}}) {
		t.Errorf("after five minutes: %v", got)
	}
	send(400, 80*time.Millisecond)
	if got := verdicts(); !cmp.Equal(got, [][]Verdict{{}, {}, {}}) {
		t.Errorf("after more than ten minutes: %v", got)
	}
}

// Negative values, and those below the error of the clocks, are never a delay.
func TestClocks(t *testing.T) {
	e := run(t, Settings{})
	for i := range 100 {
		e.Add(start, trace("2001:db8:1::1", "2001:db8:2::1",
			hop{1, 0, 101, 0, -1},
			hop{2, 201, 202, -time.Millisecond, 5 * time.Microsecond}, // its clock is behind
			hop{3, 301, 302, 2 * time.Millisecond, 0},
			hop{4, 301, 0, 2*time.Millisecond + time.Duration(i)*time.Microsecond, -1}))
	}
	hops := e.Report(start, start.Add(time.Hour), start.Add(time.Second)).Pairs[0].Paths[0].Hops
	if q := hops[0].ToNext; q.Negative != 100 || q.P50 != nil || q.Max != nil {
		t.Errorf("negative: %+v", q)
	}
	if q := hops[2].ToNext; q.P50 == nil || q.Negative != 0 {
		t.Errorf("an error that is not known hides %+v", q)
	}
	if r := e.Report(start, start.Add(time.Hour), start.Add(time.Second)); r.ClockError != nil {
		t.Errorf("the clocks' error is %d although nobody said so", *r.ClockError)
	}
	e.SetClockError(int64(70 * time.Microsecond))
	r := e.Report(start, start.Add(time.Hour), start.Add(time.Second))
	hops = r.Pairs[0].Paths[0].Hops
	if q := hops[2].ToNext; *r.ClockError != 70_000 || q.P50 != nil || q.P95 == nil || q.Max == nil || *q.Max != 99_000 {
		t.Errorf("below the clocks' error: %+v", q)
	}
	if hops[1].Held.P50 == nil {
		t.Error("the time at a node is by one clock")
	}
}

// What the nodes did not write is said: missing nodes make a trace incomplete, a node that does not say
// how long it held the packet has that in the time to the next.
func TestIncomplete(t *testing.T) {
	e := run(t, Settings{})
	full, gap, held := way(2, 0, 0), way(2, 0, 0), way(2, -1, 0)
	full.Overflow = record.NewField(true, true)
	gap.Nodes[2].HopLimit = record.NewField(uint8(50), true)
	e.Add(start, way(2, 0, 0), full, gap, held)
	copied := way(2, 0, 0)
	copied.Copy = true
	e.Add(start, copied)
	p := e.Report(start, start.Add(time.Hour), start.Add(time.Second)).Pairs[0].Paths[0]
	if p.Packets != 4 || p.Incomplete != 2 || !p.Hops[1].HeldIncluded || p.Hops[0].HeldIncluded {
		t.Errorf("%+v", p)
	}
}

// Losses are at the node after which packets are known to be lost, whether a collector joined postcards or
// measured flows counted; those of Sequence Numbers are the pair's.
func TestLosses(t *testing.T) {
	e := run(t, Settings{})
	joined := func(verdict record.PathVerdict, nodes int) *record.Path {
		all := way(2, 0, 0)
		r := &record.Path{Packet: all.Packet, Verdict: verdict, Complete: verdict == record.PathArrived}
		for _, n := range all.Nodes[:nodes] {
			r.Nodes = append(r.Nodes, record.PathNode{NodeData: n})
		}
		return r
	}
	for range 90 {
		e.Add(start, joined(record.PathArrived, 3))
	}
	for range 10 {
		e.Add(start, joined(record.PathLost, 2), joined(record.PathUnknown, 1))
	}
	segment := func(from, to int, scope record.Scope, sent, lost uint64) *record.Loss {
		r := &record.Loss{Sent: record.NewField(sent, true), Lost: record.NewField(lost, true)}
		r.Flow, r.Source, r.SIDs, r.Scope = "red\x1b[31m", netip.MustParseAddr("2001:db8:3::1"),
			[]netip.Addr{netip.MustParseAddr("2001:db8:4::1")}, scope
		r.From, r.To = loss.PointID(from), loss.PointID(to)
		r.FromNode, r.ToNode = "r"+string(rune('1'+from)), "r"+string(rune('1'+to))
		return r
	}
	unknown := segment(1, 2, record.OneSegment, 1000, 50)
	unknown.Lost.Valid = false
	e.Add(start, segment(0, 2, record.WholeWay, 1000, 81), segment(0, 1, record.OneSegment, 1000, 0),
		segment(1, 2, record.OneSegment, 1000, 81), unknown)
	e.Add(start, &record.Flow{Role: record.Decapsulating, Packets: 95, SequenceGaps: record.NewField(uint64(5), true),
		Packet: record.Packet{Source: netip.MustParseAddr("2001:db8:5::1"), Destination: netip.MustParseAddr("2001:db8:6::1")}})
	r := e.Report(start, start.Add(time.Hour), start.Add(time.Second))
	if len(r.Pairs) != 3 {
		t.Fatalf("%+v", r.Pairs)
	}
	flow, postcards, numbers := r.Pairs[0].Paths[0], r.Pairs[1].Paths[0], r.Pairs[2]
	if flow.Flow != `"red\x1b[31m"` || len(flow.Hops) != 3 || flow.Hops[1].Node != "r2" || flow.Hops[1].Loss != (Loss{1000, 81}) ||
		flow.Packets != 1000 ||
		!cmp.Equal(flow.Hops[1].Verdicts, []Verdict{Loses, Uncertain}) || flow.Hops[1].Uncertain != 1 || len(flow.Hops[0].Verdicts) != 0 ||
		flow.Loss != nil {
		t.Errorf("%+v", flow)
	}
	if postcards.Packets != 100 || postcards.Hops[1].Loss != (Loss{100, 10}) || postcards.Hops[2].Loss != (Loss{90, 0}) ||
		postcards.Hops[1].Packets != 100 {
		t.Errorf("%+v", postcards)
	}
	if numbers.Loss != (Loss{100, 5}) || len(numbers.Paths) != 0 {
		t.Errorf("%+v", numbers)
	}
}

// A flood of addresses and paths takes bounded memory, and does not displace what was there before.
func TestBounds(t *testing.T) {
	e := run(t, Settings{Octets: 1 << 20})
	random := rand.New(rand.NewPCG(1, 2))
	now := start
	forged := func() *record.Trace {
		var source [16]byte
		for i := range source {
			source[i] = byte(random.Uint32())
		}
		var hops []hop
		for range 1 + random.IntN(40) {
			hops = append(hops, hop{random.IntN(1 << 24), random.IntN(1 << 16), random.IntN(1 << 16),
				time.Duration(random.Int64() >> random.IntN(60)), time.Duration(random.Int64N(1<<31) - 1)})
		}
		r := trace("2001:db8:1::1", "2001:db8:2::1", hops...)
		if random.IntN(2) == 0 {
			r.Packet.Source = netip.AddrFrom16(source)
		}
		return r
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 30 {
		for range 50 {
			e.Add(now, way(2, 8*time.Microsecond, 50*time.Microsecond))
		}
		for range 500 {
			e.Add(now, forged())
		}
		now = now.Add(time.Second)
		e.Advance(now)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 24<<20 || e.Totals().Octets > 1<<20 {
		t.Errorf("%d octets of memory, %d of them kept", grown, e.Totals().Octets)
	}
	list, _ := e.Read(now.Add(-9*time.Second), now, now)
	v := list[0]
	hops := 0
	for _, p := range v.Pairs {
		if len(p.Paths) > mostPaths+1 {
			t.Errorf("%s > %s has %d paths", p.Source, p.Destination, len(p.Paths))
		}
		for _, path := range p.Paths {
			hops += len(path.Hops)
		}
	}
	if len(v.Pairs) > mostPairs+1 || len(v.Pairs) < mostPairs/2 || hops > mostHops {
		t.Errorf("%d pairs, %d hops", len(v.Pairs), hops)
	}
	i := slices.IndexFunc(v.Pairs, func(p *Pair) bool { return p.Source == "2001:db8:1::/64" })
	if i < 0 || v.Pairs[i].Paths[0].Packets != 500 || v.Pairs[i].Paths[len(v.Pairs[i].Paths)-1].ID != Other {
		t.Errorf("the pair that was there first: %+v", v.Pairs[max(i, 0)])
	}
	if last := v.Pairs[len(v.Pairs)-1]; last.Source != Other || last.Packets == 0 {
		t.Errorf("the rest: %+v", last)
	}
}

// More records than the rate are counted, not taken.
func TestRate(t *testing.T) {
	e := run(t, Settings{Rate: 100})
	for second := range 2 {
		for range 150 {
			e.Add(start.Add(time.Duration(second)*time.Second), way(2, 0, 0))
		}
	}
	if r := e.Report(start, start.Add(time.Hour), start.Add(2*time.Second)); r.Records != 200 || r.LeftOut != 100 ||
		r.Pairs[0].Packets != 200 || e.Totals().Records != 200 || e.Totals().LeftOut != 100 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkAdd(b *testing.B) {
	e := New(Settings{Rate: 1 << 30}, start)
	random := rand.New(rand.NewPCG(1, 2))
	var list []record.Record
	for i := range 4096 {
		r := way(2+i%4, time.Duration(random.Int64N(20_000)), time.Duration(math.Exp(9+8*random.Float64())))
		if source := r.Packet.Source.As16(); true {
			source[15], source[7] = byte(i), byte(i%16)
			r.Packet.Source = netip.AddrFrom16(source)
		}
		list = append(list, r)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e.Add(start, list[i%4096])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)*100_000/1e9*100, "%core@100k/s")
}
