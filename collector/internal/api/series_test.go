// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/csv"
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
)

// steadily are packets of one flow, one a second, on a path; the second half of them on another one.
func steadily(from time.Time, packets int) (list []record.Record) {
	p := storetest.NewPackets(1, 20, 1, 50, from, time.Second)
	for i := range packets {
		path := []int{1, 2, 9}
		if i >= packets/2 {
			path = []int{1, 4, 9}
		}
		list = append(list, p.Of(1, path, false))
	}
	return list
}

// The steps of series have together what the whole time has, and a comparison has what the other time has.
func TestSeries(t *testing.T) {
	at := start.Truncate(time.Hour) // 11:00; half of the packets are in each of two hours
	list := steadily(at.Add(30*time.Minute), 3600)
	s := serve(t, at.Add(2*time.Hour), list)
	hour := []string{"from", "2026-11-21T11:00:00Z", "until", "2026-11-21T13:00:00Z"}
	var paths query.Paths
	s.ask("/v1/paths", &paths, append(hour, "step", "10m")...)
	if len(paths.Paths) != 2 || paths.Step != (10*time.Minute).Nanoseconds() {
		t.Fatalf("%+v", paths)
	}
	for _, p := range paths.Paths {
		if len(p.Series) != 3 || p.Series[0].Packets != 600 || p.Series[0].Share != 1 || p.Series[2].Delay == nil ||
			p.Series[2].Delay.Count != 600 {
			t.Errorf("%+v", p.Series)
		}
	}
	for _, divided := range [][]string{{"buckets", "12"}, {"step", "1h"}, {"step", "2h"}} {
		var segments query.Segments
		s.ask("/v1/segments", &segments, append(append(hour, "order", "packets"), divided...)...)
		for _, one := range segments.Segments {
			sum := query.SegmentMeasured{}
			for _, point := range one.Series {
				if sum.Packets += point.Packets; point.Held == nil || point.Held.Count != point.Packets {
					t.Errorf("%v: %+v", divided, point)
				}
			}
			if sum.Packets != one.Packets || len(one.Series) == 0 {
				t.Errorf("%v: %d packets in %d steps, want %d", divided, sum.Packets, len(one.Series), one.Packets)
			}
		}
	}
	second := []string{"from", "2026-11-21T12:00:00Z", "until", "2026-11-21T13:00:00Z"}
	var now query.Paths
	s.ask("/v1/paths", &now, append(second, "compare", "1h")...)
	if now.Before == nil || now.Packets != 1800 || now.Before.Packets != 1800 || len(now.Paths) != 1 ||
		now.Before.Paths[0].ID == now.Paths[0].ID || now.Before.Until.Hour() != 12 {
		t.Errorf("%+v", now)
	}
	var segments query.Segments
	s.ask("/v1/segments", &segments, append(second, "compare_from", "2026-11-21T11:00:00Z")...)
	compared := 0
	for _, one := range segments.Segments {
		if one.Baseline != nil {
			compared++
		}
	}
	if compared != 1 || len(segments.Segments) != 3 { // only the last node, which has no next one, is on both paths
		t.Errorf("%d of %d segments are there in both hours", compared, len(segments.Segments))
	}
	var grid query.Grid
	s.ask("/v1/grid", &grid, append(second, "compare", "1h")...)
	if len(grid.Pairs) != 1 || grid.Pairs[0].Packets != 1800 || grid.Pairs[0].Before == nil || grid.Pairs[0].Before.Packets != 1800 {
		t.Errorf("%+v", grid)
	}
}

// A block of which the loss is not known is shown as such, with the reasons.
func TestBlocksAndEvents(t *testing.T) {
	m := record.Measurement{Time: instant.Of(start), Flow: "gold", FlowID: 5, Scope: record.OneSegment, From: 1, To: 2, FromNode: "athos",
		Start: instant.Of(start), Length: 1e9,
		Block: record.NewField(uint64(7), true)}
	sure := &record.Loss{Measurement: m, Verdict: loss.Measured, Sent: record.NewField(uint64(100), true),
		Received: record.NewField(uint64(97), true), Lost: record.NewField(uint64(3), true)}
	m.Start = instant.Of(start.Add(time.Second))
	unsure := &record.Loss{Measurement: m, Verdict: loss.Uncertain, FromReasons: loss.GuardViolated, ToReasons: loss.GuardViolated,
		Sent: record.NewField(uint64(100), true), Lost: record.NewField(uint64(0), false)}
	event := &record.Event{Time: instant.Of(start), Node: "athos", Name: "probe_loss", Severity: record.SeverityWarning, Subject: "porthos",
		Facts:  "3 of 10 lost",
		Labels: []record.Label{{Name: "destination", Text: "porthos\x1b[2J"}}, Values: []record.Value{{Name: "lost_ratio", Number: 0.3}}}
	warning := &record.Warning{Time: instant.Of(start.Add(time.Minute)), Code: "flow_loss_high", Flow: "gold", FlowID: 5, Beyond: true,
		Facts: "3% lost", Cure: "look"}
	s := serve(t, start, []record.Record{sure, unsure, event, warning})
	var blocks query.Blocks
	s.ask("/v1/loss/blocks", &blocks, append(all, "flow", "gold", "flow_id", "5")...)
	if len(blocks.Blocks) != 2 {
		t.Fatalf("%+v", blocks)
	}
	known, unknown := blocks.Blocks[1], blocks.Blocks[0]
	if known.Verdict != "measured" || *known.Lost != 3 || *known.Sent != 100 || *known.Number != 7 || known.FromNode != "athos" ||
		known.Reasons != nil || known.Length != 1e9 {
		t.Errorf("%+v", known)
	}
	if unknown.Verdict != "uncertain" || unknown.Lost != nil || !slices.Equal(unknown.Reasons, []string{"guard_violated"}) {
		t.Errorf("%+v", unknown)
	}
	var sums query.Losses
	if s.ask("/v1/loss", &sums, append(all, "compare", "4h")...); len(sums.Flows) != 1 || sums.Flows[0].FromNode != "athos" ||
		sums.Flows[0].Before != nil {
		t.Errorf("%+v", sums)
	}
	var events query.Events
	s.ask("/v1/events", &events, all...)
	if len(events.Events) != 2 || events.Events[0].Name != "flow_loss_high" || events.Events[0].Cure != "look" ||
		events.Events[0].Subject != "gold" {
		t.Fatalf("%+v", events)
	}
	if e := events.Events[1]; e.Node != "athos" || e.Labels["destination"] != "porthos\x1b[2J" || e.Values["lost_ratio"] != 0.3 ||
		e.Severity != "warning" {
		t.Errorf("%+v", e)
	}
	if s.ask("/v1/events", &events, append(all, "node", "athos", "event", "probe_loss")...); len(events.Events) != 1 {
		t.Errorf("%+v", events)
	}
	events = query.Events{}
	if s.ask("/v1/events", &events, append(all, "limit", "1")...); events.Cut == nil ||
		events.Cut.Text != "there are more than 1; ask for less time or one event or node, or raise limit" {
		t.Errorf("%+v", events.Cut)
	}
	blocks = query.Blocks{}
	if s.ask("/v1/loss/blocks", &blocks, append(all, "limit", "1")...); blocks.Cut == nil ||
		blocks.Cut.Cure != "ask for less time or one flow, or raise limit" {
		t.Errorf("%+v", blocks.Cut)
	}
}

// Answers in CSV have a row for each node of each packet, and the same values as in JSON.
func TestCSV(t *testing.T) {
	list := steadily(start, 20)
	list[3].(*record.Path).Nodes[0].Node = "=HYPERLINK(\x1b)"
	s := serve(t, start, list)
	read := func(path string, accept string, parameters ...string) ([][]string, http.Header) {
		request, err := http.NewRequest(http.MethodGet, s.URL+path+"?from=2026-11-21T11:00:00Z&until=2026-11-21T14:00:00Z"+
			strings.Join(parameters, ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		rows, err := csv.NewReader(response.Body).ReadAll()
		if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/csv") {
			t.Fatalf("%s: %v, %s", path, err, response.Header.Get("Content-Type"))
		}
		return rows, response.Header
	}
	rows, header := read("/v1/packets", "*/*", "&format=csv&limit=5")
	if len(rows) != 1+5*3 || header.Get("Waymark-Cut-Problem") != "there are more than 5" || header.Get("Waymark-Cut-Reason") != "limit" ||
		header.Get("Waymark-Cut") != "there are more than 5; ask for less time or fewer addresses, or raise limit" {
		t.Fatalf("%d rows, %v", len(rows), header)
	}
	var packets query.Packets
	s.ask("/v1/packets", &packets, append(all, "limit", "5")...)
	for i, row := range rows[1:] {
		p, n := packets.Packets[i/3], packets.Packets[i/3].Nodes[i%3]
		for name, want := range map[string]string{
			"time": p.Time.String(), "delay_ns": strconv.FormatInt(*p.Delay, 10), "source_address": p.From,
			"nodes.held_ns": strconv.Itoa(int(*n.Held)), "nodes.node_id": strconv.Itoa(int(*n.ID)),
		} {
			if column := slices.Index(rows[0], name); column < 0 || row[column] != want {
				t.Errorf("%s of row %d: %v, want %s", name, i, row, want)
			}
		}
	}
	rows, _ = read("/v1/segments", "text/csv, application/json;q=0.5", "&step=1m")
	if !slices.Contains(rows[0], "from.node") || !slices.Contains(rows[0], "held.p99_ns") || !slices.Contains(rows[0], "series.link.p50_ns") {
		t.Errorf("%v", rows[0])
	}
	hostile := false
	for _, row := range rows {
		for _, text := range row {
			if hostile = hostile || strings.Contains(text, "HYPERLINK"); strings.HasPrefix(text, "=") || strings.Contains(text, "\x1b") {
				t.Errorf("%q", text)
			}
		}
	}
	if !hostile {
		t.Error("the name is not there")
	}
	if rows, _ = read("/v1/paths", "text/csv", "&compare=1h"); len(rows) != 1+2*(2*3) ||
		rows[0][0] != "period" || rows[1][0] != "now" || rows[7][0] != "before" {
		t.Errorf("%v", rows)
	}
	if rows, _ = read("/v1/changes", "text/csv", ""); len(rows) != 1 || rows[0][0] != "time" {
		t.Errorf("%v", rows)
	}
}

// What nodes held on several paths is added up, and a clock's error is that of the nearest minute.
func TestTotalsAndClocks(t *testing.T) {
	list := steadily(start, 100)
	held := []int64{}
	for _, r := range list {
		r.(*record.Path).Nodes[0].Node = "athos"
		held = append(held, int64(r.(*record.Path).Nodes[2].TransitDelay.Value)) // of node 9, which is on both paths
	}
	for i, ns := range []uint64{700, 900} {
		list = append(list, &record.Block{Time: instant.Of(start.Add(time.Duration(i) * 5 * time.Minute)), Node: "athos",
			ClockError: record.NewField(ns, true)})
	}
	s := serve(t, start, list)
	var paths query.Paths
	s.ask("/v1/paths", &paths, all...)
	found := false
	for _, n := range paths.Nodes {
		if *n.ID == 9 {
			found = true
			if n.Packets != 100 || n.Held.Count != 100 || !near(n.Held.P50, exact(held, 0.5)) {
				t.Errorf("%+v %+v", n, n.Held)
			}
		}
	}
	if !found || len(paths.Nodes) != 4 || len(paths.Segments) != 4 || paths.Segments[0].Since.Count != 50 {
		t.Errorf("%+v %+v", paths.Nodes, paths.Segments)
	}
	var packets query.Packets
	s.ask("/v1/packets", &packets, append(all, "limit", "1")...)
	nodes := packets.Packets[0].Nodes
	if nodes[0].ClockError == nil || *nodes[0].ClockError != 700 || nodes[0].ClockErrorAt.Minute() != start.Minute() ||
		nodes[1].ClockError != nil {
		t.Errorf("%+v", nodes)
	}
}
