// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/sink"
)

// reported is a sink that keeps the reports about postcards.
type reported struct {
	sink.Sink
	mu   sync.Mutex
	list []sink.Report
}

func (r *reported) Report(about sink.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, about)
}

// A report covers the time since the configuration is as it is, and only namespaces that
// make postcards; when the data plane's postcards could not be read, there is none.
func TestReports(t *testing.T) {
	plane, out := &unreadDatapath{}, &reported{}
	c := &core{datapath: plane, tasks: tasks{}}
	set := &sinks{core: c, running: []*running{{Sink: out}}}
	r := &reports{core: c, sinks: set, losses: &losses{core: c, flows: &flows{core: c}, kernel: &kernelEvents{}}}
	use := func(namespaces ...model.Namespace) {
		c.state.Store(&state{config: &config.Config{}, resolved: config.Resolved{Node: model.NodeConfig{Namespaces: namespaces}}})
	}
	every, sampled, sums := model.Namespace{ID: 1, Export: model.ExportEvery}, model.Namespace{ID: 2, Export: model.ExportSample, Sample: 10}, model.Namespace{ID: 3, Export: model.ExportAggregate}
	r.tell()
	use(sums)
	r.tell()
	if len(out.list) != 0 {
		t.Fatalf("reports %+v of no postcards", out.list)
	}
	use(every, sampled, sums)
	r.tell()
	r.tell()
	use(every, sampled, sums) // the same, resolved again
	r.tell()
	plane.unread = true
	r.tell()
	plane.unread = false
	if len(out.list) != 3 {
		t.Fatalf("%d reports, want 3", len(out.list))
	}
	for i, one := range out.list {
		if len(one.Namespaces) != 2 || one.Namespaces[0] != (sink.Reported{Namespace: 1, Sampling: 1}) || one.Namespaces[1] != (sink.Reported{Namespace: 2, Sampling: 10}) ||
			!one.Since.Equal(out.list[0].Until) || one.Until.Before(one.Since) || !one.Served.Equal(one.Since) || time.Since(one.Until) < settling {
			t.Errorf("report %d: %+v", i, one)
		}
	}
	use(every)
	r.tell()
	if last := out.list[3]; !last.Since.Equal(last.Until) || len(last.Namespaces) != 1 {
		t.Errorf("after a change: %+v", last)
	}
}

// unreadDatapath is a data plane whose postcards may not be read.
type unreadDatapath struct {
	fakeDatapath
	unread bool
}

func (d *unreadDatapath) ReadThrough() bool { return !d.unread }
