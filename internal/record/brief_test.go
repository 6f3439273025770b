// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/columns"
	"github.com/waymark-net/waymark/internal/instant"
	"github.com/waymark-net/waymark/internal/nodenames"
)

// wider are the lines of a text that are wider than that.
func wider(text string, width int) (list []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); columns.Width(line) > width {
			list = append(list, line)
		}
	}
	return list
}

// A trace in 80 columns, in more, and in the locale C.
func TestBriefTrace(t *testing.T) {
	r := textRecord(t, twoNodes)
	r.Name(fewNames("r2", "west0"))
	for _, tt := range []struct {
		screen columns.Screen
		want   string
	}{
		{columns.Screen{Width: 80}, "" +
			"2026-07-21 14:17:31.125000  gamma eth0  1ms end to end  UDP\n" +
			"    [2001:db8:1::2]:4242 > [2001:db8:2::2]:9\n" +
			"    r2      west0 > 202  at 14:17:31.124000  held 18.3µs      queue 7\n" +
			"    node 3  - > 202      +1ms                held over 2.15s  queue 5\n"},
		{columns.Screen{Width: 50}, "" +
			"2026-07-21 14:17:31.125000  gamma eth0  1ms end to\n" +
			"    end  UDP\n" +
			"    [2001:db8:1::2]:4242 > [2001:db8:2::2]:9\n" +
			"    r2      west0 > 202  at 14:17:3…  held 18.3µs\n" +
			"    node 3  - > 202      +1ms         held over 2…\n"},
		{columns.Screen{Width: 132, ASCII: true}, "" +
			"2026-07-21 14:17:31.125000  gamma eth0  1ms end to end  UDP  [2001:db8:1::2]:4242 > [2001:db8:2::2]:9\n" +
			"    r2      west0 > 202  hop limit 63  at 14:17:31.124000  held 18.3us      data 0xdeadbeef  queue 7  schema -\n" +
			"    node 3  - > 202      hop limit 62  +1ms                held over 2.15s  data -           queue 5  schema 777:\"rack\"\n"},
	} {
		if got := Brief(&r, tt.screen); got != tt.want {
			t.Errorf("%+v\n%s\nwant\n%s", tt.screen, got, tt.want)
		}
	}
	if got := Brief(&r, columns.Screen{}); got != r.Text() {
		t.Errorf("--wide\n%s", got)
	}
	r.Time = instant.Of(time.Now())
	if got := Brief(&r, columns.Screen{Width: 80}); !strings.HasPrefix(got, r.Time.UTC().Format("15:04:05.000000")+"  gamma") {
		t.Errorf("today: %s", got)
	}
}

func TestBriefPath(t *testing.T) {
	ns := func(n int64) *int64 { return &n }
	node := func(name string, role NodeRole, since *int64) PathNode {
		n := PathNode{Node: name, Role: role, Ingress: "eth0", Egress: "eth1", SincePrevious: since}
		n.HopLimit, n.TransitDelay, n.QueueDepth = NewField(uint8(63), true), NewField(uint32(9876), since != nil), NewField(uint32(3), true)
		n.Timestamp = NewField(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), since == nil)
		return n
	}
	p := &Path{
		Time: instant.Of(
			time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		), Packet: udpPacket(), Namespace: 123, Delay: ns(25_000), Reason: PathNotSeenFurther, Verdict: PathLost,
		Nodes: []PathNode{node("r1", Encapsulating, nil), node("r2", Transit, ns(10_000))},
	}
	const want = "2026-11-21 12:00:00.000000  25µs end to end  UDP\n" +
		"    [2001:db8:1::2]:4242 > [2001:db8:2::2]:9\n" +
		"    r1  encapsulating  eth0 > eth1  at 12:00:00.000000  held -       queue 3\n" +
		"    r2  transit        eth0 > eth1  +10µs               held 9.88µs  queue 3\n" +
		"    incomplete: lost after r2; no decapsulating node reported the packet\n"
	if got := Brief(p, columns.Screen{Width: 80}); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := Brief(p, columns.Screen{Width: 80, Colour: true}); !strings.Contains(got, "\x1b[31mincomplete\x1b[0m") ||
		len(wider(got, 80)) > 0 {
		t.Errorf("%q", got)
	}
}

// No record of any kind is wider than the screen, whatever names and addresses it has.
func TestBriefFits(t *testing.T) {
	long := strings.Repeat("long-name-", 6)
	for _, one := range goldenAll(t) {
		r := one.record
		if x, ok := r.(*Trace); ok {
			names := nodenames.New()
			for _, n := range x.Nodes {
				names.Add(nodenames.Node{ID: n.NodeID.Value, IDWide: n.NodeIDWide.Value, Name: long})
			}
			x.Name(names)
		}
		for _, width := range []int{40, 60, 80, 100, 132} {
			if list := wider(Brief(r, columns.Screen{Width: width}), width); len(list) > 0 {
				t.Errorf("%s in %d columns:\n%s", r.Kind(), width, strings.Join(list, "\n"))
			}
		}
	}
}
