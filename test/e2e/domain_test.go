// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/export"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
)

// modes are the transfers' two ways to trace, by one hook.
func modes(attach config.Attach) []transfer {
	return slices.DeleteFunc(transfers(), func(tt transfer) bool { return tt.attach != attach })
}

// domain is `line`, with a trace in every packet to beta.
func domain(t *testing.T, tt transfer) *lab.Topology {
	t.Helper()
	top := builtin(t, "line")
	reconfigure(t, top, "athos", append(tt.athos, "frequency: 1/10", "frequency: 1/1")...)
	reconfigure(t, top, "aramis", tt.aramis...)
	for _, node := range []string{"athos", "porthos", "aramis"} {
		reconfigure(t, top, node, ", role:", fmt.Sprintf(", attach: %s, role:", tt.attach))
	}
	return top
}

// setMTU gives the links at the hosts one MTU, those of the domain another.
func setMTU(top *lab.Topology, edge, inner int) {
	for i := range top.Links {
		top.Links[i].MTU = inner
		for _, end := range top.Links[i].Ends {
			if end.Node == "alpha" || end.Node == "beta" {
				top.Links[i].MTU = edge
			}
		}
	}
}

// journal keeps the traces that an agent reports.
type journal struct {
	lock   sync.Mutex
	traces []export.TraceRecord
	fault  error
}

// keep starts a journal that ends with the test.
func keep(t *testing.T, l *lab.Lab, node string) *journal {
	t.Helper()
	place, err := l.Node(node).Place()
	if err != nil {
		t.Fatal(err)
	}
	j := &journal{}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := api.NewClient(place.Socket()).Observe(ctx, api.RecordFilter{}, func() { close(ready) }, j.take)
		j.fail(err)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-ready:
	case <-ended:
		t.Fatal(j.fault)
	}
	return j
}

func (j *journal) take(line []byte) error {
	var r export.TraceRecord
	if err := json.Unmarshal(bytes.Clone(line), &r); err != nil {
		return err
	}
	if r.Kind != "trace" {
		return fmt.Errorf("the agent reports %s", line)
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	j.traces = append(j.traces, r)
	return nil
}

func (j *journal) fail(err error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.fault = err
}

// read waits for a number of traces and empties the journal.
func (j *journal) read(t *testing.T, want int) []export.TraceRecord {
	t.Helper()
	for deadline := time.Now().Add(patience.Of(5 * time.Second)); ; time.Sleep(10 * time.Millisecond) {
		j.lock.Lock()
		if len(j.traces) >= want || j.fault != nil || time.Now().After(deadline) {
			defer j.lock.Unlock()
			got := j.traces
			j.traces = nil
			if len(got) != want || j.fault != nil {
				t.Errorf("%d traces were reported, want %d (%v)", len(got), want, j.fault)
			}
			return got
		}
		j.lock.Unlock()
	}
}

// send runs exchanges to beta; nothing may be lost, changed or doubled.
func send(t *testing.T, l *lab.Lab, from string, exchanges ...lab.Traffic) {
	t.Helper()
	for _, e := range exchanges {
		e.From, e.To = from, "beta"
		r, err := l.Send(t.Context(), e)
		if err != nil || r.Lost() > 0 || r.Duplicate > 0 {
			t.Errorf("%s of %d bytes from %s: %+v, %v", e.Kind, e.Size, from, r, err)
		}
	}
}

// settled reads a counter when it no longer moves.
func settled(t *testing.T, l *lab.Lab, node, outcome string) uint64 {
	t.Helper()
	var n uint64
	for since := 0; since < 5; since++ {
		if now := counter(t, l, node, outcome); now != n {
			n, since = now, 0
		}
		time.Sleep(patience.Of(10 * time.Millisecond))
	}
	return n
}

// checkCounters wants the sums of outcomes over a node's interfaces.
func checkCounters(t *testing.T, l *lab.Lab, node string, want map[string]uint64) {
	t.Helper()
	for outcome, n := range want {
		if got := settled(t, l, node, outcome); got != n {
			t.Errorf("%s: %s %d, want %d", node, outcome, got, n)
		}
	}
}

// value shows a field of a trace: "" when the trace type lacks it, "-" when
// there is no value.
func value[T any](f export.Field[T]) string {
	switch {
	case !f.Present:
		return ""
	case !f.Valid:
		return "-"
	}
	return fmt.Sprint(f.Value)
}

// way shows the path of a trace: for each node its ids, interfaces, hop limit.
func way(r export.TraceRecord) string {
	var nodes []string
	for _, n := range r.Nodes {
		text := fmt.Sprintf("%s %s>%s", value(n.NodeID), value(n.IngressID), value(n.EgressID))
		if n.NodeIDWide.Present {
			text += fmt.Sprintf(" %s %s>%s", value(n.NodeIDWide), value(n.IngressIDWide), value(n.EgressIDWide))
		}
		nodes = append(nodes, text+" hop limit "+value(n.HopLimit))
	}
	return strings.Join(nodes, ", ")
}
