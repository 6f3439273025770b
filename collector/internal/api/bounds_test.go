// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// everything is a question that reads all packets, and needs much memory.
const everything = "/v1/changes?from=2026-11-21T11:00:00Z&until=2026-11-22T11:00:00Z&window=1s&least=1&moved=0.01&limit=10000"

// A question that would read everything ends when its client goes away. With little memory it is answered, or ends with
// a sentence; what is written meanwhile is written, and the next question is answered.
func TestEverything(t *testing.T) {
	p := storetest.NewPackets(1, 60, 2000, 50_000, start, time.Millisecond)
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Memory: 64e6})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(n int) {
		var list []record.Record
		for range n {
			list = append(list, p.Next())
		}
		if err := s.Write(t.Context(), list); err != nil {
			t.Error(err)
		}
	}
	for range 6 {
		write(20_000)
	}
	q := &query.Queries{Store: s, Time: 10 * time.Minute, AtOnce: 1}
	q.Begin()
	server := httptest.NewServer(Handler(q))
	defer server.Close()
	ask := func(ctx context.Context, path string) (code int, body string, err error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		b, err := io.ReadAll(response.Body)
		return response.StatusCode, string(b), err
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, _, err := ask(ctx, everything)
			done <- err
		}()
		end := time.Now().Add(patience.Of(time.Minute))
		for q.Working() == 0 && time.Now().Before(end) {
			time.Sleep(100 * time.Microsecond)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("the question was answered before it was taken back: %v", err)
		}
	}
	for range 2 {
		code, body, err := ask(t.Context(), everything)
		if code != http.StatusOK && (code != http.StatusGatewayTimeout || !strings.Contains(body, "memory")) || err != nil {
			t.Errorf("%d %.300s %v", code, body, err)
		}
		t.Logf("%d: %.150s", code, body)
		write(100)
	}
	code, body, err := ask(t.Context(), "/v1/packets?from=2026-11-21T11:00:00Z&until=2026-11-22T11:00:00Z&limit=1")
	if code != http.StatusOK || !strings.Contains(body, `"cut"`) || err != nil || q.Working() != 0 {
		t.Errorf("%d %s %v", code, body, err)
	}
}

// Clients that read their answers slowly have a bounded number of them in memory. One more is told to wait; the state of
// the collector is told all the same. When slow ones are gone, others are answered.
func TestSlowClientsHoldFewAnswers(t *testing.T) {
	p := storetest.NewPackets(1, 20, 30, 50, start, time.Millisecond)
	var list []record.Record
	for range 9000 {
		list = append(list, p.Next())
	}
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Write(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	q := &query.Queries{Store: s, Time: patience.Of(10 * time.Second), AtOnce: 1}
	q.Begin()
	server := httptest.NewUnstartedServer(Handler(q))
	server.Config.ConnContext = bounded
	server.Start()
	t.Cleanup(server.Close)
	const ask = "/v1/packets?from=2026-11-21T11:00:00Z&until=2026-11-22T11:00:00Z&limit=9000&format="
	var slow []net.Conn
	for i := range 4 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := io.WriteString(conn, "GET "+ask+[]string{"json", "csv"}[i%2]+" HTTP/1.1\r\nHost: [::1]\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	for end := time.Now().Add(patience.Of(time.Minute)); q.Held() < 4; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d answers are held", q.Held())
		}
	}
	code := func(path string) int {
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(time.Minute))
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Error(err)
		}
		return response.StatusCode
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Hold(ctx, ""); !errors.Is(err, query.ErrBusy) {
		t.Errorf("one more answer has room: %v", err)
	}
	if got := code("/v1/health"); got != http.StatusOK {
		t.Errorf("the state: %d", got)
	}
	for _, conn := range slow {
		conn.Close()
	}
	if got := code(ask + "csv"); got != http.StatusOK {
		t.Errorf("after slow clients: %d", got)
	}
	for end := time.Now().Add(patience.Of(time.Minute)); q.Held() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d answers are held", q.Held())
		}
	}
}

// Who has as many answers as a user may is told to wait, and another user is answered.
func TestUsersHoldFewAnswers(t *testing.T) {
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	file := filepath.Join(t.TempDir(), "web.yaml")
	const hash = "$2a$04$sdppUcmmSapMiPhj5srq8O14y/.gnAlnB5i.lZ4BY5QKcMMg.E.bC" // of "password"
	if err := os.WriteFile(file, []byte("basic_auth_users: {alice: "+hash+", bob: "+hash+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	guard, err := access.New(access.Config{Address: "[::1]:0", Web: file})
	if err != nil {
		t.Fatal(err)
	}
	q := &query.Queries{Store: s, Time: patience.Of(2 * time.Second), AtOnce: 1}
	q.Begin()
	server := httptest.NewServer(guarded(guard, Handler(q)))
	t.Cleanup(server.Close)
	for range 2 {
		release, err := q.Hold(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	for user, want := range map[string]int{"alice": http.StatusServiceUnavailable, "bob": http.StatusOK} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/packets", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth(user, "password")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", user, response.StatusCode, want)
		}
	}
}

// A question that takes too long ends, and the next one is answered.
func TestBounds(t *testing.T) {
	p := storetest.NewPackets(1, 20, 30, 50, start, time.Millisecond)
	var list []record.Record
	for range 30_000 {
		list = append(list, p.Next())
	}
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Write(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	q := &query.Queries{Store: s, Time: time.Millisecond, AtOnce: 1}
	q.Begin()
	ask := query.PathsQuestion{Range: query.Range{From: start, Until: start.Add(time.Hour)}, Limit: 10}
	if _, err := q.Paths(t.Context(), ask); !errors.Is(err, query.ErrSlow) && !errors.Is(err, query.ErrBusy) {
		t.Errorf("%v", err)
	}
	q.Time = time.Minute
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Paths(ended, ask); err == nil {
		t.Error("a query is answered after its context has ended")
	}
	if a, err := q.Paths(t.Context(), ask); err != nil || a.Packets != 30_000 {
		t.Errorf("%v", err)
	}
}
