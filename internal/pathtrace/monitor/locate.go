// SPDX-License-Identifier: Apache-2.0

package monitor

// asked is what hop limits showed of a position since probes vanish.
type asked struct {
	responds bool // the node replied before, on this or another path
	tries    int  // probes since whose hop limits ended there
	replied  bool // to one of them
}

// leastTries is how many replies must be missing of a node before it counts as not reached: one
// may be lost, or be beyond a limit of the node.
const leastTries = 2

// locate says between which positions probes vanish. Probes reach the position after; before is the
// next position whose node replied until probes began to vanish, and does not reply now. hops are the
// positions from 1 on; the last is the destination. reached is a position that probes of other flows
// reach on the same way, 0 if there is none. A node that never replied is not before: it is silent, not unreached.
// ok is false if the place is not known.
func locate(hops []asked, reached int) (after, before int, ok bool) {
	known := false // some node would have replied
	for i, h := range hops {
		if h.replied {
			reached = max(reached, i+1)
		}
		known = known || h.responds && i < len(hops)-1
	}
	if reached >= len(hops) || !known && reached == 0 && len(hops) > 1 {
		return 0, 0, false
	}
	for at := reached + 1; at <= len(hops); at++ {
		h := &hops[at-1]
		if !h.responds {
			continue
		}
		if h.tries < leastTries {
			return 0, 0, false // not known yet
		}
		if before == 0 {
			before = at
		}
	}
	return reached, before, before != 0
}
