// SPDX-License-Identifier: Apache-2.0

package query

// tellsLosses reports whether it can be known that packets which a node saw were lost: only by postcards that are
// missing. A trace comes with its packet, so nothing comes of a packet that is lost. A way that was first reported by a
// trace has nodes without exporters.
func (n *Node) tellsLosses() bool { return n.Exporter != "" }

// sayKnown says of each path whether its losses can be known.
func (a *Paths) sayKnown() {
	for i := range a.Paths {
		p := &a.Paths[i]
		p.LossKnown = len(p.Hops) > 0 && p.Hops[0].tellsLosses()
	}
}

// sayKnown says it of each pair.
func (a *Grid) sayKnown() {
	for i := range a.Pairs {
		a.Pairs[i].LossKnown = a.Pairs[i].From.tellsLosses()
	}
}

// sayKnown says it of each segment.
func (a *Segments) sayKnown() {
	for i := range a.Segments {
		a.Segments[i].LossKnown = a.Segments[i].From.tellsLosses()
	}
}
