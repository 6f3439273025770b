// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// reloads counts reloads by result, and warns while the running configuration is not
// the file's.
type reloads struct {
	service.Idle
	*core
	done, failed atomic.Uint64
	fault        atomic.Pointer[string] // of the last reload
}

func (r *reloads) succeed() {
	r.fault.Store(nil)
	r.done.Add(1)
}

func (r *reloads) fail(err error) {
	text := err.Error()
	r.fault.Store(&text)
	r.failed.Add(1)
}

var descReloads = service.Metric("reloads_total", "Reloads of the configuration file.", "result")

func (r *reloads) Collect(g *metrics.Gatherer) {
	g.Add(descReloads, float64(r.done.Load()), "ok")
	g.Add(descReloads, float64(r.failed.Load()), "failed")
}

func (r *reloads) Warnings(s *service.State) (ws []health.Warning) {
	if s.Modified {
		ws = append(ws, health.New(health.RuntimeChanges, "",
			"changes made at runtime are in force; the next reload ends them",
			"write the changes to keep into "+r.options.ConfigFile+" ('waymark agent config' prints it)"))
	}
	if fault := r.fault.Load(); fault != nil {
		ws = append(ws, health.New(health.ReloadFailed, "",
			"the last reload failed, and the previous configuration stays in force: "+*fault,
			"correct the file, check it with 'waymark config check', and reload"))
	}
	return ws
}
