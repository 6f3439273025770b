// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/measure"
	"github.com/waymark-net/waymark/internal/agent/report"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/internal/sink"
)

// toldCollectors keep the reports about postcards.
type toldCollectors struct {
	mu   sync.Mutex
	list []sink.Report
}

func (c *toldCollectors) Any() bool { return true }

func (c *toldCollectors) Tell(r sink.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, r)
}

func (c *toldCollectors) last() (r sink.Report, some bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == 0 {
		return r, false
	}
	return c.list[len(c.list)-1], true
}

// No report covers a time in which packets may have passed without the programs.
func TestReportsBesideGaps(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Write(strings.Replace(agenttest.BaseConfig, "{id: 123,", "{id: 123, export: every,", 1))
	hook := datapath.HookState{Index: 3, Name: "eth1", Ingress: true, Mode: datapath.AttachTCX, Attached: true, InPlace: true}
	h.Datapath.SetHook(hook)
	h.Start()
	d := startDevice(t, h)
	out := &toldCollectors{}
	known := &knownUntil{core: &h.agent.core, hooks: only[*hooks](h), unserved: only[*measure.UnservedInterfaces](h)}
	completeness := report.NewCompleteness(h.agent.forReports(), out, only[*report.RecordLosses](h), known)
	ctx, cancel := context.WithCancel(t.Context())
	var telling sync.WaitGroup
	telling.Go(func() { _ = completeness.Run(ctx) })
	t.Cleanup(func() { cancel(); telling.Wait() })
	until := func(what string, ok func(last sink.Report) bool) {
		t.Helper()
		agenttest.Eventually(t, what, func() bool {
			last, some := out.last()
			return some && ok(last)
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
			h.Datapath.SetHook(off)
		}, func() { h.Datapath.SetHook(hook) }},
		{"a bypassed hook", d.bypass, d.resume},
		{"a missing interface", func() {
			h.System.SetLinks(func(links map[string]config.Link) { delete(links, "eth0") })
		}, func() {
			h.System.SetLinks(func(links map[string]config.Link) { links["eth0"] = config.Link{Index: 2, MTU: 1500} })
		}},
	} {
		begun := time.Now()
		tt.begin()
		time.Sleep(1700 * time.Millisecond) // the agent looks at whole seconds, and two packets after a look are no gap
		if last, _ := out.last(); last.Until.After(begun.Add(50 * time.Millisecond)) {
			t.Errorf("%s: a report covers %v of it", tt.name, last.Until.Sub(begun))
		}
		ended := time.Now()
		tt.end()
		after("a report after "+tt.name, ended)
		if missed := d.missed.Swap(0); missed > 0 && missed < ended.UnixNano() { // the device counted no packet after this time
			ended = time.Unix(0, missed)
		}
		if last, _ := out.last(); last.Since.Before(ended) {
			t.Errorf("%s: a report covers the last %v of it", tt.name, ended.Sub(last.Since))
		}
	}
}
