// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/ioam"
)

// mesh has many destinations behind two equal links: here, r1, then r2 or r3, then the destination.
func mesh(t testing.TB, count, flows int) *network {
	ids := map[string]ioam.NodeID{"r1": 1, "r2": 2, "r3": 3}
	var names []string
	for i := range count {
		name := fmt.Sprintf("d%d", i)
		ids[name] = ioam.NodeID(1000 + i)
		names = append(names, name)
	}
	n := newNetwork(t, Config{Flows: flows, Rate: 20_000}, ids, names...)
	n.route = func(to string, flow int) []string {
		if flow%2 == 0 {
			return []string{"r1", "r2", to}
		}
		return []string{"r1", "r3", to}
	}
	for _, r := range n.routers {
		r.limit = &node{tokens: 6}
	}
	return n
}

// A link that all destinations share breaks: each is told with the same place within a second,
// although the routers limit their errors.
func TestSharedLink(t *testing.T) {
	const count, flows = 40, 8
	n := mesh(t, count, flows)
	want(t, "well", n.run(20*time.Second))
	n.down["r1>r2"] = true
	reported := map[string]bool{}
	for _, e := range n.run(time.Second) {
		if e.Kind != Loss || !begins(e.After, "node 1 ") || !begins(e.Before, "node 2 ") || e.Flows != flows/2 {
			t.Errorf("%s", short(e))
		}
		reported[e.Destination.Name] = true
	}
	if len(reported) != count {
		t.Errorf("%d destinations of %d were told", len(reported), count)
	}
}

// echo is a wire that remembers what was sent.
type echo struct {
	n    *network
	sent []netip.AddrPort
	ids  []message.ID
}

func (w *echo) send(_ int, list []udp.Datagram) {
	for i := range list {
		id, _ := message.QuotedProbe(list[i].Data)
		w.sent, w.ids = append(w.sent, list[i].Peer), append(w.ids, id)
	}
}

// loop is a monitor whose probes are all answered, without a network in between.
func loop(t testing.TB, count, flows int) (turn func()) {
	n := mesh(t, count, flows)
	n.run(3 * time.Second)
	data := make([]byte, traceFor*nodeLen)
	for i, id := range []uint32{2, 1} { // the newest first
		at := (traceFor - 2 + i) * nodeLen
		data[at], data[at+3] = 253+byte(i), byte(id)
	}
	trace := ioam.Trace{
		Namespace:    123,
		NodeLen:      uint8(nodeLen / 4),
		Flags:        ioam.FlagActive,
		RemainingLen: uint8((traceFor - 2) * nodeLen / 4),
		Type:         traceType,
		Data:         data,
	}.Append(nil)
	w := &echo{n: n}
	var answer []byte
	var list []udp.Datagram
	clock := func() time.Duration { return n.now }
	return func() {
		w.sent, w.ids = w.sent[:0], w.ids[:0]
		n.now += n.m.span()
		list = n.m.step(clock, w, list)
		for i := range w.sent {
			if w.ids[i].HopLimit != hopLimit {
				continue
			}
			answer = message.AppendAnswer(answer[:0], message.Answer{ID: w.ids[i], HopLimit: 253, Trace: trace}, nil)
			n.m.answered(answer, w.sent[i], n.now+200*time.Microsecond)
		}
	}
}

// A probe and its answer need no memory, and an interval of many destinations little time.
func TestAllocations(t *testing.T) {
	turn := loop(t, 20, 16)
	for range 2000 { // paths are known, buffers have their size
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n > 1 {
		t.Errorf("%v allocations for 20 probes and their answers", n)
	}
}

// BenchmarkProbe is the work of this package for a probe and its answer, of 100 destinations with
// 16 flows.
func BenchmarkProbe(b *testing.B) {
	turn := loop(b, 100, 16)
	for b.Loop() {
		turn()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/probe")
}
