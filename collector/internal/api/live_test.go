// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/live"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
)

// watched is an API over a store of which everything that is written can be watched.
func watched(t *testing.T) (s *served, write func([]record.Record), hub *live.Hub) {
	t.Helper()
	kept, err := store.New(t.Context(), store.Options{Directory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	hub = live.New()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go hub.Run(ctx)
	q := &query.Queries{Store: kept, Time: time.Minute, AtOnce: 4, Hub: hub}
	q.Begin()
	server := httptest.NewUnstartedServer(Handler(q))
	server.Config.ReadTimeout = 300 * time.Millisecond // a stream outlives it
	server.Config.WriteTimeout = 300 * time.Millisecond
	server.Config.ConnContext = bounded
	server.Start()
	t.Cleanup(server.Close)
	writer := hub.Writer(store.NewWriter(kept))
	return &served{t, nil, server}, func(list []record.Record) {
		if _, n, err := writer.Write(list); n != len(list) || err != nil {
			t.Fatalf("%d of %d written: %v", n, len(list), err)
		}
	}, hub
}

// watch opens a stream; next is the next event but heartbeats.
func (s *served) watch(parameters, last string) (next func() (name, id, data string)) {
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+"/v1/live?"+parameters, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Last-Event-ID", last)
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		s.t.Fatalf("%v %v", response, err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return func() (name, id, data string) {
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case field == "event":
				name = value
			case field == "id":
				id = value
			case field == "data":
				data = value
			case field == "" && name != "" && name != "heartbeat":
				return name, id, data
			}
		}
		s.t.Fatalf("the stream ended: %v", lines.Err())
		return "", "", ""
	}
}

// A stream has the last minute and then what is kept, each packet as a question shows it afterwards.
func TestLive(t *testing.T) {
	s, write, hub := watched(t)
	p := storetest.NewPackets(3, 20, 10, 50, time.Now().Add(-time.Minute), time.Millisecond)
	write([]record.Record{p.Next()})
	for end := time.Now().Add(patience.Of(30 * time.Second)); ; time.Sleep(time.Millisecond) { // until it is given out
		if r, begun, _, err := hub.Observe(live.Selection{Match: live.Wanted}); err != nil || time.Now().After(end) {
			t.Fatal("what was written is not given out")
		} else if r.Close(); len(begun) > 0 {
			break
		}
	}
	next := s.watch("rate=5000", "")
	if name, _, data := next(); name != "begin" || !strings.Contains(data, `"missed":0`) {
		t.Fatal(name, data)
	}
	name, id, _ := next()
	if name != "path" || len(id) != 32 {
		t.Fatal(name, id)
	}
	var list []record.Record
	for range 20 {
		list = append(list, p.Next())
	}
	list = append(list, &record.Event{Time: instant.Of(time.Now()), Node: "athos", Name: "probe_loss"}, &record.Postcard{})
	time.Sleep(600 * time.Millisecond) // longer than the server's times for a request and an answer
	write(list)
	var shown query.Packets
	s.ask("/v1/packets", &shown, "since", "1h", "limit", "20")
	last := ""
	for i := range 20 {
		name, id, data := next()
		last = id
		want, err := json.Marshal(shown.Packets[19-i])
		if err != nil || name != "path" || data != string(want) {
			t.Errorf("%s %s\nwant %s", name, data, want)
		}
	}
	var data string
	name, id, data = next()
	if name != "event" || !strings.Contains(data, "probe_loss") {
		t.Error(name, data)
	}
	again := s.watch("kinds=event", last)
	again() // begin
	if name, since, _ := again(); name != "event" || since != id {
		t.Error(name, since)
	}
	if code, body := s.ask("/v1/live", nil, "kinds", "packets"); code != http.StatusBadRequest ||
		!strings.Contains(body, "want path, loss, event") {
		t.Error(code, body)
	}
}

// A hundred readers that read nothing hold up neither writing nor one that reads, and are given up.
func TestSlowReaders(t *testing.T) {
	stalled := mostStalled
	mostStalled = 500 * time.Millisecond
	defer func() { mostStalled = stalled }()
	s, write, hub := watched(t)
	for range 100 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		if _, err := conn.Write([]byte("GET /v1/live?rate=5000 HTTP/1.1\r\nHost: [::1]\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(patience.Of(time.Minute))
	for hub.Readers() < 100 {
		if time.Sleep(time.Millisecond); time.Now().After(end) {
			t.Fatalf("%d readers", hub.Readers())
		}
	}
	next := s.watch("kinds=event", "")
	next()
	p := storetest.NewPackets(3, 20, 10, 50, time.Now(), time.Millisecond)
	for i := range 5 {
		var list []record.Record
		for range 4000 {
			list = append(list, p.Next())
		}
		write(
			append(list, &record.Event{Time: instant.Of(time.Now()), Name: "probe_loss", Values: []record.Value{{Name: "n", Number: float64(i)}}}),
		)
		if name, _, data := next(); name != "event" || !strings.Contains(data, `"probe_loss"`) {
			t.Fatal(name, data)
		}
	}
	for hub.Readers() > 1 {
		if time.Sleep(10 * time.Millisecond); time.Now().After(end) {
			t.Fatalf("%d readers", hub.Readers())
		}
	}
}
