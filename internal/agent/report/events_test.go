// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// lossRecord is a block of a measured flow.
func lossRecord(lost uint64) *record.Loss {
	l := &record.Loss{}
	l.Flow, l.Source, l.SIDs = "red", netip.MustParseAddr("2001:db8:1::1"), []netip.Addr{netip.MustParseAddr("fc00:3::d6")}
	l.Scope, l.From, l.To, l.FromNode, l.ToNode = record.OneSegment, 1, 2, "r2\x1b[2J", "r3"
	l.Sent, l.Lost = record.NewField(uint64(500), true), record.NewField(lost, true)
	return l
}

func eventsOf(t *testing.T, c *api.Client, q api.EventQuery) (list []*record.Event) {
	t.Helper()
	err := c.Events(t.Context(), q, func(line []byte) error {
		r, err := record.Parse(line)
		if err == nil {
			list = append(list, r.(*record.Event))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What the history shows becomes an event: for observers, in the log, in metrics, for who asks and who follows,
// and for the next agent, which ends what it does not see again.
func TestEvents(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	var observed, followed []string
	keep := func(list *[]string) func(line []byte) error {
		return func(line []byte) error {
			mu.Lock()
			defer mu.Unlock()
			*list = append(*list, string(line))
			return nil
		}
	}
	count := func(list *[]string, n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(*list) == n }
	}
	var ended sync.WaitGroup
	ready := make(chan struct{})
	ended.Go(func() {
		_ = h.Client.Observe(ctx, api.RecordFilter{Kinds: record.KindEvent}, func() { close(ready) }, keep(&observed))
	})
	ended.Go(func() { _ = h.Client.Events(ctx, api.EventQuery{Follow: true}, keep(&followed)) })
	<-ready
	agenttest.Eventually(t, "a follower", h.events.log.Followed)
	agenttest.Eventually(t, "somebody who follows looks", func() bool { return h.history.isLive(time.Now()) })
	h.records.Offer(lossRecord(40))
	agenttest.Eventually(t, "an observer", count(&observed, 1))
	agenttest.Eventually(t, "who follows", count(&followed, 1))
	moved := &record.Event{
		Time:     instant.Of(time.Now().UTC()),
		Node:     "r1",
		Name:     record.EventPathsMoved,
		Severity: record.SeverityInfo,
		Subject:  "a > b",
		Facts:    "a > b: 38% from r1 to r2",
	}
	h.records.Offer(moved)
	cancel()
	ended.Wait()

	list := eventsOf(t, h.Client, api.EventQuery{})
	if len(list) != 2 || list[0].Name != record.EventLoss || list[0].Label("from_node") != `"r2\x1b[2J"` || list[0].Label("flow") != "red" ||
		list[0].Severity != record.SeverityError ||
		list[0].Facts != `packets are lost after "r2\x1b[2J" > r3 (flow red): 40 of 500, 8%` || list[1].ID == "" ||
		list[0].Node != agenttest.NodeName {
		t.Fatalf("%+v", *list[0])
	}
	began := list[0]
	for i, q := range []api.EventQuery{
		{Begun: true}, {Names: []string{record.EventPathsMoved}}, {Filter: api.RecordFilter{Node: "r3"}},
		{Filter: api.RecordFilter{Where: `subject == "a > b"`}, Last: time.Minute},
	} {
		if found := eventsOf(t, h.Client, q); len(found) != 1 || found[0].Name != list[i%2].Name {
			t.Errorf("%+v: %+v", q, found)
		}
	}
	for _, wrong := range []api.EventQuery{{Names: []string{"nothing"}}, {Last: time.Minute, Since: time.Now()},
		{Follow: true, Until: time.Now()}, {Filter: api.RecordFilter{Where: "("}}, {Filter: api.RecordFilter{Port: 9}}} {
		if err := h.Client.Events(t.Context(), wrong, func([]byte) error { return nil }); err == nil {
			t.Errorf("%+v is answered", wrong)
		}
	}
	m, err := h.Client.Metrics(t.Context())
	if err != nil || !strings.Contains(string(m), `waymark_events_total{kind="loss_began"} 1`) ||
		!strings.Contains(string(m), `waymark_events_begun{kind="loss_began"} 1`) ||
		!strings.Contains(string(m), `waymark_events_total{kind="segment_slow"} 0`) ||
		strings.Contains(string(m), `waymark_events_begun{kind="paths_moved"}`) {
		t.Errorf("%v\n%s", err, m)
	}
	if n := strings.Count(h.Log.String(), "event=loss_began id="+began.ID); n != 1 {
		t.Errorf("%d lines in the log:\n%s", n, h.Log)
	}

	checkKept(t, h, began.ID)
}

// checkKept restarts the agent: it has the events, ends what it does not see again, and sets a broken file aside.
func checkKept(t *testing.T, h *historyHarness, began string) {
	t.Helper()
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if list := eventsOf(t, h.Client, api.EventQuery{Begun: true}); len(list) != 1 || list[0].ID != began {
		t.Errorf("after a restart: %+v", list)
	}
	for _, e := range h.events.log.Unseen(time.Now().Add(3*time.Minute), "r1") {
		h.records.Offer(e)
	}
	later := api.EventQuery{Since: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Hour)}
	if list := eventsOf(t, h.Client, later); len(list) != 3 || list[2].Name != record.EventNotSeen || list[2].ID != began {
		t.Errorf("%+v", list)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Instance.EventsFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if _, err := os.Stat(h.Instance.EventsFile() + ".broken"); err != nil || len(eventsOf(t, h.Client, api.EventQuery{})) != 0 {
		t.Error(err)
	}
}

// The log has at most so many lines of events a minute.
func TestEventLinesAreBounded(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	for i := range 100 {
		h.records.Offer(
			&record.Event{Time: instant.Of(time.Now().UTC()), Name: record.EventPathsMoved, Subject: string(rune('a' + i)), Facts: "moved"},
		)
	}
	if n := strings.Count(h.Log.String(), "event=paths_moved"); n > 2*eventlog.MostLines || n < eventlog.MostLines {
		t.Errorf("%d lines", n)
	}
	if list := eventsOf(t, h.Client, api.EventQuery{}); len(list) != 100 {
		t.Errorf("%d events", len(list))
	}
}
