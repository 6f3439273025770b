// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	collectlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collectmetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// otlp is a receiver of OTLP/HTTP in a node, with OpenTelemetry's own types.
type otlp struct {
	mu     sync.Mutex
	events map[string]string // name of a log record to its text
	trips  uint64            // in exponential histograms of round trips
	fault  error
}

const exportOTLP = "export: [{kind: otlp, endpoint: \"http://[::1]:4318\", metrics-interval: 1s}]\n"

// receive listens in athos until the test ends.
func receive(t *testing.T, l *lab.Lab) *otlp {
	t.Helper()
	o := &otlp{events: make(map[string]string)}
	var listener net.Listener
	if err := e2e.Bind(l.Node("athos"), func() (err error) {
		listener, err = net.Listen("tcp", "[::1]:4318")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	t.Cleanup(func() { server.Close() })
	return o
}

func (o *otlp) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch r.URL.Path {
	case "/v1/logs":
		q := &collectlogs.ExportLogsServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, q)
		}
		for _, of := range q.ResourceLogs {
			for _, one := range of.ScopeLogs[0].LogRecords {
				o.events[one.EventName] = one.Body.GetStringValue()
			}
		}
	case "/v1/metrics":
		q := &collectmetrics.ExportMetricsServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(body, q)
		}
		for _, of := range q.ResourceMetrics {
			for _, m := range of.ScopeMetrics[0].Metrics {
				if m.Name == "waymark.probe_round_trip" && m.Unit == "s" {
					o.trips = 0
					for _, p := range m.GetExponentialHistogram().GetDataPoints() {
						o.trips += p.Count
					}
				}
			}
		}
	}
	if err != nil {
		o.fault = err
	}
}

// check waits for what the tests before caused: the event of the broken link, and round trips.
func (o *otlp) check(t *testing.T) {
	e2e.Await(t, "logs and metrics by OTLP", 5*time.Second, func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return strings.Contains(o.events["waymark.probe_loss"], "to aramis are not answered") && o.events["waymark.probe_recovered"] != "" &&
			o.trips > 0
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fault != nil {
		t.Error(o.fault)
	}
}
