// SPDX-License-Identifier: Apache-2.0

package api

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/collector/internal/query"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/model"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// noID is what an option has of an interface without an id: "not available".
var noID = record.NewField(ioam.InterfaceID(0xffff), false)

// hopData is what a node writes: its id and hop limit, and its interfaces.
func hopData(at time.Time, id int, ingress, egress record.Field[ioam.InterfaceID]) record.NodeData {
	return record.NodeData{
		HopLimit: record.NewField(uint8(65-id), true), NodeID: record.NewField(ioam.NodeID(id), true),
		IngressID: ingress, EgressID: egress, Timestamp: record.NewField(at, true),
	}
}

func interfaceID(id ioam.InterfaceID) record.Field[ioam.InterfaceID] {
	return record.NewField(id, true)
}

// about is a packet of the test.
func about() record.Packet {
	return record.Packet{
		Source: netip.MustParseAddr("2001:db8:1::2"), Destination: netip.MustParseAddr("2001:db8:2::2"), NextHeader: 17, Length: 100,
	}
}

// postcards is a joined path from node 1 to node 2, whose exporter and whose interfaces' indexes are the test's.
func postcards(at time.Time, kind ioam.TraceType, exporter string, index model.IfIndex) *record.Path {
	whole := int64(1000)
	r := &record.Path{
		Time: instant.Of(at), Namespace: 124, TraceType: kind, Packet: about(), Complete: true, Verdict: record.PathArrived, Delay: &whole,
	}
	for i, node := range []string{"west", "east"} {
		n := record.PathNode{Node: node, Exporter: netip.MustParseAddr(exporter), NodeData: hopData(at, i+1, noID, noID)}
		if i == 0 {
			n.Role, n.EgressIfIndex, n.Egress, n.EgressID = record.Encapsulating, index, "up0", interfaceID(101)
		} else {
			n.Role, n.IngressIfIndex, n.Ingress, n.IngressID = record.Decapsulating, index, "down0", interfaceID(201)
			n.SincePrevious = &whole
		}
		r.Nodes = append(r.Nodes, n)
	}
	return r
}

// carried is a trace of the same way.
func carried(at time.Time, namespace ioam.NamespaceID, named bool) *record.Trace {
	r := &record.Trace{Time: instant.Of(at), Namespace: namespace, TraceType: 0xf00000, Packet: about(), Nodes: []record.NodeData{
		hopData(at, 1, noID, interfaceID(101)), hopData(at.Add(time.Microsecond), 2, interfaceID(201), noID),
	}}
	if named {
		r.Nodes[0].NodeName, r.Nodes[1].NodeName = "west", "east"
	}
	return r
}

// A way of packets is one path, although an exporter gets another address, interfaces get other indexes by a reboot, and
// a trace reports it. Nothing has moved then. Probes and their copies are not traffic.
func TestPathOfNodes(t *testing.T) {
	var list []record.Record
	at := start
	add := func(n int, one func(time.Time) record.Record) {
		for range n {
			list = append(list, one(at))
			at = at.Add(100 * time.Millisecond)
		}
	}
	add(600, func(at time.Time) record.Record { return postcards(at, 0xf80000, "2001:db8::1", 5) })
	add(600, func(at time.Time) record.Record { return postcards(at, 0xf80000, "2001:db8::2", 125) })
	add(600, func(at time.Time) record.Record { return carried(at, 124, false) })
	add(600, func(at time.Time) record.Record {
		probe := carried(at, 124, false)
		if probe.Active = at.Second()%2 == 0; !probe.Active {
			probe.Copy = true
		}
		return probe
	})
	live := 0
	for _, r := range list {
		if query.PacketOf(r) != nil {
			live++
		}
	}
	if live != 1800 {
		t.Errorf("the live stream has %d packets of %d records, want 1800", live, len(list))
	}
	s := serve(t, start, list)
	var paths query.Paths
	s.ask("/v1/paths", &paths, all...)
	if len(paths.Paths) != 1 || paths.Packets != 1800 {
		t.Fatalf("%d packets on %d paths, want 1800 on one: %+v", paths.Packets, len(paths.Paths), paths.Paths)
	}
	if hops := paths.Paths[0].Hops; hops[0].Name != "west" || hops[1].Name != "east" || !paths.Paths[0].Complete {
		t.Errorf("the path is %+v", paths.Paths[0])
	}
	var segments query.Segments
	if s.ask("/v1/segments", &segments, all...); len(segments.Segments) == 0 || segments.Segments[0].Packets != 1800 {
		t.Errorf("segments: %+v", segments.Segments)
	}
	var changes query.Changes
	if s.ask("/v1/changes", &changes, append(all, "window", "10s")...); len(changes.Changes) > 0 {
		t.Errorf("changes of packets that stayed on their way: %+v", changes.Changes)
	}
	var packets query.Packets
	s.ask("/v1/packets", &packets, append(all, "limit", "10000")...)
	if len(packets.Packets) != 1800 {
		t.Errorf("%d packets", len(packets.Packets))
	}
	for where, want := range map[string]int{
		`verdict == "arrived"`: 1800, `verdict != "arrived"`: 0, `reason == "complete"`: 1800, `not complete`: 0,
		`kind == "trace" and verdict == "arrived"`: 600, `kind == "trace" and delay_ns == 1000`: 600,
	} {
		var some query.Packets
		if s.ask("/v1/packets", &some, append(all, "where", where, "limit", "10000")...); len(some.Packets) != want {
			t.Errorf("%s: %d packets, want %d", where, len(some.Packets), want)
		}
	}
}

// Nodes of a trace have the names that it has, or those of postcards, and "not available" is no interface. Options without
// ids of interfaces tell the kernel's interfaces apart. Packets of different namespaces are not compared.
func TestNamesOfTraces(t *testing.T) {
	var list []record.Record
	for i := range 600 {
		at := start.Add(time.Duration(i) * 100 * time.Millisecond)
		list = append(list, carried(at, 123, i == 0), postcards(at, 0xb00000, "2001:db8::1", model.IfIndex(5+i/300)))
		if i < 300 {
			list = append(list, carried(at, 125, false))
		}
	}
	s := serve(t, start, list)
	var paths query.Paths
	s.ask("/v1/paths", &paths, all...)
	if len(paths.Paths) != 4 { // of 123, of 125, and two of 124
		t.Fatalf("%d paths: %+v", len(paths.Paths), paths.Paths)
	}
	for _, p := range paths.Paths {
		if p.Hops[0].Name != "west" || p.Hops[1].Name != "east" {
			t.Errorf("namespace %d: nodes %q and %q", p.Namespace, p.Hops[0].Name, p.Hops[1].Name)
		}
		if p.Namespace == 124 {
			continue
		}
		if out := p.Hops[0].Egress; p.Hops[0].Ingress != nil || p.Hops[1].Egress != nil || out == nil || out.Index != 101 {
			t.Errorf("namespace %d: interfaces %+v %+v", p.Namespace, p.Hops[0], p.Hops[1])
		}
	}
	var changes query.Changes
	s.ask("/v1/changes", &changes, append(all, "window", "10s")...)
	if len(changes.Changes) != 1 || changes.Changes[0].Namespace != 124 ||
		!slices.ContainsFunc(changes.Changes[0].Was, func(s query.Share) bool { return len(s.Nodes) == 2 && s.Nodes[0].Name == "west" }) {
		t.Errorf("changes: %+v, want one of namespace 124", changes.Changes)
	}
}

// Interfaces of nodes that only traces know have the names that the ids of the nodes' configurations have.
func TestInterfaceNamesOfTraces(t *testing.T) {
	var list []record.Record
	for i := range 3 {
		r := carried(start.Add(time.Duration(i)*time.Second), 125, true)
		r.Nodes[0].EgressName, r.Nodes[1].IngressName = "up0", "down0"
		list = append(list, r)
	}
	s := serve(t, start, list)
	var paths query.Paths
	s.ask("/v1/paths", &paths, all...)
	if len(paths.Paths) != 1 {
		t.Fatalf("%+v", paths.Paths)
	}
	hops := paths.Paths[0].Hops
	if hops[0].Name != "west" || hops[0].Egress == nil || hops[0].Egress.Name != "up0" || hops[0].Egress.Index != 101 ||
		hops[1].Ingress == nil || hops[1].Ingress.Name != "down0" || hops[1].Ingress.Index != 201 {
		t.Errorf("%+v", hops)
	}
	var segments query.Segments
	s.ask("/v1/segments", &segments, all...)
	if len(segments.Segments) == 0 || segments.Segments[0].Egress.Name != "up0" || segments.Segments[0].Ingress.Name != "down0" {
		t.Errorf("%+v", segments.Segments)
	}
}
