// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/waymark-net/waymark/internal/agent/measure"
	"github.com/waymark-net/waymark/internal/agent/probe"
	"github.com/waymark-net/waymark/internal/agent/queues"
	"github.com/waymark-net/waymark/internal/agent/report"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/agent/tunnel"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/nodenames"
)

// core is what the agent's own services share. Those of other packages get only what they need
// of it.
type core struct {
	options  Options
	log      *slog.Logger
	system   service.System
	host     config.Host // the system, with cached names
	datapath opened

	privatePins bool // the data plane's pins are in this process's own mount namespace

	change   service.ChangeLock            // held while the state is being replaced
	changing service.Changing              // of interfaces
	tasks    service.Tasks                 // periodic work of services
	state    atomic.Pointer[service.State] // nil before the first configuration
	wake     chan struct{}                 // resolve the configuration again
	closing  chan struct{}                 // closed when streams must end
}

// opened is the data plane, once it is open: services are made before.
type opened struct{ Datapath }

// nodeName is what this node is called now.
func (c *core) nodeName() string {
	if s := c.state.Load(); s != nil {
		return c.nameIn(s.Config)
	}
	return cmp.Or(c.options.NodeName, c.options.HostName)
}

// nameIn is what this node is called with a configuration.
func (c *core) nameIn(config *config.Config) string {
	return cmp.Or(c.options.NodeName, config.Node.Name, nodenames.Printable(c.options.HostName))
}

// forReports are the dependencies of the services that make records and pass them on.
func (c *core) forReports() report.Dependencies {
	return report.Dependencies{
		Log: c.log, NodeName: c.nodeName, State: &c.state, Tasks: &c.tasks, System: c.system, Datapath: &c.datapath,
		OneClock: c.options.OneClock, HistoryFile: c.options.Instance.HistoryFile(), EventsFile: c.options.Instance.EventsFile(),
	}
}

// forMeasurements are those of the services that measure flows.
func (c *core) forMeasurements(records measure.Records) measure.Dependencies {
	return measure.Dependencies{
		Log: c.log, NodeName: c.nodeName, State: &c.state, Tasks: &c.tasks, System: c.system, Datapath: &c.datapath, Records: records,
	}
}

// forQueues are those of the service that measures queues.
func (c *core) forQueues(records queues.Records) queues.Dependencies {
	return queues.Dependencies{
		Log:      c.log,
		State:    &c.state,
		Tasks:    &c.tasks,
		Machine:  queues.Kernel{},
		NodeName: c.nodeName,
		Records:  records,
		File:     c.options.Instance.QueuesFile(),
	}
}

// forProbes are those of the service that probes other nodes.
func (c *core) forProbes(records probe.Records) probe.Dependencies {
	return probe.Dependencies{Log: c.log, NodeName: c.nodeName, State: &c.state, Tasks: &c.tasks, System: c.system, Records: records}
}

// forTunnels are those of the services about tunnels.
func (c *core) forTunnels() tunnel.Dependencies {
	return tunnel.Dependencies{
		Log: c.log, State: &c.state, Tasks: &c.tasks, System: c.system, Datapath: &c.datapath, Changes: &c.change, Resolve: c.requestResolve,
		PathMTUFile: c.options.Instance.PathMTUFile(),
	}
}

// requestResolve makes the agent resolve its configuration again.
func (c *core) requestResolve() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// logEach logs each line of an error separately, because a log record is one line.
func (c *core) logEach(level slog.Level, message string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		c.log.Log(context.Background(), level, message, "error", line)
	}
}

func (c *core) logWarning(w health.Warning) { service.LogWarning(c.log, w) }
