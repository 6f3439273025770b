// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"net/netip"
	"testing"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

func traceOf(namespace ioam.NamespaceID, source, destination string) *record.Trace {
	return &record.Trace{Namespace: namespace, Nodes: []record.NodeData{},
		Packet: record.Packet{Source: netip.MustParseAddr(source), Destination: netip.MustParseAddr(destination)}}
}

func TestStreamNeverWaits(t *testing.T) {
	var s Stream
	slow, fast := s.Observe(record.Filter{}, 2), s.Observe(record.Filter{}, 10)
	other := s.Observe(record.Filter{Destination: netip.MustParsePrefix("2001:db8:9::/48")}, 1)
	for i := range 5 {
		s.Publish(traceOf(ioam.NamespaceID(i), "::1", "::2"))
	}
	if n, lost := len(slow.Records()), slow.TakeLost(); n != 2 || lost != 3 {
		t.Errorf("slow observer has %d records and lost %d, want 2 and 3", n, lost)
	}
	if n, lost := len(fast.Records()), fast.TakeLost(); n != 5 || lost != 0 {
		t.Errorf("fast observer has %d records and lost %d, want 5 and 0", n, lost)
	}
	if n, lost := len(other.Records()), other.TakeLost(); n != 0 || lost != 0 {
		t.Errorf("filtered observer has %d records and lost %d", n, lost)
	}
	if slow.TakeLost() != 0 || s.Dropped() != 3 || s.Observers() != 3 {
		t.Errorf("dropped %d of 3, observers %d of 3", s.Dropped(), s.Observers())
	}
	if first := <-slow.Records(); first.(*record.Trace).Namespace != 0 {
		t.Errorf("the oldest record is %d, want 0", first.(*record.Trace).Namespace)
	}
	for _, o := range []*Observer{slow, fast, other} {
		o.Close()
	}
	s.Publish(traceOf(1, "::1", "::2"))
	if s.Observers() != 0 || s.Dropped() != 3 || len(fast.Records()) != 5 {
		t.Error("a closed observer still gets records")
	}
}
