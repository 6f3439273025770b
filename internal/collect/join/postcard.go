// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Key is what the postcards of one packet have in common (RFC 9326 §3.2). The
// source tells apart what two encapsulating nodes number alike. A destination
// would not do: segment routing changes it on the way.
type Key struct {
	Namespace ioam.NamespaceID
	FlowID    uint32
	Sequence  uint32
	Source    [16]byte // address of the packet; zero where exporters do not tell it
}

// Exporter is who sent a postcard.
type Exporter struct {
	Addr   netip.Addr
	Domain uint32 // Observation Domain ID
}

// NoNode stands for a node id that the postcard does not have.
const NoNode = ^uint64(0)

// Postcard is what one node reported of a packet.
type Postcard struct {
	Key
	Exporter    Exporter
	Node        uint64          // node id, or NoNode
	Role        record.NodeRole // in the order of a path
	HasHopLimit bool
	HopLimit    uint8
	Time        time.Time        // at the node, by its clock; zero: not known
	Record      *record.Postcard // what it was made of; the joiner does not look at it
}

// sameNode tells whether two postcards come from one node at one place of the
// path. Node ids alone do not tell: two nodes can have one by mistake. A node
// that exports to the collector twice gives the same time twice.
func (p *Postcard) sameNode(q *Postcard) bool {
	return p.Role == q.Role && p.HasHopLimit == q.HasHopLimit && p.HopLimit == q.HopLimit && p.Node == q.Node &&
		(p.Exporter == q.Exporter || p.Time.Equal(q.Time))
}

// sortPath brings postcards into the order of the path: as the hop limit
// falls. Where nodes do not tell it, between the path's ends by time, which is
// as good as their clocks.
func sortPath(cards []Postcard, byHopLimit bool) {
	slices.SortStableFunc(cards, func(a, b Postcard) int {
		if byHopLimit {
			if c := cmp.Compare(b.HopLimit, a.HopLimit); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.Role, b.Role), a.Time.Compare(b.Time))
	})
}
