// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/kmsgtest"
	"github.com/waymark-net/waymark/internal/supervisor"
)

func TestMain(m *testing.M) { os.Exit(kmsgtest.Run(m)) }

// harness is an agent with a fake system and data plane.
type harness struct {
	*agenttest.Node
	agent   *Agent
	manager *supervisor.Manager
	more    []service.Service // besides the agent's own
}

func newHarness(t *testing.T, yaml string) *harness {
	t.Helper()
	h := &harness{Node: agenttest.New(t, yaml)}
	h.PrepareAgent = func(ready func()) func(context.Context) error {
		h.agent = New(Options{
			ConfigFile: h.File, Instance: h.Instance, NodeName: "gamma", Version: "test", System: h.System,
			Log:   slog.New(slog.NewTextHandler(h.Log, nil)),
			Open:  func(api.Instance, *slog.Logger) (Datapath, bool, error) { return h.Datapath, false, nil },
			Ready: ready, Manager: h.manager,
		})
		h.agent.services = append(h.agent.services, h.more...)
		return h.agent.Run
	}
	return h
}

// only returns a service of the agent.
func only[T service.Service](h *harness) T {
	h.T.Helper()
	for _, s := range h.agent.services {
		if found, ok := s.(T); ok {
			return found
		}
	}
	var none T
	h.T.Fatalf("the agent has no %T", none)
	return none
}

// failure is the error of a change, without its warnings.
func failure(_ api.Changed, err error) error { return err }
