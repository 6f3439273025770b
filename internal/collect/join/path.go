// SPDX-License-Identifier: Apache-2.0

package join

import (
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// Path is the path of one packet.
type Path struct {
	Key
	Order     uint64            // of the postcard that came first
	Postcards []Postcard        // in the order of the path; at least one
	Reason    record.PathReason // record.PathComplete, or why the path is incomplete
	Missing   []uint8           // hop limits between those reported, in falling order
	SharedID  bool              // one node id came from two exporters
}

// LastSeen is the last node that reported the packet, if no decapsulating node did
// within the wait.
func (p *Path) LastSeen() (i int, ok bool) {
	if p.Reason != record.PathNotSeenFurther {
		return 0, false
	}
	return len(p.Postcards) - 1, true
}

// Since is the time to the i-th node from the latest node before it that reported a
// time. It is negative when their clocks differ by more than the packet's travel time.
func (p *Path) Since(i int) (d time.Duration, ok bool) {
	if p.Postcards[i].Time.IsZero() {
		return 0, false
	}
	for j := i - 1; j >= 0; j-- {
		if !p.Postcards[j].Time.IsZero() {
			return p.Postcards[i].Time.Sub(p.Postcards[j].Time), true
		}
	}
	return 0, false
}

// EndToEnd is the time from the encapsulating to the decapsulating node, if both
// reported one.
func (p *Path) EndToEnd() (d time.Duration, ok bool) {
	first, last := &p.Postcards[0], &p.Postcards[len(p.Postcards)-1]
	if first.Role != record.Encapsulating || last.Role != record.Decapsulating || first.Time.IsZero() || last.Time.IsZero() {
		return 0, false
	}
	return last.Time.Sub(first.Time), true
}
