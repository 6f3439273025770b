// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"net/netip"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/collect/join"
	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/internal/sink"
	"github.com/waymark-net/waymark/ipfix"
)

// lagging is a collector whose packets wait for half a second, and in its first minute for that minute while exporters
// are behind, with three exporters; its time is what the test says.
type lagging struct {
	*Collector
	t         *testing.T
	out       *memory
	exporters [3]*exporter
	sessions  [3]*ipfix.Session
}

func newLagging(t *testing.T) *lagging {
	t.Helper()
	out := &memory{}
	c, err := New(Config{
		Shards: 2, Enterprise: enterprise, Sinks: []sink.Sink{out}, Join: join.Config{Wait: 500 * time.Millisecond, Hold: time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &lagging{Collector: c, t: t, out: out}
	l.lag = newLag(l.config.Join, start)
	for i := range l.sessions {
		l.exporters[i], l.sessions[i] = newExporter(t, ipfix.UDP, uint32(i+1)), session(t, c, uint16(i+1))
	}
	return l
}

// sends lets a node send records at a time, by its clock another.
func (l *lagging) sends(node int, at, exported time.Duration, scope int, list ...fields) {
	octets := l.exporters[node].message(start.Add(exported), scope, list...)
	a := l.decode(l.sessions[node], join.Exporter{Addr: netip.IPv6Loopback()}, octets)
	a.at = start.Add(at)
	l.arrivals <- a
	l.join(<-l.arrivals, l.arrivals)
}

// card sends a node's postcard of a packet that passed at a time.
func (l *lagging) card(node int, sequence uint64, passed, at time.Duration) {
	l.sends(node, at, at, 0, packet(sequence)[node].with(
		num("ioamDexFlowId", 1), field{"observationTimeNanoseconds", start.Add(passed).Add(time.Duration(node) * time.Millisecond)},
	))
}

// paths are those that were given out so far: how many nodes each has.
func (l *lagging) paths(at time.Duration) (nodes []int) {
	l.flush(start.Add(at))
	for _, r := range l.out.all() {
		if p, ok := r.(*record.Path); ok {
			nodes = append(nodes, len(p.Nodes))
		}
	}
	return nodes
}

// After an outage, exporters come back one after the other, with postcards that had waited: packets wait for
// the last one, also at a collector that does not know it.
func TestHoldAfterOutage(t *testing.T) {
	l := newLagging(t)
	for sequence := range uint64(20) {
		l.card(0, sequence, -10*time.Second+time.Duration(sequence)*500*time.Millisecond, 0)
	}
	for at := time.Duration(0); at < 25*time.Second; at += 500 * time.Millisecond {
		if got := l.paths(at); len(got) > 0 {
			t.Fatalf("paths of %v nodes after %v", got, at)
		}
	}
	for _, node := range []int{1, 2} {
		for sequence := range uint64(20) {
			l.card(node, sequence, -10*time.Second+time.Duration(sequence)*500*time.Millisecond, 25*time.Second)
		}
	}
	got := l.paths(25*time.Second + 100*time.Millisecond)
	for _, n := range got {
		if n != 3 {
			t.Fatalf("paths of %v nodes, want 3 each", got)
		}
	}
	if len(got) != 20 {
		t.Errorf("%d paths, want 20", len(got))
	}
}

// Postcards that had waited change nothing later, nor do they before they are there.
func TestHoldEnds(t *testing.T) {
	l := newLagging(t)
	l.card(0, 1, 0, 0) // in time
	if got := l.paths(600 * time.Millisecond); len(got) != 1 {
		t.Fatalf("paths of %v nodes, want the first one", got)
	}
	l.card(0, 2, -10*time.Second, time.Second)
	l.paths(1100 * time.Millisecond) // which it is ten times a second
	l.card(0, 3, 30*time.Second, 30*time.Second)
	if got := l.paths(59 * time.Second); len(got) != 1 {
		t.Fatalf("paths of %v nodes in the first minute, want one", got)
	}
	if got := l.paths(60 * time.Second); len(got) != 3 {
		t.Fatalf("paths of %v nodes after it, want three", got)
	}
	l.card(0, 4, 90*time.Second, 2*time.Minute)
	if got := l.paths(2*time.Minute + 600*time.Millisecond); len(got) != 4 {
		t.Fatalf("paths of %v nodes, want four", got)
	}
}
