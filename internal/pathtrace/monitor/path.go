// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/metrics"
	"github.com/waymark-net/waymark/ioam"
)

// hop is a node of a path as the trace shows it. Two paths are the same if their hops are equal.
type hop struct {
	id              ioam.NodeID
	ingress, egress ioam.InterfaceID
	silent          bool // nothing in the trace
}

// path is what the flows to a destination have in common whose traces are equal.
type path struct {
	hops     []hop
	shown    []shown // of the same positions
	overflow bool
	flows    int           // that take it now
	left     time.Duration // when the last of them left it
	answered time.Duration // when the newest answered probe was sent
	received uint64
	lost     uint64
	trips    *metrics.Observed
	search   *search
	survey   time.Duration // when hop limits are tried again
	surveyed int           // how often they were
	key      string        // the nodes, for labels
}

// shown is what hop limits showed of a hop.
type shown struct {
	address netip.Addr
	at      time.Duration // of the last reply; 0: there was none
}

// nodeLen is the octets of one node's data in the trace.
var nodeLen = 4 * traceType.NodeLen()

// readHops reads the hops of a probe that arrived with a hop limit, from its trace: those of which
// the trace has nothing are silent. It appends to dst, which it returns.
func readHops(dst []hop, trace []byte, namespace ioam.NamespaceID, sent, arrived uint8) (hops []hop, overflow, ok bool) {
	length := 0
	if arrived != 0 && arrived <= sent {
		length = int(sent-arrived) + 1
	}
	if length > maxHops {
		return dst, true, true
	}
	if len(trace) > 0 {
		t, err := ioam.DecodeTrace(trace)
		if err != nil || t.Check() != nil || t.Namespace != namespace || t.Type != traceType || len(t.Data) != traceFor*nodeLen {
			return dst, false, false
		}
		overflow = t.Flags&ioam.FlagOverflow != 0
		first := 4 * int(t.RemainingLen)
		if first%nodeLen != 0 {
			return dst, false, false
		}
		for at := len(t.Data) - nodeLen; at >= first && len(dst) < maxHops; at -= nodeLen { // the newest node comes first
			word, ids := binary.BigEndian.Uint32(t.Data[at:]), binary.BigEndian.Uint32(t.Data[at+4:])
			place := int(sent) - int(word>>24)
			for len(dst)+1 < place && place <= length && len(dst) < maxHops-1 {
				dst = append(dst, hop{id: ioam.NodeIDUnavailable, silent: true})
			}
			dst = append(dst, hop{id: ioam.NodeID(word & 0xffffff), ingress: ioam.InterfaceID(ids >> 16), egress: ioam.InterfaceID(ids)})
		}
	}
	for len(dst) < min(length, maxHops) {
		dst = append(dst, hop{id: ioam.NodeIDUnavailable, silent: true})
	}
	return dst, overflow, true
}

// pathOf finds the path with these hops, or makes it. The least recently used one without flows
// makes room.
func (d *destination) pathOf(hops []hop, overflow bool, now time.Duration) *path {
	for _, p := range d.paths {
		if slices.Equal(p.hops, hops) {
			return p
		}
	}
	if len(d.paths) >= len(d.flows)+mostPaths {
		oldest := -1
		for i, p := range d.paths {
			if p.flows == 0 && p.search == nil && (oldest < 0 || p.left < d.paths[oldest].left) {
				oldest = i
			}
		}
		if oldest >= 0 {
			d.paths = slices.Delete(d.paths, oldest, oldest+1)
		}
	}
	p := &path{
		hops: slices.Clone(hops), shown: make([]shown, len(hops)), overflow: overflow, left: now, survey: now,
		trips: metrics.NewObserved(roundTrips, roundTripScale),
	}
	p.key = d.keyOf(p)
	d.paths = append(d.paths, p)
	return p
}

// keyOf tells a path apart from the others of the destination: by its nodes, by the interfaces of
// parallel links, else by a number.
func (d *destination) keyOf(p *path) string {
	taken := func(key string) bool { return slices.ContainsFunc(d.paths, func(o *path) bool { return o.key == key }) }
	key := p.nodes()
	if !taken(key) {
		return key
	}
	var list []string
	for i, h := range p.hops {
		list = append(list, fmt.Sprintf("%s/%d-%d", p.hop(i+1), h.ingress, h.egress))
	}
	key = strings.Join(list, ">")
	for n := 2; taken(key); n++ {
		key = fmt.Sprintf("%s#%d", p.nodes(), n)
	}
	return key
}

// nodes are the path's nodes, for labels and events: ids, addresses of silent nodes once these
// are known, else the position.
func (p *path) nodes() string {
	if len(p.hops) == 0 {
		return "unknown"
	}
	list := make([]string, len(p.hops))
	for i := range p.hops {
		list[i] = p.hop(i + 1)
	}
	return strings.Join(list, ">")
}

// hop names the node at a position, counted from 1.
func (p *path) hop(at int) string {
	h := &p.hops[at-1]
	switch {
	case h.id != ioam.NodeIDUnavailable:
		return fmt.Sprint(uint32(h.id))
	case p.shown[at-1].address.IsValid():
		return p.shown[at-1].address.String()
	}
	return fmt.Sprintf("?%d", at)
}

// place names the node of a path at a position in a sentence; 0 is this node, and the last the destination.
func (m *Monitor) place(d *destination, p *path, at int) string { return placeBy(m.nameOf, d, p, at) }

// placeKey is the same without names, which may become known later.
func placeKey(d *destination, p *path, at int) string {
	return placeBy(func(*hop) string { return "" }, d, p, at)
}

func placeBy(nameOf func(*hop) string, d *destination, p *path, at int) string {
	switch {
	case at == 0:
		return "this node"
	case at >= len(p.hops):
		return d.label()
	}
	h, address := &p.hops[at-1], p.shown[at-1].address
	name := nameOf(h)
	if name == "" && h.id != ioam.NodeIDUnavailable {
		name = fmt.Sprintf("node %d", h.id)
	}
	switch {
	case name != "" && address.IsValid():
		return fmt.Sprintf("%s (%v)", name, address)
	case name != "":
		return name
	case address.IsValid():
		return address.String()
	}
	return fmt.Sprintf("hop %d, which is silent,", at)
}

// nameOf is the name of a node of a path, "" if none is known.
func (m *Monitor) nameOf(h *hop) string {
	if m.names == nil || h.id == ioam.NodeIDUnavailable {
		return ""
	}
	return m.names(h.id)
}

// named are the nodes of a path to a destination for people: names where there are some, else as in nodes.
func (m *Monitor) named(d *destination, p *path) string {
	if len(p.hops) == 0 {
		return "unknown"
	}
	list := make([]string, len(p.hops))
	for i := range p.hops {
		list[i] = m.nameOf(&p.hops[i])
		if list[i] == "" {
			list[i] = p.hop(i + 1)
		}
	}
	list[len(list)-1] = d.label()
	if strings.Contains(p.key, "/") { // parallel links
		for i, h := range p.hops {
			list[i] += fmt.Sprintf("/%d-%d", h.ingress, h.egress)
		}
	}
	text := strings.Join(list, " > ")
	if _, number, parallel := strings.Cut(p.key, "#"); parallel {
		text += " #" + number
	}
	return text
}

// label is the destination's name, else its address.
func (d *Destination) label() string {
	if d.Name != "" {
		return d.Name
	}
	return d.Address.String()
}

// shares reports whether two paths pass the same nodes and interfaces up to a position. A node
// that is silent tells nothing.
func (p *path) shares(other *path, at int) bool {
	if at > len(p.hops) || at > len(other.hops) {
		return false
	}
	for i := range at {
		a, b := p.hops[i], other.hops[i]
		if a.silent || b.silent || a.id == ioam.NodeIDUnavailable {
			return false
		}
		if i == at-1 { // they may leave it by different interfaces
			a.egress, b.egress = 0, 0
		}
		if a != b {
			return false
		}
	}
	return true
}

// node is what is known of a node that hop limits ended at, whichever path showed it.
type node struct {
	address  netip.Addr    // from which it replied last
	tried    time.Duration // when it was last asked
	answered time.Duration // when the probe was sent that it replied to last; 0: never
	tokens   float64       // probes whose hop limits may end there now
	at       time.Duration // of the tokens
}

// nodes are known by their ids, those without by their addresses.
type nodes map[nodeKey]*node

type nodeKey struct {
	id      ioam.NodeID
	address netip.Addr
}

const (
	mostNodes = 4096
	// nodeRate and nodeBurst are how many probes a second end at a node: Linux sends one error a
	// second to a sender, and six at once (RFC 4443 §2.4 (f)).
	nodeRate  = 1
	nodeBurst = 4
)

// of is the node at a position of a path; nil if nothing tells it from others.
func (n nodes) of(p *path, at int) *node {
	key := nodeKey{id: p.hops[at-1].id}
	if key.id == ioam.NodeIDUnavailable {
		if key.address = p.shown[at-1].address; !key.address.IsValid() {
			return nil
		}
	}
	one := n[key]
	if one == nil {
		if len(n) >= mostNodes {
			for other := range n { // any one: it is learned again
				delete(n, other)
				break
			}
		}
		one = &node{tokens: nodeBurst}
		n[key] = one
	}
	return one
}

// allow reports whether another probe may end at the node, and counts it.
func (n *node) allow(now time.Duration) bool {
	n.tokens = min(nodeBurst, n.tokens+(now-n.at).Seconds()*nodeRate)
	n.at = now
	if n.tokens < 1 {
		return false
	}
	n.tokens--
	n.tried = now
	return true
}
