// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/test/e2e"
)

// onTheWay are the routers, in the order of their points.
var onTheWay = []string{"ingress", "middle", "egress"}

// counting is what the routers count of a flow from a block on, and what they find out together.
type counting struct {
	flow    string
	readers []*reader
	results *results
	began   time.Time
	ended   time.Time // the last packet, if that was earlier than the check
}

// countFlow begins with the next block: packets of tests before, in the same lab, are in none of these.
func countFlow(t *testing.T, l *lab.Lab, flow string) *counting {
	t.Helper()
	c, from := &counting{flow: flow, results: observe(t, l)}, nextBlock()
	for _, node := range onTheWay {
		c.readers = append(c.readers, readFlowsFrom(t, l, node, from, flow)[flow])
	}
	for _, r := range c.readers {
		r.awaitComplete(t)
	}
	c.results.awaitExact(t, part{flow, 0, 2})
	c.began = time.Now()
	return c
}

// nextBlock is the number of the first block that has not begun.
func nextBlock() uint64 { return uint64(time.Now().Unix()) + 1 }

// check compares what was counted with the packets that were sent, of so many octets each. Some are
// lost behind the middle, which takes so many octets out of all.
func (c *counting) check(t *testing.T, count, lost, octets, popped uint64) {
	t.Helper()
	end := c.ended
	if end.IsZero() {
		end = time.Now()
	}
	for i, r := range c.readers {
		packets, each := count, octets
		if i == 2 {
			packets, each = count-lost, octets-popped
		}
		awaitSum(t, r, c.flow+", "+onTheWay[i], packets)
		if s := r.sum(t); s.Octets != packets*each || s.Unmarked+s.Late+s.Early+s.Unsized > 0 {
			t.Errorf("%s, %s: %+v, want %d octets", c.flow, onTheWay[i], s, packets*each)
		}
	}
	if list := differ(c.readers[0], c.readers[1]); len(list) > 0 {
		t.Errorf("%s, between ingress and middle: %s", c.flow, strings.Join(list, "; "))
	}
	if lost == 0 {
		if list := differ(c.readers[0], c.readers[2]); len(list) > 0 {
			t.Errorf("%s, between ingress and egress: %s", c.flow, strings.Join(list, "; "))
		}
	}
	c.checkResults(t, end, count, lost)
}

// checkResults checks loss and delay of all blocks up to a time.
func (c *counting) checkResults(t *testing.T, end time.Time, count, lost uint64) {
	t.Helper()
	whole := part{c.flow, 0, 2}
	c.results.awaitAfter(t, end, whole)
	delays := 0 // where nothing is lost
	for p, want := range map[part]uint64{whole: lost, {c.flow, 0, 1}: 0, {c.flow, 1, 2}: lost} {
		if sent, lost, _ := c.results.sum(t, p, c.began); sent != count || lost != want {
			t.Errorf("%v: %d sent, %d lost; want %d and %d", p, sent, lost, count, want)
		}
		for _, d := range c.results.delaysOf(p) {
			if delays++; d.Min < 0 || d.Min > int64(100*time.Millisecond) {
				t.Errorf("%v: delay %+v", p, d)
			}
		}
	}
	if delays == 0 {
		t.Errorf("%s: no delay", c.flow)
	}
}

// unmarkedAt is how many packets of flows left a node without the option, by cause.
func unmarkedAt(t *testing.T, l *lab.Lab, node string) map[string]uint64 {
	t.Helper()
	sum := make(map[string]uint64)
	for _, i := range e2e.StatusOf(t, l, node).Interfaces {
		for cause, n := range i.Unmarked {
			sum[cause] += n
		}
	}
	return sum
}

// checkUnmarkedAt checks that this is so many more than before, by one cause.
func checkUnmarkedAt(t *testing.T, l *lab.Lab, node string, before map[string]uint64, cause string, count uint64) {
	t.Helper()
	before[cause] += count
	if now := unmarkedAt(t, l, node); !maps.Equal(now, before) {
		t.Errorf("%s counts packets without the option: %v, want %v", node, now, before)
	}
}

// reconfigure changes the configuration of running agents; none of them needs other programs.
func reconfigure(t *testing.T, l *lab.Lab, nodes []string, oldnew ...string) {
	t.Helper()
	for _, node := range nodes {
		e2e.Reconfigure(t, l.Topology(), node, oldnew...)
		if err := l.Node(node).Reconfigure(t.Context(), l.Topology().Node(node).Agent.Config); err != nil {
			t.Fatal(err)
		}
	}
}
