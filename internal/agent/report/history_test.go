// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// historyHarness is a node with a history.
type historyHarness struct {
	*agenttest.Node
	agent   *agenttest.Agent
	records *Records
	history *History
	waits   someWaits
	events  *Events
}

// someWaits is what packets wait while somebody looks.
type someWaits struct{ live atomic.Bool }

func (w *someWaits) Look(live bool, since time.Time) *insight.Queues {
	if live {
		w.live.Store(true)
	}
	if !w.live.Load() {
		return nil
	}
	return &insight.Queues{Since: instant.Of(since), Interfaces: []insight.InterfaceQueue{{Interface: "eth1",
		Waits: &insight.Quantiles{Count: 7}, Dropped: 1}}}
}

func newHistoryHarness(t *testing.T, yaml string) *historyHarness {
	t.Helper()
	h := &historyHarness{Node: agenttest.New(t, yaml)}
	h.Serve(func(a *agenttest.Agent) []service.Service {
		h.agent = a
		d := Dependencies{
			Log: a.Logger, NodeName: func() string { return agenttest.NodeName }, State: &a.State, Tasks: &a.Tasks, System: h.System,
			Datapath:    h.Datapath,
			HistoryFile: h.Instance.HistoryFile(), EventsFile: h.Instance.EventsFile(), OneClock: true,
		}
		clock, sinks := NewClock(d), NewSinks(d, os.Stdout, nil)
		h.records = NewRecords(d, clock, sinks, a.Closing)
		h.history = NewHistory(d, h.records, &h.waits)
		h.events = NewEvents(d, h.records, h.history)
		return []service.Service{clock, sinks, h.records, h.history, h.events}
	})
	return h
}

func (h *historyHarness) offer(n int) {
	for range n {
		r := &record.Trace{Packet: record.Packet{Source: netip.MustParseAddr("2001:db8:1::1"), Destination: netip.MustParseAddr("2001:db8:2::1")}}
		for i := range 3 {
			r.Nodes = append(r.Nodes, record.NodeData{NodeID: record.NewField(ioam.NodeID(i+1), true),
				TransitDelay: record.NewField(uint32(8000), i == 1)})
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

// The history asks for records when nothing else does, in each part of a second for its share of the rate; somebody
// who looks gets all, and rate: 0 asks for none.
func TestHistoryAsksForRecords(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig+"\nhistory: {rate: 1000}\n")
	h.Start()
	wanted := func(want bool) func() bool { return func() bool { return h.Datapath.Wanted.Load() == want } }
	if !wanted(true)() {
		t.Error("nothing is recorded for the history")
	}
	if n := h.Datapath.Asked.Load(); n != 100 {
		t.Errorf("%d records are asked for in a tenth of a second, of 1000 in a second", n)
	}
	h.offer(101)
	agenttest.Eventually(t, "no more records in this part, and some in the next one",
		func() bool { return h.Datapath.Pauses.Load() > 0 && wanted(true)() })
	if r := h.report(t, api.HistoryTime{Live: true}); r.Records != 101 || len(r.Pairs) != 1 || r.Pairs[0].Packets != 101 ||
		*r.Pairs[0].Paths[0].Hops[1].Held.Max != 8000 {
		t.Errorf("%+v", r)
	}
	h.offer(150)
	if h.history.wants().records != datapath.AllRecords {
		t.Error("100 are enough although somebody looks")
	}
	agenttest.Eventually(t, "all records for who looks", func() bool { return h.Datapath.Asked.Load() == int64(datapath.AllRecords) })
	h.history.lastAsked.Store(0)
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
	h.history.lastAsked.Store(time.Now().Add(-2 * liveFor).UnixNano())
	agenttest.Eventually(t, "none when nobody looks any more", wanted(false))
}

// Without records, the agent wakes up for seconds only; the first record begins their parts again.
func TestHistoryRests(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig+"\nhistory: {rate: 1000}\n")
	h.Start()
	asks := func(during time.Duration, n int) int64 {
		begun := h.Datapath.Asks.Load()
		for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			h.offer(n)
		}
		return h.Datapath.Asks.Load() - begun
	}
	asks(2100*time.Millisecond, 0) // the first second is divided
	if n := asks(2*time.Second, 0); n < 1 || n > 3 {
		t.Errorf("said %d times in two quiet seconds how many records are wanted", n)
	}
	if n := asks(time.Second, 1); n < 4 || n > 12 {
		t.Errorf("said %d times in a second with records how many are wanted", n)
	}
}

// The shares of a second's parts add up to the rate, and are known to the programs as often as there are parts.
func TestHistoryShares(t *testing.T) {
	h := &History{}
	for _, rate := range []int64{0, 1, 7, 10, 199, config.MaxHistoryRate} {
		h.rate.Store(rate)
		sum := int64(0)
		for range parts {
			h.part.Add(1)
			share := h.share(time.Now())
			if sum += share; share < rate/parts || share > rate/parts+1 {
				t.Errorf("rate %d: %d in a part", rate, share)
			}
		}
		if sum != rate {
			t.Errorf("rate %d: %d in a second", rate, sum)
		}
	}
}

// What programs did not make, because others before were enough, was not watched: of a flood, the sample is short.
func TestHistoryIsWatchedUntilTheLastRecord(t *testing.T) {
	h, begun := &History{}, time.Now()
	e := insight.New(insight.Settings{Keep: time.Hour, Rate: config.MaxHistoryRate}, begun)
	h.engine.Store(e)
	watched := func() time.Duration {
		return time.Duration(e.Report(begun.Add(-time.Minute), begun.Add(time.Hour), time.Now()).Watched)
	}
	h.watched(true)
	last := time.Now()
	h.newest.Store(last.UnixNano())
	time.Sleep(50 * time.Millisecond)
	h.paused.Store(true)
	h.watched(false)
	if d := watched(); d > last.Sub(begun) {
		t.Errorf("watched for %v, and the last record came after %v", d, last.Sub(begun))
	}
	h.paused.Store(false)
	h.watched(true)
	time.Sleep(20 * time.Millisecond)
	h.watched(false) // nobody wants them any more
	if d := watched(); d < 20*time.Millisecond {
		t.Errorf("watched for %v of 20 ms", d)
	}
}

// A report of now has the queues of this node while somebody looks, at the hop that is this node and its interface; one
// of the past has none.
func TestHistoryHasQueues(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	node := h.agent.State.Load().Resolved.Node
	i := slices.IndexFunc(node.Interfaces, func(in model.Interface) bool { return in.Name == "eth1" })
	if i < 0 {
		t.Fatalf("no eth1: %+v", node.Interfaces)
	}
	r := &record.Trace{Packet: record.Packet{Source: netip.MustParseAddr("2001:db8:1::1"), Destination: netip.MustParseAddr("2001:db8:2::1")}}
	for _, id := range []ioam.NodeID{node.ID + 1, node.ID} {
		r.Nodes = append(r.Nodes, record.NodeData{NodeID: record.NewField(id, true), EgressID: record.NewField(node.Interfaces[i].ID, true)})
	}
	h.records.Offer(r)
	hops := func(r *insight.Report) []insight.HopReport { return r.Pairs[0].Paths[0].Hops }
	if r := h.report(t, api.HistoryTime{}); r.Queues != nil || hops(r)[1].Queued != nil {
		t.Errorf("nobody looks: %+v", r)
	}
	now := h.report(t, api.HistoryTime{Live: true})
	if now.Queues == nil || now.Queues.Interfaces[0].Dropped != 1 || hops(now)[0].Queued != nil || hops(now)[1].Queued == nil ||
		hops(now)[1].Queued.Count != 7 {
		t.Errorf("%+v", now)
	}
	if past := h.report(t, api.HistoryTime{Since: time.Now().Add(-time.Hour), Until: time.Now().Add(-time.Second)}); past.Queues != nil {
		t.Errorf("the past has queues: %+v", past.Queues)
	}
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
	if len(r.Pairs) != 2 || r.Pairs[0].Destination != "2001:db8:2::/64" || r.Pairs[1].Destination != "cust7" ||
		r.Pairs[1].Source != "office" || r.Pairs[1].Packets != 10 {
		t.Errorf("%+v", r)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(h.Instance.HistoryFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.Instance.HistoryFile(), kept[:len(kept)-5], 0o600); err != nil { // as one that is killed leaves it
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
	if err := os.WriteFile(h.Instance.HistoryFile(), kept, 0o600); err != nil {
		t.Fatal(err)
	}
	h.Start()
	if _, err := os.Stat(h.Instance.HistoryFile() + ".broken"); err != nil || !strings.Contains(h.Log.String(), "set aside") {
		t.Errorf("a broken file: %v\n%s", err, h.Log)
	}
	if r := h.report(t, api.HistoryTime{Last: 10 * time.Minute}); r.Records != 30 {
		t.Errorf("what could be read: %+v", r)
	}
	m, err := h.Client.Metrics(t.Context())
	if err != nil || !strings.Contains(string(m), "waymark_history_records_total 0\n") ||
		strings.Contains(string(m), "waymark_history_bytes 0\n") {
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
	ask := httptest.NewRequest(http.MethodGet, "/v1/history/intervals", nil)
	stuck, _, err := h.history.follow(ask)
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
		if _, _, err := h.history.follow(ask); err != nil {
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
	if err := h.Client.HistoryIntervals(t.Context(), api.HistoryTime{Last: time.Minute}, false,
		func(*insight.Interval) error { list++; return nil }); err != nil || list < unreadLines {
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
	if r := h.report(t, api.HistoryTime{Since: now.Add(-3 * time.Hour), Until: now.Add(-2 * time.Hour)}); r.Records != 0 ||
		len(r.Pairs) != 0 || !r.CompleteSince.After(now.Add(-time.Hour)) {
		t.Errorf("a time before: %+v", r)
	}
}

// traceBy is a trace that some nodes wrote, each after 8 µs.
func traceBy(port uint16, ids ...ioam.NodeID) *record.Trace {
	source, destination := netip.MustParseAddr("2001:db8:1::1"), netip.MustParseAddr("2001:db8:2::1")
	r := &record.Trace{Packet: record.Packet{Source: source, Destination: destination, DestinationPort: &port}}
	for _, id := range ids {
		r.Nodes = append(r.Nodes, record.NodeData{NodeID: record.NewField(id, true), TransitDelay: record.NewField(uint32(8000), true)})
	}
	return r
}

// A filter of paths selects of what is kept, at any time; one of packets has rollups of its own from the first
// question on, with what is usual by then. Only so many are looked through, and none of them for ever.
func TestFilteredHistory(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig+"\nhistory: {rate: 1000}\n")
	h.Start()
	offer := func(n int, port uint16, ids ...ioam.NodeID) {
		for range n {
			h.records.Offer(traceBy(port, ids...))
		}
	}
	ask := func(q api.HistoryTime) (*insight.Report, string) {
		r, err := h.Client.History(t.Context(), q)
		if err != nil {
			return nil, err.Error()
		}
		return r, ""
	}
	packets := func(r *insight.Report) (list []uint64) {
		for _, p := range r.Pairs {
			for _, path := range p.Paths {
				list = append(list, path.Packets)
			}
		}
		return list
	}
	offer(30, 443, 1, 2, 3)
	offer(10, 80, 1, 4, 3)
	byNode := api.HistoryTime{Filter: api.RecordFilter{Node: "4"}}
	if r, _ := ask(byNode); !slices.Equal(packets(r), []uint64{10}) || r.Pairs[0].Packets != 10 || r.Pairs[0].Paths[0].Share != 1 ||
		r.Filtered != nil {
		t.Errorf("%+v", r)
	}
	for _, f := range []api.RecordFilter{{Node: "9"}, {Flow: "red"}, {Interface: "east0"}, {Node: "2", Flow: "red"}} {
		if r, fault := ask(api.HistoryTime{Filter: f}); fault != "" || len(r.Pairs) != 0 {
			t.Errorf("%+v: %+v %s", f, r, fault)
		}
	}
	web := api.HistoryTime{Live: true, Filter: api.RecordFilter{Port: 443}}
	if r, fault := ask(web); fault != "" || len(r.Pairs) != 0 || r.Filtered == nil {
		t.Fatalf("%+v %s", r, fault)
	}
	offer(7, 443, 1, 2, 3)
	offer(5, 80, 1, 4, 3)
	r, _ := ask(web)
	if !slices.Equal(packets(r), []uint64{7}) || r.Records != 7 || *r.Pairs[0].Paths[0].Hops[1].Held.Max != 8000 {
		t.Errorf("%+v", r)
	}
	if all, _ := ask(api.HistoryTime{}); !slices.Equal(packets(all), []uint64{37, 15}) || all.Filtered != nil {
		t.Errorf("%+v", all)
	}
	sum := api.HistoryTime{Live: true, Filter: api.RecordFilter{Where: "namespace + 1 > 0 and packet.destination_port == 80"}}
	ask(sum)
	offer(3, 80, 1, 4, 3)
	agenttest.Eventually(t, "what an expression selects", func() bool { r, _ := ask(sum); return r.Records == 3 })
	if r, _ := ask(sum); !slices.Equal(packets(r), []uint64{3}) || r.Filtered.Undecided != 0 || r.Filtered.Unexamined != 0 {
		t.Errorf("%+v", r)
	}
	for want, q := range map[string]api.HistoryTime{
		"which has sums and no packets": {Since: time.Now().Add(-time.Minute), Live: true, Filter: api.RecordFilter{Port: 443}},
		"set live=true":                 {Filter: api.RecordFilter{Flow: "7"}},
		"2 filters are looked through":  {Live: true, Filter: api.RecordFilter{Port: 80}},
		"column 1: unknown name prot":   {Live: true, Filter: api.RecordFilter{Where: "prot == 1"}},
	} {
		if _, fault := ask(q); !strings.Contains(fault, want) {
			t.Errorf("%+v: %q lacks %q", q.Filter, fault, want)
		}
	}
	if err := h.Client.HistoryIntervals(t.Context(), web, false, nil); err == nil || !strings.Contains(err.Error(), "no packets") {
		t.Error(err)
	}
	h.history.tendViews(time.Now().Add(viewFor)) // nobody has looked
	if n := len(h.history.viewList()); n != 0 {
		t.Errorf("%d views stay", n)
	}
	if _, fault := ask(api.HistoryTime{Live: true, Filter: api.RecordFilter{Port: 80}}); fault != "" {
		t.Error(fault)
	}
}

// stalled is a client that takes nothing of the answer until it is let.
type stalled struct {
	http.ResponseWriter
	writes, let chan struct{}
}

func (s *stalled) Write(b []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.let
	return s.ResponseWriter.Write(b)
}

// Clients that do not read their reports keep nobody from getting one.
func TestReportsDoNotWaitForClients(t *testing.T) {
	h := newHistoryHarness(t, agenttest.BaseConfig)
	h.Start()
	var asked sync.WaitGroup
	defer asked.Wait()
	let, writes := make(chan struct{}), make(chan struct{}, mostReports+1)
	defer close(let)
	for range mostReports + 1 {
		asked.Go(func() {
			w := &stalled{httptest.NewRecorder(), writes, let}
			if err := h.history.getReport(w, httptest.NewRequest(http.MethodGet, "/v1/history", nil)); err != nil {
				t.Error(err)
			}
		})
	}
	for range mostReports + 1 {
		select {
		case <-writes:
		case <-time.After(patience.Of(30 * time.Second)):
			t.Fatal("a report waits for clients that do not read theirs")
		}
	}
}

// A question of before the clock was set back does not count for as long as the clock has gone back.
func TestLookBeforeTheClockWasSetBack(t *testing.T) {
	h, now := &History{}, time.Now()
	for at, want := range map[time.Duration]bool{-2 * liveFor: false, -time.Second: true, time.Millisecond: true, time.Hour: false} {
		h.lastAsked.Store(now.Add(at).UnixNano())
		if got := h.isLive(now); got != want {
			t.Errorf("%v: %v, want %v", at, got, want)
		}
	}
}
