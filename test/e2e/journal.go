// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// Journal keeps the traces that an agent reports.
type Journal struct {
	lock   sync.Mutex
	traces []record.Trace
	fault  error
}

// Keep starts a journal that ends with the test.
func Keep(t *testing.T, l *lab.Lab, node string) *Journal {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	j := &Journal{}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		err := api.NewClient(instance.Socket()).Observe(ctx, api.RecordFilter{}, func() { close(ready) }, j.addRecord)
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

func (j *Journal) addRecord(line []byte) error {
	r, err := record.Parse(bytes.Clone(line))
	if err != nil {
		return err
	}
	trace, ok := r.(*record.Trace)
	if !ok {
		return fmt.Errorf("the agent reports %s", line)
	}
	j.lock.Lock()
	defer j.lock.Unlock()
	j.traces = append(j.traces, *trace)
	return nil
}

func (j *Journal) fail(err error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.fault = err
}

// Read waits for a number of traces and empties the journal.
func (j *Journal) Read(t *testing.T, want int) []record.Trace {
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

// Value shows a field of a trace: "" when the trace type lacks it, "-" when
// there is no value.
func Value[T any](f record.Field[T]) string {
	switch {
	case !f.Present:
		return ""
	case !f.Valid:
		return "-"
	}
	return fmt.Sprint(f.Value)
}

// Way shows the path of a trace: for each node its ids, interfaces, hop limit.
func Way(r record.Trace) string {
	var nodes []string
	for _, n := range r.Nodes {
		text := fmt.Sprintf("%s %s>%s", Value(n.NodeID), Value(n.IngressID), Value(n.EgressID))
		if n.NodeIDWide.Present {
			text += fmt.Sprintf(" %s %s>%s", Value(n.NodeIDWide), Value(n.IngressIDWide), Value(n.EgressIDWide))
		}
		nodes = append(nodes, text+" hop limit "+Value(n.HopLimit))
	}
	return strings.Join(nodes, ", ")
}
