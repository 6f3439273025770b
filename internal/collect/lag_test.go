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

// lagging is a collector whose packets wait for half a second, and for a minute while an exporter is behind,
// with three exporters; its time is what the test says.
type lagging struct {
	*Collector
	t         *testing.T
	out       *memory
	exporters [3]*exporter
	sessions  [3]*ipfix.Session
}

func newLagging(t *testing.T, hold time.Duration) *lagging {
	out := &memory{}
	c, err := New(Config{
		Shards: 2, Enterprise: enterprise, Sinks: []sink.Sink{out}, Join: join.Config{Wait: 500 * time.Millisecond, Hold: hold},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &lagging{Collector: c, t: t, out: out}
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

// reports lets a node say that it reported everything until a time.
func (l *lagging) reports(node int, at time.Duration) {
	l.sends(node, at, at, 2, reporting(uint64(node+1), start.Add(-time.Hour), start.Add(at)))
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

// A node that reported is silent for ten seconds: packets wait for its postcards. One that is silent for
// longer than that is gone.
func TestHoldForSilentExporter(t *testing.T) {
	for _, tt := range []struct {
		name string
		hold time.Duration
		want int // paths of two nodes, before the third reports
	}{{"held", time.Minute, 0}, {"not held", 0, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLagging(t, tt.hold)
			l.lag.began = start.Add(-time.Hour)
			for node := range 3 {
				l.reports(node, 0)
			}
			l.paths(0)
			for at := time.Second; at <= 10*time.Second; at += 200 * time.Millisecond {
				l.reports(0, at)
				l.reports(1, at)
				if at == 2*time.Second {
					l.card(0, 7, at, at)
					l.card(1, 7, at, at)
				}
				l.paths(at)
			}
			if got := l.paths(10 * time.Second); len(got) != tt.want {
				t.Fatalf("paths of %v nodes were given out while the third was silent, want %d", got, tt.want)
			}
			l.card(2, 7, 2*time.Second, 10*time.Second)
			l.reports(2, 10*time.Second)
			got := l.paths(10*time.Second + 100*time.Millisecond)
			if tt.hold > 0 && (len(got) != 1 || got[0] != 3) {
				t.Fatalf("paths of %v nodes, want one of 3", got)
			}
			if tt.hold == 0 {
				return
			}
			// All report: a packet that only two report waits as ever.
			l.card(0, 8, 11*time.Second, 11*time.Second)
			for at := 11 * time.Second; at <= 12*time.Second; at += 100 * time.Millisecond {
				for node := range 3 {
					l.reports(node, at)
				}
				got = l.paths(at)
			}
			if len(got) != 2 || got[1] != 1 {
				t.Errorf("paths of %v nodes, want a second one of 1", got)
			}
			// The third is silent again, and does not come back.
			l.card(0, 9, 12500*time.Millisecond, 12500*time.Millisecond)
			for at := 12500 * time.Millisecond; at <= 80*time.Second; at += 250 * time.Millisecond {
				l.reports(0, at)
				l.reports(1, at)
				if got = l.paths(at); len(got) == 3 && at < 60*time.Second {
					t.Fatalf("given out after %v", at)
				}
			}
			if len(got) != 3 {
				t.Errorf("paths of %v nodes, want three", got)
			}
		})
	}
}

// After an outage, exporters come back one after the other, with postcards that had waited: packets wait for
// the last one, also at a collector that does not know it.
func TestHoldAfterOutage(t *testing.T) {
	l := newLagging(t, time.Minute)
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
