// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// pair are two agents of which near compares a flow red with far, in blocks of 100 ms.
func pair(t *testing.T, more string) (near, far *harness) {
	t.Helper()
	port := agenttest.FreePort(t)
	const flow = "flows: [{name: red, direction: %s, source: 2001:db8::1, segments: [\"fc00:2::e\"]%s}]\n" +
		"measurement: {block: 100ms, guard: 20ms, clock-error: 1ms}\n"
	far = newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "in", "")+"stamp: {listen: \"[::1]:"+port+"\", allow: [\"::1/128\"]}\n")
	far.Start()
	near = newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", ", points: [\"[::1]:"+port+"\"]"+more))
	near.Start()
	return near, far
}

// history are the blocks of a flow's whole way of the last time, and since when the agent has
// them all; "" if for so long.
func history(t *testing.T, h *harness, last time.Duration, flow string) (list []*record.Loss, since string) {
	t.Helper()
	err := h.Client.LossHistory(
		context.Background(),
		last,
		api.RecordFilter{Flow: flow},
		func(s string) { since = s },
		func(line []byte) error {
			r, err := record.Parse(line)
			if l, ok := r.(*record.Loss); ok && l.Scope == record.WholeWay {
				list = append(list, l)
			}
			return err
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	return list, since
}

// The agent keeps the results of the last hour, with their warnings, also of a flow that is
// gone, and through a reload.
func TestLossHistory(t *testing.T) {
	near, far := pair(t, ", max-loss: 0%")
	const enough = 5
	e2e.Await(t, "some blocks", 10*time.Second, func() bool {
		list, _ := history(t, near, time.Minute, "red")
		return len(list) >= enough
	})
	far.Datapath.LostPackets.Store(1)
	e2e.Await(t, "a loss", 10*time.Second, func() bool {
		list, _ := history(t, near, time.Minute, "")
		return len(list) > 0 && list[len(list)-1].Warning == "flow_loss_high"
	})
	list, since := history(t, near, time.Minute, "red")
	for i, l := range list {
		if l.Flow != "red" || l.FromNode != "gamma" || l.ToNode != "::1" || l.Start.IsZero() ||
			i > 0 && l.Block.Value != list[i-1].Block.Value+1 {
			t.Errorf("result %d: %+v", i, l)
		}
	}
	latest, err := near.Client.Loss(t.Context(), api.RecordFilter{})
	if err != nil || len(latest) == 0 {
		t.Fatalf("the last results: %s, %v", latest, err)
	}
	if r, err := record.Parse(latest[0]); err != nil {
		t.Errorf("%s: %v", latest[0], err)
	} else if l, ok := r.(*record.Loss); !ok || l.Flow != "red" || l.FromNode != "gamma" {
		t.Errorf("the last result is %s", latest[0])
	}
	if last := list[len(list)-1]; last.Lost.Value != 1 || last.Sent.Value != agenttest.FlowPackets || last.Ratio.Value == 0 {
		t.Errorf("%+v", last)
	}
	if since == "" {
		t.Error("a minute of an agent that has just begun is said to be complete")
	}
	if short, since := history(t, near, 50*time.Millisecond, "red"); len(short) >= len(list) || since != "" {
		t.Errorf("%d of %d results in the last 50 ms, complete since %q", len(short), len(list), since)
	}
	selected(t, near)
	typo := func(when string) {
		t.Helper()
		const want = `no flow \"blue\" is measured here, and there are no results of one; choose one of: red`
		if status, body := near.Request("GET", "/v1/loss/history?flow=blue", ""); status != 404 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %s", when, status, body)
		}
	}
	typo("a flow that is not there")
	if _, err := near.Client.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := near.Client.RemoveFlow(context.Background(), "red"); err != nil {
		t.Fatal(err)
	}
	typo("and after the only one was removed")
	if after, _ := history(t, near, time.Minute, "red"); len(after) < len(list) || after[0].Block != list[0].Block {
		t.Errorf("%d of %d results are left", len(after), len(list))
	}
	for query, want := range map[string]string{
		"last=2h": `last: \"2h\": want a time up to 1h`, "last=-1s": "want a time", "last=x": "want a time",
		"from=1": "from: unknown; filter by", "where=lost": "where: expected bool", "kinds=x": "no kind of records",
		"flow=a&flow=b": "flow is given 2 times",
	} {
		if status, body := near.Request("GET", "/v1/loss/history?"+query, ""); status != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %s", query, status, body)
		}
	}
}

// Where more comes than was sent, the block is not measured: the warning, the records and the
// metrics say so, and the warning says since when, and ends.
func TestDuplicatesAreSaid(t *testing.T) {
	near, far := pair(t, ", max-loss: 0%, metrics: true")
	awaitMeasured(t, near)
	far.Datapath.LostPackets.Store(^uint64(0)) // one more
	e2e.Await(t, "the warning", 10*time.Second, func() bool {
		return strings.Contains(warned(t, near), "flow_duplicated: at least 1 packets of flow red came twice in the block from ")
	})
	e2e.Await(
		t,
		"several blocks",
		10*time.Second,
		func() bool { return strings.Contains(warned(t, near), "; so were 4 blocks since the one from ") },
	)
	if w := warned(t, near); !strings.Contains(
		w,
		"in which 3 were sent, so it is not known how many of these were lost; 1 more came than were sent between this node and node 1 (::1)",
	) {
		t.Error(w)
	}
	list, _ := history(t, near, time.Minute, "red")
	if l := list[len(list)-1]; l.Verdict != loss.Duplicated || l.Lost.Valid || l.Ratio.Valid || l.Duplicated.Value != 1 || !l.LostMin.Valid ||
		l.Warning != "flow_duplicated" {
		t.Errorf("%+v", l)
	}
	far.Datapath.LostPackets.Store(0)
	e2e.Await(t, "the warning's end", 10*time.Second, func() bool { return warned(t, near) == "" })
	b, err := near.Client.Metrics(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`waymark_flow_loss_blocks_total{flow="red",segment="whole",verdict="duplicated"} `,
		`waymark_flow_loss_packets_total{flow="red",kind="duplicated",segment="whole"} `,
		`waymark_loss_blocks_total{verdict="duplicated"} `, `waymark_loss_packets_total{kind="lost_min"} 0`, `waymark_loss_packets_total{kind="lost"} 0`,
	} {
		if _, rest, found := strings.Cut(string(b), "\n"+want); !found || want[len(want)-1] == ' ' && strings.HasPrefix(rest, "0\n") {
			t.Errorf("no %s", want)
		}
	}
}

// The blocks in which no agent ran have no data, and one record says so, however many they
// are.
func TestLongOutageIsSaid(t *testing.T) {
	near, _ := pair(t, "")
	awaitMeasured(t, near)
	near.Crash()
	last := slices.Max(near.Datapath.ReportedBlocks("red"))
	time.Sleep(time.Second) // ten blocks
	near.Start()
	var gap *record.Loss
	e2e.Await(t, "the record of the outage", 10*time.Second, func() bool {
		list, _ := history(t, near, time.Minute, "red")
		for i, l := range list {
			if l.Verdict == loss.NoData && l.Length > uint64(100*time.Millisecond) {
				gap = l
				if i != 0 {
					t.Errorf("it is number %d of the results", i)
				}
			}
		}
		return gap != nil && len(list) > 3
	})
	blocks := gap.Length / uint64(100*time.Millisecond)
	list, _ := history(t, near, time.Minute, "red")
	if gap.Block.Value != last+1 || blocks < 6 || list[1].Block.Value != last+1+blocks || gap.FromReasons != loss.Missing ||
		gap.ToReasons != loss.Missing ||
		gap.Sent.Valid ||
		gap.FromNode != "gamma" {
		t.Errorf("after block %d: %d blocks, then %d: %+v", last, blocks, list[1].Block.Value, gap)
	}
	// On a busy machine, further blocks may have no data.
	without := func() (n uint64) {
		list, _ := history(t, near, time.Minute, "red")
		for _, l := range list {
			if l.Verdict == loss.NoData {
				n += l.Length / uint64(100*time.Millisecond)
			}
		}
		return n
	}
	least := without()
	near.loss.mu.Lock()
	n := near.loss.verdicts[loss.NoData]
	near.loss.mu.Unlock()
	if most := without(); n < least || n > most || least < blocks {
		t.Errorf("%d blocks without data are counted, want %d to %d", n, least, most)
	}
}

// What looks like an outage of more than a month is a clock that was set; a flow that had no
// result has no gap.
func TestNoGap(t *testing.T) {
	m := &LossMeter{d: Dependencies{}, pastResults: newPastResults(), reported: map[string]int64{"red": 5, "blue": 5, "green": 9}}
	for flow, block := range map[string]int64{"red": 6, "blue": 5 + int64(longestGap/time.Second) + 2, "green": 3, "new": 70} {
		m.fillGap(&model.MeasuredFlow{Name: flow}, &loss.Result{Block: block, Length: time.Second})
	}
	if len(m.results) != 0 || m.reported["green"] != 9 || m.reported["new"] != 70 {
		t.Errorf("%+v, %v", m.results, m.reported)
	}
}

// Many results are spread over a time, a few are given at once, and none is missing at the end.
func TestPacer(t *testing.T) {
	var mu sync.Mutex
	var given []string
	p := newPacer(func(r flowResult) {
		mu.Lock()
		defer mu.Unlock()
		given = append(given, r.flow)
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(given)
	}
	results := func(n int, name string) (list []flowResult) {
		for i := range n {
			list = append(list, flowResult{fmt.Sprint(name, i), 1, []record.Record{&record.Lost{}, &record.Lost{}}})
		}
		return list
	}
	p.release(results(pacedRecords/2, "few"), time.Hour)
	if n := count(); n != pacedRecords/2 {
		t.Errorf("%d of a few results", n)
	}
	go p.run()
	p.release(results(10*pacedRecords, "many"), 400*time.Millisecond)
	p.release(results(1, "after"), 0) // not before the others
	e2e.Await(t, "all of them", 10*time.Second, func() bool { return count() == pacedRecords/2+10*pacedRecords+1 })
	if given[len(given)-1] != "after0" {
		t.Errorf("the last one is %s", given[len(given)-1])
	}
	p.release(results(10*pacedRecords, "long"), time.Hour)
	time.Sleep(20 * time.Millisecond)
	if n := count() - (pacedRecords/2 + 10*pacedRecords + 1); n >= 10*pacedRecords {
		t.Errorf("%d results of an hour at once", n)
	}
	p.end()
	if n := count(); n != pacedRecords/2+20*pacedRecords+1 {
		t.Errorf("%d results at the end", n)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(given)))) != len(given) {
		t.Error("some came twice")
	}
}

// Observers may want the loss and delay of one flow.
func TestObserveOneFlow(t *testing.T) {
	f, err := api.RecordFilter{Kinds: "loss,delay", Flow: "red"}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	of := func(flow string) record.Measurement { return record.Measurement{Flow: flow} }
	for r, want := range map[record.Record]bool{
		&record.Loss{Measurement: of("red")}: true, &record.Delay{Measurement: of("red")}: true, &record.Loss{Measurement: of("blue")}: false,
		&record.Block{Flow: "red"}: false, &record.Trace{}: false,
	} {
		if is, err := f.Match(r); is != want || err != nil {
			t.Errorf("%T: %v, %v", r, is, err)
		}
	}
	near, _ := pair(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kinds := map[string]bool{}
	_ = near.Client.Observe(ctx, api.RecordFilter{Kinds: "loss", Flow: "red"}, nil, func(line []byte) error {
		r, err := record.Parse(line)
		if kinds[r.Kind()] = true; len(kinds) > 0 {
			cancel()
		}
		return err
	})
	if !maps.Equal(kinds, map[string]bool{"loss": true}) {
		t.Errorf("%v", kinds)
	}
}

// Test packets that take the flow's way say how slow it is in a block; others do not, nor do
// those whose times are by clocks that are not known to be near each other.
func TestMeansOfTestPackets(t *testing.T) {
	m := NewDelayMeter(Dependencies{})
	timing := timingOf(model.Measurement{Block: time.Second, Guard: 20 * time.Millisecond}) // clocks may be 10 ms apart
	for block := range uint64(6) {
		for name, probes := range map[string]model.Probes{"red": model.ProbesInBand, "blue": model.ProbesOutOfBand} {
			var p loss.Period
			p.AddDelay(loss.OneWay, 1, time.Duration(block)*time.Millisecond, 3e6, 4e6)
			p.AddDelay(loss.RoundTrip, 1, time.Second, 0, 0)
			m.block = block
			m.noteMean(&model.MeasuredFlow{Name: name, Probes: probes}, &p, timing)
		}
		for name, clocks := range map[string][2]int64{"no clock here": {loss.UnknownClock, 0}, "no clock there": {0, loss.UnknownClock},
			"too far": {6e6, 5e6}} {
			var p loss.Period
			p.AddDelay(loss.OneWay, 1, 3*time.Second, 0, 0)
			p.AddDelay(loss.OneWay, 2, 3*time.Second, clocks[0], clocks[1])
			m.noteMean(&model.MeasuredFlow{Name: name, Probes: model.ProbesInBand}, &p, timing)
		}
	}
	if got := m.meanOfBlock("red", 4); got != (loss.Tested{Sample: loss.Sample{Delay: 4 * time.Millisecond, Packets: 1},
		Clocks: 7 * time.Millisecond}) {
		t.Errorf("%+v", got)
	}
	for flow, block := range map[string]int64{"red": 1, "blue": 4, "green": 4, "no clock here": 4, "no clock there": 4, "too far": 4} {
		if got := m.meanOfBlock(flow, block); got.Packets != 0 {
			t.Errorf("%s, block %d: %+v", flow, block, got)
		}
	}
}

// The error about a flow that is not there names some of those that are.
func TestFlowsInErrors(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	if status, body := h.Request("GET", "/v1/loss/history?flow=red", ""); status != 404 ||
		!strings.Contains(body, "add it with: waymark flow add") {
		t.Errorf("%d, %s", status, body)
	}
	past := make(map[uint32]*keptFlow)
	for i := range uint32(13) {
		past[i] = &keptFlow{flow: model.MeasuredFlow{Name: fmt.Sprintf("flow%02d", i)}}
	}
	m := h.loss
	if err := m.findFlow("red", past); err == nil ||
		!strings.HasSuffix(
			err.Error(),
			"; choose one of: flow00, flow01, flow02, flow03, flow04, flow05, flow06, flow07, flow08, flow09 and 3 more (waymark flow show)",
		) {
		t.Error(err)
	}
	if err := m.findFlow("flow12", past); err != nil {
		t.Error(err)
	}
}

// Filters select results of the last block and of the history, at the agent.
func selected(t *testing.T, h *harness) {
	t.Helper()
	for name, f := range map[string]api.RecordFilter{
		"losses": {Where: "lost > 0"}, "none": {Where: "lost > 1000"}, "a node": {Node: "gamma"}, "no such node": {Node: "delta"},
		"kind": {Kinds: "delay"}, "slow": {MinDelay: time.Hour},
	} {
		program, err := f.Compile()
		if err != nil {
			t.Fatal(err)
		}
		check := func(line []byte) error {
			r, err := record.Parse(line)
			if err == nil {
				if is, _ := program.Match(r); !is {
					t.Errorf("%s: %s", name, line)
				}
			}
			return err
		}
		n := 0
		if err := h.Client.LossHistory(t.Context(), time.Minute, f, func(string) {},
			func(line []byte) error { n++; return check(line) }); err != nil {
			t.Error(err)
		}
		if some := name == "losses" || name == "a node"; some != (n > 0) && name != "kind" {
			t.Errorf("%s: %d results", name, n)
		}
		latest, err := h.Client.Loss(t.Context(), f)
		for _, line := range latest {
			err = check(line)
		}
		if err != nil {
			t.Error(err)
		}
	}
}
