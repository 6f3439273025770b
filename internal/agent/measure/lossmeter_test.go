// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/e2e"
)

// questionOf is a TLV that asks for a block of flows.
func questionOf(t *testing.T, block uint64, length time.Duration, flows ...string) stamp.TLV {
	t.Helper()
	m := blocks.Message{Length: length, Block: block}
	for _, f := range flows {
		m.Entries = append(m.Entries, blocks.Entry{Flow: blocks.KeyOf(f), Sent: 7})
	}
	b, err := stamp.AppendTLV(nil, stamp.FlagUnrecognized, blocks.Type, m.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	for tlv := range stamp.TLVs(b) {
		return tlv
	}
	t.Fatal("no TLV")
	return stamp.TLV{}
}

// A node answers for its last two blocks, and says why it does not for others.
func TestAnswersAboutBlocks(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	m := NewBlocks(h.d, nil, nil)
	how := model.Measurement{Block: time.Second, Flows: []model.MeasuredFlow{{Name: "red"}}}
	state := func(block uint64, length time.Duration, flow string) blocks.Entry {
		t.Helper()
		q := questionOf(t, block, length, flow)
		if !m.answer(q) {
			t.Fatal("the question is not understood")
		}
		got, err := blocks.Decode(q.Value())
		if err != nil || len(got.Entries) != 1 || got.Entries[0].Sent != 7 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Entries[0]
	}
	if e := state(5, time.Second, "red"); e.State != blocks.NotYet {
		t.Errorf("before the first block: %+v", e)
	}
	if err := h.Datapath.Apply(datapath.Config{Node: model.NodeConfig{Measurement: how}}); err != nil {
		t.Fatal(err)
	}
	for block := range uint64(3) {
		m.read(10+block, false, how, 0)
	}
	for _, tt := range []struct {
		block  uint64
		length time.Duration
		flow   string
		want   blocks.State
	}{
		{12, time.Second, "red", blocks.Answered}, {11, time.Second, "red", blocks.Answered}, {10, time.Second, "red", blocks.Gone},
		{13, time.Second, "red", blocks.NotYet}, {12, time.Second, "blue", blocks.UnknownFlow}, {12, 2 * time.Second, "red", blocks.OtherLength},
	} {
		if e := state(tt.block, tt.length, tt.flow); e.State != tt.want ||
			(e.Counters.Packets == agenttest.FlowPackets) != (tt.want == blocks.Answered) {
			t.Errorf("block %d of %v, %s: %+v, want %v", tt.block, tt.length, tt.flow, e, tt.want)
		}
	}
	if want := [blocks.NumStates]uint64{blocks.Answered: 2, blocks.NotYet: 2, blocks.Gone: 1, blocks.UnknownFlow: 1,
		blocks.OtherLength: 1}; m.questions != want {
		t.Errorf("counted %v, want %v", m.questions, want)
	}
	short := questionOf(t, 12, time.Second, "red")
	copy(short.Value()[4:], "none")
	if m.answer(short) || m.malformed != 1 {
		t.Errorf("a malformed question is answered, or counted %d times", m.malformed)
	}
	other := questionOf(t, 1, time.Second, "red")
	other.SetType(253)
	if m.answer(other) {
		t.Error("another private TLV is answered")
	}
	if c := countersOf(datapath.BlockCounts{Late: math.MaxUint64}, false); c.Late != math.MaxUint32 {
		t.Errorf("%+v", c)
	}
}

// Two agents in one process: the one tells the other what it counted, by each protocol.
func TestLossBetweenAgents(t *testing.T) {
	for _, tt := range []struct{ exchange, responder, more string }{
		{"stamp", "", ""},
		{"stamp", "", ", session: 7"},
		{"twamp-light", "twamp-light", ", session: "},
		{"rfc6374", "rfc6374-loss", ", session: 7"},
	} {
		t.Run(tt.exchange+tt.more, func(t *testing.T) {
			port, reflector, more := agenttest.FreePort(t), agenttest.FreePort(t), tt.more
			if tt.exchange == "twamp-light" {
				more += agenttest.FreePort(t) // from which it asks
			}
			flow := "flows: [{name: red, direction: %s, source: 2001:db8::1, segments: [\"fc00:2::e\"]%s}]\n" +
				"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms, exchange: " + tt.exchange + "%s}\n"
			answers, selections := "stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n", ""
			if tt.responder != "" {
				selections = ", selection-port: " + reflector
				answers = "stamp: {listen: \"[::1]:" + reflector + "\", allow: [\"::1/128\"]}\nresponders: [{protocol: " + tt.responder +
					", listen: \"[::1]:" + port + "\", allow: [\"::1/128\"]}]\n"
			}
			far := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "in", more, "")+answers)
			far.Start()
			near := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", more+", points: [\"[::1]:"+port+"\"]", selections))
			near.System.SetSource(netip.IPv6Loopback(), nil)
			near.Start()
			awaitMeasured(t, near)
			checkAsked(t, near)
		})
	}
}

// The agent that follows another one reports no block again that the other has reported, also
// where the other has reported more than it finds closed.
func TestLossIsReportedOnce(t *testing.T) {
	port := agenttest.FreePort(t)
	flow := "flows: [{name: red, direction: %s, source: 2001:db8::1, segments: [\"fc00:2::e\"]%s}]\n" +
		"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms}\n"
	far := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "in", "")+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n")
	far.Start()
	near := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", ", points: [\"[::1]:"+port+"\"]"))
	for range 3 {
		near.Datapath.BlockReported("red", uint64(time.Now().UnixNano())/2e8)
		near.Start()
		awaitMeasured(t, near)
		near.Crash()
	}
	list := near.Datapath.ReportedBlocks("red")
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			t.Errorf("reported %v", list)
			break
		}
	}
}

// A flow has metrics with its name if it asks for them, and only while it is there.
func TestMetricsOfFlows(t *testing.T) {
	port := agenttest.FreePort(t)
	flow := `{name: %s, direction: %s, source: 2001:db8::%d, segments: ["fc00:2::e"]%s}`
	far := newHarness(t, agenttest.BaseConfig+"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms}\nflows: ["+
		fmt.Sprintf(
			flow,
			"red",
			"in",
			1,
			", metrics: true",
		)+", "+fmt.Sprintf(flow, "blue", "in", 2, "")+"]\nstamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n")
	far.Start()
	head := agenttest.BaseConfig + "measurement: {block: 200ms, guard: 40ms, clock-error: 1ms, mean-delay: true}\nflows: ["
	points := `, points: ["[::1]:` + port + `"]`
	near := newHarness(
		t,
		head+fmt.Sprintf(flow, "red", "out", 1, ", metrics: true"+points)+", "+fmt.Sprintf(flow, "blue", "out", 2, points)+"]\n",
	)
	near.Start()
	awaitMeasured(t, near)
	text := func(h *harness) string {
		b, err := h.Client.Metrics(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	of := func(h *harness, series string) (n float64) {
		_, rest, found := strings.Cut(text(h), "\n"+series+" ")
		if _, err := fmt.Sscan(rest, &n); !found || err != nil {
			t.Errorf("no %s", series)
		}
		return n
	}
	if sent, lost, blocks := of(near, `waymark_flow_loss_packets_total{flow="red",kind="sent",segment="whole"}`),
		of(near, `waymark_flow_loss_packets_total{flow="red",kind="lost",segment="whole"}`),
		of(near, `waymark_flow_loss_blocks_total{flow="red",segment="whole",verdict="measured"}`); sent == 0 ||
		lost != 0 ||
		sent > agenttest.FlowPackets*(blocks+1) {
		t.Errorf("%v sent, %v lost in %v blocks", sent, lost, blocks)
	}
	for h, direction := range map[*harness]string{near: "out", far: "in"} {
		if n := of(h, `waymark_flow_packets_total{direction="`+direction+`",flow="red"}`); n < agenttest.FlowPackets ||
			int(n)%agenttest.FlowPackets != 0 {
			t.Errorf("%s: %v packets", direction, n)
		}
		if strings.Contains(text(h), `flow="blue"`) {
			t.Errorf("%s: a flow has metrics that did not ask for them", direction)
		}
	}
	// With a node in between, each part of the way has series of its own.
	between := agenttest.FreePort(t)
	transit := newHarness(t, agenttest.BaseConfig+"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms}\nflows: ["+
		fmt.Sprintf(flow, "red", "transit", 1, "")+"]\nstamp: {listen: \"[::1]:"+between+"\", allow: [\"::1/128\"]}\n")
	transit.Start()
	far.Datapath.LostPackets.Store(1)
	through := `, metrics: true, points: ["mid=[::1]:` + between + `", "end=[::1]:` + port + `"]`
	near.Write(head + fmt.Sprintf(flow, "red", "out", 1, through) + "]\n")
	if _, err := near.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	lost := func(segment string) float64 {
		return of(near, `waymark_flow_loss_packets_total{flow="red",kind="lost",segment="`+segment+`"}`)
	}
	e2e.Await(t, "a loss after the node in between", 10*time.Second, func() bool {
		return strings.Contains(text(near), `segment="mid>end"`) && lost("mid>end") > 0
	})
	if n := lost("gamma>mid"); n != 0 || lost("whole") == 0 {
		t.Errorf("%v lost before the node in between, %v on the whole way", n, lost("whole"))
	}
	near.Write(head + fmt.Sprintf(flow, "red", "out", 1, points) + "]\n")
	if _, err := near.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text(near), `flow="red"`) {
		t.Error("a flow keeps its metrics")
	}
}

// awaitMeasured waits for a block in which a harness's flow has lost nothing.
func awaitMeasured(t *testing.T, h *harness) {
	t.Helper()
	e2e.Await(t, "a measured block", 10*time.Second, func() bool {
		lines, err := h.Client.Loss(context.Background(), api.RecordFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			r, err := record.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			if l, ok := r.(*record.Loss); ok && l.Verdict == loss.Measured && l.Flow == "red" && l.Sent.Value == agenttest.FlowPackets &&
				l.Lost.Valid &&
				l.Lost.Value == 0 {
				if l.FromNode != "gamma" || l.ToNode != "::1" {
					t.Errorf("from %q to %q", l.FromNode, l.ToNode)
				}
				return true
			}
		}
		return false
	})
	meter := h.loss
	meter.mu.Lock()
	defer meter.mu.Unlock()
	if n := meter.packets; n.Sent == 0 || n.Sent != n.Received {
		t.Errorf("%+v", n)
	}
}

// Test packets have the class of a flow that names one, without a mark.
func TestProbeClass(t *testing.T) {
	class := uint8(0xbb)
	option := model.OptionMarking(false)
	for _, tt := range []struct {
		class   *uint8
		marking model.Marking
		want    uint8
	}{
		{nil, model.DefaultMarking(), 0},
		{&class, model.DefaultMarking(), 0xb0},
		{&class, model.Marking{Mask: 0x0c, None: 0x08, Colours: [2]uint8{0x04, 0x0c}}, 0xb8},
		{&class, model.Marking{Mask: 0x03, Colours: [2]uint8{0x01, 0x02}, ECN: true}, 0xb8},
		{&class, model.Marking{Carrier: model.CarrierArgument, Octet: 15, Mask: 0xf0}, 0xb8},
		{&class, option, 0xb8},
	} {
		if got := probeClass(&model.MeasuredFlow{TrafficClass: tt.class}, tt.marking); got != tt.want {
			t.Errorf("%+v: %#x, want %#x", tt.marking, got, tt.want)
		}
	}
}

// Where a loss query's port is taken, that flow alone is not measured: the warning names the
// port, and what to do. Once the port is free, the flow is measured.
func TestTakenQueryPort(t *testing.T) {
	taken, err := net.ListenPacket("udp6", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port, own, busy := agenttest.FreePort(t), agenttest.FreePort(t), fmt.Sprint(taken.LocalAddr().(*net.UDPAddr).Port)
	flow := "flows: [{name: blue, direction: %[1]s, source: 2001:db8::2, segments: [\"fc00:2::e\"], session: " + busy + "%[2]s}, " +
		"{name: red, direction: %[1]s, source: 2001:db8::1, segments: [\"fc00:2::e\"], session: " + own + "%[2]s}]\n" +
		"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms, exchange: twamp-light}\n"
	far := newHarness(
		t,
		agenttest.BaseConfig+fmt.Sprintf(
			flow,
			"in",
			"",
		)+"responders: [{protocol: twamp-light, listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}]\n",
	)
	far.Start()
	near := newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", ", points: [\"[::1]:"+port+"\"], selection: assumed"))
	near.Start()
	awaitMeasured(t, near) // red
	e2e.Await(t, "the warning", 10*time.Second, func() bool {
		w := warned(t, near)
		return strings.Contains(w, "flow_unmeasured: the loss of flow blue") && strings.Contains(w, "queries come from port "+busy)
	})
	if !strings.Contains(near.Log.String(), "another program uses port "+busy+": stop it, or choose another port") {
		t.Errorf("the log has no cure: %s", near.Log)
	}
	if w := warned(t, near); strings.Contains(w, "flow red") {
		t.Error(w)
	}
	taken.Close()
	e2e.Await(t, "the warning's end", 10*time.Second, func() bool { return warned(t, near) == "" })
}

// A change of one flow leaves the last results of the others.
func TestLastResultsKept(t *testing.T) {
	flow := func(name, source string) model.MeasuredFlow {
		return model.MeasuredFlow{Name: name, Source: netip.MustParseAddr(source)}
	}
	before := model.Measurement{
		Block: time.Second,
		Flows: []model.MeasuredFlow{flow("red", "fd00::1"), flow("blue", "fd00::2"), flow("gone", "fd00::3")},
	}
	last := map[string][]record.Record{"red": {&record.Warning{}}, "blue": {&record.Warning{}}, "gone": {&record.Warning{}}}
	how := model.Measurement{
		Block: time.Second,
		Flows: []model.MeasuredFlow{flow("new", "fd00::4"), flow("red", "fd00::1"), flow("blue", "fd00::5")},
	}
	if kept := keepLast(last, before, how); len(kept) != 1 || kept["red"] == nil {
		t.Errorf("kept %v", kept)
	}
	how.Block *= 2
	if kept := keepLast(last, before, how); len(kept) != 0 {
		t.Errorf("kept %v of blocks of another length", kept)
	}
}
