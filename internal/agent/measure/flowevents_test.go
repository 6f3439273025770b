// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// offered are the events that were offered.
type offered []*record.Event

func (o *offered) Offer(list ...record.Record) {
	for _, r := range list {
		*o = append(*o, r.(*record.Event))
	}
}

// text has a line for each event, with its labels.
func (o *offered) text() string {
	var b strings.Builder
	for _, e := range *o {
		fmt.Fprintf(&b, "%s %s: %s", e.Name, e.Subject, e.Facts)
		for _, l := range e.Labels {
			fmt.Fprintf(&b, " %s=%q", l.Name, l.Text)
		}
		for _, v := range e.Values {
			if v.Name != "lasted_ns" {
				fmt.Fprintf(&b, " %s=%v", v.Name, v.Number)
			}
		}
		b.WriteByte('\n')
	}
	*o = nil
	return b.String()
}

// block is the result of a block in which 500 packets were sent, and the last point answered that some came, or did not answer.
func block(n int64, sent uint64, received *uint64) *loss.Result {
	reports := []loss.Report{{Present: true}, {}}
	reports[0].Reading.Packets = sent
	if received != nil {
		reports[1] = loss.Report{Present: true}
		reports[1].Reading.Packets = *received
	}
	r := loss.Compute(&loss.Flow{Points: []loss.PointID{0, 1}, Timing: loss.Timing{Length: 1e9, MaxDelay: 1e8}, Assumed: true}, n, reports)
	return &r
}

// scene is a node with two measured flows: south has a threshold, and north none.
type scene struct {
	*flowWatches
	got   offered
	flows []model.MeasuredFlow
	n     int64 // the last block
}

func newScene() *scene {
	s := &scene{n: 100}
	s.flowWatches = &flowWatches{d: Dependencies{
		Log: slog.New(slog.DiscardHandler), NodeName: func() string { return "ingress" }, Records: &s.got,
	}}
	all := loss.Share(0)
	at := netip.MustParseAddrPort
	s.flows = []model.MeasuredFlow{
		{Name: "south", Points: []netip.AddrPort{at("[2001:db8::9]:862")}, Thresholds: loss.Thresholds{MaxLoss: &all, NoDataAfter: 3}},
		{Name: "north", Points: []netip.AddrPort{at("[2001:db8::8]:862")}},
	}
	s.begin(s.flows)
	return s
}

// play takes the result of the next block, and gives the events.
func (s *scene) play(flow string, sent uint64, received *uint64) string {
	s.n++
	s.result(flow, block(s.n, sent, received), nil)
	return s.got.text()
}

// A flow whose last node does not answer is no loss: it is not known, which begins after the blocks of its threshold, and
// ends with an answer or without packets. An answer that nothing came is certain.
func TestUnmeasuredFlowsAreEvents(t *testing.T) {
	s := newScene()
	none, some := uint64(0), uint64(500)
	for i := range 2 {
		if text := s.play("south", 500, nil); text != "" {
			t.Errorf("block %d without an answer: %s", i, text)
		}
	}
	const unmeasured = "flow_unmeasured south: the loss of flow south is not known (node 1 (2001:db8::9): missing): of 500 packets of " +
		"the last block, all may be lost, or none flow=\"south\" reasons=\"missing\" nodes=\"node 1 (2001:db8::9): missing\" " +
		"blocks=3 sent_packets=500\n"
	if text := s.play("south", 500, nil); text != unmeasured {
		t.Errorf("%s\nwant %s", text, unmeasured)
	}
	if text := s.play("south", 500, nil); text != "" {
		t.Errorf("again: %s", text)
	}
	if text := s.play("south", 500, &none); !strings.HasPrefix(text, "flow_measured south: the loss of flow south is known again, after ") {
		t.Errorf("an answer that nothing came: %s", text)
	}
	if r := block(s.n, 500, &none); r.Whole.Verdict != loss.Measured || r.Whole.Packets.Lost.Value != 500 {
		t.Errorf("an answer that nothing came: %+v", r.Whole)
	}
	if text := s.play("south", 500, &some); text != "" {
		t.Errorf("all came: %s", text)
	}
	for i := range 3 {
		if text := s.play("south", 0, nil); i == 2 && !strings.Contains(text, "missing): nothing was sent in the last block") {
			t.Errorf("nothing is sent, and nothing answered: %s", text)
		}
	}
	if text := s.play("south", 0, &none); !strings.Contains(text, "has no packets any more") || !strings.Contains(text, `because="idle"`) {
		t.Errorf("nothing is sent: %s", text)
	}
	for range 9 {
		if text := s.play("north", 500, nil); text != "" {
			t.Errorf("without a threshold: %s", text)
		}
	}
}

// The event says why this node can ask no other one. There is none while this node has just begun to count. It ends when the
// flow is no longer measured.
func TestUnmeasuredFlowsByThisNode(t *testing.T) {
	s := newScene()
	some := uint64(500)
	for range 3 {
		s.n++
		s.recordUnasked(*block(s.n, 500, nil), errors.New("no address to ask from"))
	}
	if text := s.got.text(); !strings.Contains(text, "flow_unmeasured south: the loss of flow south is not known (no address to ask from)") {
		t.Errorf("no other node can be asked: %s", text)
	}
	s.play("south", 500, &some)
	for i := range 5 {
		s.n++
		r := block(s.n, 500, nil)
		if i < 4 {
			r.Whole.From.Reasons |= loss.Restarted
		}
		s.result("south", r, nil)
		if begins := len(s.got) > 0; begins != (i == 4) {
			t.Errorf("this node begins to count, block %d: %s", i, s.got.text())
		}
	}
	s.got = nil
	s.keepMeasured(s.flows[1:])
	if text := s.got.text(); !strings.Contains(text, "not_seen south: ") || !strings.Contains(text, `event="flow_unmeasured"`) ||
		s.unmeasured != 0 {
		t.Errorf("the flow has ended: %s", text)
	}
}

// No more flows than the log can tell apart begin at once, and only those that began end.
func TestUnmeasuredFlowsAreBounded(t *testing.T) {
	var got offered
	w := &flowWatches{d: Dependencies{Log: slog.New(slog.DiscardHandler), NodeName: func() string { return "ingress" }, Records: &got}}
	flows := make([]model.MeasuredFlow, mostUnmeasured+10)
	for i := range flows {
		flows[i] = model.MeasuredFlow{
			Name: fmt.Sprint(i), Points: []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::9]:862")}, Thresholds: loss.Thresholds{NoDataAfter: 1},
		}
	}
	w.begin(flows)
	some := uint64(500)
	for _, f := range flows {
		w.result(f.Name, block(100, 500, nil), nil)
	}
	if len(got) != mostUnmeasured {
		t.Errorf("%d events", len(got))
	}
	got = nil
	for _, f := range flows {
		w.result(f.Name, block(101, 500, &some), nil)
	}
	if len(got) != mostUnmeasured || w.unmeasured != 0 {
		t.Errorf("%d events end them, %d are left", len(got), w.unmeasured)
	}
}
