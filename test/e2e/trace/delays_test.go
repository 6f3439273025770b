// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waymark-net/waymark/internal/api"
	"github.com/waymark-net/waymark/internal/exponential"
	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// delayed are delays as a test adds them up beside the data plane.
type delayed struct {
	Sum, Zero uint64
	Buckets   map[int]uint64
}

// add puts a delay where an exponential histogram of seconds has it.
func (d *delayed) add(delay int64) {
	if delay == 0 {
		d.Zero++
		return
	}
	d.Sum += uint64(delay)
	d.Buckets[exponential.IndexOf(float64(delay)/1e9, exponential.DelayScale)]++
}

// delaysAt asks an agent for the one series of a kind from a node to another, or of its two interfaces.
func delaysAt(t *testing.T, l *lab.Lab, node, kind string, from, to uint64) (s api.DelaySeries) {
	t.Helper()
	instance, err := l.Node(node).Instance()
	if err != nil {
		t.Fatal(err)
	}
	d, err := api.NewClient(instance.Socket()).Delays(t.Context())
	if err != nil || !d.Counted {
		t.Fatalf("%+v, %v", d, err)
	}
	found := 0
	for _, one := range d.Series {
		if one.Kind == kind && (one.From == nil || *one.From == from && *one.To == to) {
			s = one
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%d series of %s %d>%d at %s: %+v", found, kind, from, to, node, d.Series)
	}
	return s
}

func asAdded(s api.DelaySeries) delayed {
	d := delayed{Sum: s.Sum, Zero: s.Zero, Buckets: map[int]uint64{}}
	for _, b := range s.Buckets {
		d.Buckets[b.Index] = b.Count
	}
	return d
}

// The data plane's histograms have what the traces say, packet for packet, and lose nothing when
// agents are reloaded, killed and started again.
func TestDelays(t *testing.T) {
	t.Parallel()
	top := e2e.Builtin(t, "line")
	for _, node := range []string{"athos", "porthos", "aramis"} {
		e2e.Reconfigure(t, top, node, "node: {", "node: {delays: 1/1, ")
	}
	l := e2e.Raise(t, top)
	journal := e2e.Keep(t, l, "aramis")
	ping := func(count int) {
		e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindPing, Count: count, Interval: 5 * time.Millisecond, Size: 56})
	}
	const first = 40
	ping(first)
	empty := func() delayed { return delayed{Buckets: map[int]uint64{}} }
	held, one, two, path := empty(), empty(), empty(), empty()
	for _, r := range journal.Read(t, first) {
		if len(r.Nodes) != 3 {
			t.Fatalf("a trace of %d nodes", len(r.Nodes))
		}
		at := func(i int) time.Time { return r.Nodes[i].Timestamp.Value }
		one.add(at(1).Sub(at(0)).Nanoseconds())
		two.add(at(2).Sub(at(1)).Nanoseconds())
		path.add(at(2).Sub(at(0)).Nanoseconds())
		held.add(int64(r.Nodes[1].TransitDelay.Value))
	}
	for _, tt := range []struct {
		node, kind string
		from, to   uint64
		want       delayed
	}{{"porthos", "held", 0, 0, held}, {"aramis", "segment", 1, 2, one}, {"aramis", "segment", 2, 3, two}, {"aramis", "path", 1, 3, path}} {
		s := delaysAt(t, l, tt.node, tt.kind, tt.from, tt.to)
		if diff := cmp.Diff(tt.want, asAdded(s)); diff != "" || s.Negative+s.Longer+s.Incomplete > 0 || s.Count != first {
			t.Errorf("%s %d>%d at %s: %+v: %s", tt.kind, tt.from, tt.to, tt.node, s, diff)
		}
	}
	if s := delaysAt(t, l, "porthos", "held", 0, 0); s.Ingress != "eth0" || s.Egress != "eth1" {
		t.Errorf("held %+v", s)
	}
	counts := func(when string, want uint64) {
		t.Helper()
		for _, tt := range []struct {
			node, kind string
			from, to   uint64
		}{{"porthos", "held", 0, 0}, {"aramis", "segment", 1, 2}, {"aramis", "segment", 2, 3}, {"aramis", "path", 1, 3}} {
			if s := delaysAt(t, l, tt.node, tt.kind, tt.from, tt.to); s.Count != want {
				t.Errorf("%s: %s %d>%d at %s counts %d packets, want %d", when, tt.kind, tt.from, tt.to, tt.node, s.Count, want)
			}
		}
	}
	for _, node := range []string{"porthos", "aramis"} {
		e2e.Rewrite(t, l, node, func(s string) string { return strings.Replace(s, "{id: 123}", "{id: 123, data: 7}", 1) })
		e2e.SignalAgent(t, l, node, syscall.SIGHUP)
		instance, err := l.Node(node).Instance()
		if err != nil {
			t.Fatal(err)
		}
		e2e.Await(t, "the new configuration", 30*time.Second, func() bool {
			running, err := api.NewClient(instance.Socket()).Config(t.Context())
			return err == nil && strings.Contains(string(running), "0x00000007")
		})
	}
	ping(10)
	counts("reloaded", first+10)
	for _, node := range []string{"porthos", "aramis"} {
		e2e.Restart(t, l, node, syscall.SIGKILL)
	}
	ping(10)
	counts("killed", first+20)
}

// A node that forwards without the stack holds packets, too, and counts what it writes into them.
func TestHeldFast(t *testing.T) {
	e2e.NeedRedirection(t)
	t.Parallel()
	const most, first = 60, 20 // the first packets may leave through the stack: neighbours are looked up then
	top := e2e.Builtin(t, "line")
	e2e.Reconfigure(t, top, "porthos", "node: {", "node: {delays: 1/1, ")
	for _, node := range e2e.Routers { // each lets the next one send it frames in XDP
		e2e.Reconfigure(t, top, node, ", role:", ", forwarding: fast, role:")
	}
	l := e2e.Raise(t, top)
	e2e.OpenEnds(t, l, "alpha", "beta")
	e2e.AwaitRouting(t, l)
	journal := e2e.Keep(t, l, "aramis")
	ping := func(count int) {
		e2e.Send(t, l, "alpha", lab.Traffic{Kind: lab.KindPing, Count: count, Interval: 5 * time.Millisecond, Size: 56})
	}
	ping(first)
	before := e2e.ForwardsOf(t, l, "porthos").Sum()
	ping(most - first)
	if fast := e2e.ForwardsOf(t, l, "porthos").Sum() - before; fast < most-first {
		t.Errorf("porthos forwarded %d packets fast of %d, and the answers", fast, most-first)
	}
	held := delayed{Buckets: map[int]uint64{}}
	for _, r := range journal.Read(t, most) {
		held.add(int64(r.Nodes[1].TransitDelay.Value))
	}
	s := delaysAt(t, l, "porthos", "held", 0, 0)
	if diff := cmp.Diff(held, asAdded(s)); diff != "" || s.Negative+s.Longer > 0 || s.Count != most {
		t.Errorf("%+v: %s", s, diff)
	}
}
