// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/lab"
	"github.com/waymark-net/waymark/internal/lab/linkloss"
	"github.com/waymark-net/waymark/internal/loss"
	"github.com/waymark-net/waymark/internal/record"
)

// injected is what links had of a flow, and lost, by link and block.
type injected [len(lossyLinks)]map[uint64]linkloss.Counts

// injectedLosses asks the links. Each packet of a flow has a colour, so all are in a block.
func injectedLosses(t *testing.T, l *lab.Lab) map[int]injected {
	t.Helper()
	byLink, found := lossesByLink(t, l), make(map[int]injected)
	for k, node := range lossyLinks {
		list, unplaced, err := l.LostBlocks(node, "eth1")
		if err != nil || unplaced > 0 {
			t.Fatalf("%s: %d packets are in no block (%v)", node, unplaced, err)
		}
		for _, i := range flowsFrom1() {
			rules := byLink[node+" eth1"]
			rule := rules[slices.IndexFunc(rules, func(a lab.Loss) bool { return a.LastSID.Addr() == netip.MustParseAddr(sidOf(i)) })]
			blocks, sum := make(map[uint64]linkloss.Counts), linkloss.Counts{}
			for _, b := range list {
				if b.Rule == rule.Number {
					blocks[b.Number] = b.Counts
					sum.Frames, sum.Packets = sum.Frames+b.Frames, sum.Packets+b.Packets
					sum.LostFrames, sum.LostPackets = sum.LostFrames+b.LostFrames, sum.LostPackets+b.LostPackets
				}
			}
			if sum != rule.Counts {
				t.Errorf("%s, %s: the blocks have %+v, the rule %+v", nameOf(i), node, sum, rule.Counts)
			}
			of := found[i]
			of[k] = blocks
			found[i] = of
		}
	}
	return found
}

// comparison is how the results compare with what links lost, in every block of each flow.
// Next to a node that was restarted, blocks may be uncertain; what the nodes before and after it
// say of both links together is exact in these, too.
type comparison struct {
	began            time.Time
	most             int // blocks of a flow that may be uncertain
	lost             [len(lossyLinks)]uint64
	hidden           uint64 // lost on the second and third link, in uncertain blocks
	exact, uncertain int    // blocks with packets
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

// flow compares a flow on all links, and returns how many packets were sent.
func (c *comparison) flow(t *testing.T, r *results, name string, links injected) (sent uint64) {
	t.Helper()
	whole := c.byBlock(r, part{name, 0, 3})
	parts := [len(lossyLinks)]map[uint64]*record.Loss{
		c.byBlock(r, part{name, 0, 1}),
		c.byBlock(r, part{name, 1, 2}),
		c.byBlock(r, part{name, 2, 3}),
	}
	for k := range links {
		for block, had := range links[k] {
			if whole[block] == nil {
				t.Errorf("%s, block %d: %s had %+v, and there is no result", name, block, lossyLinks[k], had)
			}
		}
	}
	exact, uncertain := 0, 0
	for block, w := range whole {
		first, before, after := parts[0][block], parts[1][block], parts[2][block]
		if first == nil || before == nil || after == nil {
			t.Errorf("%s, block %d: no result of all parts", name, block)
			continue
		}
		had := [...]linkloss.Counts{links[0][block], links[1][block], links[2][block]}
		sent += had[0].Packets
		c.check(t, w, had[0].Packets, had[0].LostPackets+had[1].LostPackets+had[2].LostPackets)
		c.check(t, first, had[0].Packets, had[0].LostPackets)
		c.lost[0] += had[0].LostPackets
		if !before.Verdict.Exact() || !after.Verdict.Exact() {
			c.checkUncertain(t, name, before, after)
			c.hidden += had[1].LostPackets + had[2].LostPackets
			uncertain++
			continue
		}
		c.check(t, before, had[1].Packets, had[1].LostPackets)
		c.check(t, after, had[2].Packets, had[2].LostPackets)
		c.lost[1], c.lost[2] = c.lost[1]+had[1].LostPackets, c.lost[2]+had[2].LostPackets
		if had[0].Packets > 0 {
			exact++
		}
	}
	if exact < 2 || uncertain == 0 || uncertain > c.most {
		t.Errorf("%s: %d blocks are exact, %d are uncertain, want 1 to %d", name, exact, uncertain, c.most)
	}
	c.exact, c.uncertain = c.exact+exact, c.uncertain+uncertain
	return sent
}

// check compares one block of a part with what was sent, and lost, there.
func (c *comparison) check(t *testing.T, l *record.Loss, sent, lost uint64) {
	t.Helper()
	if !l.Verdict.Exact() || l.Sent.Value != sent || l.Lost.Value != lost || l.Received.Value != sent-lost || l.Duplicated.Value > 0 {
		t.Errorf(
			"%s from %d to %d, block %d: %v because of %v %v, %d sent, %d received, %d lost, %d duplicated; %d were sent and %d lost",
			l.Flow,
			l.From,
			l.To,
			l.Block.Value,
			l.Verdict,
			l.FromReasons,
			l.ToReasons,
			l.Sent.Value,
			l.Received.Value,
			l.Lost.Value,
			l.Duplicated.Value,
			sent,
			lost,
		)
	}
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
