// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"github.com/waymark-net/waymark/internal/datapath/bpf"
	"github.com/waymark-net/waymark/internal/loss"
)

// BlockCounts is what this node counted of a flow in one block.
type BlockCounts struct {
	Flow    string
	Block   uint64 // its number
	Packets uint64
	Octets  uint64 // of IPv6 packets
	// TimeSum is the sum of the packets' times since the block's start in ns, modulo
	// 2^64: the difference of two nodes' sums is the sum of delays. Without MeanDelay,
	// times may be a tick of the kernel old.
	TimeSum      uint64
	DelayPackets uint64 // with a delay mark
	DelayTimeSum uint64 // of them
	Late, Early  uint64 // packets farther from their block than the guard
	Unmarked     uint64 // packets without a colour, not in Packets
	Unsized      uint64 // offloaded packets whose headers are unknown, so Octets is too small
	Complete     bool   // the flow was counted from the block's start, and every packet
	LastReported uint64 // the last block, as of this agent or an earlier one; 0: none
	Reported     bool   // an agent has reported the block's loss, see [Datapath.BlockReported]
	// Selection is what was counted in the flow; in the whole of the block if it is Complete.
	Selection loss.Selection
	// Uncovered is why packets of the block may have passed an interface uncounted. Such a
	// block is not Complete.
	Uncovered loss.Reasons
}

// memory is how many blocks later another one is still compared: two turns of the slots.
// Greater differences are those of clocks that were set, or of another length of blocks.
const memory = 2 * uint32(bpf.ABIMarkingBoundMARKING_SLOTS)

// isLater reports whether what a CPU counted is of a later block that took the place of
// this one.
func (b *BlockCounts) isLater(block uint32) bool { return block-uint32(b.Block)-1 < memory }

// add adds one CPU's counters, if they are of the block.
func (b *BlockCounts) add(c *bpf.ABIBlockCounts) {
	if c.Block != b.Block {
		b.Complete = b.Complete && !b.isLater(uint32(c.Block))
		return
	}
	b.Packets += c.Packets
	b.Octets += c.Octets
	b.TimeSum += c.Time
}

// uncounted is UNCOUNTED of the programs.
const uncounted = 1 << 31

// addNotes adds what one CPU noted, if it is of the block.
func (b *BlockCounts) addNotes(n *bpf.ABIBlockNotes) {
	if n.Block != uint32(b.Block) {
		b.Complete = b.Complete && !b.isLater(n.Block)
		return
	}
	b.DelayPackets += uint64(n.DelayPackets)
	b.DelayTimeSum += n.DelayTime
	b.Late += uint64(n.Late)
	b.Early += uint64(n.Early)
	b.Unmarked += uint64(n.Unmarked)
	b.Unsized += uint64(n.Unsized &^ uncounted)
	b.Complete = b.Complete && n.Unsized&uncounted == 0
}
