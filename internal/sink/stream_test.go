// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/patience"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

func traceOf(namespace ioam.NamespaceID, source, destination string) *record.Trace {
	return &record.Trace{Namespace: namespace, Nodes: []record.NodeData{},
		Packet: record.Packet{Source: netip.MustParseAddr(source), Destination: netip.MustParseAddr(destination)}}
}

// matching is a filter.
type matching func(record.Record) (bool, error)

func (m matching) Match(r record.Record) (bool, error) { return m(r) }

func TestStreamNeverWaits(t *testing.T) {
	var s Stream
	var usual, more QueueSpace
	more.SetBurst(2)
	slow, fast := s.Observe(Filters{}, &usual), s.Observe(Filters{}, &more)
	other := s.Observe(Filters{Quick: matching(func(r record.Record) (bool, error) {
		if r.(*record.Trace).Namespace == 2 {
			return false, errors.New("no result")
		}
		return false, nil
	})}, nil)
	for i := range usualRoom + 3 {
		s.Publish(traceOf(ioam.NamespaceID(i), "::1", "::2"))
	}
	if n, lost := slow.Queue().Len(), slow.TakeLost(); n != usualRoom || lost != 3 {
		t.Errorf("slow observer has %d records and lost %d, want %d and 3", n, lost, usualRoom)
	}
	if n, lost := fast.Queue().Len(), fast.TakeLost(); n != usualRoom+3 || lost != 0 {
		t.Errorf("fast observer has %d records and lost %d, want %d and 0", n, lost, usualRoom+3)
	}
	if n, lost := other.Queue().Len(), other.TakeLost(); n != 0 || lost != 0 {
		t.Errorf("filtered observer has %d records and lost %d", n, lost)
	}
	if s.Undecided() != 1 {
		t.Errorf("%d undecided records, want 1", s.Undecided())
	}
	if slow.TakeLost() != 0 || s.Dropped() != 3 || s.Observers() != 3 {
		t.Errorf("dropped %d of 3, observers %d of 3", s.Dropped(), s.Observers())
	}
	<-slow.Queue().Ready()
	list := slow.Queue().Drain(nil)
	if first := list[0].(*record.Trace).Namespace; first != 0 || len(list) != usualRoom {
		t.Errorf("the oldest record is %d, want 0; %d records", first, len(list))
	}
	s.Publish(traceOf(7, "::1", "::2"))
	<-slow.Queue().Ready()
	if list = slow.Queue().Drain(list); len(list) != 1 || list[0].(*record.Trace).Namespace != 7 {
		t.Errorf("%d records", len(list))
	}
	for _, o := range []*Observer{slow, fast, other} {
		o.Close()
	}
	s.Publish(traceOf(1, "::1", "::2"))
	if s.Observers() != 0 || s.Dropped() != 3 || fast.Queue().Len() != usualRoom+4 {
		t.Error("a closed observer still gets records")
	}
}

// The room follows what comes at a time, within its bounds.
func TestRoom(t *testing.T) {
	var r QueueSpace
	for burst, want := range map[int]int{0: usualRoom, -1: usualRoom, 5000: usualRoom + 10_000, 1 << 30: mostRoom} {
		if r.SetBurst(burst); r.Records() != want {
			t.Errorf("%d at a time: room for %d, want %d", burst, r.Records(), want)
		}
	}
	if n := (*QueueSpace)(nil).Records(); n != usualRoom {
		t.Errorf("no room: %d", n)
	}
}

// A costly filter is not evaluated by who publishes: while one record takes as long as the test wants, others get
// theirs, and what has no room is counted.
func TestCostlyFilter(t *testing.T) {
	var s Stream
	examined, proceed := make(chan ioam.NamespaceID), make(chan struct{})
	costly := s.Observe(Filters{
		Quick: matching(func(r record.Record) (bool, error) { return r.(*record.Trace).Namespace%2 == 0, nil }),
		Costly: matching(func(r record.Record) (bool, error) {
			select {
			case examined <- r.(*record.Trace).Namespace:
			case <-proceed:
			}
			<-proceed
			return r.(*record.Trace).Namespace%4 == 0, nil
		}),
	}, nil)
	other := s.Observe(Filters{}, nil)
	s.Publish(traceOf(1, "::1", "::2"), traceOf(2, "::1", "::2"))
	if first := <-examined; first != 2 {
		t.Errorf("%d is examined first", first)
	}
	for i := range usualRoom + 2 { // the first one is being examined
		s.Publish(traceOf(ioam.NamespaceID(2*i), "::1", "::2"))
	}
	if n := other.Queue().Len(); n != usualRoom {
		t.Errorf("the other observer has %d records", n)
	}
	if lost := costly.TakeLost(); lost != 2 {
		t.Errorf("%d records could not be examined, want 2", lost)
	}
	close(proceed)
	got := 0
	for deadline := time.After(patience.Of(20 * time.Second)); got < usualRoom/2; {
		select {
		case <-costly.Queue().Ready():
			got += len(costly.Queue().Drain(nil))
		case <-deadline:
			t.Fatalf("%d of %d records", got, usualRoom/2)
		}
	}
	if lost := costly.TakeLost(); got != usualRoom/2 || lost != 0 {
		t.Errorf("%d of %d records, %d lost", got, usualRoom/2, lost)
	}
	costly.Close()
	other.Close()
}
