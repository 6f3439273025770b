// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/storetest"
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
		`delay_ns > duration("1ms")`, `any(nodes, .node_id == 7)`, `verdict == "lost"`, `kind == "path" and packet.source_port < 1030 and nodes[0].transit_delay_ns > 20000`, `len(nodes) == 4 and not complete`,
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
		if len(packets.Packets) != want || int(paths.Packets) != want || int(sum) != bytes || int(held) != want || want == 0 || packets.Cut != nil {
			t.Errorf("%s: %d packets, %d on paths with %d bytes, want %d with %d", condition, len(packets.Packets), paths.Packets, sum, want, bytes)
		}
	}
	var without, with query.Paths // a condition that is always true changes nothing
	s.ask("/v1/paths", &without, append(all, "limit", "3")...)
	s.ask("/v1/paths", &with, append(all, "limit", "3", "where", "true")...)
	for i := range without.Paths {
		a, b := without.Paths[i], with.Paths[i]
		if a.ID != b.ID || *a.Delay != *b.Delay || a.Lost != b.Lost || a.First != b.First || *a.Hops[1].Since != *b.Hops[1].Since || a.Share != b.Share {
			t.Errorf("%+v\n%+v", a, b)
		}
	}
	if *with.Nodes[0].Held != *without.Nodes[0].Held || *with.Segments[0].Since != *without.Segments[0].Since {
		t.Errorf("%+v\n%+v", with.Nodes[0], without.Nodes[0])
	}
	for condition, want := range map[string]string{"delay_ns >": "unexpected token", "last_seen.node == 'x'": "last_seen is not kept", "sauce == 1": "unknown name sauce", strings.Repeat("(", 2000): "more than the limit"} {
		if code, body := s.ask("/v1/packets", nil, append(all, "where", condition)...); code != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", condition, code, body)
		}
	}
	var port query.Packets
	s.ask("/v1/packets", &port, append(all, "port", strconv.Itoa(int(*list[0].(*record.Path).Packet.SourcePort)), "limit", "10000")...)
	if n := len(port.Packets); n == 0 || n == len(list) {
		t.Errorf("%d packets with the port", n)
	}
}
