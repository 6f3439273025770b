// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
	"github.com/waymark-net/waymark/internal/sink"
)

// An expression that takes long holds up nobody who offers records: what finds no room is counted, and a view that
// ends is not examined to its end.
func TestViewWaitsForNoExpression(t *testing.T) {
	program, err := recordfilter.Filter{Where: `kind == "trace"`}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	h := &History{}
	v := newView("a", insight.New(insight.Settings{Keep: time.Minute}, now), program, new(sink.QueueSpace), now)
	h.setViews([]*view{v})
	began, let, ended := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	examined := 0
	v.expression = func(record.Record) (bool, error) {
		if examined++; examined == 1 {
			began <- struct{}{}
		}
		<-let
		return true, nil
	}
	v.add(now, []record.Record{&record.Trace{}})
	<-began
	room := new(sink.QueueSpace).Records()
	list := make([]record.Record, room+7)
	for i := range list {
		list[i] = &record.Trace{}
	}
	v.add(now, list)
	if got := v.unexamined.Load(); got != 7 {
		t.Errorf("%d records found no room, want 7", got)
	}
	close(let)
	agenttest.Eventually(t, "the others are examined", func() bool { return v.engine.Totals().Records == uint64(room)+1 })
	go func() { defer close(ended); v.examine() }()
	h.setViews(nil)
	<-ended
}

// A reload ends the filters that somebody looks through only if it groups packets otherwise.
func TestViewsStayAfterReload(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	if _, err := h.Client.History(t.Context(), api.HistoryTime{Live: true, Filter: api.RecordFilter{Port: 443}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		history string
		views   int
	}{
		{"rate: 1000", 1},
		{"rate: 1000, prefixes: [{name: east, prefix: '2001:db8:1::/48'}]", 0},
	} {
		h.Write(agenttest.BaseConfig + "\nhistory: {" + tt.history + "}\n")
		if _, err := h.Client.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(h.history.viewList()); n != tt.views {
			t.Errorf("%s: %d views, want %d", tt.history, n, tt.views)
		}
	}
}
