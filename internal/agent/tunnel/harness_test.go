// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
)

// harness is a node with the services of this package.
type harness struct {
	*agenttest.Node
	agent *agenttest.Agent

	paths  *PathMTUs
	errors *Errors
}

func newHarness(t *testing.T, yaml string) *harness {
	t.Helper()
	h := &harness{Node: agenttest.New(t, yaml)}
	h.Serve(func(a *agenttest.Agent) []service.Service {
		h.agent = a
		d := Dependencies{Log: a.Logger, State: &a.State, Tasks: &a.Tasks, System: h.System, Datapath: h.Datapath,
			Changes: &a.Changes, Resolve: func() {}, PathMTUFile: h.Instance.PathMTUFile()}
		h.paths = NewPathMTUs(d)
		h.errors = NewErrors(d, h.paths)
		return []service.Service{NewSources(d), h.paths, h.errors}
	})
	return h
}
