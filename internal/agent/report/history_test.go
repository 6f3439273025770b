// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// historyHarness is a node with a history.
type historyHarness struct {
	*agenttest.Node
	agent   *agenttest.Agent
	records *Records
	history *History
}

func newHistoryHarness(t *testing.T, yaml string) *historyHarness {
	t.Helper()
	h := &historyHarness{Node: agenttest.New(t, yaml)}
	h.Serve(func(a *agenttest.Agent) []service.Service {
		h.agent = a
		d := Dependencies{
			Log: a.Logger, NodeName: func() string { return agenttest.NodeName }, State: &a.State, Tasks: &a.Tasks, System: h.System, Datapath: h.Datapath,
			HistoryFile: h.Place.HistoryFile(),
		}
		clock, sinks := NewClock(d), NewSinks(d, os.Stdout, nil)
		h.records = NewRecords(d, clock, sinks, a.Closing)
		h.history = NewHistory(d, h.records)
		return []service.Service{clock, sinks, h.records, h.history}
	})
	return h
}

func (h *historyHarness) offer(n int) {
	for range n {
		r := &record.Trace{Packet: record.Packet{Source: netip.MustParseAddr("2001:db8:1::1"), Destination: netip.MustParseAddr("2001:db8:2::1")}}
		for i := range 3 {
			r.Nodes = append(r.Nodes, record.NodeData{NodeID: record.NewField(ioam.NodeID(i+1), true), TransitDelay: record.NewField(uint32(8000), i == 1)})
		}
		h.records.Offer(r)
	}
}

func (h *historyHarness) report(t *testing.T, q api.HistoryTime) *insight.Report {
	t.Helper()
	r, err := h.Client.History(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The history asks for records when nothing else does, at most for so many in a second; somebody who looks
// gets more, and rate: 0 asks for none.
func TestHistoryAsksForRecords(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig+"\nhistory: {rate: 100}\n")
	h.Start()
	wanted := func(want bool) func() bool { return func() bool { return h.Datapath.Wanted.Load() == want } }
	if !wanted(true)() {
		t.Error("nothing is recorded for the history")
	}
	h.history.counted.Store(0)
	h.offer(101)
	agenttest.Eventually(t, "no more records in this second", wanted(false))
	agenttest.Eventually(t, "records in the next one", wanted(true))
	if r := h.report(t, api.HistoryTime{Live: true}); r.Records != 101 || len(r.Pairs) != 1 || r.Pairs[0].Packets != 101 || *r.Pairs[0].Paths[0].Hops[1].Held.Max != 8000 {
		t.Errorf("%+v", r)
	}
	h.offer(150)
	if !h.history.wants() {
		t.Error("100 in a second are enough although somebody looks")
	}
	h.history.asked.Store(0)
	h.Write(agenttest.BaseConfig + "\nhistory: {rate: 0}\n")
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if !wanted(false)() {
		t.Error("rate: 0 asks for records")
	}
	h.Write(strings.Replace(agenttest.BaseConfig, "id: 123", "id: 123, export: every", 1))
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	if wanted(true)() || !strings.Contains(agenttest.BaseConfig, "id: 123") {
		t.Error("the history asks for postcards")
	}
	h.report(t, api.HistoryTime{Live: true})
	agenttest.Eventually(t, "records for who looks", wanted(true))
	h.history.asked.Store(time.Now().Add(-2 * liveFor).UnixNano())
	agenttest.Eventually(t, "none when nobody looks any more", wanted(false))
}

// The history survives the agent, and follows the configuration.
func TestHistoryIsKept(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	h.offer(30)
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if r := h.report(t, api.HistoryTime{}); r.Records != 30 {
		t.Errorf("after a restart: %+v", r)
	}
	h.Write(agenttest.BaseConfig + "\nhistory: {keep: 20m, prefixes: [{name: cust7, prefix: \"2001:db8:2::/48\"}]}\n")
	if err := h.agent.Reload(); err != nil {
		t.Fatal(err)
	}
	h.offer(10)
	r := h.report(t, api.HistoryTime{Last: 10 * time.Minute, Prefixes: []string{"office=2001:db8:1::/48"}})
	if len(r.Pairs) != 2 || r.Pairs[0].Destination != "2001:db8:2::/64" || r.Pairs[1].Destination != "cust7" || r.Pairs[1].Source != "office" || r.Pairs[1].Packets != 10 {
		t.Errorf("%+v", r)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(h.Place.HistoryFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Place.HistoryFile(), kept[:len(kept)-5], 0o600); err != nil { // as one that is killed leaves it
		t.Fatal(err)
	}
	h.Start()
	if r := h.report(t, api.HistoryTime{Last: 10 * time.Minute}); r.Records != 30 || strings.Contains(h.Log.String(), "set aside") {
		t.Errorf("of a file that is cut off: %+v\n%s", r, h.Log)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	kept[len(kept)-5] ^= 1 // a checksum
	if err := os.WriteFile(h.Place.HistoryFile(), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if _, err := os.Stat(h.Place.HistoryFile() + ".broken"); err != nil || !strings.Contains(h.Log.String(), "set aside") {
		t.Errorf("a broken file: %v\n%s", err, h.Log)
	}
	if r := h.report(t, api.HistoryTime{Last: 10 * time.Minute}); r.Records != 30 {
		t.Errorf("what could be read: %+v", r)
	}
	m, err := h.Client.Metrics(t.Context())
	if err != nil || !strings.Contains(string(m), "waymark_history_records_total 0\n") || strings.Contains(string(m), "waymark_history_bytes 0\n") {
		t.Errorf("%v\n%s", err, m)
	}
}

// Who follows gets intervals when they end; one that does not read is ended, and only so many may follow.
func TestHistoryIsFollowed(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	h.offer(5)
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan *insight.Interval, 100), make(chan error, 1)
	go func() {
		ended <- h.Client.HistoryIntervals(ctx, api.HistoryTime{}, true, func(v *insight.Interval) error { got <- v; return nil })
	}()
	followers := func(n int) func() bool {
		return func() bool { h.history.mu.Lock(); defer h.history.mu.Unlock(); return len(h.history.followers) == n }
	}
	agenttest.Eventually(t, "a follower", followers(1))
	stuck, _, err := h.history.follow()
	if err != nil {
		t.Fatal(err)
	}
	for i := range unreadLines + 1 {
		h.offer(1)
		h.history.engine.Load().Close(time.Now())
		if v := <-got; len(v.Pairs) != 1 || v.Records != 1 && i > 0 {
			t.Errorf("%+v", v)
		}
	}
	agenttest.Eventually(t, "the one that does not read is ended", followers(1))
	for range unreadLines {
		<-stuck
	}
	if _, open := <-stuck; open {
		t.Error("it is not told")
	}
	for range maxFollowers - 1 {
		if _, _, err := h.history.follow(); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Client.HistoryIntervals(t.Context(), api.HistoryTime{}, true, func(*insight.Interval) error { return nil }); err == nil {
		t.Error("more follow than may")
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error although the context ended")
	}
	list := 0
	if err := h.Client.HistoryIntervals(t.Context(), api.HistoryTime{Last: time.Minute}, false, func(*insight.Interval) error { list++; return nil }); err != nil || list < unreadLines {
		t.Errorf("%d intervals, %v", list, err)
	}
}

func TestHistoryRequests(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	now := time.Now()
	for name, q := range map[string]api.HistoryTime{
		"backwards":      {Since: now, Until: now.Add(-time.Second)},
		"both":           {Since: now.Add(-time.Minute), Last: time.Minute},
		"no prefix":      {Prefixes: []string{"a=b"}},
		"a name with \\": {Prefixes: []string{"\x1b[2J=fd00::/8"}},
		"many":           {Prefixes: strings.Split(strings.Repeat("fd00::/8 ", 65), " ")[:65]},
	} {
		if r, err := h.Client.History(t.Context(), q); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if r := h.report(t, api.HistoryTime{Since: now.Add(-3 * time.Hour), Until: now.Add(-2 * time.Hour)}); r.Records != 0 || len(r.Pairs) != 0 || !r.CompleteSince.After(now.Add(-time.Hour)) {
		t.Errorf("a time before: %+v", r)
	}
}
