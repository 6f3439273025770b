// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/lossquery"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/problem"
	"github.com/waymark-net/waymark/internal/rfc6374"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/srv6"
	"github.com/waymark-net/waymark/stamp"
)

// Counters of flows with a session run on, until there is a gap.
func TestSessions(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	m := NewBlocks(h.d, nil, nil)
	m.closed = nil // nobody compares its blocks
	if f, ok := m.flowOf(9); !ok || len(f.Blocks) != 0 {
		t.Errorf("before the first block: %+v, %v", f, ok)
	}
	back := []netip.Addr{netip.MustParseAddr("fc00:2::e")}
	how := model.Measurement{Block: time.Second, Flows: []model.MeasuredFlow{{Name: "red", Session: 9, Return: back}, {Name: "blue"}}}
	set := func(how model.Measurement) {
		t.Helper()
		if err := h.Datapath.Apply(datapath.Config{Node: model.NodeConfig{Measurement: how}}); err != nil {
			t.Fatal(err)
		}
	}
	set(how)
	for _, tt := range []struct {
		block uint64
		sum   uint64
		reset bool
		known int // blocks
	}{{10, agenttest.FlowPackets, true, 1}, {11, 2 * agenttest.FlowPackets, false, 2}, {13, agenttest.FlowPackets, true, 2},
		{14, 2 * agenttest.FlowPackets, false, 2}} {
		m.read(tt.block, false, how, 0)
		f, ok := m.flowOf(9)
		if b := f.Blocks[0]; !ok || len(f.Blocks) != tt.known || b.Number != tt.block || b.RunningPackets != tt.sum || b.Reset != tt.reset ||
			b.Packets != agenttest.FlowPackets ||
			b.Doubtful ||
			f.Length != time.Second ||
			!slices.Equal(f.Return, back) {
			t.Errorf("%+v: %+v", tt, f)
		}
		received, transmitted, ok := m.running(netip.AddrPort{}, 9)
		if !ok || received != uint32(tt.sum) || transmitted != 0 {
			t.Errorf("Direct Measurement: %d, %d, %v", received, transmitted, ok)
		}
	}
	if n := m.missed.Load(); n != 4 { // nobody compares them
		t.Errorf("%d blocks were missed", n)
	}
	if _, ok := m.flowOf(0); ok {
		t.Error("flows without a session have the session 0")
	}
	if _, _, ok := m.running(netip.AddrPort{}, 8); ok {
		t.Error("another session is known")
	}
	how.Block = 2 * time.Second
	set(how)
	m.read(8, false, how, 0)
	if f, _ := m.flowOf(9); len(f.Blocks) != 1 || !f.Blocks[0].Reset || f.Length != 2*time.Second {
		t.Errorf("with blocks of another length: %+v", f)
	}
	for _, c := range []datapath.BlockCounts{{Complete: true, Late: 1}, {Complete: true, Early: 1}, {Complete: true, Unmarked: 1}, {}} {
		a := answers{block: 9}
		m.addSessions(&a, how, map[string]datapath.BlockCounts{"red": c})
		if !a.sessions[9].Doubtful {
			t.Errorf("%+v is not doubtful", c)
		}
	}
}

// In-band packets never leave with a source by which nodes would count them.
func TestPaths(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	address := netip.MustParseAddr
	segments := []netip.Addr{address("fc00:2::e"), address("fc00:3::d6")}
	kernels := address("2001:db8::99")
	for _, tt := range []struct {
		name         string
		source, from netip.Addr
		mode         srv6.Mode
		probes       model.Probes
		segments     int
		want         string
	}{
		{"the last SID is left out", address("2001:db8::1"), netip.Addr{}, srv6.ModeEncap, model.ProbesInBand, 2, "[2001:db8::99 [fc00:2::e] inline]"},
		{"one SID", address("2001:db8::1"), netip.Addr{}, srv6.ModeEncap, model.ProbesInBand, 1, "<nil>"},
		{"encapsulated", address("2001:db8::1"), netip.Addr{}, srv6.ModeReduced, model.ProbesInBandEncap, 2, "[2001:db8::99 [fc00:2::e fc00:3::d6] encap.red]"},
		{"encapsulated, one SID", address("2001:db8::1"), netip.Addr{}, srv6.ModeEncap, model.ProbesInBandEncap, 1, "[2001:db8::99 [fc00:2::e] encap]"},
		{"inline", address("2001:db8::1"), netip.Addr{}, srv6.ModeInline, model.ProbesInBand, 2, "[2001:db8::99 [fc00:2::e fc00:3::d6] inline]"},
		{"with the flow's source", kernels, netip.Addr{}, srv6.ModeEncap, model.ProbesInBand, 2, "[2001:db8::99 [fc00:2::e] inline]"},
		{"encapsulated, with the flow's source", kernels, netip.Addr{}, srv6.ModeEncap, model.ProbesInBandEncap, 2, "they would leave with 2001:db8::99"},
		{"inline, with the flow's source", kernels, netip.Addr{}, srv6.ModeInline, model.ProbesInBand, 2, "set measurement.probe-source"},
		{"with another source", kernels, address("2001:db8::5"), srv6.ModeInline, model.ProbesInBand, 1, "[2001:db8::5 [fc00:2::e] inline]"},
	} {
		f := model.MeasuredFlow{
			Name:   "red",
			Source: tt.source,
			Probes: tt.probes,
			Path:   srv6.Path{Segments: segments[:tt.segments], Mode: tt.mode},
			Points: make([]netip.AddrPort, 1),
		}
		p := newPaths(h.d.System, model.Measurement{ProbeFrom: tt.from}, []model.MeasuredFlow{f})
		path, err := p.to(&f, 0)
		got := fmt.Sprint(path)
		if path != nil {
			got = fmt.Sprint([]any{path.Source, path.Segments, path.Mode})
		}
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Questions to points on the way travel through the segments before them, with the flow's
// label, and never as the last point's where that is encapsulated.
func TestPathsToPoints(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	label := uint32(0xabcde)
	var segments []netip.Addr
	for _, sid := range []string{"fc00:1::e", "fc00:2::e", "fc00:3::d6"} {
		segments = append(segments, netip.MustParseAddr(sid))
	}
	for _, tt := range []struct {
		name   string
		mode   srv6.Mode
		probes model.Probes
		points int
		after  []int
		label  *uint32
		want   string
	}{
		{"each endpoint", srv6.ModeEncap, model.ProbesInBand, 3, nil, nil, "routed, 1 inline 0x0, 2 inline 0x0"},
		{"encapsulated", srv6.ModeReduced, model.ProbesInBandEncap, 3, nil, &label, "routed, 1 inline 0xabcde, 3 encap.red 0xabcde"},
		{"inline", srv6.ModeInline, model.ProbesInBand, 4, nil, &label, "routed, 1 inline 0xabcde, 2 inline 0xabcde, 3 inline 0xabcde"},
		{"some endpoints", srv6.ModeEncap, model.ProbesInBand, 2, nil, nil, "routed, 2 inline 0x0"},
		{"more points", srv6.ModeInline, model.ProbesInBand, 3, nil, nil, "routed, routed, 3 inline 0x0"},
		{"as configured", srv6.ModeEncap, model.ProbesInBand, 4, []int{0, 1, 2}, nil, "routed, 1 inline 0x0, 2 inline 0x0, 2 inline 0x0"},
	} {
		f := model.MeasuredFlow{
			Name:      "red",
			Source:    netip.MustParseAddr("2001:db8::1"),
			Probes:    tt.probes,
			Path:      srv6.Path{Segments: segments, Mode: tt.mode},
			Points:    make([]netip.AddrPort, tt.points),
			After:     tt.after,
			FlowLabel: tt.label,
		}
		p := newPaths(h.d.System, model.Measurement{}, []model.MeasuredFlow{f})
		var got []string
		for point := range f.Points {
			way := "routed"
			if path, err := p.to(&f, point); err != nil {
				t.Fatal(err)
			} else if path != nil {
				if !slices.Equal(path.Segments, segments[:len(path.Segments)]) {
					t.Errorf("%s: %v", tt.name, path.Segments)
				}
				way = fmt.Sprintf("%d %v %#x", len(path.Segments), path.Mode, path.Label)
			}
			got = append(got, way)
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	for point := -1; point < 2; point++ {
		if n, ok := (model.MeasuredFlow{}).SegmentsTo(point); ok || n != 0 {
			t.Errorf("without a path, point %d: %d, %v", point, n, ok)
		}
	}
}

// Causes are warned of once for all flows that have them, until they are gone.
func TestComplaints(t *testing.T) {
	var c complaints
	log := slog.New(slog.DiscardHandler)
	for _, flow := range []string{"b", "a", "c"} {
		c.recordProblem(log, flow, problem.New("no source", "set one"))
	}
	c.recordProblem(log, "c", nil)
	c.recordProblem(log, "d", errors.New("no capability"))
	ws := c.warnings()
	if len(ws) != 2 || ws[0].Code != health.ProbesNotInBand ||
		!strings.Contains(ws[0].Text, `"d" are not sent through its segments: no capability`) ||
		!strings.Contains(ws[1].Text, `2 flows, such as "a", are not sent through their segments: no source`) ||
		ws[1].Cure != "set one" {
		t.Errorf("%+v", ws)
	}
	if c.clear(); len(c.warnings()) != 0 {
		t.Errorf("%+v", c.warnings())
	}
}

// A flow that cannot be probed in-band is warned of, and its loss is measured nevertheless.
func TestNotInBand(t *testing.T) {
	port := agenttest.FreePort(t)
	flow := "flows: [{name: red, direction: %s, source: 2001:db8::99, segments: [\"fc00:2::e\"]%s}]\n" +
		"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms}\n"
	far := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "in", "")+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n")
	far.Start()
	near := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", ", probes: in-band-encap, points: [\"[::1]:"+port+"\"]"))
	near.Start() // the kernel chooses 2001:db8::99
	awaitMeasured(t, near)
	if !near.Warned(health.ProbesNotInBand) {
		t.Error("no warning")
	}
}

// judge is a meter of one flow that has sent 100 packets, and the verdict on a block.
func judge(t *testing.T) (m *LossMeter, verdict func(block uint64, add func(*closedBlock)) loss.Result) {
	t.Helper()
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	m = NewLossMeter(h.d, h.blocks, nil)
	clock := time.Millisecond
	f := model.MeasuredFlow{Name: "red", Session: 9, Points: []netip.AddrPort{netip.MustParseAddrPort("[::1]:1")}, AssumeSelection: true}
	how := model.Measurement{
		Block:      time.Second,
		Guard:      100 * time.Millisecond,
		ClockError: &clock,
		Flows:      []model.MeasuredFlow{f},
	}.WithDefaults()
	m.ids = flowIDs(how.Flows)
	return m, func(block uint64, add func(*closedBlock)) (last loss.Result) {
		t.Helper()
		var err error
		m.assembler, err = loss.NewAssembler(loss.Limits{Flows: 1, Blocks: 4, Wait: how.Block}, func(r *loss.Result) { last = *r })
		if err == nil {
			err = m.assembler.AddFlow(planned(m.ids["red"], &f, how), int64(block)*int64(how.Block))
		}
		if err != nil {
			t.Fatal(err)
		}
		b := &closedBlock{
			number:      block,
			measurement: how,
			counts:      map[string]datapath.BlockCounts{"red": {Flow: "red", Block: block, Packets: 100, Complete: true}},
		}
		m.add(b, &how.Flows[0], 0, m.ownCounters(*b, "red"))
		add(b)
		m.assembler.Flush()
		return last
	}
}

// Running counters of RFC 6374 are compared with those of the block before; without them the
// block is uncertain, and never without loss.
func TestLossMessagesAreJudged(t *testing.T) {
	m, verdict := judge(t)
	l := &lossMessages{meter: m, before: make(map[flowPoint]runningCount)}
	for _, tt := range []struct {
		name    string
		block   uint64
		counter uint64
		code    rfc6374.ControlCode
		short   bool
		final   bool
		want    loss.Verdict
		lost    uint64
	}{
		{"the first", 10, 1000, rfc6374.Success, false, true, loss.Uncertain, 0},
		{"no loss", 11, 1100, rfc6374.Success, false, true, loss.Measured, 0},
		{"a loss", 12, 1190, rfc6374.Success, false, true, loss.Measured, 10},
		{"a block is missing", 14, 1390, rfc6374.Success, false, true, loss.Uncertain, 0},
		{"a reset", 15, 0, rfc6374.DataReset, false, true, loss.Uncertain, 0},
		{"after the reset", 16, 50, rfc6374.Success, false, true, loss.Uncertain, 0},
		{"too early", 17, 0, rfc6374.TemporarilyUnavailable, false, false, loss.Uncertain, 0},
		{"32 bits", 17, 149, rfc6374.Success, true, true, loss.Measured, 1},
		{"32 bits that wrapped", 18, 0x1_0000_0000 + 149 + 100, rfc6374.Success, true, true, loss.Measured, 0},
		{"unknown", 19, 0, rfc6374.ConnectionMismatch, false, true, loss.Uncertain, 0},
	} {
		r := verdict(tt.block, func(b *closedBlock) {
			message := rfc6374.Loss{
				Header:   rfc6374.Header{Response: true, Control: tt.code},
				Extended: !tt.short,
				Counters: [4]uint64{3: tt.counter},
			}
			q := &asked{
				block:    b,
				Question: query.Question{Answer: message.Append(nil)},
				flows:    []*model.MeasuredFlow{&b.measurement.Flows[0]},
				points:   []int{1},
			}
			if final := l.acceptAnswer(q); final != tt.final {
				t.Errorf("%s: final %v", tt.name, final)
			}
		})
		if r.Whole.Verdict != tt.want || r.Whole.Packets.Lost != (loss.Number{Value: tt.lost, Known: tt.want == loss.Measured}) {
			t.Errorf("%s: %v, lost %+v, reasons %v", tt.name, r.Whole.Verdict, r.Whole.Packets.Lost, r.Whole.Reasons())
		}
	}
}

// A loss query without success is asked again, and one with success is the block's count.
func TestLossQueriesAreJudged(t *testing.T) {
	m, verdict := judge(t)
	l := &lossQueries{meter: m}
	for _, tt := range []struct {
		control lossquery.ControlCode
		want    loss.Verdict
		lost    uint64
	}{{lossquery.Success, loss.Measured, 7}, {lossquery.Failure, loss.Uncertain, 0}} {
		r := verdict(10, func(b *closedBlock) {
			answer := lossquery.Response{
				Received: 93,
				Control:  tt.control,
				Sender:   lossquery.Query{Transmitted: lossquery.Count{Extended: true}},
			}.Append(nil)
			q := &asked{block: b, Question: query.Question{Answer: answer}, flows: []*model.MeasuredFlow{&b.measurement.Flows[0]}, points: []int{1}}
			if final := l.acceptAnswer(q); final != (tt.control == lossquery.Success) {
				t.Errorf("%v: final %v", tt.control, final)
			}
		})
		if r.Whole.Verdict != tt.want || r.Whole.Packets.Lost.Value != tt.lost {
			t.Errorf("%v: %+v", tt.control, r.Whole)
		}
	}
}

// Counters of another implementation, which knows no blocks, are a hint: the block stays
// uncertain.
func TestDirectMeasurementIsUncertain(t *testing.T) {
	m, verdict := judge(t)
	s := &stampExchange{meter: m, others: make(map[flowPoint]runningCount)}
	answer := func(count uint32, flags stamp.Flags) []byte {
		b, err := stamp.AppendTLV(nil, flags, stamp.TypeDirectMeasurement, stamp.DirectMeasurement{ReflectorReceived: count}.Append(nil))
		if err == nil {
			b, err = stamp.AppendTLV(b, stamp.FlagUnrecognized, blocks.Type, make([]byte, 28))
		}
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, tt := range []struct {
		block    uint64
		count    uint32
		flags    stamp.Flags
		received loss.Number
		reason   loss.Reasons
	}{
		{10, 1<<32 - 10, 0, loss.Number{}, loss.Missing},
		{11, 89, 0, loss.Number{Value: 99, Known: true}, loss.GuardViolated},
		{12, 189, stamp.FlagUnrecognized, loss.Number{}, loss.Missing},
	} {
		r := verdict(tt.block, func(b *closedBlock) {
			q := &asked{
				block:    b,
				Question: query.Question{Session: 9, Answer: answer(tt.count, tt.flags)},
				flows:    []*model.MeasuredFlow{&b.measurement.Flows[0]},
				points:   []int{1},
			}
			if !s.acceptAnswer(q) {
				t.Error("it is asked again")
			}
		})
		if r.Whole.Verdict != loss.Uncertain || r.Whole.Packets.Received != tt.received || r.Whole.To.Reasons&tt.reason == 0 ||
			r.Whole.Packets.Lost.Known {
			t.Errorf("block %d: %+v", tt.block, r.Whole)
		}
	}
}

// A question about a flow with a session has the flow's counter in TLV 5, truncated, and a
// packet of its own; others share one.
func TestQuestionsOfSessions(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	m := NewLossMeter(h.d, h.blocks, nil)
	point := netip.MustParseAddrPort("[2001:db8::7]:862")
	var flows []model.MeasuredFlow
	for i, session := range []uint16{0, 9, 0} {
		flows = append(
			flows,
			model.MeasuredFlow{
				Name:    fmt.Sprint(i),
				Session: session,
				Points:  []netip.AddrPort{point},
				Path:    srv6.Path{Segments: []netip.Addr{point.Addr()}},
			},
		)
	}
	flows[1].Probes, flows[1].Return = model.ProbesInBandEncap, flows[1].Path.Segments
	flows[1].Points, flows[1].After = []netip.AddrPort{point, point}, []int{1}
	flows[1].Path.Segments = []netip.Addr{point.Addr(), point.Addr()}
	how := model.Measurement{Block: time.Second, Flows: flows}
	m.paths = newPaths(m.d.System, how, flows)
	list := (&stampExchange{meter: m}).questions(&closedBlock{number: 4, measurement: how, sums: map[string]uint64{"1": 1<<32 + 8}})
	var got []string
	for _, q := range list {
		line := fmt.Sprint(len(q.flows), " flows, session ", q.Session, ", in-band ", q.Path != nil)
		for one, err := range stamp.TLVs(q.Value) {
			line += fmt.Sprintf(", %v %v", one.Type(), err)
			if m, bad := stamp.DecodeDirectMeasurement(one.Value()); bad == nil && one.Type() == stamp.TypeDirectMeasurement {
				line += fmt.Sprint(" ", m)
			}
		}
		got = append(got, line)
	}
	want := []string{
		"2 flows, session 0, in-band false, type-252 <nil>, type-253 <nil>",
		"1 flows, session 9, in-band true, direct-measurement <nil> {8 0 0}, type-252 <nil>, type-253 <nil>",
		"1 flows, session 9, in-band true, direct-measurement <nil> {8 0 0}, type-252 <nil>, type-253 <nil>, return-path <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
