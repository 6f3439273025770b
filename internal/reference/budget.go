// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/waymark-net/waymark/internal/model"

// sent is what left by an interface.
type sent struct{ packets, octets uint64 }

// budget is what an encapsulation may still add, in 2^-32 packets and octets, and what
// its interface had sent when that was last computed.
type budget struct {
	packets, octets uint64
	seen            sent
}

// budgetBurst is how many packets a budget saves up.
const budgetBurst = 256

// segmentsOf is how many packets a frame will be cut into, at least 1.
func segmentsOf(f Frame) uint64 {
	if f.GSOSize != 0 && f.GSOSegments == 0 {
		return (uint64(len(f.Data)) + uint64(f.GSOSize) - 1) / uint64(f.GSOSize)
	}
	return max(1, uint64(f.GSOSegments))
}

// countSent counts a frame that leaves.
func (n *Node) countSent(f Frame) {
	s := n.sent[f.Interface]
	n.sent[f.Interface] = sent{s.packets + segmentsOf(f), s.octets + uint64(len(f.Data))}
}

// affords reports whether an encapsulation's budget allows an insertion, and spends it
// (data-plane.md, "Budgets").
func (n *Node) affords(index int, out model.IfIndex, f Frame, insertion int) bool {
	limit := n.config.Encapsulations[index].Budget
	if limit == (model.Budget{}) {
		return true
	}
	b, now, parts := &n.budgets[index], n.sent[out], segmentsOf(f)
	if b.seen.packets == 0 {
		b.seen = now
	}
	most := max(parts, budgetBurst) << 32
	earn := func(credit, since uint64, millionths uint32, most uint64) uint64 {
		if millionths == 0 {
			return 0
		}
		share := max(1, uint64(millionths)<<32/model.MaxBudget)
		return min(credit+min(since, 1<<31-1)*share, most)
	}
	b.packets = earn(b.packets, now.packets-b.seen.packets, limit.Packets, most)
	b.octets = earn(b.octets, now.octets-b.seen.octets, limit.Octets, most*uint64(insertion))
	b.seen = now
	packets, octets := parts<<32, parts*uint64(insertion)<<32
	if limit.Packets != 0 && b.packets < packets || limit.Octets != 0 && b.octets < octets {
		return false
	}
	if limit.Packets != 0 {
		b.packets -= packets
	}
	if limit.Octets != 0 {
		b.octets -= octets
	}
	return true
}
