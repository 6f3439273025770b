// SPDX-License-Identifier: Apache-2.0

package report

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink"
)

// reported is a sink that keeps the reports about postcards.
type reported struct {
	mu   sync.Mutex
	list []sink.Report
}

func (r *reported) Any() bool { return true }

func (r *reported) Tell(about sink.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, about)
}

// A report covers the time since the configuration is as it is, and only namespaces that
// make postcards; when the data plane's postcards could not be read, there is none.
func TestReports(t *testing.T) {
	plane, out := &unreadDatapath{}, &reported{}
	var running atomic.Pointer[service.State]
	d := Dependencies{Datapath: plane, State: &running}
	r := NewCompleteness(d, out, &RecordLosses{d: d, flows: &Flows{d: d}, kernel: &KernelEvents{}}, noGaps{})
	use := func(namespaces ...model.Namespace) {
		running.Store(&service.State{Config: &config.Config{}, Resolved: config.Resolved{Node: model.NodeConfig{Namespaces: namespaces}}})
	}
	every, sampled, sums := model.Namespace{
		ID:     1,
		Export: model.ExportEvery,
	}, model.Namespace{
		ID:     2,
		Export: model.ExportSample,
		Sample: 10,
	}, model.Namespace{
		ID:     3,
		Export: model.ExportAggregate,
	}
	r.sendReport()
	use(sums)
	r.sendReport()
	if len(out.list) != 0 {
		t.Fatalf("reports %+v of no postcards", out.list)
	}
	use(every, sampled, sums)
	r.sendReport()
	r.sendReport()
	use(every, sampled, sums) // the same, resolved again
	r.sendReport()
	plane.unread = true
	r.sendReport()
	plane.unread = false
	if len(out.list) != 3 {
		t.Fatalf("%d reports, want 3", len(out.list))
	}
	for i, one := range out.list {
		if len(one.Namespaces) != 2 || one.Namespaces[0] != (sink.Reported{Namespace: 1, Sampling: 1}) ||
			one.Namespaces[1] != (sink.Reported{Namespace: 2, Sampling: 10}) ||
			!one.Since.Equal(out.list[0].Until) || one.Until.Before(one.Since) || !one.Served.Equal(one.Since) || time.Since(one.Until) < settling {
			t.Errorf("report %d: %+v", i, one)
		}
	}
	use(every)
	r.sendReport()
	if last := out.list[3]; !last.Since.Equal(last.Until) || len(last.Namespaces) != 1 {
		t.Errorf("after a change: %+v", last)
	}
}

// unreadDatapath is a data plane whose postcards may not be read.
type unreadDatapath struct {
	agenttest.Datapath
	unread bool
}

func (d *unreadDatapath) ReadThrough() bool { return !d.unread }
