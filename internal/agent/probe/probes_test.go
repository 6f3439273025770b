// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/eventlog"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/pathtrace/monitor"
	"github.com/waymark-net/waymark/internal/record"
)

// machine has addresses and names.
type machine struct {
	mu    sync.Mutex
	own   []string
	hosts map[string]string
}

func (m *machine) OwnAddresses() func(netip.Addr) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := slices.Clone(m.own)
	return func(a netip.Addr) bool { return slices.Contains(own, a.String()) }
}

func (m *machine) Addresses(name string) (list []netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.hosts[name]; ok {
		list = append(list, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr(a))
	}
	return list
}

type records struct{ list []record.Record }

func (r *records) Offer(list ...record.Record) { r.list = append(r.list, list...) }

func newProbes(t *testing.T, m *machine) (*Probes, *records, *strings.Builder) {
	t.Helper()
	taken, text := &records{}, &strings.Builder{}
	p := NewProbes(
		Dependencies{
			Log:      slog.New(slog.NewTextHandler(text, nil)),
			NodeName: func() string { return "r1" },
			Tasks:    &service.Tasks{},
			System:   m,
			Records:  taken,
		},
	)
	p.run = func(_ *monitor.Monitor, ctx context.Context, _ func()) error { // sends nothing
		<-ctx.Done()
		return nil
	}
	t.Cleanup(func() { p.Close(false) })
	return p, taken, text
}

func state(t *testing.T, probes string) *service.State {
	t.Helper()
	c, err := config.Parse(
		"F",
		[]byte("node: {id: 1}\nnamespaces: [{id: 123}]\npath-trace: {allow: [\"::/0\"], rate: 20}\nprobes: {interval: 1s, "+probes+"}\n"),
	)
	if err != nil {
		t.Fatal(err)
	}
	return &service.State{Config: c}
}

// names are what is probed.
func names(p *Probes) (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.config.Destinations {
		list = append(list, d.Name+" "+d.Address.String())
	}
	return list
}

// A node leaves itself out, looks names up, and follows the configuration and its own addresses.
// Two names of one node are probed once.
func TestTargets(t *testing.T) {
	m := &machine{own: []string{"::1"}, hosts: map[string]string{"r4.example.net": "2001:db8::4"}}
	p, _, _ := newProbes(t, m)
	const list = `destinations: ["r1=2001:db8::1", "2001:db8::2", r4.example.net, "4th=2001:db8::4", r5.example.net], flows: 2`
	p.set(state(t, list))
	check := func(what string, want ...string) {
		t.Helper()
		if got := names(p); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("before names are known", "r1 2001:db8::1", "2001:db8::2 2001:db8::2", "4th 2001:db8::4")
	p.lookUp(false)
	m.own = []string{"::1", "2001:db8::1"}
	p.mu.Lock()
	p.follow()
	p.mu.Unlock()
	check("a node of the mesh", "2001:db8::2 2001:db8::2", "r4.example.net 2001:db8::4")
	if !slices.Equal(p.own, []string{"r1"}) || !slices.Equal(p.unresolved, []string{"r5.example.net"}) {
		t.Errorf("own %q, unresolved %q", p.own, p.unresolved)
	}
	if ws := p.Warnings(nil); len(ws) != 0 {
		t.Errorf("%+v", ws)
	}
	first := p.monitor
	p.set(state(t, `destinations: ["2001:db8::2", "2001:db8::3"], flows: 2`))
	if check("another list", "2001:db8::2 2001:db8::2", "2001:db8::3 2001:db8::3"); p.monitor != first {
		t.Error("a reload begins anew")
	}
	p.set(&service.State{Config: &config.Config{}})
	if check("none"); p.monitor != nil || p.Warnings(nil) != nil {
		t.Error("probes go on")
	}
}

// A prefix means the node to which packets to it are tunnelled: by the longest destination that contains it, as the
// configuration has it now.
func TestNodesBehindPrefixes(t *testing.T) {
	p, _, _ := newProbes(t, &machine{})
	of := func(encapsulations string) *service.State {
		c, err := config.Parse(
			"F",
			[]byte("node: {id: 1}\ninterfaces: [{name: eth0, role: [egress]}]\nnamespaces: [{id: 123}]\nencapsulations: ["+encapsulations+"]\n"+
				"probes: {flows: 2, destinations: [\"cust7=2001:db8:7:8::/64\", \"2001:db8:7:9::/64\", \"far=2001:db8:8::/48\", "+
				"\"r9=2001:db8::9\"]}\n"),
		)
		if err != nil {
			t.Fatal(err)
		}
		return &service.State{Config: c}
	}
	rule := func(name, to, tunnel string) string {
		text := "{name: " + name + ", interface: eth0, match: {destination: \"" + to +
			"\"}, options: [{trace: {namespace: 123, type: 0x800000, size: 12}}]"
		if tunnel == "" {
			return text + ", mode: inline}, "
		}
		return text + ", mode: encap, tunnel: {source: \"2001:db8::1\", destination: \"" + tunnel + "\"}}, "
	}
	p.set(of(rule("a", "2001:db8:7::/48", "2001:db8::3") + rule("b", "2001:db8:7:8::/64", "2001:db8::4") + rule("c", "2001:db8:8::/48", "")))
	if got, want := names(p), []string{"cust7 2001:db8::4", "2001:db8:7:9::/64 2001:db8::3", "r9 2001:db8::9"}; !slices.Equal(got, want) ||
		!slices.Equal(p.unresolved, []string{"far (2001:db8:8::/48)"}) {
		t.Errorf("%q, unresolved %q, want %q", got, p.unresolved, want)
	}
	p.set(of(rule("a", "2001:db8::/32", "2001:db8::5")))
	if got, want := names(p), []string{"cust7 2001:db8::5", "r9 2001:db8::9"}; !slices.Equal(got, want) || len(p.unresolved) != 0 {
		t.Errorf("%q, unresolved %q, want %q", got, p.unresolved, want) // all prefixes are behind one node
	}
	for _, wrong := range []string{"192.0.2.0/24", "2001:db8::1/64", "2001:db8::/129", "a=::ffff:192.0.2.0/120", "/64"} {
		if _, err := config.Parse("F", []byte("node: {id: 1}\nnamespaces: [{id: 1}]\nprobes: {destinations: [\""+wrong+"\"]}\n")); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// Probes of other nodes with the same list, beyond what this one answers, are a warning.
func TestBeyondRate(t *testing.T) {
	m := &machine{own: []string{"2001:db8::1"}}
	p, _, _ := newProbes(t, m)
	p.set(state(t, `destinations: ["2001:db8::1", "2001:db8::2", "2001:db8::3"], flows: 16`))
	ws := p.Warnings(nil)
	if len(ws) != 1 || ws[0].Code != health.ProbesBeyondRate ||
		!strings.Contains(ws[0].Text, "send 32 probes a second to this node, which answers 20") {
		t.Errorf("%+v", ws)
	}
}

// Events become records with sentences, and lines of the log, of which there are not too many.
func TestEvents(t *testing.T) {
	p, taken, text := newProbes(t, &machine{})
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	d := monitor.Destination{Name: "r3", Address: netip.MustParseAddr("2001:db8::3")}
	list := []monitor.Event{
		{Kind: monitor.Loss, At: at, Since: at.Add(-time.Second), Destination: d, After: "node 1", Before: "node 2", AfterHop: 1, Evidence: monitor.EvidenceHopLimit, Flows: 3, FlowsOf: 16},
		{Kind: monitor.Loss, At: at, Since: at, Destination: d, After: "node 2", AfterHop: 2, Evidence: monitor.EvidenceError, Error: "no route", Flows: 3, FlowsOf: 16},
		{Kind: monitor.Loss, At: at, Since: at, Destination: d, Evidence: monitor.EvidenceNone, Flows: 16, FlowsOf: 16},
		{Kind: monitor.Loss, At: at, Since: at, Destination: d, Evidence: monitor.EvidenceNone, Refused: true, Flows: 16, FlowsOf: 16},
		{Kind: monitor.Unanswered, At: at, Since: at, Destination: d, After: "node 2", AfterHop: 2, Evidence: monitor.EvidenceNone, Flows: 16, FlowsOf: 16},
		{Kind: monitor.Recovered, At: at, Since: at, Destination: d, Path: "1>3", Flows: 3, FlowsOf: 16, Lasted: 2 * time.Second, Unanswered: 60},
		{Kind: monitor.PathChange, At: at, Since: at, Destination: d, From: "1>2>3", Path: "1>4>3", Named: [2]string{"1 > porthos > r3", "1 > 4 > r3"}, Flows: 5, FlowsOf: 16},
	}
	want := []string{
		"probe_loss error: probes of 3 of 16 flows to r3 are not answered: they, or what answers them, vanish after node 1, before node 2",
		`probe_loss error: probes of 3 of 16 flows to r3 are not answered: node 2 says "no route"`,
		"probe_loss error: probes of 16 of 16 flows to r3 are not answered, and no node on the way shows where they vanish",
		"probe_loss error: probes of 16 of 16 flows to r3 are not answered: the node is reached, but its agent does not answer",
		"probe_unanswered warning: probes of 16 of 16 flows to r3 are not answered, and never were: they were seen last at node 2",
		"probe_recovered info: probes of 3 of 16 flows to r3 are answered again, after 2s",
		"probe_path_change info: 5 of 16 flows to r3 moved from the path 1 > porthos > r3 to 1 > 4 > r3",
	}
	p.tell(list)
	for i, r := range taken.list {
		e := r.(*record.Event)
		if got := e.Name + " " + string(e.Severity) + ": " + e.Facts; got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		if e.Node != "r1" || e.Subject != "r3" || e.Label("address") != "2001:db8::3" || e.Since.IsZero() != (i > 0) {
			t.Errorf("%+v", e)
		}
		kinds := record.EventKinds()
		k := kinds[slices.IndexFunc(kinds, func(k record.EventKind) bool { return k.Name == e.Name })]
		for _, label := range e.Labels {
			if !strings.Contains(k.Labels, "`"+label.Name+"`") {
				t.Errorf("the reference of %s lacks the label %s", e.Name, label.Name)
			}
		}
		for _, v := range e.Values {
			if !strings.Contains(k.Values, "`"+v.Name+"`") {
				t.Errorf("the reference of %s lacks the value %s", e.Name, v.Name)
			}
		}
	}
	for range 10 {
		p.tell(list)
	}
	if n := strings.Count(text.String(), "event="); n != eventlog.MostLines {
		t.Errorf("%d lines in the log", n)
	}
}

// The event by which a loss ends whose destination is probed no more, has the id and the place of the loss.
func TestAbandoned(t *testing.T) {
	p, taken, _ := newProbes(t, &machine{})
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	loss := monitor.Event{
		Kind: monitor.Loss, At: at, Since: at, Destination: monitor.Destination{Name: "r3", Address: netip.MustParseAddr("2001:db8::3")},
		After: "node 1", Before: "node 2", AfterHop: 1, Evidence: monitor.EvidenceHopLimit, Flows: 3, FlowsOf: 16,
	}
	abandoned := loss
	abandoned.Kind, abandoned.At, abandoned.Lasted = monitor.Abandoned, at.Add(time.Minute), time.Minute
	never := abandoned
	never.Never = true
	p.tell([]monitor.Event{loss, abandoned, never})
	began, ended, other := taken.list[0].(*record.Event), taken.list[1].(*record.Event), taken.list[2].(*record.Event)
	if ended.Name != record.EventNotSeen || ended.ID != began.ID || ended.Label("event") != record.EventProbeLoss || ended.Subject != "r3" ||
		ended.Severity != record.SeverityInfo {
		t.Errorf("%+v", ended)
	}
	for _, name := range []string{"destination", "address", "path", "after", "before"} {
		if ended.Label(name) != began.Label(name) {
			t.Errorf("%s: %q, not %q", name, ended.Label(name), began.Label(name))
		}
	}
	if other.Label("event") != record.EventProbeUnanswered {
		t.Errorf("%+v", other)
	}
}

// All series exist from the start, as 0.
func TestMetrics(t *testing.T) {
	p, _, _ := newProbes(t, &machine{})
	var g metrics.Gatherer
	p.Collect(&g)
	for _, name := range []string{"waymark_probe_packets_total", "waymark_probe_events_total", "waymark_probe_path_changes_total",
		"waymark_probe_replies_ignored_total"} {
		if n := g.Sum(name, ""); n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	m, err := monitor.New(monitor.Config{
		Destinations: []monitor.Destination{
			{Name: "r3", Address: netip.MustParseAddr("2001:db8::3")},
		}, Port: 33434, Namespace: 1, Flows: 4, Interval: time.Second, Timeout: time.Second, Rate: 100, SearchRate: 20,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.monitor, p.end = m, func() {}
	g = metrics.Gatherer{}
	p.Collect(&g)
	if n := g.Sum("waymark_probe_flows", "waiting"); n != 4 {
		t.Errorf("%v flows wait", n)
	}
}

// The counts of monitors that ended and of the one that runs are added, each of them.
func TestCountsAreAdded(t *testing.T) {
	var a, b, want monitor.Counts
	for c, n := range map[*monitor.Counts]uint64{&a: 2, &b: 3, &want: 5} {
		fields := reflect.ValueOf(c).Elem()
		for i := range fields.NumField() {
			if f := fields.Field(i); f.Kind() == reflect.Uint64 {
				f.SetUint(n)
			} else {
				for k := range f.Len() {
					f.Index(k).SetUint(n)
				}
			}
		}
	}
	if got := plus(a, b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
