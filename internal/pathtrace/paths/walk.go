// SPDX-License-Identifier: Apache-2.0

package paths

// MaxWalked is how many flows are walked at most.
const MaxWalked = 32

// Forget takes back a probe of which it will not be known whether it arrived.
func (p *Paths) Forget(flow int) { p.flows[flow].sent-- }

// ToWalk chooses the flows whose hop limits should end on the way: one flow of each path, and
// all flows whose path is not known from a trace.
func (p *Paths) ToWalk(most int) (list []int) {
	seen := make(map[*path]bool)
	for i := range p.flows {
		f := &p.flows[i]
		if f.last != nil && seen[f.last] || len(list) == most {
			continue
		}
		if f.last != nil {
			seen[f.last] = true
		}
		list = append(list, i)
	}
	return list
}

// Unwalked reports whether a hop of a flow is not known yet, and worth a probe: the last one
// is the destination, which is known.
func (p *Paths) Unwalked(flow, at int) bool {
	f := &p.flows[flow]
	return f.walk[at] == nil && (f.length == 0 || at < f.length)
}

// GoesOn reports whether a flow may have hops after some that were tried: a node among them
// showed itself, and the destination was not reached.
func (p *Paths) GoesOn(flow, first, last int) bool {
	f := &p.flows[flow]
	if f.length > 0 {
		return f.length > last+1
	}
	for at := first; at <= last; at++ {
		if f.walk[at] != nil {
			return true
		}
	}
	return false
}
