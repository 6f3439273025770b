// SPDX-License-Identifier: Apache-2.0

package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/record"
)

// With an address, a port, a protocol or a namespace, each question has the answer of a collector that got only the
// packets that have it. The first part of the packets is in rollups already.
func TestFlowsEverywhere(t *testing.T) {
	p := storetest.NewPackets(7, 20, 30, 300, start, 40*time.Millisecond)
	var list []record.Record
	for range 3000 { // 2 minutes, over the hour
		list = append(list, p.Next())
	}
	list = append(list, steadily(start.Truncate(time.Minute), 600)...)
	list = append(list, lossy()...)
	s := serve(t, start, list[:2000], list[2000:])
	first := list[0].(*record.Path)
	port := *first.Packet.SourcePort
	few := netip.PrefixFrom(first.Packet.Source, 126).Masked()
	packet := func(r record.Record, is func(*record.Path) bool) bool { p, ok := r.(*record.Path); return ok && is(p) }
	ofPackets := []string{
		"/v1/segments?order=held&limit=1000", "/v1/segments?compare=1m&limit=1000", "/v1/segments?step=1m&limit=1000&order=packets",
		"/v1/segments?baseline=60m&order=loss&limit=1000", "/v1/grid?compare=1m", "/v1/grid", "/v1/paths?limit=1000",
		"/v1/segments?where=true&limit=1000", "/v1/grid?where=true",
	}
	for _, test := range []struct {
		parameters []string
		selects    func(record.Record) bool
		paths      []string // with their parameters
	}{
		{[]string{"source", few.String()}, func(r record.Record) bool {
			return packet(r, func(p *record.Path) bool { return few.Contains(p.Packet.Source) })
		}, ofPackets},
		{[]string{"source_port", fmt.Sprint(port), "namespace", fmt.Sprint(uint16(first.Namespace))}, func(r record.Record) bool {
			return packet(r, func(p *record.Path) bool { return *p.Packet.SourcePort == port && p.Namespace == first.Namespace })
		}, ofPackets},
		{[]string{"source", storetest.Source(1).String(), "namespace", "1"}, func(r record.Record) bool {
			e, ok := r.(*record.EdgeFlow)
			return ok && e.Source == storetest.Source(1)
		}, []string{"/v1/loss", "/v1/loss?where=true"}},
		{[]string{"destination", storetest.Source(9).String()}, func(r record.Record) bool {
			_, ok := r.(*record.EdgeFlow)
			return ok
		}, []string{"/v1/loss"}},
	} {
		var selected []record.Record
		for _, r := range list {
			if test.selects(r) {
				selected = append(selected, r)
			}
		}
		if len(selected) == 0 || len(selected) == len(list) {
			t.Fatalf("%v: %d records", test.parameters, len(selected))
		}
		only := serve(t, start, selected)
		for _, path := range test.paths {
			got, want := s.items(path, test.parameters...), only.items(path)
			if !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("%s with %v: %d items, want %d\n%.2000s\nwant\n%.2000s", path, test.parameters, len(got), len(want),
					strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
	if got := s.items("/v1/segments", "source", "2001:db8:ffff::/48"); len(got) != 0 {
		t.Errorf("segments of a prefix without packets: %v", got)
	}
	for _, bad := range [][]string{{"source", "x"}, {"flow", "gold", "source", "2001:db8::1"}} {
		if code, body := s.ask("/v1/loss", nil, append(append([]string(nil), all...), bad...)...); code != http.StatusBadRequest ||
			!strings.Contains(body, bad[0]) {
			t.Errorf("%v: %d %s", bad, code, body)
		}
	}
}
