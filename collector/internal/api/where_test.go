// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/recordfilter"
)

// A condition selects the packets that waymark collect selects by it, and paths have what these packets have.
func TestWhere(t *testing.T) {
	p := storetest.NewPackets(7, 20, 30, 300, start, 10*time.Millisecond)
	var list []record.Record
	for range 5000 {
		list = append(list, p.Next())
	}
	s := serve(t, start, list)
	for _, condition := range []string{
		`delay_ns > duration("1ms")`, `any(nodes, .node_id == 7)`, `verdict == "lost"`,
		`kind == "path" and packet.source_port < 1030 and nodes[0].transit_delay_ns > 20000`, `len(nodes) == 4 and not complete`,
		`within(packet.source, "2001:db8:1::/48") and flow_id != 120`, `reason == "not_seen_further" and nodes[0].ingress == "eth0"`,
	} {
		program, err := recordfilter.Filter{Where: condition}.Compile()
		if err != nil {
			t.Fatal(condition, err)
		}
		want, bytes := 0, 0
		for _, r := range list {
			if is, _ := program.Match(r); is {
				want, bytes = want+1, bytes+r.(*record.Path).Packet.Length
			}
		}
		var packets query.Packets
		s.ask("/v1/packets", &packets, append(all, "where", condition, "limit", "10000")...)
		var paths query.Paths
		s.ask("/v1/paths", &paths, append(all, "where", condition, "limit", "1000")...)
		sum, held := uint64(0), uint64(0)
		for _, one := range paths.Paths {
			sum, held = sum+one.Bytes, held+one.Hops[0].Held.Count
		}
		if len(packets.Packets) != want || int(paths.Packets) != want || int(sum) != bytes || int(held) != want || want == 0 ||
			packets.Cut != nil {
			t.Errorf("%s: %d packets, %d on paths with %d bytes, want %d with %d", condition, len(packets.Packets), paths.Packets, sum, want, bytes)
		}
	}
	var without, with query.Paths // a condition that is always true changes nothing
	s.ask("/v1/paths", &without, append(all, "limit", "3")...)
	s.ask("/v1/paths", &with, append(all, "limit", "3", "where", "true")...)
	for i := range without.Paths {
		a, b := without.Paths[i], with.Paths[i]
		if a.ID != b.ID || *a.Delay != *b.Delay || a.Lost != b.Lost || a.First != b.First || *a.Hops[1].Since != *b.Hops[1].Since ||
			a.Share != b.Share {
			t.Errorf("%+v\n%+v", a, b)
		}
	}
	if *with.Nodes[0].Held != *without.Nodes[0].Held || *with.Segments[0].Since != *without.Segments[0].Since {
		t.Errorf("%+v\n%+v", with.Nodes[0], without.Nodes[0])
	}
	for condition, want := range map[string]string{"delay_ns >": "unexpected token", "last_seen.node == 'x'": "last_seen is not kept",
		"sauce == 1": "unknown name sauce", strings.Repeat("(", 2000): "more than the limit"} {
		if code, body := s.ask("/v1/packets", nil, append(all, "where", condition)...); code != http.StatusBadRequest ||
			!strings.Contains(body, want) {
			t.Errorf("%s: %d %s", condition, code, body)
		}
	}
	var port query.Packets
	s.ask("/v1/packets", &port, append(all, "port", strconv.Itoa(int(*list[0].(*record.Path).Packet.SourcePort)), "limit", "10000")...)
	if n := len(port.Packets); n == 0 || n == len(list) {
		t.Errorf("%d packets with the port", n)
	}
}

// With a condition, each question has the answer of a collector that got only the records for which it is true.
func TestWhereEverywhere(t *testing.T) {
	p := storetest.NewPackets(7, 20, 30, 300, start, 40*time.Millisecond)
	var list []record.Record
	for range 3000 { // 2 minutes, over the hour
		list = append(list, p.Next())
	}
	list = append(list, steadily(start.Truncate(time.Minute), 600)...)
	list = append(list, lossy()...)
	s := serve(t, start, list[:2000], list[2000:])
	for _, test := range []struct {
		condition string
		paths     []string // with their parameters
	}{
		{`delay_ns > duration("1ms")`, []string{"/v1/segments?order=held&limit=1000", "/v1/segments?order=packets&compare=1m&limit=1000&step=1m", "/v1/grid?compare=1m", "/v1/changes?least=1&moved=0.3", "/v1/packets?limit=50", "/v1/paths", "/v1/paths?step=10s&limit=3", "/v1/paths?buckets=7&compare=1m"}},
		{`verdict == "lost" or nodes[0].transit_delay_ns > 20000`, []string{"/v1/segments?order=loss&limit=1000", "/v1/grid", "/v1/changes?source=2001:db8::/32"}},
		{`true`, []string{"/v1/segments?limit=1000", "/v1/grid", "/v1/changes", "/v1/loss?compare=1m&series=true", "/v1/segments?step=2m&limit=3", "/v1/loss?step=2m"}},
		{`lost > 0`, []string{"/v1/loss", "/v1/loss?series=true"}},
		{`kind == "loss" and scope == "segment" and ratio > 0.02`, []string{"/v1/loss?flow=gold"}},
		{`"guard_violated" in (from_reasons ?? []) or delay_ns?.max > 5`, []string{"/v1/loss"}},
	} {
		program, err := recordfilter.Filter{Where: test.condition}.Compile()
		if err != nil {
			t.Fatal(test.condition, err)
		}
		var selected []record.Record
		for _, r := range list {
			if is, _ := program.Match(r); is {
				selected = append(selected, r)
			}
		}
		if len(selected) == 0 || len(selected) == len(list) != (test.condition == "true") {
			t.Errorf("%s: %d records", test.condition, len(selected))
		}
		only := serve(t, start, selected)
		for _, path := range test.paths {
			got, want := s.items(path, "where", test.condition), only.items(path)
			series := strings.Contains(path, "step") || strings.Contains(path, "series") || strings.Contains(path, "buckets")
			if !slices.Equal(got, want) || len(got) == 0 || series != strings.Contains(strings.Join(got, ""), `"series":[`) {
				t.Errorf(
					"%s where %s: %d items, want %d\n%.2000s\nwant\n%.2000s",
					path,
					test.condition,
					len(got),
					len(want),
					strings.Join(got, "\n"),
					strings.Join(want, "\n"),
				)
			}
		}
	}
	for path, condition := range map[string]string{"/v1/loss": "verdict2 == 'x'", "/v1/grid": "ratio > 1",
		"/v1/changes": "x'; DROP TABLE packets --", "/v1/segments": "sent > 1"} {
		if code, body := s.ask(path, nil, append(all, "where", condition)...); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}

// What a question with a condition keeps is bounded by paths and segments, too: of very many, the answer is made of the
// latest packets, and says so.
func TestWhereKeepsFewSums(t *testing.T) {
	const nodes, packets = 30, 870 // each packet has 29 segments, and 30 nodes, that no other has
	p := storetest.NewPackets(7, 20, 1, 300, start, 10*time.Millisecond)
	var list []record.Record
	for i := range packets {
		way := make([]int, nodes)
		for k := range way {
			way[k] = 1 + i*nodes + k
		}
		list = append(list, p.Of(1, way, false))
	}
	s := serve(t, start, list)
	const most = 50_000
	var paths query.Paths
	s.ask("/v1/paths", &paths, append(all, "where", "true", "limit", "1000")...)
	if want := most/(1+2*nodes) + 1; len(paths.Paths) != want || int(paths.Packets) != want || paths.Cut == nil ||
		paths.Cut.Reason != "search" ||
		!strings.Contains(paths.Cut.Text, strconv.Itoa(want)+" packets") {
		t.Errorf("%d paths of %d packets, want %d; %+v", len(paths.Paths), paths.Packets, want, paths.Cut)
	}
	latest := list[packets-len(paths.Paths)].(*record.Path).Time
	for i := range paths.Paths {
		if paths.Paths[i].First.Before(latest.Time) {
			t.Errorf("a path of %v, before %v", paths.Paths[i].First, latest)
			break
		}
	}
	var segments query.Segments
	s.ask("/v1/segments", &segments, append(all, "where", "true", "limit", "10000")...)
	if segments.Cut == nil || segments.Cut.Reason != "search" || !strings.Contains(segments.Cut.Text, "segments") {
		t.Errorf("%d segments, %+v", len(segments.Segments), segments.Cut)
	}
	var few query.Paths // a condition that selects fewer is compared with all
	s.ask("/v1/paths", &few, append(all, "where", "sequence <= 400", "limit", "1000")...)
	if few.Packets != 400 || len(few.Paths) != 400 || few.Cut != nil {
		t.Errorf("%d paths of %d packets; %+v", len(few.Paths), few.Packets, few.Cut)
	}
}

// lossy are blocks of a flow, and what an edge measured.
func lossy() (list []record.Record) {
	for i := range 90 {
		m := record.Measurement{
			Time:     instant.Of(start),
			Node:     "athos",
			Flow:     "gold",
			FlowID:   5,
			Scope:    record.WholeWay,
			From:     1,
			To:       2,
			FromNode: "athos",
			ToNode:   "aramis",
			Start:    instant.Of(start.Add(time.Duration(i) * time.Second)),
		}
		if i%3 == 0 {
			m.Scope, m.To, m.ToNode = record.OneSegment, 3, "porthos"
		}
		l := &record.Loss{
			Measurement: m,
			Verdict:     loss.Measured,
			Sent:        record.NewField(uint64(100), true),
			Received:    record.NewField(uint64(100-i%5), true),
			Lost:        record.NewField(uint64(i%5), true),
			Ratio:       record.NewField(float64(i%5)/100, true),
		}
		if i%10 == 0 {
			l = &record.Loss{
				Measurement: m,
				Verdict:     loss.Uncertain,
				FromReasons: loss.GuardViolated,
				Sent:        record.NewField(uint64(100), true),
				Lost:        record.NewField(uint64(0), false),
			}
		}
		list = append(list, l)
	}
	for i := range 10 {
		e := &record.EdgeFlow{
			Time:        instant.Of(start.Add(time.Duration(i) * time.Second)),
			Node:        "aramis",
			Namespace:   1,
			Source:      storetest.Source(i % 2),
			Destination: storetest.Source(9),
			Packets:     100,
			Duplicates:  record.NewField(uint64(i), true),
		}
		if i%2 == 0 {
			e.Lost, e.Delay = record.NewField(uint64(i), true), &record.EdgeDelays{Min: -1, Max: int64(i), Sum: 3, Count: 4}
		}
		list = append(list, e)
	}
	return list
}

// items are those of an answer's lists, as JSON, in any order.
func (s *served) items(path string, more ...string) (list []string) {
	path, query, _ := strings.Cut(path, "?")
	parameters := append([]string(nil), all...)
	for _, one := range strings.FieldsFunc(query, func(c rune) bool { return c == '&' }) {
		name, value, _ := strings.Cut(one, "=")
		parameters = append(parameters, name, value)
	}
	var answer map[string]json.RawMessage
	s.ask(path, &answer, append(parameters, more...)...)
	if cut := answer["cut"]; cut != nil && !strings.Contains(string(cut), `"limit"`) {
		s.t.Errorf("%s: %s", path, cut)
	}
	for _, key := range []string{"paths", "changes", "segments", "pairs", "packets", "flows", "edge_flows", "delays"} {
		var items []json.RawMessage
		if json.Unmarshal(answer[key], &items) == nil {
			for _, item := range items {
				list = append(list, key+" "+string(item))
			}
		}
	}
	slices.Sort(list)
	return list
}
