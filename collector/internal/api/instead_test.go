// SPDX-License-Identifier: Apache-2.0

package api

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/collector/internal/store"
	"github.com/waymark-net/waymark/collector/internal/storetest"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/record"
)

// Where nodes sent aggregated flows and single postcards, and no packet came with its path, paths say so.
func TestInsteadOfPaths(t *testing.T) {
	list := flowRecordsOf(rand.New(rand.NewPCG(1, 1)), 300)
	flows, cards := uint64(0), uint64(0)
	for _, r := range list {
		switch r.(type) {
		case *record.Flow:
			flows++
		case *record.Postcard:
			cards++
		}
	}
	one := storetest.NewPackets(1, 20, 1, 300, start.Add(time.Hour), time.Second).Of(200, []int{1, 2, 3}, false)
	s := serve(t, start, append(list, one))
	const before = "2026-11-21T12:30:00Z"
	ask := func(parameters ...string) *query.Instead {
		t.Helper()
		var a query.Paths
		s.ask("/v1/paths", &a, parameters...)
		if (a.Packets == 0) != (len(a.Paths) == 0) || a.Instead != nil && a.Packets > 0 {
			t.Errorf("%+v", a)
		}
		return a.Instead
	}
	if i := ask("from", all[1], "until", before); i == nil || i.Flows != flows || i.Postcards != cards ||
		!strings.Contains(i.Text, "records of aggregated flows") || !strings.Contains(i.Text, "single postcards") ||
		!strings.Contains(i.Cure, "waymark flow history") || !strings.Contains(i.Cure, "export: sample") {
		t.Errorf("%+v", i)
	}
	for name, parameters := range map[string][]string{
		"packets":                   all,
		"a condition":               {"from", all[1], "until", before, "where", "true"},
		"another prefix":            {"from", all[1], "until", before, "source", "2001:db8:ffff::/48"},
		"nothing in that time":      {"from", all[1], "until", "2026-11-21T11:30:00Z"},
		"packets, by their address": append([]string{"source", one.Packet.Source.String()}, all...),
	} {
		if i := ask(parameters...); i != nil {
			t.Errorf("with %s: %+v", name, i)
		}
	}
	few := list[0].(*record.Flow).Packet.Source
	want := plainly(list, 0)
	records := uint64(0)
	for name, f := range want {
		if strings.Contains(name, " "+few.String()+" ") {
			records += f.records
		}
	}
	if i := ask(append([]string{"source", few.String()}, all...)...); i == nil || i.Flows != records {
		t.Errorf("from %v: %+v, want %d", few, i, records)
	}
}

// A tenant learns nothing of what came of others.
func TestInsteadInScope(t *testing.T) {
	s, err := store.New(t.Context(), store.Options{Directory: t.TempDir(), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Write(t.Context(), aboutFlows(1, 11, "athos", "gold")); err != nil {
		t.Fatal(err)
	}
	for source, there := range map[int]bool{1: true, 250: false} {
		var a query.Paths
		scope := &store.Scope{Prefixes: []netip.Prefix{netip.PrefixFrom(storetest.Source(source), 128)}}
		if asTenant(t, s, scope).ask("/v1/paths", &a, all...); (a.Instead != nil) != there {
			t.Errorf("%d: %+v", source, a.Instead)
		}
	}
}

// Numbers that a sender makes up break no question.
func TestHostileNumbers(t *testing.T) {
	const most = 1<<64 - 1
	var list []record.Record
	for i := range 5 {
		for _, r := range aboutFlows(1, 1, "athos", "gold") {
			switch r := r.(type) {
			case *record.Flow:
				r.Packets, r.Bytes = most, most
				r.SequenceGaps, r.Reordered = record.NewField(uint64(most), true), record.NewField(uint64(most), true)
				r.TransitDelay = &record.Delays{Max: 1<<32 - 1, Sum: most, Count: most}
				r.First = instant.Of(time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC))
				r.Last = instant.Of(time.Date(2250, 1, 1, 0, 0, 0, 0, time.UTC))
			case *record.Delay:
				r.Samples, r.Length = most, most
				r.Min, r.Mean, r.P95 = -1<<63, []int64{-1 << 63, 1<<63 - 1}[i%2], []int64{-1 << 63, 1<<63 - 1}[i%2]
				r.Jitter = record.NewField(uint64(most), true)
				r.FromClockError, r.ToClockError = r.Jitter, r.Jitter
			}
			list = append(list, r)
		}
	}
	s := serve(t, start, list)
	for _, where := range [][]string{nil, {"where", "true"}} {
		parameters := append(append([]string{"step", "1m"}, where...), all...)
		var flows query.AggregatedFlows
		s.ask("/v1/flows", &flows, parameters...)
		if f := flows.Flows; len(f) != 1 || f[0].Packets != 1<<63-1 || *f[0].Missing != 1<<63-1 ||
			f[0].Held.Count != 1<<63-1 || len(f[0].Series) != 1 {
			t.Errorf("%+v", f)
		}
		var delays query.MeasuredDelays
		s.ask("/v1/delay", &delays, parameters...)
		if d := delays.Delays; len(d) != 1 || d[0].Samples != 1<<63-1 || d[0].Min != -1<<63 ||
			d[0].MaxP95 != 1<<63-1 || *d[0].FromClock != 1<<63-1 ||
			d[0].P95 < 1<<62 {
			t.Errorf("%+v", d)
		}
	}
}
