// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// Add takes records that came at a time. More than the rate are counted and left out. It keeps nothing
// of them, so that their memory may be used again.
func (e *Engine) Add(now time.Time, records ...record.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance(now)
	if second := now.Unix(); second != e.second {
		e.second, e.taken = second, 0
	}
	for _, r := range records {
		switch r := r.(type) {
		case *record.Trace:
			if !r.Copy && e.admitRecord() {
				e.trace(r)
			}
		case *record.Postcard:
			if e.admitRecord() {
				e.postcard(r)
			}
		case *record.Path:
			if e.admitRecord() {
				e.path(r)
			}
		case *record.Loss:
			if e.admitRecord() {
				e.loss(r)
			}
		case *record.Flow:
			if r.Role == record.Decapsulating && r.SequenceGaps.Valid && e.admitRecord() {
				e.between(r.Packet.Source, r.Packet.Destination, Loss{r.Packets + r.SequenceGaps.Value, r.SequenceGaps.Value})
			}
		case *record.EdgeFlow:
			if r.Lost.Valid && e.admitRecord() {
				e.between(r.Source, r.Destination, Loss{r.Packets + r.Lost.Value, r.Lost.Value})
			}
		}
	}
}

func (e *Engine) admitRecord() bool {
	if e.taken >= e.settings.Rate {
		e.open.LeftOut++
		return false
	}
	e.taken++
	e.open.Records++
	return true
}

// between counts losses of which only the ends are known.
func (e *Engine) between(source, destination netip.Addr, l Loss) {
	if source.IsValid() && destination.IsValid() {
		e.pair(source, destination).Loss.add(l)
	}
}

// pair finds the entry of two addresses, or makes it.
func (e *Engine) pair(source, destination netip.Addr) *pair {
	key := addresses{source, destination}
	if p := e.addresses[key]; p != nil {
		return p
	}
	names := ends{e.prefixOf(source), e.prefixOf(destination)}
	p := e.pairs[names]
	switch {
	case p != nil:
	case len(e.pairs) >= mostPairs:
		p = e.rest
	default:
		p = newPair(names)
		e.pairs[names] = p
	}
	if len(e.addresses) >= mostAddresses {
		clear(e.addresses)
	}
	e.addresses[key] = p
	return p
}

// prefixOf names the longest prefix with an address, else the /64 or /24 of it.
func (e *Engine) prefixOf(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	best := -1
	for i, p := range e.settings.Prefixes {
		if p.Prefix.Contains(a) && (best < 0 || p.Prefix.Bits() > e.settings.Prefixes[best].Prefix.Bits()) {
			best = i
		}
	}
	switch {
	case best >= 0 && e.settings.Prefixes[best].Name != "":
		return clip(e.settings.Prefixes[best].Name)
	case best >= 0:
		return e.settings.Prefixes[best].Prefix.String()
	case !a.IsValid():
		return Other
	}
	bits := 64
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // within the address' length
	return p.String()
}

// trace counts a packet and what each node wrote about it.
func (e *Engine) trace(r *record.Trace) {
	if !r.Packet.Source.IsValid() || len(r.Nodes) == 0 {
		return
	}
	p := e.pair(r.Packet.Source, r.Packet.Destination)
	p.Packets++
	e.scratch = e.scratch[:0]
	for i := range r.Nodes {
		e.scratch = append(e.scratch, Hop{Place: placeOf(&r.Nodes[i])})
	}
	path := e.pathOf(p, e.scratch)
	path.Packets++
	if r.Overflow.Value || hasGap(r.Nodes) {
		path.Incomplete++
	} else {
		p.known.countPacket(path, flowOf(&r.Packet))
	}
	n := len(r.Nodes)
	path.end(&r.Nodes[0], &r.Nodes[n-1])
	for i := range path.Hops {
		here := &r.Nodes[i]
		path.Hops[i].count(here)
		if i+1 == n || !here.Timestamp.Valid || here.TransitDelayOverflow || !r.Nodes[i+1].Timestamp.Valid {
			continue
		}
		// The first timestamp is of the departure, because that node inserted the trace; the others are of
		// the arrival.
		departed := here.Timestamp.Value
		if here.TransitDelay.Valid {
			departed = departed.Add(time.Duration(here.TransitDelay.Value))
		}
		path.Hops[i].reached(departed, r.Nodes[i+1].Timestamp.Value, i > 0 && !here.TransitDelay.Valid)
	}
}

// hasGap reports whether hop limits say that a node between two others wrote nothing.
func hasGap(nodes []record.NodeData) bool {
	for i := 1; i < len(nodes); i++ {
		a, b := nodes[i-1].HopLimit, nodes[i].HopLimit
		if a.Valid && b.Valid && a.Value != b.Value+1 && a.Value != b.Value {
			return true
		}
	}
	return false
}

func placeOf(n *record.NodeData) Place {
	var p Place
	switch {
	case n.NodeID.Valid:
		p.NodeID = uint64(n.NodeID.Value)
	case n.NodeIDWide.Valid:
		p.NodeID, p.Wide = uint64(n.NodeIDWide.Value), true
	}
	switch {
	case n.IngressID.Valid:
		p.IngressID = uint64(n.IngressID.Value)
	case n.IngressIDWide.Valid:
		p.IngressID = uint64(n.IngressIDWide.Value)
	}
	switch {
	case n.EgressID.Valid:
		p.EgressID = uint64(n.EgressID.Value)
	case n.EgressIDWide.Valid:
		p.EgressID = uint64(n.EgressIDWide.Value)
	}
	return p
}

// end counts the delay of the whole path.
func (p *Path) end(first, last *record.NodeData) {
	if first == last || !first.Timestamp.Valid || !last.Timestamp.Valid {
		return
	}
	if ns := int64(last.Timestamp.Value.Sub(first.Timestamp.Value)); plausible(ns) {
		p.Delay.Add(ns)
		if ns < 0 {
			p.Negative++
		}
	}
}

// plausible reports whether a difference of two clocks may be a delay, or a small error.
func plausible(ns int64) bool { return ns > -mostDelay && ns < mostDelay }

// count counts what one node wrote about a packet.
func (h *Hop) count(n *record.NodeData) {
	h.Packets++
	if n.TransitDelay.Valid {
		h.Held.Add(int64(n.TransitDelay.Value))
	}
	if n.QueueDepth.Valid {
		h.Queue.add(Depth{1, uint64(n.QueueDepth.Value), n.QueueDepth.Value})
	}
}

// reached counts the time to the next node.
func (h *Hop) reached(departed, arrived time.Time, heldIncluded bool) {
	ns := int64(arrived.Sub(departed))
	if !plausible(ns) {
		return
	}
	h.HeldIncluded = h.HeldIncluded || heldIncluded
	h.ToNext.Add(ns)
	if ns < 0 {
		h.Negative++
	}
}

// hashOf is the FNV-1a sum of the hops' places, by words: the same at every node and in every run.
func hashOf(hops []Hop) uint64 {
	sum := uint64(0xcbf29ce484222325)
	mix := func(v uint64) {
		sum = (sum ^ v) * 0x100000001b3
		sum ^= sum >> 29
	}
	for i := range hops {
		p := &hops[i].Place
		mix(p.NodeID)
		mix(p.IngressID<<32 ^ p.EgressID)
		for _, c := range []byte(p.Node) {
			mix(uint64(c))
		}
	}
	return sum
}

// pathOf finds the path with these hops, or makes it.
func (e *Engine) pathOf(p *pair, hops []Hop) *Path {
	sum := hashOf(hops)
	if path := p.paths[sum]; path != nil {
		if path.goesBy(hops) {
			return path
		}
		return p.restPath()
	}
	if p == e.rest || len(hops) > mostPathHops || len(p.paths) >= mostPaths || e.hops+len(hops) > mostHops {
		return p.restPath()
	}
	path := &Path{ID: fmt.Sprintf("%08x", uint32(sum>>32)), Hops: slices.Clone(hops)}
	e.hops += len(hops)
	p.paths[sum] = path
	p.Paths = append(p.Paths, path)
	return path
}

func (p *Path) goesBy(hops []Hop) bool {
	if len(p.Hops) != len(hops) {
		return false
	}
	for i := range hops {
		if p.Hops[i].Place != hops[i].Place {
			return false
		}
	}
	return true
}

// restPath is the entry of packets whose path has none.
func (p *pair) restPath() *Path {
	if p.rest == nil {
		p.rest = &Path{ID: Other}
		p.Paths = append(p.Paths, p.rest)
	}
	return p.rest
}

// postcard counts what this one node did with a packet: a path of one hop.
func (e *Engine) postcard(r *record.Postcard) {
	if !r.Packet.Source.IsValid() {
		return
	}
	data := r.Measured()
	p := e.pair(r.Packet.Source, r.Packet.Destination)
	p.Packets++
	place := placeOf(&data)
	if place.NodeID == 0 {
		place.Node = clip(r.Node)
	}
	e.scratch = append(e.scratch[:0], Hop{Place: place})
	path := e.pathOf(p, e.scratch)
	path.Packets++
	if len(path.Hops) > 0 {
		path.Hops[0].count(&data)
	}
}
