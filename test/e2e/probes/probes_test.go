// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/test/e2e"
)

// known is the bound of the product: how long after a failure its place is told, with an interval
// of 100ms.
const known = time.Second

// flows take both of two paths: a kernel hashes with a random seed, so that one of both stays
// empty in a test of 8 million.
const flows = 24

// events keeps what an agent reports.
type events struct {
	mu   sync.Mutex
	list []*record.Event
}

// observe keeps the events of a node's agent until the test ends.
func observe(t *testing.T, l *lab.Lab, node string) *events {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	e := &events{}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = api.NewClient(instance.Socket()).
			Observe(ctx, api.RecordFilter{Kinds: record.KindEvent}, func() { close(ready) }, func(line []byte) error {
				r, err := record.Parse(bytes.Clone(line))
				if one, ok := r.(*record.Event); ok {
					e.mu.Lock()
					e.list = append(e.list, one)
					e.mu.Unlock()
				}
				return err
			})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-ready
	return e
}

// of waits for an event about a destination, and takes it.
func (e *events) of(t *testing.T, name, destination string) (found *record.Event) {
	t.Helper()
	e2e.Await(t, name+" of "+destination, 10*time.Second, func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for i, one := range e.list {
			if one.Name == name && one.Label("destination") == destination {
				e.list = append(e.list[:i:i], e.list[i+1:]...)
				found = one
				return true
			}
		}
		return false
	})
	return found
}

// left are the events that nothing took, about a destination.
func (e *events) left(destination string) (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.list {
		if one.Label("destination") == destination {
			list = append(list, one.Text())
		}
	}
	return list
}

// probed is what the agent of athos knows of a destination.
func probed(t *testing.T, l *lab.Lab, name string) api.ProbedNode {
	t.Helper()
	for _, d := range all(t, l).Destinations {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("%s is not probed", name)
	return api.ProbedNode{}
}

func all(t *testing.T, l *lab.Lab) (p api.Probes) {
	t.Helper()
	if err := json.Unmarshal([]byte(e2e.MustIn(t, l, "athos", "probes", "--json")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// value is a number of an event.
func value(e *record.Event, name string) float64 {
	for _, v := range e.Values {
		if v.Name == name {
			return v.Number
		}
	}
	return -1
}

const probes = `probes:
  destinations: ["athos=2001:db8:ff::1", "aramis=2001:db8:ff::3", "dartagnan=2001:db8:ff::4", "gone=2001:db8:77::1"]
  interval: 100ms
  flows: 24
  loopback: true
  source: "2001:db8:ff::1"
`

const budget = "  budget: 1100\n"

// One topology with two equal paths: what breaks is named by the router before it within a second,
// and nothing else is told.
func TestProbes(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "ecmp")
	e2e.Reconfigure(t, top, "athos", "path-trace:", exportOTLP+probes+budget+"path-trace:")
	l := e2e.Raise(t, top)
	e, o := observe(t, l, "athos"), receive(t, l)
	awaitLearned(t, l)
	t.Run("silent loss", func(t *testing.T) {
		const tries = 3 // a machine that is busy with other tests may be late
		for try := 1; ; try++ {
			took := silentLoss(t, l, e)
			if took <= known || t.Failed() {
				return
			}
			if try == tries {
				t.Fatalf("the last of %d failures was told after %v", tries, took)
			}
		}
	})
	t.Run("interface down", func(t *testing.T) { interfaceDown(t, l, e) })
	t.Run("moved", func(t *testing.T) { moved(t, l, e) })
	t.Run("never answered", func(t *testing.T) { never(t, l, e) })
	t.Run("reload", func(t *testing.T) { reload(t, l, e) })
	t.Run("otlp", o.check)
	t.Run("table", func(t *testing.T) { table(t, l) })
	if list := e.left("dartagnan"); len(list) > 0 {
		t.Errorf("of dartagnan, whose path is well: %v", list)
	}
}

// awaitLearned waits until both paths are known, and which nodes on them reply to hop limits.
func awaitLearned(t *testing.T, l *lab.Lab) {
	t.Helper()
	e2e.Await(t, "both paths are known", 10*time.Second, func() bool {
		d := probed(t, l, "aramis")
		if d.State != api.ProbedAnswered || len(d.Paths) != 2 {
			return false
		}
		if d.Paths[0].Flows+d.Paths[1].Flows != flows {
			return false
		}
		for _, p := range d.Paths {
			if len(p.Hops) != 2 || p.Hops[0].Address == nil || p.Flows == 0 {
				return false
			}
		}
		return true
	})
}

// silentLoss lets a link of one path drop all packets in one direction: no node says anything. It
// returns how long it took until the place was told.
func silentLoss(t *testing.T, l *lab.Lab, e *events) (took time.Duration) {
	before := probed(t, l, "aramis")
	north := 0
	for _, p := range before.Paths {
		if p.Path == "2>3" {
			north = p.Flows
		}
	}
	loss, err := l.AddLoss("porthos", "eth1", linkloss.Rule{Burst: 1, Every: 1})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now() // a busy machine needs a second to load the rule's program
	lost := e.of(t, record.EventProbeLoss, "aramis")
	took = lost.Time.Sub(began)
	if !strings.HasPrefix(lost.Label("after"), "node 2 (2001:db8:12::2)") || lost.Label("before") != "aramis" ||
		lost.Label("evidence") != "hop-limit" ||
		value(lost, "flows") != float64(north) || value(lost, "flows_of") != flows ||
		value(lost, "after_hop") != 1 ||
		lost.Severity != record.SeverityError {
		t.Errorf("%s %+v", lost.Text(), lost)
	}
	t.Logf("%d of %d flows; told after %v: %s", north, flows, took, lost.Text())
	d := probed(t, l, "aramis")
	if d.State != api.ProbedLost || d.FlowsLost != north || len(d.Losses) != 1 || d.Losses[0].Flows != north {
		t.Errorf("%+v", d)
	}
	if p := all(t, l); p.Copies == 0 {
		t.Errorf("no node returned a copy: %+v", p)
	}
	if text, err := e2e.In(t, l, "athos", "doctor", "--wide"); err == nil || !strings.Contains(text, "vanish after node 2") {
		t.Errorf("%s", text)
	}
	if text := metrics(t, l); !strings.Contains(
		text,
		`waymark_probe_lost_after{after="node 2 (2001:db8:12::2)",before="aramis",destination="aramis"} `,
	) {
		t.Errorf("no metric of the place: %s", text)
	}
	if _, err := l.RemoveLoss("porthos", "eth1", loss.Number); err != nil {
		t.Fatal(err)
	}
	again := e.of(t, record.EventProbeRecovered, "aramis")
	if value(again, "flows") != float64(north) || value(again, "lasted_ns") < 1e8 || value(again, "unanswered_packets") < float64(north) {
		t.Errorf("%s", again.Text())
	}
	if list := e.left("aramis"); len(list) > 0 {
		t.Errorf("%v", list)
	}
	return took
}

// metrics are those of athos.
func metrics(t *testing.T, l *lab.Lab) string {
	t.Helper()
	instance, err := l.Node("athos").Instance()
	if err != nil {
		t.Fatal(err)
	}
	text, err := api.NewClient(instance.Socket()).Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// interfaceDown takes an interface of porthos down, whose kernel then has no route.
func interfaceDown(t *testing.T, l *lab.Lab, e *events) {
	began := time.Now()
	e2e.Must(t, l.Node("porthos"), "ip", "link", "set", "eth1", "down")
	lost := e.of(t, record.EventProbeLoss, "aramis")
	took := lost.Time.Sub(began)
	t.Logf("told after %v: %s", took, lost.Text())
	if !strings.HasPrefix(lost.Label("after"), "node 2 ") || lost.Label("evidence") != "error" && lost.Label("before") != "aramis" {
		t.Errorf("%s", lost.Text())
	}
	e2e.Must(t, l.Node("porthos"), "ip", "link", "set", "eth1", "up")
	for _, route := range []string{"2001:db8:2::/64", "2001:db8:ff::3/128"} {
		e2e.Must(t, l.Node("porthos"), "ip", "-6", "route", "replace", route, "via", "2001:db8:23::2", "dev", "eth1", "onlink")
	}
	neighbours(t, l)
	e.of(t, record.EventProbeRecovered, "aramis")
}

// neighbours makes the neighbours of the link that was down permanent again, and the route back.
func neighbours(t *testing.T, l *lab.Lab) {
	t.Helper()
	mac := func(node, device string) string {
		words := strings.Fields(e2e.Must(t, l.Node(node), "ip", "-br", "link", "show", "dev", device))
		if len(words) < 3 {
			t.Fatalf("%v", words)
		}
		return words[2]
	}
	e2e.Must(t, l.Node("porthos"), "ip", "address", "replace", "2001:db8:23::1/64", "dev", "eth1", "nodad")
	e2e.Must(
		t,
		l.Node("porthos"),
		"ip",
		"neighbour",
		"replace",
		"2001:db8:23::2",
		"lladdr",
		mac("aramis", "eth0"),
		"dev",
		"eth1",
		"nud",
		"permanent",
	)
	e2e.Must(
		t,
		l.Node("aramis"),
		"ip",
		"neighbour",
		"replace",
		"2001:db8:23::1",
		"lladdr",
		mac("porthos", "eth1"),
		"dev",
		"eth0",
		"nud",
		"permanent",
	)
}

// moved takes one path out of routing: flows move, and nothing is lost.
func moved(t *testing.T, l *lab.Lab, e *events) {
	before := probed(t, l, "aramis")
	e2e.Must(t, l.Node("athos"), "ip", "-6", "route", "replace", "2001:db8:ff::3/128", "via", "2001:db8:14::2")
	change := e.of(t, record.EventProbePathChange, "aramis")
	if change.Label("from") != "2>3" || change.Label("to") != "4>3" || change.Severity != record.SeverityInfo {
		t.Errorf("%s", change.Text())
	}
	after := probed(t, l, "aramis")
	if after.State != api.ProbedAnswered || after.FlowsLost != 0 || len(after.Losses) != 0 {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
	if list := e.left("aramis"); len(list) > 0 {
		t.Errorf("%v", list)
	}
}

// never is about a destination to which there is no route here: it is told once.
func never(t *testing.T, l *lab.Lab, e *events) {
	one := e.of(t, record.EventProbeUnanswered, "gone")
	if value(one, "flows") != flows || one.Severity != record.SeverityWarning || one.Label("error") != "network is unreachable" {
		t.Errorf("%s %+v", one.Text(), one)
	}
	if d := probed(t, l, "gone"); d.State != api.ProbedUnanswered || d.Sent != 0 || d.FlowsLost != flows {
		t.Errorf("%+v", d)
	}
}

// reload keeps what is known of the destinations that stay, and refuses what is beyond the budget.
func reload(t *testing.T, l *lab.Lab, e *events) {
	before := probed(t, l, "aramis")
	e2e.Rewrite(t, l, "athos", func(c string) string { return strings.Replace(c, budget, "  budget: 500\n", 1) })
	out, err := e2e.In(t, l, "athos", "agent", "reload")
	if err == nil ||
		!strings.Contains(
			out,
			"4 destinations with 24 flows every 100ms are 960 probes a second, and 96 more packets find broken links: more than 500; set interval:",
		) {
		t.Errorf("%v: %s", err, out)
	}
	e2e.Rewrite(t, l, "athos", func(c string) string { return strings.Replace(c, `, "gone=2001:db8:77::1"`, "", 1) })
	e2e.MustIn(t, l, "athos", "agent", "reload")
	p := all(t, l)
	if len(p.Destinations) != 2 || len(p.Own) != 1 || p.Own[0] != "athos" {
		t.Errorf("%+v", p)
	}
	if d := probed(t, l, "aramis"); d.Sent < before.Sent || d.State != api.ProbedAnswered || d.RoundTrip.Count < before.RoundTrip.Count {
		t.Errorf("before %+v\nafter %+v", before, d)
	}
	if list := e.left("aramis"); len(list) > 0 {
		t.Errorf("%v", list)
	}
}

// table is what a person sees.
func table(t *testing.T, l *lab.Lab) {
	text := e2e.MustIn(t, l, "athos", "probes", "aramis")
	for _, want := range []string{"DESTINATION  STATE", "aramis       answered      24/24", "  4 > aramis "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "dartagnan") {
		t.Errorf("%s", text)
	}
}
