// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"cmp"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// path counts a packet that a collector joined from postcards. Of a lost one, the hops are those before
// the loss: it counts at the busiest path that begins with them, because the link after the last one is
// the same.
func (e *Engine) path(r *record.Path) {
	if !r.Packet.Source.IsValid() || len(r.Nodes) == 0 {
		return
	}
	p := e.pair(r.Packet.Source, r.Packet.Destination)
	p.Packets++
	e.scratch = e.scratch[:0]
	for i := range r.Nodes {
		n := &r.Nodes[i]
		place := placeOf(&n.NodeData)
		if place.NodeID == 0 { // by its id, it is the same node when it gets a name, or another one
			place.Node = clip(n.Node)
		}
		e.scratch = append(e.scratch, Hop{Place: place})
	}
	path := (*Path)(nil)
	if r.Verdict == record.PathLost {
		path = p.beginsWith(e.scratch)
	}
	if path == nil {
		path = e.pathOf(p, e.scratch)
	}
	path.Packets++
	if !r.Complete {
		path.Incomplete++
	} else if r.Verdict == record.PathArrived {
		p.known.countPacket(path, flowOf(&r.Packet))
	}
	n := len(r.Nodes)
	if r.Verdict == record.PathArrived {
		path.end(&r.Nodes[0].NodeData, &r.Nodes[n-1].NodeData)
	}
	for i := range min(n, len(path.Hops)) {
		here := &r.Nodes[i]
		path.Hops[i].count(&here.NodeData)
		if i+1 < n && !missingBetween(r, i) && here.Timestamp.Valid && r.Nodes[i+1].Timestamp.Valid {
			// Exports have the time of the departure, but that of the arrival at the decapsulating node.
			next := &r.Nodes[i+1]
			arrived, known := next.Timestamp.Value, next.Role == record.Decapsulating
			if !known && next.TransitDelay.Valid {
				arrived, known = arrived.Add(-time.Duration(next.TransitDelay.Value)), true
			}
			path.Hops[i].reached(here.Timestamp.Value, arrived, !known)
		}
		if r.Verdict == record.PathArrived || r.Verdict == record.PathLost {
			path.Hops[i].Loss.Sent++
		}
	}
	if r.Verdict == record.PathLost && len(path.Hops) >= n {
		path.Hops[n-1].Loss.Lost++
	}
}

// missingBetween reports whether a node after the one at an index reported nothing.
func missingBetween(r *record.Path, i int) bool {
	a, b := r.Nodes[i].HopLimit, r.Nodes[i+1].HopLimit
	return a.Valid && b.Valid && slices.ContainsFunc(r.Missing, func(limit int) bool { return limit < int(a.Value) && limit > int(b.Value) })
}

// beginsWith is the busiest path that begins with these hops, nil without one.
func (p *pair) beginsWith(hops []Hop) (best *Path) {
	for _, path := range p.Paths {
		if len(path.Hops) > len(hops) && !path.measured() && (best == nil || path.Packets > best.Packets) {
			begin := Path{Hops: path.Hops[:len(hops)]}
			if begin.goesBy(hops) {
				best = path
			}
		}
	}
	return best
}

// loss counts the result of a block of a measured flow: losses of which both ends counted the same
// packets, or that it is not known what was lost, as when the second one does not answer. Its points are the hops.
func (e *Engine) loss(r *record.Loss) {
	p := e.rest
	if r.Source.IsValid() && len(r.SIDs) > 0 {
		p = e.pair(r.Source, r.SIDs[len(r.SIDs)-1])
	}
	path := e.flowPath(p, r)
	if path == nil {
		return
	}
	if r.Scope == record.WholeWay && r.NothingSent() { // comes before the segments of the block
		path.idle = r.Block
	}
	if r.From >= mostPathHops || r.To != r.From+1 { // of more than one segment
		return
	}
	e.reach(path, int(r.To))
	if len(path.Hops) <= int(r.To) {
		return
	}
	from, to := &path.Hops[r.From].Place, &path.Hops[r.To].Place
	from.Node, to.Node = cmp.Or(clip(r.FromNode), from.Node), cmp.Or(clip(r.ToNode), to.Node) // IPFIX has no names: one that is known stays
	switch {
	case r.Sent.Valid && r.Lost.Valid:
		path.Hops[r.From].Loss.add(Loss{r.Sent.Value, r.Lost.Value})
	case !path.idle.Valid || path.idle != r.Block:
		path.Hops[r.From].Uncertain++
	}
	if !r.Sent.Valid {
		return
	}
	if r.From == 0 {
		p.Packets += r.Sent.Value
		path.Packets += r.Sent.Value
	}
	path.Hops[r.From].Packets += r.Sent.Value
}

// flowPath is the path of a measured flow, nil without room.
func (e *Engine) flowPath(p *pair, r *record.Loss) *Path {
	key := flowKey{clip(r.Flow), uint32(r.FlowID)}
	if path := p.flows[key]; path != nil {
		return path
	}
	if len(p.flows) >= mostMeasured || e.measured >= mostMeasuredHops || e.measuredHops >= mostMeasuredHops {
		return nil
	}
	e.measured++
	path := &Path{ID: measuredID, Flow: key.name, FlowID: key.id}
	p.flows[key] = path
	p.Paths = append(p.Paths, path)
	return path
}

// reach adds hops up to a point, if there is room.
func (e *Engine) reach(path *Path, point int) {
	for len(path.Hops) <= point && len(path.Hops) < mostPathHops && e.measuredHops < mostMeasuredHops {
		path.Hops = append(path.Hops, Hop{})
		e.measuredHops++
	}
}
