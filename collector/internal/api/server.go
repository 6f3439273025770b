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
	"github.com/waymark-net/waymark/collector/internal/console"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/problem"
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
		Handler: guarded(
			guard,
			Handler(q, metric...),
		), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		WriteTimeout: 2*q.Time + mostWriting, MaxHeaderBytes: 1 << 14, TLSConfig: guard.TLS(), ConnContext: bounded,
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

// guarded puts a guard before the requests.
func guarded(guard *access.Guard, mux *http.ServeMux) http.Handler {
	return guard.Wrap(mux, Paths(mux))
}

// Paths are those that roles with a scope may ask for: the store gives them what is in their scope. A path that is not
// here is refused to them.
func Paths(mux *http.ServeMux) access.Paths {
	p := access.Paths{Scoped: []string{documentPath, liveRoute.path}, Admin: []string{settingsPath}}
	for _, r := range routes {
		p.Scoped = append(p.Scoped, r.path)
	}
	if pages, err := console.New(http.NotFoundHandler()); err == nil {
		p.Pages = func(r *http.Request) bool { // also of a path that is no request's: the console takes many
			_, pattern := mux.Handler(r)
			return pattern == "/" && pages.Serves(r)
		}
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
func Handler(q *query.Queries, metric ...func(*metrics.Gatherer)) *http.ServeMux {
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
	other := http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet && request.Method != http.MethodHead {
			fail(w, http.StatusMethodNotAllowed, "only GET is answered")
			return
		}
		fail(w, http.StatusNotFound, "there is nothing at this path; "+documentPath+" lists what is")
	})
	pages, err := console.New(other)
	if err != nil { // the program was built from a damaged tree
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusInternalServerError, err.Error()) })
		return mux
	}
	mux.Handle("/", pages)
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
	if len(r.parameters) > 0 { // the state of the collector is small, and always given
		release, err := q.Hold(request.Context(), access.Of(request.Context()).User)
		if err != nil {
			busy(w, err)
			return
		}
		defer release()
	}
	answer, err := r.run(request.Context(), q, v)
	w = &patient{ResponseWriter: w, to: http.NewResponseController(w), until: time.Now().Add(q.Time + mostWriting)}
	switch {
	case err != nil:
		r.refuse(w, request, err)
	case asCSV:
		writeCSV(w, r.name, answer)
	default:
		write(w, http.StatusOK, answer)
	}
}

// refuse says why a question has no answer, and what to ask instead.
func (r *route) refuse(w http.ResponseWriter, request *http.Request, err error) {
	var bad badRequest
	text, _, _ := strings.Cut(err.Error(), "\n")
	switch {
	case errors.As(err, &bad):
		fail(w, http.StatusBadRequest, bad.text)
	case errors.Is(err, query.ErrBusy):
		busy(w, err)
	case errors.Is(err, query.ErrSlow):
		fail(w, http.StatusGatewayTimeout, problem.New(err.Error(), r.askLess()+", or set api.time").Error())
	case request.Context().Err() != nil: // the client has gone
	case strings.Contains(text, "Out of Memory"):
		fail(w, http.StatusGatewayTimeout, problem.New("the question needs more memory than store.memory allows", r.askLess()).Error())
	case query.Confined(request.Context()): // its text is about files
		fail(w, http.StatusInternalServerError, "the question failed; the operator of the collector finds out why by asking the same")
	default:
		fail(w, http.StatusInternalServerError, text)
	}
}

func busy(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "5")
	fail(w, http.StatusServiceUnavailable, err.Error())
}

// mostWriting is how long an answer may take to be written, besides the time for a question.
const mostWriting = 30 * time.Second

// patient writes an answer in pieces. A client that takes none for a while is given up, so that slow ones do not
// keep the room for answers.
type patient struct {
	http.ResponseWriter
	to    *http.ResponseController
	until time.Time
	fault error
}

// piece is what is written at a time, in octets.
const piece = 64 << 10

func (p *patient) Write(b []byte) (n int, err error) {
	for n < len(b) && p.fault == nil {
		deadline := time.Now().Add(mostStalled)
		if deadline.After(p.until) {
			deadline = p.until
		}
		_ = p.to.SetWriteDeadline(deadline) // a test without a connection has none
		var written int
		written, p.fault = p.ResponseWriter.Write(b[n:min(n+piece, len(b))])
		n += written
	}
	return n, p.fault
}

// run asks if all parameters are right.
func (r *route) run(ctx context.Context, q *query.Queries, v *values) (any, error) {
	ask := r.serve(v)
	if v.err != nil {
		return nil, v.err
	}
	answer, err := ask(ctx, q)
	if a, ok := answer.(interface{ Advise(fewer string) }); ok && err == nil {
		a.Advise(r.fewer())
	}
	return answer, err
}

// askLess says what to do about a question that asks for too much.
func (r *route) askLess() string {
	if fewer := r.fewer(); fewer != "" {
		return "ask about a shorter time or " + fewer
	}
	return "ask about a shorter time"
}

// fewer is what a request can ask for less of, besides time; "": nothing.
func (r *route) fewer() string {
	switch {
	case r.has("source"):
		return "fewer addresses"
	case r.has("flow"):
		return "one flow"
	case r.has("event"):
		return "one event or node"
	}
	return ""
}

func (r *route) has(parameter string) bool {
	for i := range r.parameters {
		if r.parameters[i].name == parameter {
			return true
		}
	}
	return false
}

// failure is an error in JSON.
type failure struct {
	Kind  string `json:"kind"`
	Error string `json:"error"`
}

func fail(w http.ResponseWriter, code int, text string) { write(w, code, failure{"error", text}) }

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	e := json.NewEncoder(w) // escapes <, > and &
	_ = e.Encode(v)         // fails when the client has gone
}
