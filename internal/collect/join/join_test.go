// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// card is a postcard of the packet 123/7/0, at a time in microseconds.
func card(node uint64, role record.NodeRole, hopLimit uint8, us int) Postcard {
	return Postcard{
		Key:      Key{Namespace: 123, FlowID: 7},
		Exporter: Exporter{netip.AddrFrom4([4]byte{192, 0, 2, byte(node)}), uint32(node)},
		Node:     node, Role: role, HasHopLimit: true, HopLimit: hopLimit,
		Time: start.Add(time.Duration(us) * time.Microsecond),
	}
}

// The path athos, porthos, aramis.
var (
	athos   = card(1, record.Encapsulating, 63, 0)
	porthos = card(2, record.Transit, 62, 10)
	aramis  = card(3, record.Decapsulating, 61, 25)
)

func with(c Postcard, change func(*Postcard)) Postcard { change(&c); return c }

func timeless(c Postcard) Postcard { return with(c, func(c *Postcard) { c.Time = time.Time{} }) }
func hopless(c Postcard) Postcard {
	return with(c, func(c *Postcard) { c.HasHopLimit, c.HopLimit = false, 0 })
}
func later(c Postcard, d time.Duration) Postcard {
	return with(c, func(c *Postcard) { c.Time = c.Time.Add(d) })
}
func numbered(c Postcard, sequence uint32) Postcard {
	return with(c, func(c *Postcard) { c.Sequence = sequence })
}

// describePath is a path in a line: nodes in order, times since the previous node, reason.
func describePath(p *Path) string {
	var b strings.Builder
	for i := range p.Postcards {
		fmt.Fprintf(&b, "%d", p.Postcards[i].Node)
		if d, ok := p.Since(i); ok {
			fmt.Fprintf(&b, "(%v)", d)
		}
		b.WriteByte(' ')
	}
	b.WriteString(p.Reason.String())
	if i, ok := p.LastSeen(); ok {
		fmt.Fprintf(&b, " after %d", p.Postcards[i].Node)
	}
	if len(p.Missing) > 0 {
		fmt.Fprintf(&b, " missing %v", p.Missing)
	}
	if d, ok := p.EndToEnd(); ok {
		fmt.Fprintf(&b, " in %v", d)
	}
	return b.String()
}

// step is a postcard at a time after the first; without a node, time passes.
type step struct {
	after time.Duration
	card  Postcard
}

const (
	ms     = time.Millisecond
	second = 2 * time.Second // the waiting time
)

// pathCase is postcards that arrive, and the expected paths.
type pathCase struct {
	name  string
	steps []step
	want  []string
	stats Stats // except Joined and Paths
}

var pathCases = []pathCase{
	{"in order", []step{{0, athos}, {ms, porthos}, {2 * ms, aramis}}, []string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"backwards", []step{{0, aramis}, {ms, porthos}, {2 * ms, athos}}, []string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"neighbours", []step{{0, athos}, {ms, with(aramis, func(c *Postcard) { c.HopLimit = 62 })}}, []string{"1 3(25µs) complete in 25µs"}, Stats{}},
	{"at the last moment", []step{{0, athos}, {ms, porthos}, {second - 1, aramis}}, []string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"a moment late", []step{{0, athos}, {ms, porthos}, {second, aramis}},
		[]string{"1 2(10µs) not_seen_further after 2"}, Stats{Late: 1}},
	{"lost after the second", []step{{0, porthos}, {ms, athos}, {second, Postcard{}}},
		[]string{"1 2(10µs) not_seen_further after 2"}, Stats{}},
	{"lost after a gap", []step{{0, athos}, {ms, with(porthos, func(c *Postcard) { c.HopLimit = 60 })}, {second, Postcard{}}},
		[]string{"1 2(10µs) not_seen_further after 2 missing [62 61]"}, Stats{}},
	{"a hop missing", []step{{0, athos}, {ms, aramis}, {second, Postcard{}}}, []string{"1 3(25µs) hop_missing missing [62] in 25µs"}, Stats{}},
	{"no beginning", []step{{0, porthos}, {ms, aramis}, {second, Postcard{}}}, []string{"2 3(15µs) no_encapsulating"}, Stats{}},
	{"transit alone", []step{{0, porthos}, {second, Postcard{}}}, []string{"2 not_seen_further after 2"}, Stats{}},
	{"clocks that differ", []step{{0, athos}, {ms, later(porthos, -ms)}, {ms, aramis}}, []string{"1 2(-990µs) 3(1.015ms) complete in 25µs"}, Stats{}},
	{"a node without time", []step{{0, athos}, {ms, timeless(porthos)}, {ms, aramis}}, []string{"1 2 3(25µs) complete in 25µs"}, Stats{}},
	{"no time at all", []step{{0, timeless(aramis)}, {ms, timeless(porthos)}, {ms, timeless(athos)}}, []string{"1 2 3 complete"}, Stats{}},
	{"without hop limits, by time", []step{{0, hopless(aramis)}, {0, hopless(later(porthos, 5*time.Microsecond))}, {0, hopless(with(porthos, func(c *Postcard) { c.Node = 9 }))}, {0, hopless(athos)}, {second, Postcard{}}},
		[]string{"1 9(10µs) 2(5µs) 3(10µs) complete in 25µs"}, Stats{}},
	{"without hop limits, lost", []step{{0, hopless(athos)}, {second, Postcard{}}}, []string{"1 not_seen_further after 1"}, Stats{}},
	{"one node without hop limit", []step{{0, athos}, {0, hopless(porthos)}, {0, aramis}, {second, Postcard{}}}, []string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"hop limits that rise", []step{{0, athos}, {0, with(porthos, func(c *Postcard) { c.HopLimit = 64 })}, {0, aramis}, {second, Postcard{}}},
		[]string{"2 1(-10µs) 3(25µs) hop_limits_uneven missing [62]"}, Stats{}},
	{"a node that leaves the hop limit", []step{{0, athos}, {0, with(porthos, func(c *Postcard) { c.HopLimit = 63 })}, {0, with(aramis, func(c *Postcard) { c.HopLimit = 62 })}},
		[]string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"duplicates, before and after", []step{{0, athos}, {0, athos}, {0, porthos}, {0, aramis}, {0, porthos}, {0, athos}},
		[]string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{Duplicates: 3}},
	{"exported over two ways", []step{{0, athos}, {0, with(athos, func(c *Postcard) { c.Exporter.Addr = netip.IPv6LinkLocalAllNodes() })}, {0, porthos}, {0, aramis}},
		[]string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{Duplicates: 1}},
	{"the packet doubled on the way", []step{{0, athos}, {0, porthos}, {0, later(porthos, 50*time.Microsecond)}, {0, aramis}, {0, later(aramis, 50*time.Microsecond)}},
		[]string{"1 2(10µs) 3(15µs) complete in 25µs"}, Stats{Repeated: 2}},
	{"after its path", []step{{0, athos}, {second, Postcard{}}, {second + ms, porthos}, {second + ms, aramis}},
		[]string{"1 not_seen_further after 1"}, Stats{Late: 2}},
	{"long after its path", []step{{0, athos}, {second, Postcard{}}, {6 * second, aramis}, {7 * second, Postcard{}}},
		[]string{"1 not_seen_further after 1", "3 no_encapsulating"}, Stats{}},
	{"numbers used again, while waiting", []step{{0, athos}, {ms, later(athos, ms)}, {ms, later(porthos, ms)}, {ms, later(aramis, ms)}},
		[]string{"1 sequence_reused", "1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"numbers used again, after the path", []step{{0, athos}, {0, porthos}, {0, aramis}, {ms, later(athos, ms)}, {ms, later(porthos, ms)}, {ms, later(aramis, ms)}},
		[]string{"1 2(10µs) 3(15µs) complete in 25µs", "1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"numbers used again, transit first", []step{{0, athos}, {0, porthos}, {0, aramis}, {3 * second, later(porthos, 3*second)}, {3 * second, later(athos, 3*second)}, {3 * second, later(aramis, 3*second)}},
		[]string{"1 2(10µs) 3(15µs) complete in 25µs", "1 2(10µs) 3(15µs) complete in 25µs"}, Stats{}},
	{"an earlier packet's", []step{{0, later(athos, ms)}, {0, athos}, {second, Postcard{}}}, []string{"1 not_seen_further after 1"}, Stats{Late: 1}},
	{"a loop", []step{{0, athos}, {0, porthos}, {0, with(athos, func(c *Postcard) { c.Role, c.HopLimit = record.Transit, 61 })}, {0, with(porthos, func(c *Postcard) { c.HopLimit = 60 })}, {second, Postcard{}}},
		[]string{"1 2(10µs) 1(-10µs) 2(10µs) not_seen_further after 2"}, Stats{}},
	{"one node id for two", []step{{0, athos}, {0, with(porthos, func(c *Postcard) { c.Node = 1 })}, {0, aramis}}, []string{"1 1(10µs) 3(15µs) complete in 25µs"}, Stats{SharedIDs: 1}},
	{"one sequence number in two flows", []step{{0, athos}, {0, with(aramis, func(c *Postcard) { c.FlowID = 8 })}, {0, with(aramis, func(c *Postcard) { c.Source[0] = 1 })}, {second, Postcard{}}},
		[]string{"1 not_seen_further after 1", "3 no_encapsulating", "3 no_encapsulating"}, Stats{}},
}

func TestPaths(t *testing.T) {
	for _, tt := range pathCases {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			j := New(Config{Wait: second}, func(p *Path) { got = append(got, describePath(p)) })
			for _, s := range tt.steps {
				if s.card.Role == 0 {
					j.Expire(start.Add(s.after))
				} else {
					j.Add(s.card, start.Add(s.after))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			s := j.Stats()
			s.Joined, s.Paths = 0, [record.NumPathReasons]uint64{}
			if s != tt.stats {
				t.Errorf("stats %+v, want %+v", s, tt.stats)
			}
			if j.Waiting() != 0 {
				t.Errorf("%d packets still wait", j.Waiting())
			}
		})
	}
}

// While exporters are behind, packets wait for the hold; the limit of postcards then gives out those whose wait is over
// as at its end, and not as evicted.
func TestHold(t *testing.T) {
	var got []string
	j := New(Config{Wait: time.Second, Hold: time.Minute, Keep: 2}, func(p *Path) { got = append(got, describePath(p)) })
	j.SetBehind(true)
	j.Add(athos, start)
	j.Expire(start.Add(59 * time.Second))
	if len(got) > 0 {
		t.Fatalf("%q were given out in the hold", got)
	}
	j.Add(numbered(athos, 1), start.Add(59*time.Second))
	j.Add(numbered(athos, 2), start.Add(59*time.Second))
	j.Add(numbered(athos, 3), start.Add(59*time.Second))
	want := []string{"1 not_seen_further after 1", "1 evicted"}
	for i, path := range got {
		if i >= len(want) || !strings.HasPrefix(path, want[i]) {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	j.SetBehind(false)
	if j.Expire(start.Add(60 * time.Second)); len(got) != 4 {
		t.Errorf("%q after the hold", got)
	}
}
