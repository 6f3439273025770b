// SPDX-License-Identifier: Apache-2.0

package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/access"
	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

var start = time.Date(2026, 11, 21, 11, 58, 30, 0, time.UTC)

// served is an API over a store with records.
type served struct {
	t       *testing.T
	queries *query.Queries
	*httptest.Server
}

func serve(t *testing.T, now time.Time, batches ...[]record.Record) *served {
	t.Helper()
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for _, batch := range batches {
		if err := s.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	q := &query.Queries{Store: s, Time: time.Minute, AtOnce: 4}
	q.Begin()
	guard, err := access.Open("[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(guarded(guard, Handler(q)))
	t.Cleanup(server.Close)
	return &served{t, q, server}
}

// ask asks for a path with parameters, and reads the answer.
func (s *served) ask(path string, into any, parameters ...string) (code int, body string) {
	s.t.Helper()
	v := url.Values{}
	for i := 0; i < len(parameters); i += 2 {
		v.Add(parameters[i], parameters[i+1])
	}
	response, err := http.Get(s.URL + path + "?" + v.Encode())
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(response.Body); err != nil {
		s.t.Fatal(err)
	}
	if into != nil {
		if err := json.Unmarshal(b.Bytes(), into); err != nil || response.StatusCode != http.StatusOK {
			s.t.Fatalf("%s %v: %d %s %v", path, parameters, response.StatusCode, b.String(), err)
		}
	}
	return response.StatusCode, b.String()
}

// all is a time that has all packets of the tests.
var all = []string{"from", "2026-11-21T11:00:00Z", "until", "2026-11-21T14:00:00Z"}

// near reports whether a percentile is that of an exponential histogram.
func near(got, want int64) bool {
	return float64(got) >= 0.978*float64(want) && float64(got) <= 1.022*float64(want)
}

// exact is the percentile by the nearest rank.
func exact(list []int64, q float64) int64 {
	slices.Sort(list)
	return list[min(max(int(float64(len(list))*q+0.999999)-1, 0), len(list)-1)]
}

// The answers about packets are those that the packets give when they are counted one by one.
func TestPathsAndSegments(t *testing.T) {
	p := storetest.NewPackets(7, 20, 30, 300, start, 10*time.Millisecond)
	var list []record.Record
	for range 20_000 { // 200 s, over the hour
		list = append(list, p.Next())
	}
	s := serve(t, start, list[:7000], list[7000:])
	site := netip.MustParsePrefix("2001:db8:1::/48")
	selected, delays, held, held3 := 0, []int64{}, map[int][]int64{}, []int64{}
	perPath := map[string]int{}
	for _, r := range list {
		q := r.(*record.Path)
		for _, n := range q.Nodes {
			held[int(n.NodeID.Value)] = append(held[int(n.NodeID.Value)], int64(n.TransitDelay.Value))
		}
		if site.Contains(q.Packet.Source) {
			selected++
			perPath[route6(q)]++
		}
	}
	busiest, most := "", 0
	for path, n := range perPath {
		if n > most {
			busiest, most = path, n
		}
	}
	for _, r := range list {
		if q := r.(*record.Path); site.Contains(q.Packet.Source) && route6(q) == busiest {
			held3 = append(held3, int64(q.Nodes[1].TransitDelay.Value))
			if q.Delay != nil {
				delays = append(delays, *q.Delay)
			}
		}
	}
	var paths query.Paths
	s.ask("/v1/paths", &paths, append(all, "source", site.String(), "limit", "1000")...)
	if int(paths.Packets) != selected || len(paths.Paths) != len(perPath) || paths.Cut != nil {
		t.Fatalf("%d packets on %d paths, want %d on %d", paths.Packets, len(paths.Paths), selected, len(perPath))
	}
	first := paths.Paths[0]
	if int(first.Packets) != most || first.Delay == nil || !near(first.Delay.P99, exact(delays, 0.99)) ||
		!near(first.Hops[1].Held.P50, exact(held3, 0.5)) ||
		first.Hops[0].Role != "encapsulating" || first.Hops[0].Name == "" || first.Hops[1].Ingress.Name != "eth0" ||
		first.Share != float64(most)/float64(selected) {
		t.Errorf("%+v %+v", first, first.Delay)
	}
	s.ask("/v1/paths", &paths, append(all, "limit", "2")...)
	if len(paths.Paths) != 2 || paths.Cut == nil || paths.Packets != 20_000 {
		t.Errorf("%d paths, %+v", len(paths.Paths), paths.Cut)
	}

	segmentsAndGrid(t, s, list, held)
}

// segmentsAndGrid compares the answers of rollups with what nodes held.
func segmentsAndGrid(t *testing.T, s *served, list []record.Record, held map[int][]int64) {
	var segments query.Segments
	s.ask("/v1/segments", &segments, append(all, "limit", "1000", "order", "packets")...)
	sums := map[int]uint64{}
	for _, one := range segments.Segments {
		sums[int(*one.From.ID)] += one.Packets
	}
	for id, list := range held {
		if sums[id] != uint64(len(list)) {
			t.Errorf("node %d: %d packets, want %d", id, sums[id], len(list))
		}
	}
	var grid query.Grid
	s.ask("/v1/grid", &grid, all...)
	total, lost := uint64(0), uint64(0)
	for _, pair := range grid.Pairs {
		total, lost = total+pair.Packets, lost+pair.Lost
	}
	if total != 20_000 || lost == 0 {
		t.Errorf("%d packets in the grid, %d lost", total, lost)
	}
	var firstHour query.Segments // only the first hour: the hour's rollup is not there yet, minutes are
	s.ask("/v1/segments", &firstHour, "from", "2026-11-21T11:00:00Z", "until", "2026-11-21T12:00:00Z", "limit", "1000", "baseline", "1h")
	first11 := uint64(0)
	for _, one := range firstHour.Segments {
		first11 += one.Packets
	}
	want := uint64(0)
	for _, r := range list {
		if q := r.(*record.Path); q.Time.Hour() == 11 {
			want += uint64(len(q.Nodes))
		}
	}
	if first11 != want {
		t.Errorf("%d hops before 12:00, want %d", first11, want)
	}
}

// route6 is a path's nodes as text.
func route6(p *record.Path) string {
	var b strings.Builder
	for _, n := range p.Nodes {
		b.WriteString(n.Exporter.String() + " ")
	}
	return b.String()
}

// A search finds the packets that it describes, and one packet is as it was received.
func TestPackets(t *testing.T) {
	p := storetest.NewPackets(7, 20, 30, 300, start, time.Millisecond)
	var list []record.Record
	for range 5000 {
		list = append(list, p.Next())
	}
	s := serve(t, start, list)
	one := list[4321].(*record.Path)
	one8 := func(a *query.Packets) bool { return len(a.Packets) == 1 && a.Packets[0].Time.Equal(one.Time.Time) }
	var found query.Packets
	id, _ := json.Marshal(one.FlowID)
	sequence, _ := json.Marshal(one.Sequence)
	if s.ask("/v1/packets", &found, append(all, "flow_id", string(id), "sequence", string(sequence))...); !one8(&found) {
		t.Fatalf("%+v", found)
	}
	for i, n := range found.Packets[0].Nodes {
		sent := one.Nodes[i]
		if *n.HopLimit != sent.HopLimit.Value || !n.Time.Equal(sent.Timestamp.Value) || *n.Held != sent.TransitDelay.Value ||
			*n.ID != uint64(sent.NodeID.Value) || n.Name != sent.Node {
			t.Errorf("node %d: %+v, want %+v", i, n, sent)
		}
	}
	s.ask("/v1/packets", &found, append(all, "lost", "true", "limit", "10000")...)
	lost := 0
	for _, r := range list {
		if r.(*record.Path).Verdict == record.PathLost {
			lost++
		}
	}
	if len(found.Packets) != lost || lost == 0 || found.Packets[0].Reason != "not_seen_further" {
		t.Errorf("%d lost packets, want %d", len(found.Packets), lost)
	}
	s.ask("/v1/packets", &found, append(all, "destination", one.Packet.Destination.String(), "limit", "3")...)
	if len(found.Packets) != 3 && found.Cut == nil || found.Packets[0].To != one.Packet.Destination.String() {
		t.Errorf("%+v", found)
	}
	if !slices.IsSortedFunc(found.Packets, func(a, b query.Packet) int { return b.Time.Compare(a.Time.Time) }) {
		t.Error("the latest is not the first")
	}
}

// Packets that move to another path are a change; those that are spread over equal paths are none.
func TestChanges(t *testing.T) {
	p := storetest.NewPackets(1, 20, 1, 50, start.Truncate(time.Minute), time.Second)
	var list []record.Record
	for i := range 600 { // flow 1 moves after five minutes; flow 2 is spread
		path := []int{1, 2, 3, 9}
		if i >= 300 {
			path = []int{1, 4, 5, 9}
		}
		list = append(list, p.Of(1, path, i%50 == 7))
		path = []int{1, 2, 3, 9}
		if i%2 == 0 {
			path = []int{1, 6, 3, 9}
		}
		list = append(list, p.Of(2, path, false))
	}
	s := serve(t, start, list)
	var a query.Changes
	s.ask("/v1/changes", &a, append(all, "window", "1m")...)
	if len(a.Changes) != 1 {
		t.Fatalf("%+v", a.Changes)
	}
	c := a.Changes[0]
	if c.Source != storetest.Source(1).String() || c.Moved < 0.9 || len(c.Became) == 0 || *c.Became[0].Nodes[1].ID != 4 ||
		*c.Was[0].Nodes[1].ID != 2 || c.Was[0].Delay == nil {
		t.Errorf("%+v", c)
	}
}

// A change within a window, of which no two neighbours differ enough, is found once, and is in that window.
func TestChangeWithinWindow(t *testing.T) {
	begun := start.Truncate(time.Minute).Add(30 * time.Second)
	s := serve(t, start, steadily(begun, 600)) // it moves after five minutes, in the middle of a minute
	var a query.Changes
	s.ask("/v1/changes", &a, append(all, "window", "1m", "moved", "0.6")...)
	if len(a.Changes) != 1 || a.Changes[0].Moved != 1 || !a.Changes[0].Time.Equal(begun.Add(5*time.Minute).Truncate(time.Minute)) {
		t.Errorf("%+v", a.Changes)
	}
}

// Loss is summed over what is measured, and what is uncertain is in no sum.
func TestLoss(t *testing.T) {
	var list []record.Record
	for i := range 90 {
		m := record.Measurement{Time: instant.Of(start), Flow: "gold", FlowID: 5, Scope: record.WholeWay, From: 1, To: 2,
			Start: instant.Of(start.Add(time.Duration(i) * time.Second))}
		l := &record.Loss{Measurement: m, Verdict: loss.Measured, Sent: record.NewField(uint64(100), true)}
		if l.Lost = record.NewField(uint64(i%2), true); i%10 == 0 {
			l.Verdict, l.Lost = loss.Uncertain, record.NewField(uint64(0), false)
		}
		list = append(list, l)
	}
	s := serve(t, start, list)
	var a query.Losses
	s.ask("/v1/loss", &a, append(all, "flow", "gold", "series", "true")...)
	if len(a.Flows) != 1 {
		t.Fatalf("%+v", a)
	}
	f := a.Flows[0]
	blocks := uint64(0)
	for _, point := range f.Series {
		blocks += point.Blocks
	}
	if f.Blocks != 90 || f.Uncertain != 9 || f.Sent != 8100 || f.Lost != 45 || blocks != 90 || len(f.Series) != 2 {
		t.Errorf("%+v", f)
	}
	if s.ask("/v1/loss", &a, append(all, "flow", "' OR 1=1 --")...); len(a.Flows) != 0 {
		t.Errorf("%+v", a)
	}
}

// What is wrong in a request is said in a sentence, and nothing of it becomes a part of a statement.
func TestBadRequests(t *testing.T) {
	s := serve(t, start, []record.Record{storetest.NewPackets(1, 5, 5, 5, start, 1).Next()})
	for _, r := range []struct {
		path, name, value, want string
	}{
		{"/v1/paths", "source", "x' OR 1=1", "want an address or a prefix"},
		{"/v1/paths", "source", "fe80::1%eth0", "want an address or a prefix"},
		{"/v1/paths", "sauce", "1", "/v1/paths takes since, from"},
		{"/v1/paths", "namespace", "65536", "from 0 to 65535"},
		{"/v1/paths", "limit", "0", "from 1 to 10000"},
		{"/v1/paths", "limit", "-1", "from 0 to 10000"},
		{"/v1/paths", "since", "9000d", "want a time with its unit"},
		{"/v1/paths", "since", "1", "want a time with its unit"},
		{"/v1/paths", "from", "yesterday", "RFC 3339"},
		{"/v1/paths", "from", "2240-01-01T00:00:00Z", "ends before it begins"},
		{"/v1/segments", "order", "p99; DROP TABLE packets", "want one of link, held, loss, packets"},
		{"/v1/changes", "moved", "NaN", "want a share"},
		{"/v1/changes", "window", "0s", "want a time"},
		{"/v1/packets", "lost", "yes", "want true or false"},
		{"/v1/packets", "source", "", "it has no value"},
		{"/v1/health", "x", "1", "takes format"},
		{"/v1/health", "format", "xml", "want json or csv"},
		{"/v1/segments", "step", "90s", "want a multiple of 1m0s"},
		{"/v1/segments", "step", "0s", "want a time"},
		{"/v1/paths", "step", "1s", "more than 2000 steps"},
		{"/v1/paths", "buckets", "0", "from 1 to 2000"},
		{"/v1/grid", "compare", "1h&", "want a time"},
		{"/v1/loss/blocks", "flow_id", "-1", "from 0 to"},
	} {
		if code, body := s.ask(r.path, nil, r.name, r.value); code != http.StatusBadRequest || !strings.Contains(body, r.want) {
			t.Errorf("%s?%s=%s: %d %s", r.path, r.name, r.value, code, body)
		}
	}
	if code, _ := s.ask("/v2", nil); code != http.StatusNotFound {
		t.Error(code)
	}
	for header, value := range map[string]string{"Host": "evil.example", "Sec-Fetch-Site": "cross-site"} {
		request, err := http.NewRequest(http.MethodGet, s.URL+"/v1/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		if request.Header.Set(header, value); header == "Host" {
			request.Host = value
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.Body.Close(); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s: %s", header, value, response.Status)
		}
	}
}

// Links of other sites may lead to the console's pages, which have no data; its files and the API are not theirs.
func TestConsole(t *testing.T) {
	s := serve(t, start)
	get := func(path string, headers ...string) (*http.Response, string) {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(response.Body); err != nil {
			t.Fatal(err)
		}
		return response, b.String()
	}
	for _, path := range []string{"/", "/paths?source=2001:db8::/32", "/packets"} {
		r, text := get(path, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
		if r.StatusCode != http.StatusOK || !strings.Contains(text, "/assets/console.js?v=") ||
			strings.Contains(r.Header.Get("Content-Security-Policy"), "unsafe") || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s %v %s", path, r.Status, r.Header, text)
		}
	}
	for _, r := range [][2]string{{"/assets/console.js", "no-cors"}, {"/paths", "cors"}, {"/v1/health", "navigate"},
		{"/metrics", "navigate"}} {
		if response, text := get(r[0], "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", r[1]); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s: %s %.100s", r[0], r[1], response.Status, text)
		}
	}
	if r, _ := get("/v1/health"); r.Header.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" {
		t.Errorf("%v", r.Header)
	}
}

// The document in the tree is that of the routes, and describes their answers.
func TestDocument(t *testing.T) {
	there, err := os.ReadFile("../../../docs/reference/collector-api.json")
	if err != nil || !bytes.Equal(there, Document()) {
		t.Errorf("docs/reference/collector-api.json is not current (%v); run: make docs", err)
	}
	var d struct {
		OpenAPI string `json:"openapi"`
		Paths   map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]any
				Required   []string
			}
		}
	}
	if err := json.Unmarshal(Document(), &d); err != nil || d.OpenAPI != "3.1.0" || len(d.Paths) != len(routes)+1 { // and the stream
		t.Fatalf("%v, %+v", err, d.Paths)
	}
	s := serve(t, start, []record.Record{storetest.NewPackets(1, 5, 5, 5, start, 1).Next()})
	for path, operations := range d.Paths {
		get := operations["get"]
		name := strings.TrimPrefix(get.Responses["200"].Content["application/json"].Schema.Ref, "#/components/schemas/")
		schema := d.Components.Schemas[name]
		var parameters []string
		if path == liveRoute.path {
			continue
		}
		if len(get.Parameters) > 1 {
			parameters = all
		}
		var answer map[string]any
		s.ask(path, &answer, parameters...)
		for _, key := range slices.Sorted(maps.Keys(answer)) {
			if _, ok := schema.Properties[key]; !ok {
				t.Errorf("%s: the answer has %s, and the document does not", path, key)
			}
		}
		for _, key := range schema.Required {
			if _, ok := answer[key]; !ok {
				t.Errorf("%s: the answer lacks %s", path, key)
			}
		}
		if _, ok := answer["from"]; !ok && len(parameters) > 0 {
			t.Errorf("%s: %v", path, answer)
		}
	}
}
