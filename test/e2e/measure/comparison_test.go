// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// comparison is how the results next to a node that was restarted compare with what links
// lost. The nodes before and after it counted on, so they say how many packets the blocks of
// the restart lost on both links together.
type comparison struct {
	began            time.Time
	most             int // blocks of a flow that may be uncertain
	lossy            [3]int
	lost             [3]uint64 // by link, in exact blocks
	hidden           uint64    // on the second and third link, in uncertain ones
	exact, uncertain int       // blocks
}

// byBlock are the results of a part since the beginning.
func (c *comparison) byBlock(r *results, p part) map[uint64]*record.Loss {
	list := make(map[uint64]*record.Loss)
	for _, l := range r.lossesOf(p) {
		if !l.Start.Add(time.Duration(l.Length)).Before(c.began) {
			list[l.Block.Value] = l
		}
	}
	return list
}

// flow compares a flow on the links before and after the restarted node.
func (c *comparison) flow(t *testing.T, r *results, name string, rules [3]lab.Loss) {
	t.Helper()
	first, before, after := c.byBlock(r, part{name, 0, 1}), c.byBlock(r, part{name, 1, 2}), c.byBlock(r, part{name, 2, 3})
	var sent, received, lost, lostAfter, hidden uint64
	var uncertain []uint64
	exact := 0
	for block, whole := range c.byBlock(r, part{name, 0, 3}) {
		f, a, b := first[block], before[block], after[block]
		if f == nil || a == nil || b == nil || !whole.Verdict.Exact() || !f.Verdict.Exact() || whole.Duplicated.Value > 0 {
			t.Errorf("%s, block %d: %+v", name, block, whole)
			return
		}
		behind := whole.Lost.Value - f.Lost.Value
		sent, received = sent+a.Sent.Value, received+b.Received.Value
		if !a.Verdict.Exact() || !b.Verdict.Exact() {
			c.checkUncertain(t, name, a, b)
			uncertain = append(uncertain, block)
			hidden += behind
			continue
		}
		if a.Lost.Value+b.Lost.Value != behind {
			t.Errorf("%s, block %d: %d and %d lost, %d in all", name, block, a.Lost.Value, b.Lost.Value, behind)
		}
		lost, lostAfter = lost+a.Lost.Value, lostAfter+b.Lost.Value
		if whole.Sent.Value > 0 {
			exact++
		}
	}
	if sent != rules[1].Packets || received != rules[2].Packets-rules[2].LostPackets || lost > rules[1].LostPackets || lostAfter > rules[2].LostPackets ||
		lost+lostAfter+hidden != rules[1].LostPackets+rules[2].LostPackets {
		t.Errorf("%s: %d sent and %d lost, %d received and %d lost, %d lost in uncertain blocks; the links had %d and lost %d, and %d and lost %d",
			name, sent, lost, received, lostAfter, hidden, rules[1].Packets, rules[1].LostPackets, rules[2].Packets, rules[2].LostPackets)
	}
	if exact < 2 || len(uncertain) == 0 || len(uncertain) > c.most {
		t.Errorf("%s: %d blocks are exact, %v are uncertain, want 1 to %d", name, exact, uncertain, c.most)
	}
	c.lost[1], c.lost[2], c.hidden = c.lost[1]+lost, c.lost[2]+lostAfter, c.hidden+hidden
	c.exact, c.uncertain = c.exact+exact, c.uncertain+len(uncertain)
}

// checkUncertain checks that a block says no loss, and that the restarted node is why.
func (c *comparison) checkUncertain(t *testing.T, name string, a, b *record.Loss) {
	t.Helper()
	const why = loss.Missing | loss.Restarted | loss.OtherPath
	if a.Verdict != loss.Uncertain || b.Verdict != loss.Uncertain || a.Lost.Valid || b.Lost.Valid || a.FromReasons != 0 || b.ToReasons != 0 ||
		a.ToReasons == 0 || a.ToReasons&^why != 0 || b.FromReasons != a.ToReasons {
		t.Errorf("%s, block %d: %+v, %+v", name, a.Block.Value, a, b)
	}
}
