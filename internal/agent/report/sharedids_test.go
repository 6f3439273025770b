// SPDX-License-Identifier: Apache-2.0

package report

import (
	"strings"
	"testing"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/agent/service"
	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/health"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// A node id that comes twice in traces is warned of and logged once, and no more after a minute
// without one; ids that are not available are no node's, and copies pass nodes twice.
func TestSharedNodeIDs(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig)
	h.Start()
	x := h.shared
	node := func(hops byte, id uint32) ioam.NodeData {
		return ioam.NodeData{Type: 0x800000, Bytes: []byte{hops, byte(id >> 16), byte(id >> 8), byte(id)}}
	}
	trace := func(nodes ...ioam.NodeData) *record.Trace { return &record.Trace{TraceType: 0x800000, Raw: nodes} }
	repeat := func(n int, t *record.Trace) {
		for range n {
			x.checkTrace(t)
		}
	}
	unknown := uint32(ioam.NodeIDUnavailable)
	repeat(50, trace(node(64, 1), node(63, 2), node(62, 3)))
	repeat(50, trace(node(64, unknown), node(63, unknown)))
	copied := trace(node(64, 1), node(63, 2), node(62, 1))
	copied.Copy = true
	repeat(50, copied)
	repeat(9, trace(node(64, 1), node(63, 7), node(62, 7)))
	if ws := x.Warnings(nil); len(ws) != 0 {
		t.Errorf("warned: %+v", ws)
	}
	repeat(1, trace(node(64, 1), node(63, 7), node(62, 7)))
	if ws := x.Warnings(nil); len(ws) != 1 || ws[0].Code != health.NodeIDShared ||
		!strings.Contains(ws[0].Text, "node id 7 came twice in 10 traces of the last minute, last with the hop limits 63 and 62") {
		t.Errorf("%+v", ws)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
	var events []*record.Event
	x.offer = func(list ...record.Record) { events = append(events, list[0].(*record.Event)) }
	for range 3 { // as the clock does
		x.logBegin()
	}
	if len(events) != 1 || events[0].Name != record.EventNodeIDShared || events[0].Label("node_id") != "7" ||
		events[0].Values[0].Number != 10 ||
		events[0].Node != agenttest.NodeName {
		t.Errorf("%+v", events)
	}
	if n := strings.Count(h.Log.String(), "warning="+string(health.NodeIDShared)); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, h.Log)
	}
	for id := range uint32(1000) { // outsiders write any
		repeat(1, trace(node(64, 100+id), node(63, 100+id)))
	}
	if len(x.seen) > mostShared {
		t.Errorf("%d ids are remembered", len(x.seen))
	}
	for range service.KeptSamples { // a minute without another one
		x.sample()
	}
	if ws := x.Warnings(nil); len(ws) != 0 || len(x.seen) != 0 {
		t.Errorf("%+v, %d ids", ws, len(x.seen))
	}
	x.logBegin()
	if len(events) != 2 || events[1].Name != record.EventNodeIDUnique || events[1].Subject != events[0].Subject || events[1].Since.IsZero() {
		t.Errorf("%+v", events)
	}
}

// The warning has the names that are known, and a list that calls this node something else is one.
func TestSharedNamedIDs(t *testing.T) {
	h := newHarness(t, agenttest.BaseConfig+`
names:
  - {id: 3, name: r3, interfaces: [{id: 301, name: east0, description: to r4}]}
  - {id: 1, name: r1}
  - {id: 2, name: r9}
`)
	h.Start()
	x := h.shared
	names, err := api.NewClient(h.Instance.Socket()).Names(t.Context())
	if err != nil || names.Node(3) != "r3" || names.Interface(3, 301) != "east0" || names.Description(3, 301) != "to r4" ||
		names.Node(2) != agenttest.NodeName ||
		names.Interface(2, 201) != "eth0" {
		t.Errorf("%v: %+v", err, names.List())
	}
	nodes := func(ids ...byte) *record.Trace {
		r := &record.Trace{TraceType: 0x800000}
		for i, id := range ids {
			d := ioam.NodeData{Type: 0x800000, Bytes: []byte{byte(64 - i), 0, 0, id}}
			r.Raw, r.Nodes = append(r.Raw, d), append(r.Nodes, record.ReadNodeData(d, record.Clock{}))
		}
		r.Name(h.shared.d.State.Load().Names)
		return r
	}
	for range 10 {
		x.checkTrace(nodes(3, 1, 3))
	}
	ws := x.Warnings(h.shared.d.State.Load())
	if len(ws) != 2 || !strings.Contains(ws[0].Text, "node id 2 is that of this node, gamma, and of r9 under names") ||
		!strings.Contains(
			ws[1].Text,
			"node id 3 (r3) came twice in 10 traces of the last minute, last with the hop limits 64 and 62 (first, and after r1)",
		) {
		t.Errorf("%+v", ws)
	}
	if err := h.End(); err != nil {
		t.Fatal(err)
	}
}

// Wide ids are compared where traces have no others.
func TestSharedWideNodeIDs(t *testing.T) {
	wide := func(hops, id byte) ioam.NodeData {
		return ioam.NodeData{Type: 0x008000, Bytes: []byte{hops, 0, 0, 0, 0, 0, 0, id}}
	}
	one, ok := nameOf(wide(64, 9))
	other, _ := nameOf(wide(63, 9))
	if !ok || one != other || !one.wide || one.id != 9 {
		t.Errorf("%+v, %v; %+v", one, ok, other)
	}
}
