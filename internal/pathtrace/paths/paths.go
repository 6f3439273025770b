// SPDX-License-Identifier: Apache-2.0

// Package paths finds the paths of probes from the traces that they bring back (RFC 9197
// §4.4): which nodes each flow passed, which of them wrote nothing, where probes were lost,
// and how long each hop took. It is pure arithmetic in bounded memory.
package paths

import (
	"net/netip"
	"time"

	"github.com/waymark-net/waymark/internal/delay"
	"github.com/waymark-net/waymark/ioam"
)

// maxPaths bounds the distinct paths that are kept. Probes of others count as Unkept.
const maxPaths = 256

// Kind is what came back for a probe.
type Kind int

// Kinds of replies.
const (
	Answered Kind = iota // by the endpoint at the destination
	Echoed               // an ICMPv6 echo reply
	Refused              // an ICMPv6 error of the destination: the probe got there
	Exceeded             // its hop limit ended there (RFC 4443 §3.3)
	Failed               // another ICMPv6 error, of a node on the way
	Copied               // a copy that a node on the way returned (RFC 9322 §4.2)
)

// Reply is what came back for a probe.
type Reply struct {
	Kind      Kind
	From      netip.Addr
	RoundTrip time.Duration
	Sent      time.Time   // by this machine's clock
	SentHops  uint8       // the hop limit with which the probe was sent
	Arrived   uint8       // the hop limit with which it arrived there
	Trace     *ioam.Trace // as it arrived; nil: none
	Error     string      // what a Failed is
}

// place is how many hops away the replying node is: 1 for the first; 0 if that makes no
// sense.
func (r *Reply) place() int {
	if r.Arrived == 0 || r.Arrived > r.SentHops {
		return 0
	}
	return int(r.SentHops-r.Arrived) + 1
}

// node is one node's part of a trace. Two hops of one path are the same if their nodes are
// equal.
type node struct {
	position        int
	id              ioam.NodeID
	wide            ioam.NodeIDWide
	ingress, egress uint32 // an id, or noID
	named           bool   // id or wide is known
	silent          bool   // nothing in the trace
}

const noID = 1<<32 - 1

// times are when a packet came to a node and how long the node held it.
type times struct {
	at   time.Time
	held time.Duration
	timed,
	delayed bool
}

// hop is a hop of a path with its delays.
type hop struct {
	node
	since, held delay.Distribution
}

// path is what the probes of some flows have in common.
type path struct {
	hops      []hop
	flows     map[int]bool
	received  uint64
	lost      uint64
	overflow  bool
	endpoint  bool // the destination has an endpoint, or echoes
	roundTrip delay.Distribution
}

// flow is one flow of probes.
type flow struct {
	sent, received, lost uint64
	early                uint64 // lost before anything was received
	last                 *path
	walk                 map[int]*Reply // by hop
	failed               *Reply
	untraced             bool // replies had no trace
	endpoint             bool
	roundTrip            delay.Distribution // of those
	length               int
	waited               time.Duration // for the answer to the first probe, which did not come; 0 if it came
}

// Paths collects replies. Its methods must not run at the same time.
type Paths struct {
	Destination netip.Addr
	Format      ioam.TimestampFormat
	TAIOffset   time.Duration

	flows  []flow
	paths  map[string]*path
	order  []*path
	Unkept uint64
}

// New collects the replies of a number of flows to a destination.
func New(destination netip.Addr, flows int, format ioam.TimestampFormat, offset time.Duration) *Paths {
	return &Paths{Destination: destination, Format: format, TAIOffset: offset, flows: make([]flow, flows), paths: make(map[string]*path)}
}

// Sent counts a probe with the full hop limit.
func (p *Paths) Sent(flow int) { p.flows[flow].sent++ }

// Lost counts a probe without a reply. It counts for the path that its flow took before.
func (p *Paths) Lost(flow int) {
	f := &p.flows[flow]
	f.lost++
	if f.last == nil {
		f.early++
	} else {
		f.last.lost++
	}
}

// Unanswered notes that the probe of a flow that asked all nodes for copies was not answered
// within a time.
func (p *Paths) Unanswered(flow int, within time.Duration) { p.flows[flow].waited = within }

// Received takes the reply to a probe with the full hop limit.
func (p *Paths) Received(number int, r Reply) {
	f := &p.flows[number]
	if r.Kind == Exceeded || r.Kind == Failed { // it did not arrive
		f.failed = &r
		f.passed(&r, r.place())
		p.Lost(number)
		return
	}
	f.received++
	f.endpoint = f.endpoint || r.Kind != Refused
	if at := r.place(); at > 0 {
		f.length = at
	}
	if r.Trace == nil {
		f.untraced = true
		f.roundTrip.Add(r.RoundTrip)
		return
	}
	nodes, when := p.read(&r)
	key := keyOf(nodes)
	one, ok := p.paths[key]
	if !ok {
		if len(p.order) == maxPaths {
			p.Unkept++
			return
		}
		one = newPath(nodes)
		p.paths[key] = one
		p.order = append(p.order, one)
	}
	one.received++
	one.flows[number] = true
	one.overflow = one.overflow || r.Trace.Flags&ioam.FlagOverflow != 0
	one.endpoint = one.endpoint || r.Kind != Refused
	one.roundTrip.Add(r.RoundTrip)
	one.add(when, r.Sent)
	one.lost += f.early
	f.last, f.early = one, 0
}

// Walked takes the reply to a probe whose hop limit was to end at a hop.
func (p *Paths) Walked(number int, r Reply) {
	f := &p.flows[number]
	at := r.place()
	switch r.Kind {
	case Failed:
		f.failed = &r
	case Echoed: // it does not say with which hop limit its request arrived: at the end, with 1
		at = int(r.SentHops)
		fallthrough
	case Answered, Refused:
		if f.length == 0 || at < f.length {
			f.length = at
		}
	}
	f.passed(&r, at)
}

// passed notes that probes of the flow get to a hop, 0 if it is not known which.
func (f *flow) passed(r *Reply, at int) {
	if f.walk == nil {
		f.walk = make(map[int]*Reply)
	}
	if at > 0 {
		f.walk[at] = r
	}
}

func newPath(nodes []node) *path {
	one := &path{flows: make(map[int]bool)}
	for _, n := range nodes {
		one.hops = append(one.hops, hop{node: n})
	}
	return one
}

// add adds the times of a packet that passed all nodes of the path. The first time is
// since this machine sent it.
func (one *path) add(when []times, sent time.Time) {
	before, known := sent, !sent.IsZero()
	for i, t := range when {
		h := &one.hops[i]
		if t.delayed {
			h.held.Add(t.held)
		}
		if !t.timed {
			continue
		}
		if known {
			h.since.Add(t.at.Sub(before))
		}
		before, known = t.at, true
	}
}

// read is a node for each hop of the way to where the reply comes from. Hops of which the
// trace has nothing are silent: the hop limits in the trace tell where they are.
func (p *Paths) read(r *Reply) (nodes []node, when []times) {
	length := r.place()
	add := func(n node, t times) { nodes, when = append(nodes, n), append(when, t) }
	silent := func(until int) {
		for at := len(nodes) + 1; at < until; at++ {
			add(node{position: at, silent: true}, times{})
		}
	}
	var data []ioam.NodeData
	if r.Trace != nil {
		data, _ = r.Trace.Nodes() // what can be read of it
	}
	for _, d := range data {
		n, t := p.readNode(d)
		n.position = len(nodes) + 1
		if hops, ok := d.HopLimit(); ok && hops < r.SentHops && int(r.SentHops-hops) > len(nodes) && int(r.SentHops-hops) <= length {
			silent(int(r.SentHops - hops))
			n.position = int(r.SentHops - hops)
		}
		add(n, t)
	}
	silent(length + 1)
	return nodes, when
}

func (p *Paths) readNode(d ioam.NodeData) (n node, t times) {
	n = node{ingress: noID, egress: noID, id: ioam.NodeIDUnavailable, wide: ioam.NodeIDWideUnavailable}
	if id, ok := d.NodeID(); ok {
		n.id, n.named = id, true
	}
	if id, ok := d.NodeIDWide(); ok {
		n.wide, n.named = id, true
	}
	n.ingress, n.egress = interfaceID(d.IngressID, d.IngressIDWide), interfaceID(d.EgressID, d.EgressIDWide)
	if ns, overflow, ok := d.TransitDelay(); ok && !overflow {
		t.held, t.delayed = time.Duration(ns), true
	}
	t.at, t.timed = d.Timestamp(p.Format, p.TAIOffset)
	return n, t
}

func interfaceID(short func() (ioam.InterfaceID, bool), wide func() (ioam.InterfaceIDWide, bool)) uint32 {
	if id, ok := short(); ok {
		return uint32(id)
	}
	if id, ok := wide(); ok {
		return uint32(id)
	}
	return noID
}
