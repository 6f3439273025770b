// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
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
	r := &reports{core: c, sinks: set, losses: &losses{core: c, flows: &flows{core: c}, kernel: &kernelEvents{}}, known: &knownUntil{core: c, hooks: newHooks(c, nil)}}
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

// No report covers a time in which packets may have passed without the programs.
func TestReportsBesideGaps(t *testing.T) {
	h := newHarness(t, baseConfig)
	h.write(strings.Replace(baseConfig, "{id: 123,", "{id: 123, export: every,", 1))
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true}
	h.datapath.setHook(hook)
	h.start()
	d := startDevice(t, h)
	out := &reported{}
	c := only[*reports](h).core
	r := &reports{core: c, sinks: &sinks{core: c, running: []*running{{Sink: out}}}, losses: only[*reports](h).losses, known: only[*reports](h).known}
	until := func(what string, ok func(last sink.Report) bool) {
		t.Helper()
		eventually(t, what, func() bool {
			r.tell()
			return len(out.list) > 0 && ok(out.list[len(out.list)-1])
		})
	}
	after := func(what string, at time.Time) {
		t.Helper()
		until(what, func(last sink.Report) bool { return last.Since.Before(last.Until) && last.Until.After(at) })
	}
	after("a report", time.Now())
	for _, tt := range []struct {
		name       string
		begin, end func()
	}{
		{"a detached hook", func() {
			off := hook
			off.Attached = false
			h.datapath.setHook(off)
		}, func() { h.datapath.setHook(hook) }},
		{"a bypassed hook", d.bypass, d.resume},
		{"a missing interface", func() {
			h.system.setLinks(func(links map[string]config.Link) { delete(links, "eth0") })
		}, func() {
			h.system.setLinks(func(links map[string]config.Link) { links["eth0"] = config.Link{Index: 2, MTU: 1500} })
		}},
	} {
		begun := time.Now()
		tt.begin()
		for time.Since(begun) < 1500*time.Millisecond {
			r.tell()
			time.Sleep(20 * time.Millisecond)
		}
		if last := out.list[len(out.list)-1]; last.Until.After(begun.Add(50 * time.Millisecond)) {
			t.Errorf("%s: a report covers %v of it", tt.name, last.Until.Sub(begun))
		}
		ended := time.Now()
		tt.end()
		after("a report after "+tt.name, ended)
		if last := out.list[len(out.list)-1]; last.Since.Before(ended) {
			t.Errorf("%s: a report covers the last %v of it", tt.name, ended.Sub(last.Since))
		}
	}
}

// unreadDatapath is a data plane whose postcards may not be read.
type unreadDatapath struct {
	fakeDatapath
	unread bool
}

func (d *unreadDatapath) ReadThrough() bool { return !d.unread }
