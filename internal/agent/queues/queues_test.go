// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/datapath/queue"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/insight"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
)

// machine is a Machine whose packets all wait 1 ms; each reading finds 100 more.
type machine struct {
	mu          sync.Mutex
	open        int
	fault       error
	room        int
	devices     []model.IfIndex
	packets     map[model.IfIndex]uint64
	disciplines map[model.IfIndex]queue.Discipline
	events      []*record.Event
	dropsNone   bool
}

// Offer takes events.
func (m *machine) Offer(list ...record.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range list {
		m.events = append(m.events, r.(*record.Event))
	}
}

func (m *machine) Open(devices []model.IfIndex) (Meter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil {
		return nil, m.fault
	}
	m.open++
	m.devices, m.packets = devices, make(map[model.IfIndex]uint64)
	return m, nil
}

func (m *machine) Disciplines() (map[model.IfIndex]queue.Discipline, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.disciplines), nil
}

func (m *machine) Follow(devices []model.IfIndex) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.room > 0 && len(devices) > m.room {
		return queue.ErrRoom
	}
	m.devices = devices
	return nil
}

func (m *machine) Read() (map[model.IfIndex]queue.Waits, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[model.IfIndex]queue.Waits)
	for _, index := range m.devices {
		m.packets[index] += 100
		n := m.packets[index]
		all[index] = queue.Waits{
			Packets: n,
			Total:   n * 1e6,
			Untimed: n / 100,
			Buckets: []exponential.Bucket{{Index: exponential.IndexOf(1e-3, exponential.DelayScale), Count: n}},
		}
		d := m.disciplines[index]
		if !m.dropsNone {
			d.Dropped += 3
			m.disciplines[index] = d
		}
	}
	return all, nil
}

func (m *machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open--
	return nil
}

func (m *machine) measuring() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open == 1
}

func (m *machine) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func newHarness(t *testing.T, yaml string) (*agenttest.Node, *machine, *Queues) {
	t.Helper()
	m, n := &machine{disciplines: make(map[model.IfIndex]queue.Discipline)}, agenttest.New(t, yaml)
	var q *Queues
	closing := make(chan struct{})
	t.Cleanup(func() { close(closing) })
	n.Serve(func(a *agenttest.Agent) []service.Service {
		q = New(
			Dependencies{Log: a.Logger, State: &a.State, Tasks: &a.Tasks, Machine: m, NodeName: func() string { return "r2" }, Records: m},
			closing,
		)
		return []service.Service{q}
	})
	n.Start()
	return n, m, q
}

// Queues are measured while a client follows them, and not longer.
func TestMeasuredWhileFollowed(t *testing.T) {
	n, m, q := newHarness(t, agenttest.BaseConfig)
	if m.measuring() {
		t.Error("queues are measured and nobody wants it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	enough := errors.New("enough")
	lines := 0
	err := n.Client.Queues(ctx, time.Second, func(got api.Queues) error {
		if lines++; lines == 1 {
			return nil // it began in this one
		}
		if !got.Measuring || got.Fault != "" || len(got.Interfaces) == 0 {
			t.Errorf("%+v", got)
		}
		for _, in := range got.Interfaces {
			if in.Packets == 0 || in.Packets%100 != 0 || in.Untimed != in.Packets/100 || in.Dropped != 3*in.Untimed || *in.Mean != 1e6 ||
				*in.P50 < 978_000 ||
				*in.P99 > 1_022_000 {
				t.Errorf("%+v", in)
			}
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Fatal(err)
	}
	eventually(t, "the end of the measurement", func() bool { return !m.measuring() })
	g := metrics.Only("waymark_queue_delay_seconds", "waymark_queue_dropped_packets_total")
	q.Collect(g)
	if count := g.Sum("waymark_queue_delay_seconds", ""); count < 100 || g.Sum("waymark_queue_dropped_packets_total", "") == 0 {
		t.Errorf("the metric has %v packets", count)
	}
}

// Queues are measured while somebody looks, who gets what packets waited since then; a look that is not live
// measures nothing.
func TestMeasuredWhileSomebodyLooks(t *testing.T) {
	_, m, q := newHarness(t, agenttest.BaseConfig)
	if q.Look(false, time.Now()) != nil || m.measuring() {
		t.Error("queues are measured and nobody looks")
	}
	begun := time.Now()
	var got *insight.Queues
	eventually(t, "what packets waited", func() bool {
		got = q.Look(true, begun)
		return got != nil && len(got.Interfaces) > 0 && got.Interfaces[0].Waits != nil && got.Interfaces[0].Dropped > 0
	})
	for _, in := range got.Interfaces {
		if w := in.Waits; w.Count%100 != 0 || w.Sum != w.Count*1e6 || *w.P99 < 978_000 || *w.P99 > 1_022_000 || in.Dropped%3 != 0 ||
			in.Dropped > 3*w.Count/100 {
			t.Errorf("%+v %+v", in, w)
		}
	}
	if q.Look(false, begun) == nil {
		t.Error("another one who asks gets nothing although it is measured")
	}
	q.mu.Lock()
	for range 2 * keepCopies {
		q.kept[len(q.kept)-1].at = time.Now().Add(-2 * keepEach)
		q.keep(time.Now())
	}
	n := len(q.kept)
	q.looked = time.Now().Add(-2 * lookFor)
	q.mu.Unlock()
	if n != keepCopies {
		t.Errorf("%d copies are kept", n)
	}
	eventually(t, "the end of the measurement", func() bool { return !m.measuring() })
	eventually(t, "nothing is known any more", func() bool { return q.Look(false, begun) == nil })
}

// With the key, queues are measured always: not those that send packets at their own times, in a new
// measurement if the old one has no room, and again after a failure.
func TestMeasuredAlways(t *testing.T) {
	_, m, q := newHarness(t, strings.Replace(agenttest.BaseConfig, "node: {", "node: {queue-delay: true, ", 1))
	eventually(t, "the measurement", m.measuring)
	var all []model.IfIndex
	m.set(func() {
		all = slices.Clone(m.devices)
		m.disciplines[all[0]] = queue.Discipline{Kind: "etf"}
	})
	eventually(t, "the end at a queue with times", func() (done bool) {
		m.set(func() { done = len(m.devices) == len(all)-1 && !slices.Contains(m.devices, all[0]) })
		return done
	})
	m.set(func() { m.disciplines[all[0]] = queue.Discipline{Kind: "tbf"}; m.room = len(all) - 1 })
	eventually(t, "a measurement with room", func() (done bool) {
		m.set(func() { done = len(m.devices) == len(all) && m.open == 1 })
		return done
	})
	m.set(func() { m.fault = errors.New("no such tracepoint"); m.room = 0 })
	q.mu.Lock()
	q.stop()
	q.mu.Unlock()
	eventually(t, "the fault", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return strings.Contains(q.fault, "no such tracepoint") })
	m.set(func() { m.fault = nil })
	q.mu.Lock()
	q.retry = time.Time{}
	q.mu.Unlock()
	eventually(t, "the measurement again", m.measuring)
}

// With queue-delay: alarm, queues are measured from when one drops packets, until none has for a while.
func TestMeasuredAfterAlarm(t *testing.T) {
	_, m, q := newHarness(t, strings.Replace(agenttest.BaseConfig, "node: {", "node: {queue-delay: alarm, ", 1))
	var served model.IfIndex
	m.set(func() {
		m.dropsNone = true
		m.disciplines[2], m.disciplines[3] = queue.Discipline{Kind: "tbf"}, queue.Discipline{Kind: "tbf"}
	})
	eventually(t, "a look", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return len(q.alarm.queues) == 2 })
	if m.measuring() {
		t.Error("queues are measured without an alarm")
	}
	q.mu.Lock()
	for index := range q.alarm.queues {
		served = index
	}
	q.mu.Unlock()
	m.set(func() { m.disciplines[served] = queue.Discipline{Kind: "tbf", Dropped: 1} })
	eventually(t, "the measurement", m.measuring)
	q.mu.Lock()
	q.alarm.last = time.Now().Add(-alarmFor)
	q.mu.Unlock()
	eventually(t, "the end of the measurement", func() bool { return !m.measuring() })
}

// An alarm is a drop after the first look, or packets that wait at three looks in sequence, at a served interface.
func TestAlarm(t *testing.T) {
	served := []model.Interface{{Index: 2}, {Index: 3}}
	at := func(i int) time.Time { return time.Unix(int64(1000+i), 0) }
	for name, tt := range map[string]struct {
		looks []queue.Discipline // at interface 2
		at    int                // of the last alarm; 0: none
	}{
		"dropped before":          {[]queue.Discipline{{Dropped: 5}, {Dropped: 5}, {Dropped: 5}}, 0},
		"dropped":                 {[]queue.Discipline{{Dropped: 5}, {Dropped: 5}, {Dropped: 6}, {Dropped: 6}}, 3},
		"not in one answer":       {[]queue.Discipline{{Dropped: 5}, {Kind: "missing"}, {Dropped: 6}}, 0},
		"begun anew":              {[]queue.Discipline{{Dropped: 5}, {Dropped: 1}, {Dropped: 1}}, 0},
		"not empty":               {[]queue.Discipline{{Waiting: 1}, {Waiting: 7}, {Waiting: 1}, {Waiting: 2}}, 4},
		"empty from time to time": {[]queue.Discipline{{Waiting: 1}, {Waiting: 7}, {}, {Waiting: 1}, {Waiting: 2}}, 0},
	} {
		var a alarm
		for i, d := range tt.looks {
			list := map[model.IfIndex]queue.Discipline{2: d, 4: {Dropped: uint64(i), Waiting: 9}}
			if d.Kind == "missing" {
				delete(list, 2)
			}
			for range 3 { // others wake it
				a.look(served, list, at(i+1))
			}
		}
		if want := at(tt.at); tt.at == 0 && !a.last.IsZero() || tt.at > 0 && a.last != want {
			t.Errorf("%s: an alarm at %v, want %d", name, a.last, tt.at)
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// What is usual survives a restart, so that a queue that is slow when the agent begins is no usual one. What is
// old, or no such file, is not taken over.
func TestUsualSurvives(t *testing.T) {
	m := &machine{}
	file := filepath.Join(t.TempDir(), "queues.json")
	d := Dependencies{NodeName: func() string { return "r2" }, Records: m, Log: slog.New(slog.DiscardHandler), File: file}
	now := time.Now().Add(-10 * time.Minute).Truncate(10 * time.Second)
	begin := func() *Queues {
		q := New(d, nil)
		q.watch = insight.NewQueueWatch(now)
		q.usual.open(&q.d, q.watch, now)
		return q
	}
	play := func(q *Queues, seconds int, wait float64) string {
		m.events = nil
		for range seconds {
			if wait > 0 {
				q.addTotals(now, "east0", totals{packets: 100, waits: map[int]uint64{exponential.IndexOf(wait, exponential.DelayScale): 100}})
			}
			now = now.Add(time.Second)
			q.judge(now)
			q.usual.save(&q.d, q.watch, now)
		}
		names := make([]string, len(m.events))
		for i, e := range m.events {
			names[i] = e.Name
		}
		return strings.Join(names, " ")
	}
	if got := play(begin(), 40, 20e-6); got != "" {
		t.Fatalf("at first: %q", got)
	}
	if got := play(begin(), 40, 0); got != "" { // an agent during which nothing is timed
		t.Fatalf("idle: %q", got)
	}
	if got := play(begin(), 8, 85e-3); got != "queue_slow" {
		t.Errorf("slow when the agent begins: %q", got)
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	if got := play(begin(), 8, 85e-3); got != "" {
		t.Errorf("what is old is taken over: %q", got)
	}
	now = now.Add(-2 * time.Hour)
	for _, broken := range []string{"", "{", `{"time":null,"queues":{"east0":{"p95_ns":[-1]}}}`,
		strings.Replace(string(kept), "p95_ns", "other", 1), string(make([]byte, mostSaved+1))} {
		if err := os.WriteFile(file, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := play(begin(), 8, 85e-3); got != "" {
			t.Errorf("%.40q is taken over: %q", broken, got)
		}
	}
	q := begin()
	q.Close(true)
	if _, err := os.Stat(file); err == nil {
		t.Error("the file stays when everything is removed")
	}
}

// A queue in which packets wait longer than was usual, or that drops them, is told once as an event, and so is
// its end.
func TestEventsOfQueues(t *testing.T) {
	m := &machine{}
	q := New(Dependencies{NodeName: func() string { return "r2" }, Records: m}, nil)
	now := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	q.watch = insight.NewQueueWatch(now)
	play := func(seconds int, wait float64, dropped uint64) string {
		m.events = nil
		for range seconds {
			for _, name := range []string{"east0", "west0"} {
				t := totals{packets: 100, waits: map[int]uint64{}}
				if t.waits[exponential.IndexOf(20e-6, exponential.DelayScale)] = 100; name == "east0" {
					t.waits = map[int]uint64{exponential.IndexOf(wait, exponential.DelayScale): 100}
					t.dropped = dropped
				}
				q.addTotals(now, name, t)
			}
			now = now.Add(time.Second)
			q.judge(now)
		}
		var out []string
		for _, e := range m.events {
			out = append(out, e.Name+" "+e.Label("interface"))
		}
		return strings.Join(out, ", ")
	}
	for i, tt := range []struct {
		seconds int
		wait    float64
		dropped uint64
		want    string
	}{
		{30, 20e-6, 0, ""},
		{10, 85e-3, 0, "queue_slow east0"},
		{25, 20e-6, 0, "queue_usual east0"},
		{10, 20e-6, 5, "queue_drops east0"},
		{40, 20e-6, 0, "queue_drops_ended east0"},
	} {
		if got := play(tt.seconds, tt.wait, tt.dropped); got != tt.want {
			t.Errorf("%d: got %q, want %q", i, got, tt.want)
		}
		if i == 1 {
			e := m.events[0]
			if e.Node != "r2" || !strings.HasPrefix(e.Facts, "packets wait in the queue of east0: p95 8") ||
				!strings.Contains(e.Facts, "usual 19.9µs") {
				t.Errorf("%+v", e)
			}
		}
	}
}
