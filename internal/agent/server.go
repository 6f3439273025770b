// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// Limits for clients of the API.
const (
	readTimeout     = 10 * time.Second
	shutdownTimeout = 2 * time.Second
)

// listen opens the API's socket for the agent's own user.
func listen(path string) (net.Listener, error) {
	// The lock is held, so an agent that left a socket has ended.
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
			Handler:           a.serveAPI(),
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

// shutdown answers pending requests, and closes.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
	<-s.served
}

// public has the pages that are also served over the network.
func (a *Agent) public() *http.ServeMux {
	mux := http.NewServeMux()
	// The [metrics](metrics.md).
	mux.Handle("GET /metrics", metrics.Handler(a.collect, metrics.Process))
	// `{"status":"ok"}`, or the severity of the worst warning. 503 if that is `error`, else 200.
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
	service.Answer(w, status, map[string]health.Severity{"status": worst})
}
