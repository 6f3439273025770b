// SPDX-License-Identifier: Apache-2.0

package reference

import "github.com/waymark-net/waymark/internal/model"

// budgetBurst is how many insertions a budget saves up. budgetBatch is how many packets
// a CPU, of which this node has one, sends before it adds them to the interface's total,
// and how many insertions it takes from there ahead.
const (
	budgetBurst = 256
	budgetBatch = 32
)

// budget is what an encapsulation may still add. A limit that it does not have stays
// empty.
type budget struct {
	begun           bool
	packets, octets purse
}

// purse is credit, in 2^-32, and what was sent that has not become credit yet: as far as
// it is in the interface's total, and the rest.
type purse struct{ credit, total, own uint64 }

// segmentsOf is how many packets a frame will be cut into, at least 1.
func segmentsOf(f Frame) uint64 {
	if f.GSOSize != 0 && f.GSOSegments == 0 {
		return (uint64(len(f.Data)) + uint64(f.GSOSize) - 1) / uint64(f.GSOSize)
	}
	return max(1, uint64(f.GSOSegments))
}

// countSent counts a frame that leaves. When a batch is complete, the next frame adds it
// to the total.
func (n *Node) countSent(f Frame) {
	complete := n.batches[f.Interface] >= budgetBatch
	if complete {
		n.batches[f.Interface] = 0
	}
	n.batches[f.Interface] += segmentsOf(f)
	for i := range n.budgets {
		b := &n.budgets[i]
		if !b.begun || n.config.Encapsulations[i].Interface != f.Interface {
			continue
		}
		if complete {
			b.packets.add()
			b.octets.add()
		}
		b.packets.own += segmentsOf(f)
		b.octets.own += uint64(len(f.Data))
	}
}

// add adds what was sent to the total.
func (p *purse) add() { p.total, p.own = p.total+p.own, 0 }

// affords reports whether an encapsulation's budget allows an insertion, and spends it
// (docs/data-plane/encapsulation.md#budgets).
func (n *Node) affords(index int, f Frame, insertion int) bool {
	limit := n.config.Encapsulations[index].Budget
	if limit == (model.Budget{}) {
		return true
	}
	b, parts, octets := &n.budgets[index], segmentsOf(f), uint64(insertion)
	b.begun = true
	// both are filled, whatever comes of the first
	packetsSuffice := limit.Packets == 0 || b.packets.fill(limit.Packets, parts, 1)
	octetsSuffice := limit.Octets == 0 || b.octets.fill(limit.Octets, parts, octets)
	if !packetsSuffice || !octetsSuffice {
		return false
	}
	if limit.Packets != 0 {
		b.packets.credit -= parts << 32
	}
	if limit.Octets != 0 {
		b.octets.credit -= parts * octets << 32
	}
	return true
}

// fill makes credit for the insertion of so much into each part of a packet, if there is
// not enough, and reports whether there is now.
func (p *purse) fill(millionths uint32, parts, each uint64) bool {
	share := max(1, uint64(millionths)<<32/model.MaxBudget)
	price := (1<<32 + share - 1) / share // what has to be sent for one
	needed := parts * each << 32
	if p.credit >= needed {
		return true
	}
	most := max(parts, budgetBurst) * each * price
	p.total = min(p.total, most-min(most, p.own))
	taken := min(p.total, (parts+budgetBatch)*each*price)
	p.total -= taken
	p.credit += taken * share
	if p.credit < needed {
		p.credit += p.own * share
		p.own = 0
	}
	return p.credit >= needed
}
