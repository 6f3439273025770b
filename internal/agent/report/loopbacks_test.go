// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/agent/agenttest"
	"github.com/waymark-net/waymark/internal/datapath"
	"github.com/waymark-net/waymark/ioam"
	"github.com/waymark-net/waymark/test/craft"
)

// askingPacket is what the data plane hands over of a packet with the Loopback flag.
func askingPacket(t *testing.T, from string) datapath.Record {
	t.Helper()
	trace := ioam.Trace{
		Namespace:    123,
		NodeLen:      1,
		Flags:        ioam.FlagLoopback,
		RemainingLen: 2,
		Type:         0x800000,
		Data:         append(make([]byte, 8), 64, 0, 0, 1),
	}
	header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderUDP, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	h := craft.IPv6{Next: craft.HopByHop, HopLimit: 60, Source: netip.MustParseAddr(from), Destination: netip.MustParseAddr("2001:db8:9::9")}
	return datapath.Record{Time: time.Now(), Interface: 2, Packet: h.Header(len(header)), Header: header}
}

// A copy goes to the packet's source, from the address that the kernel chooses, with this
// node's data; what cannot be returned is counted by cause.
func TestLoopbackCopies(t *testing.T) {
	h := newHarness(t, "node: {id: 77}\nnamespaces: [{id: 123, loopback: true}, {id: 9}, {id: 8, loopback: true, incremental: true}]\n")
	h.Start()
	l := h.copies
	l.enqueue(askingPacket(t, "2001:db8:1::2"))
	var got []byte
	select {
	case got = <-h.System.Sent:
	case <-time.After(10 * time.Second):
		t.Fatal("no copy")
	}
	trace := ioam.Trace{Namespace: 123, NodeLen: 1, RemainingLen: 1, Type: 0x800000, Data: append(make([]byte, 4), 59, 0, 0, 77, 64, 0, 0, 1)}
	header, err := ioam.AppendExtensionHeader(nil, ioam.NextHeaderNone, trace.Option())
	if err != nil {
		t.Fatal(err)
	}
	want := craft.IPv6{
		Next:        craft.HopByHop,
		HopLimit:    255,
		Source:      netip.MustParseAddr("2001:db8::99"),
		Destination: netip.MustParseAddr("2001:db8:1::2"),
	}
	if !bytes.Equal(got, want.With(header)) {
		t.Errorf("the copy is\n%x, want\n%x", got, want.With(header))
	}
	grows, not := askingPacket(t, "2001:db8:1::2"), askingPacket(t, "2001:db8:1::2")
	grows.Header[7], grows.Header[9], not.Header[7] = 1, 8, 1 // incremental, where packets may grow and where not
	l.enqueue(grows)
	select {
	case got = <-h.System.Sent:
	case <-time.After(10 * time.Second):
		t.Fatal("no copy")
	}
	if len(got) != 40+len(header)+8 {
		t.Errorf("the copy of an incremental trace is\n%x", got)
	}
	late, other, broken := askingPacket(t, "2001:db8:1::2"), askingPacket(t, "2001:db8:1::2"), askingPacket(t, "2001:db8:1::2")
	late.Time = late.Time.Add(-time.Minute)
	other.Header[9] = 9 // a namespace without loopback
	broken.Packet = broken.Packet[:8]
	for _, r := range []datapath.Record{late, other, broken, not, askingPacket(t, "2001:db8::99"), askingPacket(t, "ff02::1")} {
		l.enqueue(r)
	}
	agenttest.Eventually(t, "all are counted", func() bool {
		n := h.Status().LoopbackCopies
		return n["sent"] == 2 && n["late"] == 1 && n["malformed"] == 3 && n["no_source"] == 2 && len(n) == 4
	})
	h.System.SetSource(netip.Addr{}, errors.New("no route"))
	l.enqueue(askingPacket(t, "2001:db8:1::2"))
	agenttest.Eventually(t, "no route is counted", func() bool { return h.Status().LoopbackCopies["no_source"] == 3 })
}

// What waits is bounded.
func TestLoopbackCrowd(t *testing.T) {
	l := NewLoopbacks(Dependencies{})
	for range copiesWaiting + 5 {
		l.enqueue(datapath.Record{})
	}
	if n := l.results[copyCrowded].Load(); n != 5 || len(l.waiting) != copiesWaiting {
		t.Errorf("%d crowded, %d wait", n, len(l.waiting))
	}
}
