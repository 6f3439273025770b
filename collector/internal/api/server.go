// SPDX-License-Identifier: Apache-2.0

// Package api answers questions about what the collector keeps, over HTTP. Its requests are a table, from which
// the OpenAPI document is made.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/metrics"
)

// settingsPath answers admins with the settings in force. They name files of secrets, and have none.
const settingsPath = "/v1/settings"

// Server serves the API.
type Server struct {
	http     http.Server
	listener net.Listener
	scheme   string
}

// Serve opens the API where a guard listens. metric are the sources of its metrics.
func Serve(guard *access.Guard, q *query.Queries, metric ...func(*metrics.Gatherer)) (*Server, error) {
	listener, err := guard.Listen()
	if err != nil {
		return nil, err
	}
	q.Begin()
	s := &Server{listener: listener, scheme: guard.Scheme(), http: http.Server{
		Handler: guard.Wrap(Handler(q, metric...), Paths()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		WriteTimeout: q.Time + 30*time.Second, MaxHeaderBytes: 1 << 14, TLSConfig: guard.TLS(), ConnContext: bounded,
		ErrorLog: log.New(io.Discard, "", 0), // what anybody who connects could fill
	}}
	go func() { // it ends with Close
		if s.http.TLSConfig != nil {
			_ = s.http.ServeTLS(listener, "", "")
			return
		}
		_ = s.http.Serve(listener)
	}()
	return s, nil
}

// Paths are those that roles with a scope may ask for: the store gives them what is in their scope. A path that is not
// here is refused to them.
func Paths() access.Paths {
	p := access.Paths{Scoped: []string{documentPath, liveRoute.path}, Admin: []string{settingsPath}}
	for _, r := range routes {
		p.Scoped = append(p.Scoped, r.path)
	}
	return p
}

// URL is where it listens.
func (s *Server) URL() string { return s.scheme + "://" + s.listener.Addr().String() }

// Close ends it; questions that are worked on get a moment.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}

// Handler answers the requests.
func Handler(q *query.Queries, metric ...func(*metrics.Gatherer)) http.Handler {
	mux := http.NewServeMux()
	for i := range routes {
		r := &routes[i]
		mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, request *http.Request) { r.answerTo(w, request, q) })
	}
	if q.Hub != nil {
		mux.HandleFunc("GET "+liveRoute.path, func(w http.ResponseWriter, request *http.Request) { serveLive(w, request, q, q.Hub) })
	}
	mux.HandleFunc("GET "+documentPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(Document())
	})
	mux.Handle("GET /metrics", metrics.Handler(metric...))
	if q.Settings != nil {
		mux.HandleFunc("GET "+settingsPath, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, q.Settings) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet && request.Method != http.MethodHead {
			fail(w, http.StatusMethodNotAllowed, "only GET is answered")
			return
		}
		fail(w, http.StatusNotFound, "there is nothing at this path; "+documentPath+" lists what is")
	})
	return mux
}

// answerTo answers a request.
func (r *route) answerTo(w http.ResponseWriter, request *http.Request, q *query.Queries) {
	given := request.URL.Query()
	asCSV, err := wantsCSV(given, request.Header.Values("Accept"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	v, err := r.read(given, time.Now().UTC())
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	// The request was read: the time for that must not end an answer that takes longer. It is read on, so that a
	// client that goes away ends the question.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	answer, err := r.run(request.Context(), q, v)
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		fail(w, http.StatusBadRequest, bad.text)
	case errors.Is(err, query.ErrBusy):
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, query.ErrSlow):
		fail(w, http.StatusGatewayTimeout, err.Error())
	case request.Context().Err() != nil: // nobody waits
	case err != nil:
		text, _, _ := strings.Cut(err.Error(), "\n")
		if strings.Contains(text, "Out of Memory") {
			fail(w, http.StatusGatewayTimeout, "the question needs more memory than store.memory allows; ask about a shorter time or fewer addresses")
			return
		}
		if query.Confined(request.Context()) {
			text = "the question failed; the operator of the collector finds out why by asking the same" // its text is about files
		}
		fail(w, http.StatusInternalServerError, text)
	case asCSV:
		writeCSV(w, r.name, answer)
	default:
		write(w, http.StatusOK, answer)
	}
}

// run asks if all parameters are right.
func (r *route) run(ctx context.Context, q *query.Queries, v *values) (any, error) {
	ask := r.serve(v)
	if v.err != nil {
		return nil, v.err
	}
	return ask(ctx, q)
}

// failure is an error in JSON.
type failure struct {
	Kind  string `json:"kind"`
	Error string `json:"error" doc:"What is wrong, and what to do."`
}

func fail(w http.ResponseWriter, code int, text string) { write(w, code, failure{"error", text}) }

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w) // escapes <, > and &
	_ = e.Encode(v)         // fails when nobody reads any more
}
