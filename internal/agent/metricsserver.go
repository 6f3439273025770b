// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// metricsServer serves the public pages at the configured address. If it cannot listen
// there, it tries again: a namespace's loopback interface may come up later, and
// packets do not depend on the metrics.
type metricsServer struct {
	service.Idle
	*core
	pages func() *http.ServeMux

	mu     sync.Mutex
	wanted config.Listen
	server *metrics.Server // nil while nothing is served
	err    error           // why not
	logged string          // the last error in the log
}

func newMetricsServer(c *core, pages func() *http.ServeMux) *metricsServer {
	return &metricsServer{core: c, pages: pages, wanted: config.ListenNone}
}

func (m *metricsServer) Prepare(p *service.Plan) error {
	p.OnCommit(func() { m.set(p.Next.Config.Metrics.Listen) })
	return nil
}

func (m *metricsServer) Run(ctx context.Context) error {
	m.tasks.Every(ctx, service.SamplePeriod, m.retry)
	return nil
}

// set makes the server listen at an address, instead of the previous one.
func (m *metricsServer) set(wanted config.Listen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wanted == m.wanted && (m.server != nil || wanted == config.ListenNone) {
		return
	}
	if wanted != m.wanted {
		m.stop()
	}
	m.wanted = wanted
	m.listen()
}

// retry listens again after a failure.
func (m *metricsServer) retry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		m.listen()
	}
}

func (m *metricsServer) listen() {
	m.err = nil
	if m.wanted == config.ListenNone || m.wanted == "" {
		return
	}
	server, err := metrics.Serve(string(m.wanted), m.pages(), m.failed)
	if err != nil {
		m.fail(err)
		return
	}
	m.server, m.logged = server, ""
	m.log.Info("serving metrics", "address", server.Address())
}

// failed notes that a server ended with an error; retry opens another.
func (m *metricsServer) failed(server *metrics.Server, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == server {
		m.server = nil
		m.fail(err)
	}
}

// fail notes why the pages are not served. Each reason is in the log once.
func (m *metricsServer) fail(err error) {
	if m.err = err; err.Error() == m.logged {
		return
	}
	m.logged = err.Error()
	m.logWarning(metricsWarning(err))
}

func (m *metricsServer) stop() {
	if m.server != nil {
		m.server.Close()
	}
	m.server, m.err, m.logged = nil, nil, ""
}

func (m *metricsServer) Close(bool) { m.set(config.ListenNone) }

func metricsWarning(err error) health.Warning {
	return health.New(health.MetricsUnavailable, "",
		fmt.Sprintf("metrics are not served over the network: %v", err),
		"bring the loopback interface up, free the address, or set metrics.listen to another one or to "+string(config.ListenNone))
}

func (m *metricsServer) Warnings(*service.State) []health.Warning {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		return nil
	}
	return []health.Warning{metricsWarning(m.err)}
}

// Report gives the URL of the metrics, "" while they are not served.
func (m *metricsServer) Report(_ *service.State, status *api.Status) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != nil {
		status.Metrics = "http://" + m.server.Address() + "/metrics"
	}
}
