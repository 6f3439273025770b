// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/metrics"
)

// journal is what services did, in order.
type journal struct {
	mu    sync.Mutex
	steps []string
}

func (j *journal) addStep(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.steps = append(j.steps, fmt.Sprintf(format, args...))
}

// takeSteps returns what was done since the last call.
func (j *journal) takeSteps() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer func() { j.steps = nil }()
	return strings.Join(j.steps, ", ")
}

// noted is a service that keeps a journal.
type noted struct {
	service.Idle
	name    string
	journal *journal
	refuse  error // a configuration
	broken  chan error
}

func (n *noted) Open() error { n.journal.addStep("open %s", n.name); return nil }

func (n *noted) Prepare(p *service.Plan) error {
	p.OnCommit(func() { n.journal.addStep("commit %s", n.name) })
	p.OnAbandon(func() { n.journal.addStep("abandon %s", n.name) })
	return n.refuse
}

func (n *noted) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.broken:
		return err
	}
}

func (n *noted) Close(bool) { n.journal.addStep("close %s", n.name) }

func (n *noted) Collect(g *metrics.Gatherer) {
	g.Add(service.Metric("noted_"+n.name, "For the test."), 1)
}

// withNoted starts an agent with two additional services.
func withNoted(t *testing.T) (h *harness, j *journal, first, second *noted) {
	t.Helper()
	j = &journal{}
	first = &noted{name: "a", journal: j, broken: make(chan error)}
	second = &noted{name: "b", journal: j, broken: make(chan error)}
	h = newHarness(t, agenttest.BaseConfig)
	h.more = []service.Service{first, second}
	h.Start()
	return h, j, first, second
}

// Services are opened and prepared in the order of the list, closed in reverse,
// and asked for their metrics.
func TestServicesFollowTheAgent(t *testing.T) {
	h, j, _, _ := withNoted(t)
	if got := j.takeSteps(); got != "open a, open b, commit a, commit b" {
		t.Errorf("at the start: %s", got)
	}
	text, err := h.Client.Metrics(t.Context())
	if err != nil || !strings.Contains(string(text), "waymark_noted_a 1") || !strings.Contains(string(text), "waymark_noted_b 1") {
		t.Errorf("metrics of services are missing (%v)", err)
	}
	if _, err := h.Client.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := j.takeSteps(); got != "commit a, commit b" {
		t.Errorf("at a reload: %s", got)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	if got := j.takeSteps(); got != "close b, close a" {
		t.Errorf("at the end: %s", got)
	}
}

// A configuration that a service refuses changes nothing, and neither does one
// that the data plane refuses: what services prepared is undone.
func TestServicesUndo(t *testing.T) {
	h, j, first, second := withNoted(t)
	before := h.Datapath.Applications()
	add := func() error { _, err := h.Client.AddNamespace(t.Context(), config.Namespace{ID: 124}); return err }
	for _, tt := range []struct {
		service, plane error
		want           string
	}{
		{errors.New("no socket"), nil, "abandon a, abandon b"},
		{nil, errors.New("no program"), "abandon a, abandon b"},
	} {
		j.takeSteps()
		second.refuse = tt.service
		h.Datapath.SetRefusal(tt.plane)
		if err := add(); err == nil {
			t.Error("what was refused is in force")
		}
		if got := j.takeSteps(); got != tt.want {
			t.Errorf("%v, %v: %s, want %s", tt.service, tt.plane, got, tt.want)
		}
	}
	first.refuse, second.refuse = errors.New("no"), nil
	if err := add(); err == nil || j.takeSteps() != "abandon a" {
		t.Errorf("a service after the one that refuses was prepared (%v)", err)
	}
	if h.Datapath.Applications() != before || len(h.agent.state.Load().Config.Namespaces) != 1 {
		t.Error("a refused configuration is in force")
	}
}

// The error of one service ends the agent, and all others are closed.
func TestServiceEndsTheAgent(t *testing.T) {
	h, j, first, _ := withNoted(t)
	j.takeSteps()
	first.broken <- errors.New("the socket is gone")
	err := <-h.Done
	h.Done <- err
	if err == nil || err.Error() != "the agent cannot continue: the socket is gone" || j.takeSteps() != "close b, close a" {
		t.Errorf("%v", err)
	}
	if closed, removed := h.Datapath.Ended(); closed != 1 || removed != 0 {
		t.Errorf("closed %d times, removed %d; want the data plane to stay", closed, removed)
	}
}

// Services that make records are closed before those that take them.
func TestRecordsAreDrained(t *testing.T) {
	place := map[string]int{}
	for i, s := range New(Options{}).services {
		place[fmt.Sprintf("%T", s)] = i
	}
	way := []string{"*report.Sinks", "*report.Flows", "*report.Reader"}
	for _, name := range way {
		if _, ok := place[name]; !ok {
			t.Fatalf("there is no %s", name)
		}
	}
	if !slices.IsSortedFunc(way, func(a, b string) int { return place[a] - place[b] }) {
		t.Errorf("the list is not in the order %v: %v", way, place)
	}
}
