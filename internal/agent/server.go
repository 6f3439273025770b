// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// Limits of those who talk to the agent.
const (
	readTimeout     = 10 * time.Second
	shutdownTimeout = 2 * time.Second
	maxRequest      = 1 << 20
)

// listen opens the API's socket for the agent's own user.
func listen(path string) (net.Listener, error) {
	// The lock is held: whoever left a socket is gone.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open the API: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("open the API: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("open the API: %w", err), l.Close())
	}
	return l, nil
}

// server serves the API on the Unix socket.
type server struct {
	http   http.Server
	failed chan error
	served chan struct{} // closed when the listener is
}

func newServer(a *Agent, l net.Listener) *server {
	s := &server{
		http: http.Server{
			Handler:           a.routes(),
			ReadHeaderTimeout: readTimeout,
		},
		failed: make(chan error, 1),
		served: make(chan struct{}),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("the API: %w", err)
		}
	}()
	return s
}

// shutdown answers what was asked, and closes.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.served
}

// public are the pages that the network may see, too.
func (a *Agent) public() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler(collector{a}.Collect, metrics.Process))
	mux.HandleFunc("GET /healthz", a.healthz)
	return mux
}

// healthz answers 200 unless something does not work.
func (a *Agent) healthz(w http.ResponseWriter, _ *http.Request) {
	worst := health.Worst(a.warnings())
	status := http.StatusOK
	if worst == health.Error {
		status = http.StatusServiceUnavailable
	}
	if worst == "" {
		worst = "ok"
	}
	answer(w, status, map[string]health.Severity{"status": worst})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked is gone: nobody to tell
}

// refuse answers with the reason: what the request is at fault for is 4xx.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var faults config.Faults
	var refused refusal
	var bad badRequest
	var missing notFound
	switch {
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.As(err, &faults), errors.As(err, &refused):
		status = http.StatusUnprocessableEntity
	}
	answer(w, status, api.Error{Message: err.Error(), Faults: faults})
}

// badRequest is a request that cannot be understood.
type badRequest struct{ err error }

func (b badRequest) Error() string { return b.err.Error() }

// notFound is a request to change what is not there.
type notFound struct{ err error }

func (n notFound) Error() string { return n.err.Error() }

// decode reads a request's body into v, strictly.
func decode(r *http.Request, v any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		return badRequest{fmt.Errorf("read the request: %w", err)}
	}
	if len(body) > maxRequest {
		return badRequest{fmt.Errorf("the request has more than %d bytes", maxRequest)}
	}
	if u, ok := v.(json.Unmarshaler); ok {
		err := u.UnmarshalJSON(body)
		var faults config.Faults
		if errors.As(err, &faults) {
			for _, f := range faults {
				f.File = "request"
			}
		}
		if err != nil {
			return badRequest{err}
		}
		return nil
	}
	if err := unmarshalStrict(body, v); err != nil {
		return badRequest{fmt.Errorf("the request is not understood: %w", err)}
	}
	return nil
}

// metricsServer serves the public pages where the configuration says. An
// address that cannot be had is tried again: a namespace's loopback interface
// may come up later, and packets do not depend on it.
type metricsServer struct {
	agent *Agent

	mu      sync.Mutex
	wanted  config.Listen
	server  *http.Server
	address string
	err     error
	told    string // what of it is in the log
}

func newMetricsServer(a *Agent) *metricsServer {
	return &metricsServer{agent: a, wanted: config.ListenNone}
}

// set makes it listen at an address, and no longer at another.
func (m *metricsServer) set(wanted config.Listen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wanted == m.wanted && (m.server != nil || wanted == config.ListenNone) {
		return
	}
	m.stop()
	m.wanted = wanted
	m.open()
}

// retry tries again what failed.
func (m *metricsServer) retry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		m.open()
	}
}

func (m *metricsServer) open() {
	m.err = nil
	if m.wanted == config.ListenNone || m.wanted == "" {
		return
	}
	l, err := net.Listen("tcp", string(m.wanted))
	if err != nil {
		m.fail(err)
		return
	}
	server := &http.Server{Handler: m.agent.public(), ReadHeaderTimeout: readTimeout, WriteTimeout: readTimeout}
	m.server, m.address, m.told = server, l.Addr().String(), ""
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			m.failed(server, err)
		}
	}()
	m.agent.log.Info("serving metrics", "address", m.address)
}

// failed notes that a server ended by itself; retry opens another.
func (m *metricsServer) failed(server *http.Server, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == server {
		m.server, m.address = nil, ""
		m.fail(err)
	}
}

// fail notes why the pages are not served. Each reason is in the log once.
func (m *metricsServer) fail(err error) {
	if m.err = err; err.Error() == m.told {
		return
	}
	m.told = err.Error()
	m.agent.logWarning(metricsWarning(err))
}

func (m *metricsServer) stop() {
	if m.server != nil {
		m.server.Close()
	}
	m.server, m.address, m.err, m.told = nil, "", nil, ""
}

func (m *metricsServer) close() { m.set(config.ListenNone) }

// fault is why the pages are not served, nil when they are or need not be.
func (m *metricsServer) fault() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// url is where the metrics are, "" when they are not.
func (m *metricsServer) url() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.address == "" {
		return ""
	}
	return "http://" + m.address + "/metrics"
}
