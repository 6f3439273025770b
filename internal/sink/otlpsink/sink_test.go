// SPDX-License-Identifier: Apache-2.0

package otlpsink

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectlogs "go.opentelemetry.io/proto/slim/otlp/collector/logs/v1"
	collectmetrics "go.opentelemetry.io/proto/slim/otlp/collector/metrics/v1"
	collecttraces "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	pbmetrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	pbtrace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ioam"
)

// receiver is an endpoint of OTLP/HTTP that reads requests with OpenTelemetry's own types. Unknown
// fields are an error: we would have a wrong number.
type receiver struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	traces  []*collecttraces.ExportTraceServiceRequest
	logs    []*collectlogs.ExportLogsServiceRequest
	metrics []*collectmetrics.ExportMetricsServiceRequest
	answer  func(w http.ResponseWriter, path string) bool // true: it has answered
	posts   int
	headers []http.Header
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err == nil && q.Header.Get("Content-Encoding") == "gzip" {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(z)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, q.Header)
	r.posts++
	if err != nil || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/x-protobuf" {
		r.t.Errorf("%s %s: %v, %v", q.Method, q.URL, q.Header, err)
	}
	if r.answer != nil && r.answer(w, q.URL.Path) {
		return
	}
	read := func(m proto.Message) {
		if err := proto.Unmarshal(body, m); err != nil {
			r.t.Errorf("%s: %v", q.URL.Path, err)
		}
		if again, err := (proto.MarshalOptions{Deterministic: true}).Marshal(m); err != nil || len(again) != len(body) {
			r.t.Errorf("%s: %d octets were sent, %d are understood, %v", q.URL.Path, len(body), len(again), err)
		}
	}
	switch q.URL.Path {
	case "/v1/traces":
		m := &collecttraces.ExportTraceServiceRequest{}
		read(m)
		r.traces = append(r.traces, m)
	case "/v1/logs":
		m := &collectlogs.ExportLogsServiceRequest{}
		read(m)
		r.logs = append(r.logs, m)
	case "/v1/metrics":
		m := &collectmetrics.ExportMetricsServiceRequest{}
		read(m)
		r.metrics = append(r.metrics, m)
	default:
		r.t.Errorf("a request to %s", q.URL.Path)
	}
}

// run runs a sink of the receiver, and ends it with the test, or by the function that it returns.
func (r *receiver) run(c Config, env sink.Environment) (s *Sink, end func()) {
	c.Endpoint, _ = url.Parse(r.server.URL)
	env.Version = "1.2.3"
	env.Facts = func() sink.Facts { return sink.Facts{Node: "athos"} }
	s = New(c, env)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	end = func() { cancel(); <-done }
	r.t.Cleanup(end)
	return s, end
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience.Of(10 * time.Second)); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// attributesOf are attributes as a map.
func attributesOf(list []*common.KeyValue) map[string]any {
	out := make(map[string]any)
	for _, kv := range list {
		switch v := kv.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			out[kv.Key] = v.IntValue
		case *common.AnyValue_DoubleValue:
			out[kv.Key] = v.DoubleValue
		}
	}
	return out
}

var at = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func packet() record.Packet {
	ports := [2]uint16{34636, 9000}
	return record.Packet{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), NextHeader: ioam.NextHeaderUDP,
		SourcePort: &ports[0], DestinationPort: &ports[1],
	}
}

// path is one of three nodes, of which the second has no time, and the third a clock that is late.
func path(sequence uint32, delay time.Duration) *record.Path {
	node := func(name string, id ioam.NodeID, after time.Duration, held uint32, timed bool) record.PathNode {
		n := record.PathNode{Node: name, Ingress: "eth0", Egress: "eth1"}
		n.NodeID, n.HopLimit = record.NewField(id, true), record.NewField(uint8(64-id), true)
		n.Timestamp, n.TransitDelay = record.NewField(at.Add(after), timed), record.NewField(held, true)
		return n
	}
	ns := int64(delay)
	return &record.Path{
		Time: instant.Of(at), Namespace: 123, FlowID: 7, Sequence: sequence, Packet: packet(), Complete: true, Delay: &ns,
		Nodes: []record.PathNode{node("athos", 1, 0, 1000, true), node("", 2, 0, 0, false), node("aramis", 3, -5*time.Microsecond, 2000, true)},
	}
}

// A path is a trace: a root, and a child for each node with a time, in a resource of its own. The ids
// are those of the packet, so a repeat overwrites.
func TestTraces(t *testing.T) {
	r := newReceiver(t)
	s, end := r.run(Config{OneIn: 1}, sink.Environment{})
	broken := path(8, 0)
	broken.Complete, broken.Reason = false, record.PathHopMissing
	s.Offer(path(7, time.Millisecond), path(7, time.Millisecond), broken, &record.Flow{}, &record.Trace{}) // a trace without nodes
	end()
	if st := s.Stats(); st.Offered != 3 || st.Written != 3 || st.Missed() != 0 || st.Messages == 0 || st.Octets == 0 || !st.Connected ||
		st.Error != "" {
		t.Errorf("%+v", st)
	}
	type found struct {
		service string
		span    *pbtrace.Span
	}
	byID := make(map[string][]found)
	for _, q := range r.traces {
		for _, of := range q.ResourceSpans {
			service := attributesOf(of.Resource.Attributes)["service.name"].(string)
			for _, in := range of.ScopeSpans {
				if in.Scope.Name != scope || in.Scope.Version != "1.2.3" || in.SchemaUrl != schemaURL || of.SchemaUrl != schemaURL {
					t.Errorf("%+v", in)
				}
				for _, one := range in.Spans {
					if len(one.TraceId) != 16 || len(one.SpanId) != 8 {
						t.Errorf("%+v", one)
					}
					byID[string(one.TraceId)+string(one.SpanId)] = append(byID[string(one.TraceId)+string(one.SpanId)], found{service, one})
				}
			}
		}
	}
	if len(byID) != 6 { // of two packets
		t.Fatalf("%d spans", len(byID))
	}
	repeated := 0
	for _, list := range byID {
		if len(list) == 2 {
			repeated++
		}
		one := list[0].span
		attributes := attributesOf(one.Attributes)
		switch name := list[0].service + ": " + one.Name; name {
		case "athos: path athos>aramis":
			if len(one.ParentSpanId) != 0 || attributes["waymark.path"] != "athos>node 2>aramis" || attributes["network.transport"] != "udp" ||
				attributes["source.port"] != int64(34636) ||
				attributes["destination.address"] != "2001:db8:2::2" || attributes["waymark.flow.id"] != int64(7) ||
				one.Kind != pbtrace.Span_SPAN_KIND_INTERNAL ||
				one.StartTimeUnixNano != uint64(at.Add(-5*time.Microsecond).UnixNano()) ||
				one.EndTimeUnixNano != uint64(at.Add(time.Microsecond).UnixNano()) {
				t.Errorf("%+v", one)
			}
			if broken := attributes["waymark.sequence"] == int64(8); broken != (one.Status.GetCode() == pbtrace.Status_STATUS_CODE_ERROR) ||
				broken != (attributes["error.type"] == record.PathHopMissing.String()) {
				t.Errorf("%+v", one)
			}
		case "athos: athos eth0>eth1", "aramis: aramis eth0>eth1":
			if len(one.ParentSpanId) != 8 || one.EndTimeUnixNano-one.StartTimeUnixNano != uint64(attributes["waymark.hop.held_ns"].(int64)) {
				t.Errorf("%+v", one)
			}
			if skew, is := attributes["waymark.clock.skew_ns"]; is != (list[0].service == "aramis") || is && skew != int64(5000) {
				t.Errorf("%s: skew %v", name, skew)
			}
		default:
			t.Errorf("%s", name)
		}
	}
	if repeated != 3 {
		t.Errorf("%d spans were repeated", repeated)
	}
}

// Which paths are traces: incomplete and slow ones, and one in so many of the others.
func TestChosen(t *testing.T) {
	endpoint, _ := url.Parse("http://[::1]:4318")
	s := New(Config{Endpoint: endpoint, Slower: 5 * time.Millisecond, OneIn: 10}, sink.Environment{})
	incomplete := path(1, 0)
	incomplete.Complete = false
	if !s.wants(incomplete) || !s.wants(path(1, 5*time.Millisecond)) || !s.wants(&record.Event{}) || s.wants(&record.Postcard{}) ||
		s.wants(&record.Trace{Copy: true}) {
		t.Error("wrong records are chosen")
	}
	chosen := 0
	for i := range 5000 {
		p := path(uint32(i), time.Millisecond)
		if is := s.wants(p); is {
			chosen++
		} else if s.wants(path(uint32(i), time.Millisecond)) {
			t.Error("a repeat has another answer")
		}
	}
	if chosen < 350 || chosen > 650 {
		t.Errorf("%d of 5000 paths are chosen, want about 500", chosen)
	}
	s.config.OneIn, s.config.Slower = 0, 0
	if s.wants(path(1, time.Hour)) {
		t.Error("a path is chosen without a reason")
	}
}

// Events are logs with a name, labels and values.
func TestLogs(t *testing.T) {
	r := newReceiver(t)
	s, end := r.run(Config{}, sink.Environment{})
	s.Offer(&record.Event{
		Time: instant.Of(at), Node: "athos", Name: record.EventProbeLoss, Severity: record.SeverityError, Subject: "r3", Facts: "probes vanish",
		ID: "5f0c2d1e9a7b", Labels: []record.Label{{Name: "after", Text: "node 2"}}, Values: []record.Value{{Name: "flows", Number: 3}},
	})
	end()
	if len(r.logs) != 1 {
		t.Fatalf("%d requests", len(r.logs))
	}
	of := r.logs[0].ResourceLogs[0]
	l := of.ScopeLogs[0].LogRecords[0]
	if attributesOf(of.Resource.Attributes)["service.name"] != "athos" || l.EventName != "waymark.probe_loss" || l.SeverityNumber != 17 ||
		l.Body.GetStringValue() != "probes vanish" || l.TimeUnixNano != uint64(at.UnixNano()) ||
		!maps.Equal(attributesOf(l.Attributes), map[string]any{"waymark.subject": "r3", "waymark.event.id": "5f0c2d1e9a7b",
			"waymark.after": "node 2", "waymark.flows": 3.0}) {
		t.Errorf("%+v", r.logs[0])
	}
}

// Metrics are sums, gauges, and exponential histograms whose buckets are those of ours.
func TestMetrics(t *testing.T) {
	r := newReceiver(t)
	count := &metrics.Desc{Name: "waymark_test_packets_total", Help: "Packets.", Labels: []string{"kind"}}
	gauge := &metrics.Desc{Name: "waymark_test_flows", Help: "Flows."}
	native := &metrics.Desc{Name: "waymark_test_delay_seconds", Help: "Delay.", Bounds: []float64{0.001, 1}}
	classic := &metrics.Desc{Name: "waymark_test_size_bytes", Help: "Size.", Bounds: []float64{10, 100}}
	seen := metrics.NewObserved(native, 4)
	values := []float64{0, 0.0004, 0.0005, 0.02, 3}
	for _, v := range values {
		seen.Observe(v)
	}
	_, _ = r.run(Config{Metrics: 20 * time.Millisecond}, sink.Environment{Metrics: func() *metrics.Gatherer {
		g := &metrics.Gatherer{}
		g.Add(count, 5, "a")
		g.Add(gauge, 2)
		g.AddHistogram(native, seen.Histogram())
		g.AddHistogram(classic, metrics.Histogram{Sum: 222, Classic: []uint64{1, 2, 3}})
		return g
	}})
	await(t, "metrics", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.metrics) > 0 })
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.metrics[0].ResourceMetrics[0]
	got := make(map[string]*pbmetrics.Metric)
	for _, m := range of.ScopeMetrics[0].Metrics {
		got[m.Name+" "+m.Unit] = m
	}
	sum := got["waymark.test_packets {packet}"].GetSum()
	if sum == nil || !sum.IsMonotonic || sum.AggregationTemporality != pbmetrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE ||
		sum.DataPoints[0].GetAsDouble() != 5 || attributesOf(sum.DataPoints[0].Attributes)["kind"] != "a" ||
		sum.DataPoints[0].StartTimeUnixNano != 0 {
		t.Errorf("%+v", got)
	}
	if g := got["waymark.test_flows 1"].GetGauge(); g == nil || g.DataPoints[0].GetAsDouble() != 2 {
		t.Errorf("%+v", got)
	}
	p := got["waymark.test_size_bytes By"].GetHistogram().GetDataPoints()[0]
	if p.Count != 6 || p.GetSum() != 222 || !slices.Equal(p.BucketCounts, []uint64{1, 2, 3}) ||
		!slices.Equal(p.ExplicitBounds, classic.Bounds) {
		t.Errorf("%+v", p)
	}
	e := got["waymark.test_delay s"].GetExponentialHistogram().GetDataPoints()[0]
	if e.Count != 5 || e.Scale != 4 || e.ZeroCount != 1 || math.Abs(e.GetSum()-3.0209) > 1e-9 {
		t.Fatalf("%+v", e)
	}
	// Each value lies in the bucket that the specification gives it: (base^index, base^(index+1)].
	base, left := math.Exp2(math.Exp2(-4)), slices.Clone(e.Positive.BucketCounts)
	for _, v := range values[1:] {
		index := int(math.Ceil(math.Log(v)/math.Log(base))) - 1 - int(e.Positive.Offset)
		if index < 0 || index >= len(left) || left[index] == 0 {
			t.Fatalf("%v is not in bucket %d of %v", v, index, e.Positive)
		}
		left[index]--
	}
}

// A gateway answers for an endpoint that it does not reach.
func TestBehindAGateway(t *testing.T) {
	event := &record.Event{Time: instant.Of(at), Name: "x", Severity: record.SeverityInfo}
	r := newReceiver(t)
	r.answer = func(w http.ResponseWriter, _ string) bool {
		http.Error(w, "", http.StatusBadGateway)
		return true
	}
	s, end := r.run(Config{}, sink.Environment{})
	s.connected.Store(true)
	s.Offer(event)
	await(t, "a second try", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.posts > 1
	})
	if st := s.Stats(); st.Connected {
		t.Errorf("%+v", st)
	}
	end()
	if st := s.Stats(); st.Lost != 1 || st.Connected {
		t.Errorf("%+v", st)
	}
}

// An endpoint that is away, slow, or that refuses: what is lost is counted, and nobody waits.
func TestBadEndpoints(t *testing.T) {
	event := &record.Event{Time: instant.Of(at), Name: "x", Severity: record.SeverityInfo}
	t.Run("refuses", func(t *testing.T) {
		r := newReceiver(t)
		r.answer = func(w http.ResponseWriter, _ string) bool {
			http.Error(w, "no \x1b[2J such tenant", http.StatusForbidden)
			return true
		}
		s, end := r.run(Config{}, sink.Environment{})
		s.Offer(event)
		end()
		if st := s.Stats(); st.Lost != 1 || st.Written != 0 || !st.Connected ||
			!strings.Contains(st.Error, "answered 403 Forbidden: no [2J such tenant") || strings.Contains(st.Error, "\x1b") || r.posts != 1 {
			t.Errorf("%+v after %d requests", st, r.posts)
		}
	})
	t.Run("for now", func(t *testing.T) {
		r := newReceiver(t)
		r.answer = func(w http.ResponseWriter, _ string) bool {
			if r.posts > 1 {
				return false
			}
			http.Error(w, "", http.StatusServiceUnavailable)
			return true
		}
		s, _ := r.run(Config{}, sink.Environment{})
		s.Offer(event)
		await(t, "the second try", func() bool { return s.Stats().Written == 1 })
		if st := s.Stats(); st.Lost != 0 || st.Error != "" {
			t.Errorf("%+v", st)
		}
	})
	t.Run("partly", func(t *testing.T) {
		r := newReceiver(t)
		r.answer = func(w http.ResponseWriter, _ string) bool {
			partial := &collectlogs.ExportLogsPartialSuccess{RejectedLogRecords: 1, ErrorMessage: "too old"}
			b, err := proto.Marshal(&collectlogs.ExportLogsServiceResponse{PartialSuccess: partial})
			if err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(w, bytes.NewReader(b))
			return true
		}
		s, end := r.run(Config{}, sink.Environment{})
		s.Offer(event, event, event)
		await(t, "an answer", func() bool { return s.Stats().Waiting() == 0 })
		end()
		if st := s.Stats(); st.Written+st.Lost != 3 || st.Lost == 0 || !strings.Contains(st.Error, "rejected 1 of them: too old") {
			t.Errorf("%+v", st)
		}
	})
	t.Run("never answers", func(t *testing.T) {
		hold := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
		defer server.Close()
		defer close(hold)
		endpoint, _ := url.Parse(server.URL)
		s := New(Config{Endpoint: endpoint}, sink.Environment{})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		const many = 20_000
		for range many {
			s.Offer(event)
		}
		if st := s.Stats(); st.Offered != many || st.Dropped < many/2 || st.Waiting() > many/2 {
			t.Errorf("%+v", st)
		}
		cancel()
		select {
		case <-done: // within the moment that it gives its last requests
		case <-time.After(patience.Of(10 * time.Second)):
			t.Fatal("it does not end")
		}
		if st := s.Stats(); st.Written != 0 || st.Missed() != many {
			t.Errorf("%+v", st)
		}
	})
}

// Names of metrics, and what they are for Prometheus.
func TestMetricNames(t *testing.T) {
	for name, want := range map[string][2]string{
		"waymark_packets_total":            {"waymark.packets", "1"},
		"waymark_probe_round_trip_seconds": {"waymark.probe_round_trip", "s"},
		"waymark_flow_octets_total":        {"waymark.flow_octets", "By"},
		"waymark_probe_flows":              {"waymark.probe_flows", "1"},
	} {
		if out, unit := metricName(name); out != want[0] || unit != want[1] {
			t.Errorf("%s is %s in %s", name, out, unit)
		}
	}
}

// What an endpoint answers is not trusted.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0x0a, 2, 8, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if rejected, err := partly(b); rejected < 0 || (rejected > 0) != (err != nil) {
			t.Errorf("%d, %v", rejected, err)
		}
	})
}

// A node of a trace is called by the name that the agent has learned, and so are its interfaces.
func TestNamesOfIDs(t *testing.T) {
	node := func(id uint32, name, in, out string) record.NodeData {
		return record.NodeData{
			NodeID:    record.NewField(ioam.NodeID(id), true),
			IngressID: record.NewField(ioam.InterfaceID(1), true), EgressID: record.NewField(ioam.InterfaceID(2), true),
			Timestamp: record.NewField(at.Add(time.Duration(id)*time.Microsecond), true),
			NodeName:  name, IngressName: in, EgressName: out,
		}
	}
	nodes := []record.NodeData{node(1, "athos", "eth0", "eth1"), node(2, "", "", "")}
	w := wayOf(&record.Trace{Node: "aramis", Packet: packet(), Nodes: nodes})
	if w == nil || len(w.hops) != 2 {
		t.Fatalf("%+v", w)
	}
	for i, want := range [][3]string{{"athos", "eth0", "eth1"}, {"node 2", "1", "2"}} {
		if h := w.hops[i]; [3]string{h.node, h.in, h.out} != want {
			t.Errorf("%s %s>%s, want %q", h.node, h.in, h.out, want)
		}
	}
}
