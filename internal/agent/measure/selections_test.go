// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/stamp/blocks"
	"github.com/waymark-net/waymark/internal/stamp/query"
	"github.com/waymark-net/waymark/stamp"
	"github.com/waymark-net/waymark/test/e2e"
)

// A node says what it selected in each of the last two blocks, and why it does not.
func TestSelectionsAreAnswered(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	m := NewBlocks(h.d, nil, nil)
	how := model.Measurement{Block: time.Second, Flows: []model.MeasuredFlow{{Name: "red"}}}
	ask := func(block uint64, length time.Duration, flow string) blocks.Selections {
		t.Helper()
		q := blocks.Selections{Length: length, Block: block, Entries: []blocks.Selected{{Flow: blocks.KeyOf(flow)}}}
		tlvs, err := stamp.AppendTLV(nil, stamp.FlagUnrecognized, blocks.SelectionsType, q.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		for one := range stamp.TLVs(tlvs) {
			if !m.answer(one) {
				t.Error("not answered")
			}
			if q, err = blocks.DecodeSelections(one.Value()); err != nil {
				t.Fatal(err)
			}
		}
		return q
	}
	if a := ask(10, time.Second, "red"); a.Entries[0].State != blocks.NotYet || a.Entries[0].Selection.Known() {
		t.Errorf("before the first block: %+v", a)
	}
	if err := h.Datapath.Apply(datapath.Config{Node: model.NodeConfig{Measurement: how}}); err != nil {
		t.Fatal(err)
	}
	m.read(9, false, how, 0)
	m.read(10, false, how, 0)
	want := how.Selections()[0]
	for _, tt := range []struct {
		block  uint64
		length time.Duration
		flow   string
		state  blocks.State
		known  bool
	}{
		{10, time.Second, "red", blocks.Answered, true},
		{9, time.Second, "red", blocks.Answered, true},
		{8, time.Second, "red", blocks.Gone, false},
		{11, time.Second, "red", blocks.NotYet, false},
		{10, time.Second, "blue", blocks.UnknownFlow, false},
		{5, 2 * time.Second, "red", blocks.OtherLength, true},
		{5, 2 * time.Second, "blue", blocks.UnknownFlow, false},
	} {
		a := ask(tt.block, tt.length, tt.flow)
		e := a.Entries[0]
		if e.State != tt.state || e.Selection.Known() != tt.known || tt.known && (e.Selection != want || a.Length != time.Second) {
			t.Errorf("%+v: %+v, want %+v", tt, a, want)
		}
	}
	if n := m.malformed; n != 0 {
		t.Errorf("%d malformed", n)
	}
	if b, _ := stamp.AppendTLV(nil, stamp.FlagUnrecognized, blocks.SelectionsType, make([]byte, 20)); b != nil {
		for one := range stamp.TLVs(b) {
			if m.answer(one) || m.malformed != 1 {
				t.Error("a malformed question is answered")
			}
		}
	}
}

// An answer with counters alone, as agents of before give it, leaves the block uncertain, unless
// the operator says that the node selects the same; a node that selects others always does.
func TestSilentPoint(t *testing.T) {
	m, verdict := judge(t)
	s := &stampExchange{meter: m, others: make(map[flowPoint]runningCount)}
	own := loss.Selection{Block: 1000, Path: 5, Marking: 6}
	narrow := own
	narrow.Takers = 9
	for _, tt := range []struct {
		name       string
		flags      stamp.Flags // of the second TLV
		selection  *loss.Selection
		verdict    loss.Verdict
		assumed    loss.Assumptions
		difference string
	}{
		{"equal", 0, &own, loss.Measured, 0, ""},
		{"another", 0, &narrow, loss.Uncertain, 0, "a narrower flow there takes packets from it"},
		{"unrecognized", stamp.FlagUnrecognized, &loss.Selection{}, loss.Measured, loss.AssumedSelection, ""},
		{"no TLV", 0, nil, loss.Measured, loss.AssumedSelection, ""},
	} {
		r := verdict(10, func(b *closedBlock) {
			f := &b.measurement.Flows[0]
			m.selects(b, f, 0, own)
			key := blocks.KeyOf("red")
			counters := blocks.Message{
				Length:  b.measurement.Block,
				Block:   b.number,
				Entries: []blocks.Entry{{Flow: key, State: blocks.Answered, Counters: blocks.Counters{Packets: 100, Complete: true}}},
			}
			tlvs, _ := stamp.AppendTLV(nil, 0, blocks.Type, counters.Append(nil))
			if tt.selection != nil {
				selections := blocks.Selections{
					Length:  b.measurement.Block,
					Block:   b.number,
					Entries: []blocks.Selected{{Flow: key, State: blocks.Answered, Selection: *tt.selection}},
				}
				tlvs, _ = stamp.AppendTLV(tlvs, tt.flags, blocks.SelectionsType, selections.Append(nil))
			}
			if !s.acceptAnswer(&asked{block: b, Question: query.Question{Answer: tlvs}, flows: []*model.MeasuredFlow{f}, points: []int{1}}) {
				t.Errorf("%s: it is asked again", tt.name)
			}
		})
		if r.Whole.Verdict != tt.verdict || r.Whole.Assumed != tt.assumed || r.Whole.To.Difference != tt.difference {
			t.Errorf("%s: %+v", tt.name, r.Whole)
		}
	}
}

// selecting are two agents, of which the second one has something of its own in its flow.
func selecting(t *testing.T, exchange, answers, own, more string) (near, far *harness) {
	t.Helper()
	flow := `flows: [{name: red, direction: %s, source: 2001:db8::1, segments: ["fc00:2::e"], session: ` + agenttest.FreePort(t) + "%s}]\n" +
		"measurement: {block: 200ms, guard: 40ms, clock-error: 1ms, exchange: " + exchange + "}\n"
	port := agenttest.FreePort(t)
	far = newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "in", own)+fmt.Sprintf(answers, port))
	far.Start()
	near = newHarness(t, agenttest.BaseConfig+fmt.Sprintf(flow, "out", `, points: ["egress=[::1]:`+port+`"]`+more))
	near.System.SetSource(netip.IPv6Loopback(), nil)
	near.Start()
	return near, far
}

// edit changes a node's file, and puts it in force.
func edit(t *testing.T, h *harness, before, after string) {
	t.Helper()
	file, err := os.ReadFile(h.File)
	if err != nil {
		t.Fatal(err)
	}
	h.Write(strings.Replace(string(file), before, after, 1))
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// lastLoss is the last result.
func lastLoss(t *testing.T, h *harness) *record.Loss {
	t.Helper()
	lines, err := h.Client.Loss(context.Background(), api.RecordFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		r, err := record.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if l, ok := r.(*record.Loss); ok {
			return l
		}
	}
	return &record.Loss{}
}

// A traffic class in one file only is named, and warned of until it is gone.
func TestSelectionsDiffer(t *testing.T) {
	const difference = "traffic class 0x00 instead of any"
	near, far := selecting(t, "stamp", "stamp: {listen: \"[::1]:%s\", allow: [\"::1/128\"]}\n", ", traffic-class: 0", "")
	e2e.Await(t, "a block that says the difference", 10*time.Second, func() bool {
		l := lastLoss(t, near)
		return l.Verdict == loss.Uncertain && l.ToReasons&loss.OtherSelection != 0 && l.ToDifference == difference && !l.Lost.Valid &&
			l.Received.Valid
	})
	e2e.Await(t, "the warning", 10*time.Second, func() bool {
		for _, w := range near.Status().Warnings {
			if w.Code == health.SelectionsDiffer &&
				strings.HasSuffix(w.Text, "not all nodes are known to select the packets that its ingress selects; egress (::1): "+difference) {
				return true
			}
		}
		return false
	})
	edit(t, far, ", traffic-class: 0", "")
	e2e.Await(t, "a measured block", 10*time.Second, func() bool { return lastLoss(t, near).Verdict == loss.Measured })
	e2e.Await(t, "the warning's end", 10*time.Second, func() bool { return !near.Warned(health.SelectionsDiffer) })
}

// Nodes that are asked in a protocol whose messages do not say what they select are uncertain
// without a reflector of STAMP, unless that is assumed, which results and a warning show.
func TestSelectionOfOtherProtocols(t *testing.T) {
	for exchange, responder := range map[string]string{"twamp-light": "twamp-light", "rfc6374": "rfc6374-loss"} {
		t.Run(exchange, func(t *testing.T) {
			answers := "responders: [{protocol: " + responder + ", listen: \"[::1]:%s\", allow: [\"::1/128\"]}]\n"
			near, _ := selecting(t, exchange, answers, "", "")
			e2e.Await(t, "a block that says that the node is silent", 10*time.Second, func() bool {
				l := lastLoss(t, near)
				return l.Verdict == loss.Uncertain && l.ToReasons == loss.OtherSelection && strings.Contains(l.ToDifference, "does not say") &&
					l.Received.Valid
			})
			edit(t, near, "points:", "selection: assumed, points:")
			e2e.Await(t, "a block that rests on the setting", 10*time.Second, func() bool {
				l := lastLoss(t, near)
				return l.Verdict == loss.Measured && l.Assumed == loss.AssumedSelection && l.Lost.Valid
			})
			if !near.Warned(health.SelectionAssumed) || near.Warned(health.SelectionsDiffer) {
				t.Error("warnings: the setting is not shown, or the nodes still differ")
			}
		})
	}
}
