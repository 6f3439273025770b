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

// A flow whose last node does not answer is no loss: it is not known, which begins after the blocks of its threshold, and
// ends with an answer, without packets, or with the flow. An answer that nothing came is certain.
func TestUnmeasuredFlowsAreEvents(t *testing.T) {
	var got offered
	w := &flowWatches{d: Dependencies{Log: slog.New(slog.DiscardHandler), NodeName: func() string { return "ingress" }, Records: &got}}
	all := loss.Share(0)
	flows := []model.MeasuredFlow{
		{
			Name: "south", Points: []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::9]:862")},
			Thresholds: loss.Thresholds{MaxLoss: &all, NoDataAfter: 3},
		},
		{Name: "north", Points: []netip.AddrPort{netip.MustParseAddrPort("[2001:db8::8]:862")}},
	}
	w.begin(flows)
	n := int64(100)
	play := func(flow string, sent uint64, received *uint64) string {
		n++
		w.result(flow, block(n, sent, received), nil)
		return got.text()
	}
	none, some := uint64(0), uint64(500)
	for i := range 2 {
		if text := play("south", 500, nil); text != "" {
			t.Errorf("block %d without an answer: %s", i, text)
		}
	}
	const unmeasured = "flow_unmeasured south: the loss of flow south is not known (node 1 (2001:db8::9): missing): it may lose all " +
		"packets, or none flow=\"south\" reasons=\"missing\" nodes=\"node 1 (2001:db8::9): missing\" blocks=3 sent_packets=500\n"
	if text := play("south", 500, nil); text != unmeasured {
		t.Errorf("%s\nwant %s", text, unmeasured)
	}
	if text := play("south", 500, nil); text != "" {
		t.Errorf("again: %s", text)
	}
	if text := play("south", 500, &none); !strings.HasPrefix(text, "flow_measured south: the loss of flow south is known again, after ") {
		t.Errorf("an answer that nothing came: %s", text)
	}
	if r := block(n, 500, &none); r.Whole.Verdict != loss.Measured || r.Whole.Packets.Lost.Value != 500 {
		t.Errorf("an answer that nothing came: %+v", r.Whole)
	}
	if text := play("south", 500, &some); text != "" {
		t.Errorf("all came: %s", text)
	}
	for range 3 {
		play("south", 500, nil)
	}
	if text := play("south", 0, &none); !strings.Contains(text, "has no packets any more") || !strings.Contains(text, `because="idle"`) {
		t.Errorf("nothing is sent: %s", text)
	}
	for range 9 {
		if text := play("north", 500, nil); text != "" {
			t.Errorf("without a threshold: %s", text)
		}
	}
	for range 3 {
		n++
		w.recordUnasked(*block(n, 500, nil), errors.New("no address to ask from"))
	}
	if text := got.text(); !strings.Contains(text, "flow_unmeasured south: the loss of flow south is not known (no address to ask from)") {
		t.Errorf("nobody can be asked: %s", text)
	}
	w.keepMeasured(flows[1:])
	if text := got.text(); !strings.Contains(text, "not_seen south: ") || !strings.Contains(text, `event="flow_unmeasured"`) ||
		w.unmeasured != 0 {
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
