// SPDX-License-Identifier: Apache-2.0

// Package api answers questions about what the collector keeps, over HTTP. Its requests are a table, from which
// the OpenAPI document is made.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/waymark-net/waymark/collector/internal/console"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/metrics"
)

// Server serves the API.
type Server struct {
	http     http.Server
	listener net.Listener
}

// Serve opens the API at an address of this machine. metric are the sources of its metrics.
func Serve(address string, q *query.Queries, metric ...func(*metrics.Gatherer)) (*Server, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("api.address %q: want ADDRESS:PORT", address)
	}
	if !at.Addr().IsLoopback() {
		return nil, fmt.Errorf("api.address %s can be reached from other machines, and the API has no TLS and no authentication yet; use [::1]:%d", at, at.Port())
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w; set api.address to another port", err)
	}
	q.Begin()
	s := &Server{listener: listener, http: http.Server{
		Handler: Handler(q, metric...), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		WriteTimeout: q.Time + 30*time.Second, MaxHeaderBytes: 1 << 14, ConnContext: bounded,
	}}
	go func() { _ = s.http.Serve(listener) }() // it ends with Close
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

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
		return guarded(mux, nil)
	}
	mux.Handle("/", pages)
	return guarded(mux, pages)
}

// guarded refuses requests that a page of a browser makes by another name for this machine (DNS rebinding), or
// from another origin, and says that answers are not pages. Links from other sites may lead to the console.
func guarded(mux *http.ServeMux, pages *console.Console) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !isLocal(r.Host) {
			fail(w, http.StatusForbidden, "the API is asked by the address of this machine, such as http://[::1]:4780, or by localhost")
			return
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" {
			if _, pattern := mux.Handler(r); pattern == "/" && pages != nil && pages.Serves(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
				mux.ServeHTTP(w, r)
				return
			}
			fail(w, http.StatusForbidden, "pages of other origins may not ask")
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// isLocal reports whether a request's host is this machine.
func isLocal(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	if name == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && a.IsLoopback()
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
