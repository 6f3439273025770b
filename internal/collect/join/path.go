// SPDX-License-Identifier: Apache-2.0

package join

import (
	"time"

	"github.com/waymark-net/waymark/internal/export"
)

// Reason says why a path is incomplete.
type Reason uint8

// Reasons, by precedence.
const (
	Complete        Reason = iota
	Evicted                // given up before its time, for want of memory
	SequenceReused         // the next packet with its numbers came before its time was over
	Ended                  // the collector ended before its time was over
	NotSeenFurther         // no decapsulating node reported it
	NoEncapsulating        // no encapsulating node reported it
	HopMissing             // a hop limit between the ends was not reported
	HopLimitsUneven        // hop limits do not fall from the encapsulating to the decapsulating node

	// NumReasons is the number of reasons.
	NumReasons
)

// reasons are names for JSON and metrics, and meanings for people.
var reasons = [NumReasons]struct{ name, meaning string }{
	Complete:        {"complete", "every node of the path reported the packet"},
	Evicted:         {"evicted", "given up early: too many postcards were waiting"},
	SequenceReused:  {"sequence_reused", "another packet with its sequence number came too soon"},
	Ended:           {"ended", "the collector ended before its time was over"},
	NotSeenFurther:  {"not_seen_further", "no decapsulating node reported the packet"},
	NoEncapsulating: {"no_encapsulating", "no encapsulating node reported the packet"},
	HopMissing:      {"hop_missing", "a node between two that reported did not"},
	HopLimitsUneven: {"hop_limits_uneven", "hop limits do not fall from the encapsulating to the decapsulating node"},
}

// String is the reason's name, as JSON and metrics have it.
func (r Reason) String() string {
	if r >= NumReasons {
		return "unknown"
	}
	return reasons[r].name
}

// Meaning is the reason for people.
func (r Reason) Meaning() string {
	if r >= NumReasons {
		return "unknown"
	}
	return reasons[r].meaning
}

// Path is what became of one packet.
type Path struct {
	Key
	Postcards []Postcard // in the order of the path; at least one
	Reason    Reason     // Complete, or why not
	Missing   []uint8    // hop limits between those reported, falling
	SharedID  bool       // one node id came from two exporters
}

// LastSeen is the last node that reported the packet, if no decapsulating node
// did and there was time enough for it.
func (p *Path) LastSeen() (i int, ok bool) {
	if p.Reason != NotSeenFurther {
		return 0, false
	}
	return len(p.Postcards) - 1, true
}

// Since is the time from the latest node before the i-th that told its own. It
// is negative where the clocks of the two differ by more than the way took.
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
// told theirs.
func (p *Path) EndToEnd() (d time.Duration, ok bool) {
	first, last := &p.Postcards[0], &p.Postcards[len(p.Postcards)-1]
	if first.Role != export.Encapsulating || last.Role != export.Decapsulating || first.Time.IsZero() || last.Time.IsZero() {
		return 0, false
	}
	return last.Time.Sub(first.Time), true
}
