// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/lab/linkrelay"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// TestLossyLinks has a link of the flow north lose packets, or send them twice.
func TestLossyLinks(t *testing.T) {
	t.Parallel()
	l := e2e.Raise(t, srv6With(t, []string{"south"}, "attach: clsact", "attach: "+string(e2e.TCModes()[0]),
		"mean-delay: true", "mean-delay: true, max-loss: 0%, max-delay: 15ms"))
	t.Run("duplicates hide no loss", func(t *testing.T) { duplicate(t, l) })
	t.Run("delay of a lossy link", func(t *testing.T) { delayWithLoss(t, l) })
}

// duplicate loses one packet of 100 between north1 and north2, and sends one of 50
// twice after north2: more come than are sent, so no block of the whole way is measured. What is
// missing on the way is said, and so are the duplicates at least; no segment is said to be bypassed.
func duplicate(t *testing.T, l *lab.Lab) {
	t.Helper()
	r := observe(t, l)
	r.awaitExact(t, north)
	for node, rule := range map[string]linkloss.Rule{"north1": {Burst: 1, Every: 100}, "north2": {Burst: 1, Every: 50, Twice: true}} {
		rule.LastSID = ofFlows.LastSID
		lose(t, l, node, "eth1", rule)
	}
	const count = 8000
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		datagrams(t, l, count, toNorth)
	}()
	awaitWarning(t, l, health.FlowDuplicated, "more came than were sent between north2 ")
	awaitWarning(t, l, health.FlowLossHigh, "of them between north1 (")
	<-done
	r.awaitAfter(t, time.Now(), north)
	links := lossesByLink(t, l)
	lost, twice := links["north1 eth1"][0].LostPackets, links["north2 eth1"][0].LostPackets
	var sum loss.Totals
	blocks, short := 0, 0
	for _, each := range r.lossesOf(north) {
		if each.Start.Add(time.Second).Before(began) || each.Sent.Value == 0 {
			continue
		}
		blocks++
		if each.Sent.Value < 200 { // perhaps without a lost packet, or a duplicate
			short++
		} else if each.Verdict != loss.Duplicated || each.Lost.Valid || each.Ratio.Valid || !each.LostMin.Valid ||
			each.Received.Value <= each.Sent.Value {
			t.Errorf("%+v", each)
		}
		sum.Sent, sum.Received = sum.Sent+each.Sent.Value, sum.Received+each.Received.Value
		sum.LostMin, sum.Duplicated = sum.LostMin+each.LostMin.Value, sum.Duplicated+each.Duplicated.Value
	}
	want := loss.Totals{Sent: count, Received: count - lost + twice, LostMin: lost, Duplicated: twice - lost}
	counted := loss.Totals{Sent: sum.Sent, Received: sum.Received, LostMin: want.LostMin, Duplicated: want.Duplicated}
	unsaid := int(want.LostMin) - int(sum.LostMin) // in short blocks, of 2 lost and 4 duplicates each
	hidden := int(want.Duplicated) - int(sum.Duplicated)
	if counted != want || unsaid < 0 || unsaid > 2*short || max(hidden, -hidden) > 4*short || lost == 0 || blocks < 3 {
		t.Errorf("in %d blocks, %d of them short, %+v, want %+v", blocks, short, sum, want)
	}
	for at, want := range map[part]loss.Verdict{{"north", 0, 1}: loss.Measured, {"north", 1, 2}: loss.Uncertain,
		{"north", 2, 3}: loss.Uncertain} {
		for _, each := range r.lossesOf(at) {
			if each.Start.Before(began) || each.Sent.Value == 0 {
				continue
			}
			if each.Verdict != want || (each.FromReasons|each.ToReasons)&^loss.PathUnknown != 0 {
				t.Errorf("%v: %+v", at, each)
			}
		}
	}
	table := e2e.MustIn(t, l, "ingress", "loss", "--wide", "--flow", "north", "--last", "1m")
	if !strings.Contains(table, "  duplicated  ") || !strings.Contains(table, "  >=") {
		t.Errorf("no duplicates in\n%s", table)
	}
}

// awaitWarning waits until the ingress warns of the flow north.
func awaitWarning(t *testing.T, l *lab.Lab, code health.Code, text string) {
	t.Helper()
	e2e.Await(t, string(code), 10*time.Second, func() bool {
		return slices.ContainsFunc(e2e.StatusOf(t, l, "ingress").Warnings, func(w health.Warning) bool {
			return w.Code == code && strings.Contains(w.Text, text) && strings.Contains(w.Text, "flow north")
		})
	})
}

// delayWithLoss delays packets on a link that also loses some, so that no block has a mean
// delay: the lower bound shows that the flow is beyond its threshold.
func delayWithLoss(t *testing.T, l *lab.Lab) {
	t.Helper()
	r := observe(t, l)
	r.awaitExact(t, north)
	lose(t, l, "north1", "eth1", linkloss.Rule{Burst: 1, Every: 100, LastSID: ofFlows.LastSID})
	const injected = 40 * time.Millisecond
	relay := startRelay(t, l, "north1", linkrelay.Rule{Delay: injected})
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		datagrams(t, l, 8000, toNorth)
	}()
	awaitWarning(t, l, health.FlowDelayHigh, "packets of flow north took at least ")
	<-done
	r.awaitAfter(t, time.Now(), north)
	held := time.Duration(stopRelay(t, relay).LongestNS) // a busy machine holds packets longer than the rule says
	bounds := 0
	for _, d := range r.delaysOf(north) {
		if d.Start.Before(began) || d.Method != loss.MeanAtLeast {
			continue
		}
		bounds++
		if took := time.Duration(d.Mean); took > held+10*time.Millisecond || (d.Warning != "") != (took > 15*time.Millisecond) {
			t.Errorf("at least %v, warning %q", took, d.Warning)
		}
	}
	if bounds == 0 {
		t.Error("no bound of the mean delay")
	}
	for _, each := range r.lossesOf(north) {
		if each.Scope == record.WholeWay && each.Verdict != loss.Measured && each.Verdict != loss.Idle && each.Start.After(began) {
			t.Errorf("%+v", each)
		}
	}
}
