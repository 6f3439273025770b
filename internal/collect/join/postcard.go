// SPDX-License-Identifier: Apache-2.0

package join

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
	"github.com/waymark-net/waymark/ioam"
)

// Key is what the postcards of one packet have in common (RFC 9326 §3.2). The source
// distinguishes packets to which two encapsulating nodes gave the same numbers. A
// destination would not work: segment routing changes it on the way.
type Key struct {
	Namespace ioam.NamespaceID
	FlowID    uint32
	Sequence  uint32
	Source    [16]byte // address of the packet; zero if exporters do not send it
}

// Exporter is who sent a postcard.
type Exporter struct {
	Addr   netip.Addr
	Domain uint32 // Observation Domain ID
}

// NoNode means that the postcard has no node id.
const NoNode = ^uint64(0)

// Postcard is one node's report about a packet.
type Postcard struct {
	Key
	Order       uint64 // in which it came, among those of all joiners; for Path.Order
	Exporter    Exporter
	Node        uint64          // node id, or NoNode
	Role        record.NodeRole // in the order of a path
	HasHopLimit bool
	HopLimit    uint8
	Time        time.Time        // at the node, by its clock; zero: not known
	Record      *record.Postcard // the original record; the joiner does not use it
}

// report is what is remembered of a postcard, to tell another one of its packet from it. It has no pointers, because
// many are remembered: the garbage collector need not look at them.
type report struct {
	node        uint64
	exporter    uint64 // a hash of it
	seconds     int64  // of the time, in Unix time
	nanoseconds int32
	role        record.NodeRole
	hasHopLimit bool
	hopLimit    uint8
}

// reportOf is what is remembered of a postcard. No sender can foresee what has the hash of another exporter.
func reportOf(c *Postcard, seed maphash.Seed) report {
	return report{
		c.Node, maphash.Comparable(seed, c.Exporter), c.Time.Unix(), int32(c.Time.Nanosecond()), c.Role, c.HasHopLimit, c.HopLimit,
	}
}

func (r *report) time() time.Time { return time.Unix(r.seconds, int64(r.nanoseconds)) }

// sameNode reports whether two postcards come from one node at one place of the
// path. Node ids are not enough: two nodes can have the same one by mistake. A node
// that exports to the collector twice gives the same time twice.
func (r *report) sameNode(q *report) bool {
	return r.role == q.role && r.hasHopLimit == q.hasHopLimit && r.hopLimit == q.hopLimit && r.node == q.node &&
		(r.exporter == q.exporter || r.seconds == q.seconds && r.nanoseconds == q.nanoseconds)
}

// sortPath sorts postcards by falling hop limit. If nodes do not report it, those
// between the path's ends are sorted by time, which is only as good as the nodes'
// clocks.
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
