// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/waymark-net/waymark/internal/delay"
	"github.com/waymark-net/waymark/internal/nodenames"
	"github.com/waymark-net/waymark/ioam"
)

// Report is what is known of all paths. Its JSON names are a contract: they are added to,
// never changed.
type Report struct {
	Kind        string            `json:"kind"` // always "path_trace"
	Destination netip.Addr        `json:"destination"`
	Protocol    string            `json:"protocol"`
	Namespace   ioam.NamespaceID  `json:"namespace"` // of the probes' trace
	Flows       int               `json:"flows"`
	Sent        uint64            `json:"sent"`
	Lost        uint64            `json:"lost"`
	Paths       []Path            `json:"paths"`
	Broken      []Broken          `json:"broken"`  // flows of which nothing arrived
	Unkept      uint64            `json:"unkept"`  // probes of more paths than are kept
	Copies      uint64            `json:"copies"`  // that nodes returned of probes with the Loopback flag
	Ignored     map[string]uint64 `json:"ignored"` // replies that were not used, by cause
	Live        bool              `json:"-"`       // probes are still being sent
}

// Path is a path that some flows took.
type Path struct {
	Flows     []Flow         `json:"flows"`
	Sent      uint64         `json:"sent"`
	Lost      uint64         `json:"lost"`
	Endpoint  bool           `json:"endpoint"` // false: only ICMPv6 errors came back, which nodes limit
	Overflow  bool           `json:"overflow"` // the trace had no room for all nodes
	RoundTrip *delay.Summary `json:"round_trip"`
	Hops      []Hop          `json:"hops"`

	roundTrip delay.Distribution
}

// Flow is a flow of probes.
type Flow struct {
	Number     int    `json:"number"`
	SourcePort uint16 `json:"source_port,omitempty"`
	FlowLabel  uint32 `json:"flow_label"`
}

// Hop is a node of a path.
type Hop struct {
	Position   int              `json:"position"` // 1: the first after this machine
	NodeID     *ioam.NodeID     `json:"node_id"`
	NodeIDWide *ioam.NodeIDWide `json:"node_id_wide,omitempty"`
	Ingress    *uint32          `json:"ingress_id"`
	Egress     *uint32          `json:"egress_id"`
	Address    *netip.Addr      `json:"address"` // that replied when a hop limit ended there
	Silent     bool             `json:"silent"`  // it wrote nothing into the trace
	Since      *delay.Summary   `json:"since_previous"`
	Held       *delay.Summary   `json:"transit_delay"`

	// Names of the ids, if they are known.
	NodeName    string `json:"node_name,omitempty"`
	IngressName string `json:"ingress_name,omitempty"`
	EgressName  string `json:"egress_name,omitempty"`

	node
	since, held delay.Distribution
}

// Broken is a flow of which no probe arrived.
type Broken struct {
	Flow  Flow   `json:"flow"`
	Sent  uint64 `json:"sent"`
	Hops  []Hop  `json:"hops"` // that its probes passed
	Next  []Hop  `json:"next"` // the hops that follow on the paths of other flows
	Error string `json:"error,omitempty"`

	waited time.Duration // only the probe that asked for copies is known to be lost
}

// Name adds the names of nodes and interfaces, as far as they are known.
func (r *Report) Name(names *nodenames.Names) {
	for i := range r.Paths {
		nameHops(r.Paths[i].Hops, names)
	}
	for i := range r.Broken {
		nameHops(r.Broken[i].Hops, names)
		nameHops(r.Broken[i].Next, names)
	}
}

func nameHops(hops []Hop, names *nodenames.Names) {
	for i := range hops {
		h := &hops[i]
		link := func(id *uint32) string {
			switch {
			case id == nil:
				return ""
			case h.NodeID != nil:
				return names.Interface(*h.NodeID, ioam.InterfaceID(*id))
			}
			return names.InterfaceWide(*h.NodeIDWide, ioam.InterfaceIDWide(*id))
		}
		switch {
		case h.NodeID != nil:
			h.NodeName = names.Node(*h.NodeID)
		case h.NodeIDWide != nil:
			h.NodeName = names.NodeWide(*h.NodeIDWide)
		default:
			continue
		}
		h.IngressName, h.EgressName = link(h.Ingress), link(h.Egress)
	}
}

// Report is what is known until now. name gives the port and label of a flow.
func (p *Paths) Report(name func(int) Flow) *Report {
	r := &Report{
		Kind:        "path_trace",
		Destination: p.Destination,
		Flows:       len(p.flows),
		Paths:       []Path{},
		Broken:      []Broken{},
		Unkept:      p.Unkept,
		Ignored:     map[string]uint64{},
	}
	for _, one := range p.order {
		r.Paths = append(r.Paths, p.path(one, name))
	}
	p.untraced(r, name)
	slices.SortStableFunc(r.Paths, func(a, b Path) int { return slices.Compare(positions(a), positions(b)) })
	for i := range p.flows {
		f := &p.flows[i]
		r.Sent += f.sent
		r.Lost += f.lost
		if f.received == 0 && (f.lost > 0 || f.waited > 0) {
			r.Broken = append(r.Broken, p.broken(f, name(i), r.Paths))
		}
	}
	return r
}

// positions order paths: by the ids of their nodes, so that paths with a common beginning
// are together.
func positions(one Path) (list []uint64) {
	for _, h := range one.Hops {
		list = append(list, uint64(h.id), uint64(h.wide), uint64(h.egress), uint64(h.ingress))
	}
	return list
}

func (p *Paths) path(one *path, name func(int) Flow) Path {
	out := Path{
		Sent:      one.received + one.lost,
		Lost:      one.lost,
		Endpoint:  one.endpoint,
		Overflow:  one.overflow,
		roundTrip: one.roundTrip,
		RoundTrip: one.roundTrip.Summary(),
	}
	addresses := make(map[int]netip.Addr)
	for i := range p.flows {
		if !one.flows[i] {
			continue
		}
		out.Flows = append(out.Flows, name(i))
		for at, r := range p.flows[i].walk {
			if at <= len(one.hops) && p.mayBe(r, one.hops[at-1].node) {
				addresses[at] = r.From
			}
		}
	}
	for i := range one.hops {
		h := &one.hops[i]
		out.Hops = append(out.Hops, h.report(addresses[h.position]))
	}
	p.end(out.Hops)
	return out
}

// mayBe reports whether a reply may be from a node: at that hop, the reply's trace names no other
// node. A probe with another header, or after a change of routes, may take another path.
func (p *Paths) mayBe(r *Reply, n node) bool {
	nodes, _ := p.read(r)
	if n.position > len(nodes) {
		return true
	}
	other := nodes[n.position-1]
	if n.silent || other.silent { // it wrote nothing, or nothing yet
		return true
	}
	differ := n.id != other.id && n.id != ioam.NodeIDUnavailable && other.id != ioam.NodeIDUnavailable ||
		n.wide != other.wide && n.wide != ioam.NodeIDWideUnavailable && other.wide != ioam.NodeIDWideUnavailable
	return !differ
}

// end names the last hop by the destination.
func (p *Paths) end(hops []Hop) {
	if len(hops) > 0 {
		hops[len(hops)-1].Address = &p.Destination
	}
}

func (h *hop) report(address netip.Addr) Hop {
	out := Hop{
		Position: h.position,
		Silent:   h.silent,
		node:     h.node,
		since:    h.since,
		held:     h.held,
		Since:    h.since.Summary(),
		Held:     h.held.Summary(),
	}
	if address.IsValid() {
		out.Address = &address
	}
	if h.silent {
		return out
	}
	if h.id != ioam.NodeIDUnavailable {
		out.NodeID = &h.id
	}
	if h.wide != ioam.NodeIDWideUnavailable {
		out.NodeIDWide = &h.wide
	}
	if h.ingress != noID {
		out.Ingress = &h.ingress
	}
	if h.egress != noID {
		out.Egress = &h.egress
	}
	return out
}

// unknown is a hop of which nothing is known, not even whether it writes traces.
func unknown(position int) node {
	return node{position: position, ingress: noID, egress: noID, id: ioam.NodeIDUnavailable, wide: ioam.NodeIDWideUnavailable}
}

// walked are the hops of a flow as far as hop limits showed them. The traces that errors
// quote name their nodes. The last trace has most of the nodes, and none after its own hop.
func (p *Paths) walked(f *flow) (hops []Hop) {
	last := f.length
	for at := range f.walk {
		if f.length == 0 {
			last = max(last, at)
		}
	}
	var nodes []node
	for at := last; at > 0 && len(nodes) == 0; at-- {
		if r := f.walk[at]; r != nil && r.Trace != nil {
			nodes, _ = p.read(r)
		}
	}
	one := path{hops: make([]hop, last)}
	for at := 1; at <= last; at++ {
		if one.hops[at-1].node = unknown(at); at <= len(nodes) {
			one.hops[at-1].node = nodes[at-1]
		}
	}
	p.timed(f, &one)
	for at := 1; at <= last; at++ {
		h := &one.hops[at-1]
		var address netip.Addr
		if r := f.walk[at]; r != nil && p.mayBe(r, h.node) {
			address = r.From
		}
		hops = append(hops, h.report(address))
	}
	return hops
}

// timed adds the times of the probes that came to the hops of a way, as the traces that errors
// quote have them: when each node was reached, and how long those before the last one took.
func (p *Paths) timed(f *flow, one *path) {
	for at := 1; at <= len(one.hops); at++ {
		r := f.walk[at]
		if r == nil || r.Trace == nil {
			continue
		}
		nodes, when := p.read(r)
		same := len(nodes) <= len(one.hops)
		for i := 0; same && i < len(nodes); i++ {
			same = p.mayBe(r, one.hops[i].node)
		}
		if same {
			one.add(when, r.Sent)
		}
	}
}

// untraced adds the paths of flows whose probes arrived without a trace: only hop limits
// show them.
func (p *Paths) untraced(r *Report, name func(int) Flow) {
	first := len(r.Paths)
	for i := range p.flows {
		f := &p.flows[i]
		if !f.untraced {
			continue
		}
		hops := p.walked(f)
		p.end(hops)
		at := slices.IndexFunc(r.Paths[first:], func(one Path) bool { return agree(one.Hops, hops) })
		if at < 0 {
			at = len(r.Paths) - first
			r.Paths = append(r.Paths, Path{Hops: hops})
		} else {
			r.Paths[first+at].complete(hops)
		}
		one := &r.Paths[first+at]
		one.Flows = append(one.Flows, name(i))
		one.Sent += f.received + f.early
		one.Lost += f.early
		one.Endpoint = one.Endpoint || f.endpoint
		one.roundTrip.Merge(&f.roundTrip)
		one.RoundTrip = one.roundTrip.Summary()
	}
}

// complete adds what another flow showed of the same hops, and its times.
func (p *Path) complete(hops []Hop) {
	for i, h := range hops {
		one := &p.Hops[i]
		if one.hidden() {
			*one = h
			continue
		}
		if one.Address == nil {
			one.Address = h.Address
		}
		one.since.Merge(&h.since)
		one.held.Merge(&h.held)
		one.Since, one.Held = one.since.Summary(), one.held.Summary()
	}
}

// hidden reports whether nothing is known of a hop but that it is there.
func (h *Hop) hidden() bool { return h.Address == nil && (h.silent || h.node == unknown(h.position)) }

// agree reports whether two paths may be one: no hop is known to differ.
func agree(a, b []Hop) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].hidden() && !b[i].hidden() && keyOfHops(a[i:i+1]) != keyOfHops(b[i:i+1]) {
			return false
		}
	}
	return true
}

// broken says how far a flow came.
func (p *Paths) broken(f *flow, name Flow, others []Path) Broken {
	b := Broken{Flow: name, Sent: f.sent, Hops: p.walked(f), Next: []Hop{}}
	if f.failed != nil {
		b.Error = fmt.Sprintf("%s from %v", f.failed.Error, f.failed.From)
	}
	if b.Hops == nil {
		b.Hops = []Hop{}
	}
	if f.lost == 0 {
		b.waited = f.waited
		others = slices.Concat(others, p.copied())
	}
	seen := make(map[string]bool)
	for _, other := range others {
		n := len(b.Hops)
		if len(other.Hops) <= n || n > 0 && !sameNode(b.Hops[n-1], other.Hops[n-1]) {
			continue
		}
		next := other.Hops[n]
		if key := keyOfHops([]Hop{next}); !seen[key] {
			seen[key] = true
			b.Next = append(b.Next, next)
		}
	}
	return b
}

// copied are the ways of flows that reached the destination, as far as copies and hop limits
// show them.
func (p *Paths) copied() (list []Path) {
	for i := range p.flows {
		if f := &p.flows[i]; f.length > 0 {
			hops := p.walked(f)
			p.end(hops)
			list = append(list, Path{Hops: hops})
		}
	}
	return list
}

// sameNode compares nodes by their ids, else by the address that replied.
func sameNode(a, b Hop) bool {
	switch {
	case a.named && b.named:
		return a.id == b.id && a.wide == b.wide
	case a.Address != nil && b.Address != nil:
		return *a.Address == *b.Address
	}
	return false
}

func keyOf(nodes []node) string {
	var b strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&b, "%d %d %d %d %d %v/", n.position, n.id, n.wide, n.ingress, n.egress, n.silent)
	}
	return b.String()
}

// keyOfHops also tells silent hops apart, by their addresses.
func keyOfHops(hops []Hop) string {
	var b strings.Builder
	for _, h := range hops {
		b.WriteString(keyOf([]node{h.node}))
		if !h.named && h.Address != nil {
			b.WriteString(h.Address.String())
		}
	}
	return b.String()
}
