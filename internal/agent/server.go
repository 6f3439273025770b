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
	"time"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/config"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/metrics"
)

// Limits for clients of the API.
const (
	readTimeout     = 10 * time.Second
	shutdownTimeout = 2 * time.Second
	maxRequest      = 1 << 20
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
			Handler:           a.handler(),
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
	mux.Handle("GET /metrics", metrics.Handler(a.collect, metrics.Process))
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
	_ = json.NewEncoder(w).Encode(body) // fails only when the client has gone
}

// refuse answers with the error; the status is 4xx when the request is wrong.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var faults config.Faults
	var refused refusal
	var bad badRequest
	var missing notFound
	var ambiguous *config.AmbiguousError
	body := api.Error{Message: err.Error()}
	switch {
	case errors.As(err, &ambiguous):
		status, body.Encapsulations = http.StatusConflict, ambiguous.Fit
	case errors.As(err, &missing):
		status = http.StatusNotFound
	case errors.As(err, &bad):
		status = http.StatusBadRequest
	case errors.As(err, &faults), errors.As(err, &refused):
		status = http.StatusUnprocessableEntity
	}
	body.Faults = faults
	answer(w, status, body)
}

// badRequest is a request that cannot be understood.
type badRequest struct{ err error }

func (b badRequest) Error() string { return b.err.Error() }

// notFound is a request to change something that does not exist.
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
		return badRequest{fmt.Errorf("the request is not valid: %w", err)}
	}
	return nil
}
