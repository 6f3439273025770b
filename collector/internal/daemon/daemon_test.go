// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/settings"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/patience"
)

// running is a collector that runs until the test ends.
type running struct {
	t       *testing.T
	to, api string // to: the first endpoint
	end     func()
	loses   bool // that records are lost at the end is expected
}

func run(t *testing.T, file string, change ...func(*Daemon)) *running {
	t.Helper()
	s, err := settings.Parse("F", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan *running, 1), make(chan error, 1)
	d := Daemon{Settings: s, Notify: func(level slog.Level, text string) { t.Log(level, text) }, Ready: func(endpoints []string, api string) {
		_, to, _ := strings.Cut(endpoints[0], "://")
		ready <- &running{t: t, to: to, api: api}
	}}
	for _, f := range change {
		f(&d)
	}
	go func() { done <- d.Run(ctx) }()
	select {
	case r := <-ready:
		ended := false
		r.end = func() {
			if cancel(); !ended {
				if err := <-done; err != nil && !(r.loses && strings.Contains(err.Error(), "were lost")) {
					t.Error(err)
				}
			}
			ended = true
		}
		t.Cleanup(r.end)
		return r
	case err := <-done:
		t.Fatal(err)
	}
	return nil
}

func (r *running) ask(path string, into any) {
	r.t.Helper()
	response, err := http.Get(r.api + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil || response.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %s, %v", path, response.Status, err)
	}
}

// written waits until so many packets are in the store.
func (r *running) written(packets int) (h query.Health) {
	r.t.Helper()
	for end := time.Now().Add(patience.Of(30 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		if r.ask("/v1/health", &h); int(h.Store.Packets) >= packets {
			return h
		}
		if time.Now().After(end) {
			r.t.Fatalf("%+v, want %d packets", h, packets)
		}
	}
}

const file = `
listen: ["udp://[::1]:0"]
store: {directory: %q}
api: {address: "http://[::1]:0"}
`

// Postcards that nodes send over IPFIX are found as paths, also after another start.
func TestDaemon(t *testing.T) {
	directory := t.TempDir()
	r := run(t, fmt.Sprintf(file, directory))
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 100 {
		if err := s.Send(9); err != nil {
			t.Fatal(err)
		}
	}
	h := r.written(900)
	if !h.OK || h.Counts["postcards"] != 4500 || h.Sink["written"] != 900 {
		t.Errorf("%+v", h)
	}
	if len(h.Exporters) != storetest.Nodes || len(h.Lost) != 0 || h.Began.IsZero() {
		t.Fatalf("%+v", h)
	}
	for i, e := range h.Exporters { // their clock is the collector's: it is not ahead, and not far behind
		if e.Domain != uint32(i+1) || e.Records != 900 || e.Templates != 1 || len(e.Sessions) != 1 || e.Sessions[0].Transport != "udp" ||
			e.Missed != 0 ||
			e.Clock > int64(2*time.Millisecond) || e.Clock < -patience.Of(30*time.Second).Nanoseconds() || e.Lag <= -int64(2*time.Millisecond) {
			t.Errorf("%+v", e)
		}
	}
	var paths query.Paths
	r.ask("/v1/paths?source=2001:db8::/32", &paths)
	if paths.Packets != 900 || len(paths.Paths) != 1 || len(paths.Paths[0].Hops) != storetest.Nodes || paths.Paths[0].Incomplete != 0 ||
		paths.Paths[0].Hops[1].Held.Count != 900 {
		t.Errorf("%+v", paths)
	}
	response, err := http.Get(r.api + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"waymark_store_packets 900\n", "waymark_store_writable 1\n", "waymark_store_files_missing 0\n",
		"waymark_store_files_packed 0\n", "waymark_store_packings_total{result=\"failed\"} 0\n", "waymark_store_files_removed_total{cause=\"disk\"} 0\n",
		"waymark_collect_postcards_joined_total 4500\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("metrics lack %q:\n%s", want, text)
		}
	}
	r.end()
	r = run(t, fmt.Sprintf(file, directory))
	var again query.Segments
	if r.ask("/v1/segments", &again); len(again.Segments) != storetest.Nodes || again.Segments[0].Packets != 900 {
		t.Errorf("%+v", again)
	}
}

// Paths go to OpenTelemetry, too, as the file says, and the metrics have them by path and segment.
func TestExport(t *testing.T) {
	spans := make(chan int, 100)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") == "gzip" {
			t.Error(err, r.Header)
		}
		if r.URL.Path == "/v1/traces" {
			select {
			case spans <- bytes.Count(b, []byte("waymark.hop.held_ns")):
			default:
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer endpoint.Close()
	r := run(
		t,
		fmt.Sprintf(
			file,
			t.TempDir(),
		)+fmt.Sprintf(
			"metrics: {series: 2}\nexport: [{kind: otlp, endpoint: %q, one-in: 1, records: [path]}]\n",
			endpoint.URL,
		),
	)
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Send(9); err != nil {
		t.Fatal(err)
	}
	r.written(9)
	for sum, end := 0, time.After(patience.Of(30*time.Second)); sum < 9*storetest.Nodes; {
		select {
		case n := <-spans:
			sum += n
		case <-end:
			t.Fatalf("%d spans of nodes, want %d", sum, 9*storetest.Nodes)
		}
	}
	want := `waymark_joined_held_seconds_count{from="other",to="other"} 27`
	for end := time.Now().Add(patience.Of(30 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get(r.api + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if response.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), want) &&
			strings.Contains(string(text), `waymark_joined_packets_total{path="::1/1>::1/2>::1/3>::1/4>::1/5",verdict="arrived"} 9`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("metrics lack %q:\n%s", want, text)
		}
	}
	var h query.Health
	r.ask("/v1/health", &h)
	if len(h.Lost) != 0 {
		t.Errorf("%+v", h.Lost)
	}
}

// Another collector may not use the same store, and says so.
func TestSameStore(t *testing.T) {
	directory := t.TempDir()
	run(t, fmt.Sprintf(file, directory))
	s, err := settings.Parse("F", fmt.Appendf(nil, file, directory))
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Daemon{Settings: s, Notify: func(slog.Level, string) {}}).Run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "another process has this store open") {
		t.Error(err)
	}
}

// TestSustained sends WAYMARK_POSTCARDS a second for WAYMARK_SUSTAINED, and says what became of them. It is a
// measurement, and is run only when it is asked for.
func TestSustained(t *testing.T) {
	rate, err := strconv.Atoi(os.Getenv("WAYMARK_POSTCARDS"))
	if err != nil {
		t.Skip("a measurement; set WAYMARK_POSTCARDS=100000 to send so many a second")
	}
	span, err := time.ParseDuration(os.Getenv("WAYMARK_SUSTAINED"))
	if err != nil {
		span = 10 * time.Second
	}
	r := run(t, fmt.Sprintf(file, t.TempDir()))
	s, err := storetest.NewSender(r.to)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := processor(t)
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	sent, err := s.Rate(ctx, rate/storetest.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // the join's wait, and the next transaction
	var h query.Health
	r.ask("/v1/health", &h)
	cards := float64(sent * storetest.Nodes)
	t.Logf(
		"%.0f postcards sent, %.0f a second; %.2f%% received, %d of %d packets written (%.2f%%), "+
			"%d dropped for want of room in the store's queue and %d datagrams in the socket's buffer; "+
			"%.2f µs of processor a postcard, the sender's included; %.1f bytes a packet",
		cards,
		cards/span.Seconds(),
		100*float64(h.Counts["postcards"])/cards,
		h.Store.Packets,
		sent,
		100*float64(h.Store.Packets)/float64(sent),
		h.Sink["dropped"],
		h.Counts["socket_dropped"],
		(processor(t)-before).Seconds()*1e6/cards,
		float64(h.Store.Bytes)/float64(h.Store.Packets),
	)
}

// processor is the time that this process had of processors.
func processor(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
