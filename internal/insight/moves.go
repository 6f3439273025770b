// SPDX-License-Identifier: Apache-2.0

package insight

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/waymark-net/waymark/internal/record"
)

// Bounds of the flows that are watched in a pair of prefixes, and what decides that they moved.
const (
	mostFlows     = 128 // further ones make it a sample by their hashes
	moveRun       = 4   // packets in a row on the new path, or it may be both in turn
	movePackets   = 50  // of known flows in a window
	leastMoved    = 0.2 // of these
	moveWindows   = 2   // in a row
	flowIntervals = 6   // after which a flow that was not seen is forgotten
)

// knownFlows are flows of a pair of prefixes with the path that each takes. Shares of paths change when
// flows come and go, too; a flow that takes another path shows that packets moved.
type knownFlows struct {
	flows    map[uint64]*knownFlow
	mask     uint64 // hashes that have none of its bits are watched
	interval int
	tracked  uint64 // packets of known flows in this window
	moved    map[moveKey]uint64
	slow     map[moveKey]int  // windows in a row in which enough moved
	reported map[moveKey]bool // until an interval has none of them
	any      map[moveKey]bool // moves in this interval
	paths    map[string]*pathMemory
}

// moveKey are the ids of two paths.
type moveKey struct{ from, to string }

type knownFlow struct {
	home, now string // the path that it took before, and takes now
	run       int    // packets on it in a row
	changed   int    // the interval of the last change
	used      int
}

// pathMemory is a path as it was in an interval that ended.
type pathMemory struct {
	places   []Place
	interval int
	packets  uint64
	p99      int64 // of the whole delay; -1: not known
	complete bool

	// For silence: packets of the open interval when it was last seen, and those with a gap then.
	lastPackets, since uint64
	looked             bool
}

// flowOf is the hash of a packet's flow.
func flowOf(p *record.Packet) uint64 {
	sum := uint64(0xcbf29ce484222325)
	mix := func(v uint64) {
		sum = (sum ^ v) * 0x100000001b3
		sum ^= sum >> 29
	}
	for _, a := range [2]netip.Addr{p.Source, p.Destination} {
		b := a.As16()
		mix(binary.BigEndian.Uint64(b[:8]))
		mix(binary.BigEndian.Uint64(b[8:]))
	}
	mix(uint64(p.NextHeader)<<32 | uint64(p.FlowLabel))
	for _, port := range [2]*uint16{p.SourcePort, p.DestinationPort} {
		if port != nil {
			mix(uint64(*port) + 1)
		}
	}
	// The finalizer of SplitMix64, so that a sample by the last bits is one of all flows.
	sum = (sum ^ sum>>30) * 0xbf58476d1ce4e5b9
	sum = (sum ^ sum>>27) * 0x94d049bb133111eb
	return sum ^ sum>>31
}

// countPacket counts a packet on a path whose nodes are all known.
func (k *knownFlows) countPacket(path *Path, hash uint64) {
	if path.ID == Other || hash&k.mask != 0 {
		return
	}
	f := k.flows[hash]
	if f == nil {
		if len(k.flows) >= mostFlows {
			k.thin()
			if hash&k.mask != 0 || len(k.flows) >= mostFlows {
				return
			}
		}
		if k.flows == nil {
			k.flows, k.moved, k.slow = make(map[uint64]*knownFlow), make(map[moveKey]uint64), make(map[moveKey]int)
			k.reported, k.any, k.paths = make(map[moveKey]bool), make(map[moveKey]bool), make(map[string]*pathMemory)
		}
		k.flows[hash] = &knownFlow{home: path.ID, now: path.ID, used: k.interval, changed: k.interval}
		return
	}
	f.used = k.interval
	if f.now != path.ID {
		f.now, f.run, f.changed = path.ID, 0, k.interval
	}
	f.run++
	k.tracked++
	if path.ID != f.home && f.run >= moveRun {
		k.moved[moveKey{f.home, path.ID}]++
	}
}

// thin watches every second flow of those until now.
func (k *knownFlows) thin() {
	k.mask = k.mask<<1 | 1
	for hash := range k.flows {
		if hash&k.mask != 0 {
			delete(k.flows, hash)
		}
	}
}

// lookMoves looks at a window of a pair: at least movePackets packets of known flows.
func (e *Engine) lookMoves(p *pair, now time.Time) {
	k := &p.known
	if k.tracked < movePackets {
		return
	}
	for key, n := range k.moved {
		k.any[key] = true
		back := k.moved[moveKey{key.to, key.from}]
		part := float64(n-min(back, n)) / float64(k.tracked)
		if part < leastMoved {
			delete(k.slow, key)
			continue
		}
		if k.slow[key]++; k.slow[key] >= moveWindows && !k.reported[key] {
			k.reported[key] = e.tellMove(p, key, part, now)
		}
	}
	for key := range k.slow {
		if k.moved[key] == 0 {
			delete(k.slow, key)
		}
	}
	clear(k.moved)
	k.tracked = 0
}

// tellMove notes that packets moved, if both paths are known.
func (e *Engine) tellMove(p *pair, key moveKey, part float64, now time.Time) bool {
	from := p.known.paths[key.from]
	i := slices.IndexFunc(p.Paths, func(path *Path) bool { return path.ID == key.to })
	if from == nil || i < 0 {
		return false
	}
	to := p.Paths[i]
	f := Finding{
		Event:       record.EventPathsMoved,
		At:          now,
		Since:       now,
		Source:      p.Source,
		Destination: p.Destination,
		From:        from.places,
		To:          placesOf(to.Hops),
		Moved:       part,
		Packets:     p.Packets,
	}
	for _, one := range p.known.flows {
		if one.home == key.from && one.now == key.to && one.run >= moveRun {
			one.home = key.to // so that the way back is a move, too
			f.Flows++
		}
	}
	// The clocks are the same two, so their error falls out of the difference, but not out of delays below 0.
	if len(f.From) > 0 && sameEnds(f.From, f.To) && from.p99 >= 0 && to.Delay.Count() >= leastPackets && to.Negative == 0 {
		change := to.Delay.Quantile(0.99) - from.p99
		f.P99Change = &change
	}
	e.watches.add(f)
	return true
}

func placesOf(hops []Hop) []Place {
	list := make([]Place, len(hops))
	for i := range hops {
		list[i] = hops[i].Place
	}
	return list
}

// sameEnds reports whether two paths begin and end at the same nodes.
func sameEnds(a, b []Place) bool {
	same := func(a, b Place) bool { return a.Node == b.Node && a.NodeID == b.NodeID && a.Wide == b.Wide }
	return len(a) > 0 && len(b) > 0 && same(a[0], b[0]) && same(a[len(a)-1], b[len(b)-1])
}

// close begins another interval: a flow that was on its path in the whole last one is at home there.
func (k *knownFlows) close(p *Pair) {
	if k.flows == nil {
		return
	}
	for hash, f := range k.flows {
		switch {
		case k.interval-f.used >= flowIntervals:
			delete(k.flows, hash)
		case f.now != f.home && f.changed < k.interval:
			f.home = f.now
		}
	}
	if len(k.flows) < mostFlows/4 {
		k.mask >>= 1
	}
	for key := range k.reported {
		if !k.any[key] {
			delete(k.reported, key)
		}
	}
	clear(k.any)
	k.remember(p)
	k.interval++
}

// remember keeps what paths were like, as long as a flow may come from one.
func (k *knownFlows) remember(p *Pair) {
	for _, path := range p.Paths {
		if path.ID == Other || path.measured() || path.Packets == 0 {
			continue
		}
		one := &pathMemory{places: placesOf(path.Hops), interval: k.interval, packets: path.Packets, p99: -1, complete: path.Incomplete == 0}
		if path.Delay.Count() >= leastPackets && path.Negative == 0 {
			one.p99 = path.Delay.Quantile(0.99)
		}
		k.paths[path.ID] = one
	}
	for id, one := range k.paths {
		if k.interval-one.interval >= flowIntervals {
			delete(k.paths, id)
		}
	}
}
