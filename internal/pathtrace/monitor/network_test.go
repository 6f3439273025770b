// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/waymark-net/waymark/internal/icmpv6"
	"github.com/waymark-net/waymark/internal/pathtrace/copies"
	"github.com/waymark-net/waymark/internal/pathtrace/message"
	"github.com/waymark-net/waymark/internal/stamp/udp"
	"github.com/waymark-net/waymark/ioam"
)

// network is a simulated one with a clock of its own: routers by name, links between them, and
// what is wrong with them.
type network struct {
	t       testing.TB
	m       *Monitor
	now     time.Duration
	routers map[string]*router
	route   func(to string, flow int) []string // names from the first router to the destination
	down    map[string]bool                    // links "a>b" that drop
	delay   time.Duration                      // of a link
	arrive  []arrival                          // in order of time
	sent    int
	errors  map[string]int // ICMPv6 errors sent, by router
	refuse  error          // of the kernel here
	named   map[ioam.NodeID]string
}

func (n *network) names(id ioam.NodeID) string { return n.named[id] }

type router struct {
	id       ioam.NodeID // 0: writes no trace
	mute     bool        // sends no errors
	limit    *node       // of errors, as Linux has it
	stopped  bool        // no agent answers probes
	noRoute  bool        // says that there is none
	copies   bool        // returns copies of probes that ask for them
	unlucky  int         // answers only every n-th probe, as beyond a rate; 0: all
	received int
}

type arrival struct {
	at  time.Duration
	run func()
}

const testPort = 33434

// address is that of a router.
func (n *network) address(name string) netip.Addr {
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	copy(b[8:], name)
	return netip.AddrFrom16(b)
}

// newNetwork has a monitor that probes destinations, with ids of routers as given; those with id
// 0 are silent.
func newNetwork(t testing.TB, c Config, ids map[string]ioam.NodeID, destinations ...string) *network {
	t.Helper()
	n := &network{
		t:       t,
		routers: make(map[string]*router),
		down:    make(map[string]bool),
		errors:  make(map[string]int),
		delay:   100 * time.Microsecond,
		now:     time.Second,
	}
	for name, id := range ids {
		n.routers[name] = &router{id: id}
	}
	if c.Interval == 0 {
		c.Interval = 100 * time.Millisecond
	}
	c.Flows, c.Port, c.Namespace, c.Timeout, c.Rate = max(c.Flows, 4), testPort, 123, time.Second, max(c.Rate, 10_000)
	c.SearchRate = 200
	for _, name := range destinations {
		c.Destinations = append(c.Destinations, Destination{name, n.address(name)})
	}
	m, err := New(c, n.names)
	if err != nil {
		t.Fatal(err)
	}
	n.m = m
	if err := m.Configure(c, n.now); err != nil {
		t.Fatal(err)
	}
	return n
}

// run lets time pass, and returns the events meanwhile.
func (n *network) run(d time.Duration) []Event {
	var list []udp.Datagram
	for end := n.now + d; n.now < end; {
		n.now += n.m.pause()
		for len(n.arrive) > 0 && n.arrive[0].at <= n.now {
			one := n.arrive[0]
			n.arrive = n.arrive[1:]
			one.run()
		}
		list = n.m.step(func() time.Duration { return n.now }, n, list)
	}
	return n.m.Events()
}

func (n *network) later(d time.Duration, run func(now time.Duration)) {
	at := n.now + d
	i, _ := slices.BinarySearchFunc(n.arrive, at, func(a arrival, at time.Duration) int {
		if a.at <= at {
			return -1
		}
		return 1
	})
	n.arrive = slices.Insert(n.arrive, i, arrival{at, func() { run(at) }})
}

func (n *network) name(a netip.Addr) string {
	for name := range n.routers {
		if n.address(name) == a {
			return name
		}
	}
	return ""
}

// send takes the way of datagrams.
func (n *network) send(flow int, list []udp.Datagram) {
	for i := range list {
		n.sent++
		if list[i].Err = n.refuse; n.refuse == nil {
			n.carry(flow, list[i])
		}
	}
}

func (n *network) carry(flow int, d udp.Datagram) {
	payload := slices.Clone(d.Data)
	id, err := message.QuotedProbe(payload)
	if err != nil || int(id.Flow) != flow {
		n.t.Fatalf("probe of flow %d: %+v, %v", flow, id, err)
	}
	to := n.name(d.Peer.Addr())
	way := n.route(to, flow)
	before := "here"
	var nodes []byte
	var words []uint32 // of a trace that asks for copies
	for i, name := range way {
		hop, r := i+1, n.routers[name]
		if n.down[before+">"+name] {
			return
		}
		limit := d.SendHopLimit - uint8(i)
		if r.id != 0 {
			var data [20]byte
			binary.BigEndian.PutUint32(data[:], uint32(limit-1)<<24|uint32(r.id))
			binary.BigEndian.PutUint32(data[4:], uint32(r.id)*100<<16|uint32(r.id)*100+1)
			if name == to {
				data[0] = limit
			}
			nodes = append(data[:], nodes...)
		}
		arrived := n.delay * time.Duration(2*hop)
		if words = append(words, uint32(limit-1)<<24|uint32(r.id)); d.SendHopByHop != nil && r.copies {
			n.returnCopy(name, d.SendHopByHop, words, arrived)
		}
		switch {
		case name == to:
			n.end(name, d, id, limit, nodes, arrived)
			return
		case r.noRoute:
			n.complain(name, icmpv6.Unreachable, 0, d, limit, arrived)
			return
		case limit == 1:
			n.complain(name, icmpv6.TimeExceeded, 0, d, limit, arrived)
			return
		}
		before = name
	}
}

// returnCopy returns a copy of a probe, in whose trace nodes wrote words.
func (n *network) returnCopy(name string, header []byte, words []uint32, after time.Duration) {
	const data = 4 + 4 + ioam.TraceHeaderLen
	b := slices.Clone(header)
	binary.BigEndian.PutUint16(b[10:], 1<<11|uint16(ioam.FlagActive)<<7|uint16(copies.Nodes-1-len(words)))
	for i, word := range words {
		binary.BigEndian.PutUint32(b[data+4*(copies.Nodes-2-i):], word)
	}
	n.later(after, func(now time.Duration) { n.m.copied(n.address(name), b, now) })
}

// end takes a probe at the destination.
func (n *network) end(name string, d udp.Datagram, id message.ID, limit uint8, nodes []byte, after time.Duration) {
	r := n.routers[name]
	if r.stopped || d.Peer.Port() != testPort {
		n.complain(name, icmpv6.Unreachable, icmpv6.PortUnreachable, d, limit, after)
		return
	}
	if r.received++; r.unlucky > 1 && r.received%r.unlucky != 0 {
		return
	}
	data := append(make([]byte, traceFor*nodeLen-len(nodes)), nodes...)
	trace := ioam.Trace{
		Namespace:    123,
		NodeLen:      uint8(nodeLen / 4),
		Flags:        ioam.FlagActive,
		RemainingLen: uint8((len(data) - len(nodes)) / 4),
		Type:         traceType,
		Data:         data,
	}
	answer := message.AppendAnswer(nil, message.Answer{ID: id, HopLimit: limit, Received: time.Now(), Trace: trace.Append(nil)}, nil)
	n.later(after, func(now time.Duration) { n.m.answered(answer, d.Peer, now) })
}

// complain sends an ICMPv6 error, within the router's limit.
func (n *network) complain(name string, kind icmpv6.Type, code uint8, d udp.Datagram, limit uint8, after time.Duration) {
	r := n.routers[name]
	if r.mute || r.limit != nil && !r.limit.allow(n.now) {
		return
	}
	n.errors[name]++
	ip := make([]byte, 40)
	ip[0], ip[7] = 6<<4, limit
	to := d.Peer.Addr().As16()
	copy(ip[24:], to[:])
	ip = append(append(append(ip, n.m.header...), make([]byte, 8)...), d.Data...)
	body := append([]byte{byte(kind), code, 0, 0, 0, 0, 0, 0}, ip...)
	n.later(after, func(now time.Duration) {
		n.m.icmp(icmpv6.Message{Body: body, Source: n.address(name)}, now)
	})
}

// square has two equal paths: here, r1, then r2 or r3, then r4.
func square(t testing.TB) *network {
	n := newNetwork(t, Config{}, map[string]ioam.NodeID{"r1": 1, "r2": 2, "r3": 3, "r4": 4}, "r4")
	n.route = func(_ string, flow int) []string {
		if flow%2 == 0 {
			return []string{"r1", "r2", "r4"}
		}
		return []string{"r1", "r3", "r4"}
	}
	return n
}

// short is an event in a line.
func short(e Event) string {
	switch e.Kind {
	case Loss, Unanswered:
		name := "loss"
		if e.Kind == Unanswered {
			name = "unanswered"
		}
		return fmt.Sprintf("%s %s %d/%d after %q before %q by %s", name, e.Destination.Name, e.Flows, e.FlowsOf, e.After, e.Before, e.Evidence)
	case Recovered:
		return fmt.Sprintf("recovered %s %d/%d", e.Destination.Name, e.Flows, e.FlowsOf)
	}
	if e.Kind == Abandoned {
		return fmt.Sprintf("abandoned %s, never %v", e.Destination.Name, e.Never)
	}
	return fmt.Sprintf("path %s %d/%d %s to %s", e.Destination.Name, e.Flows, e.FlowsOf, e.From, e.Path)
}

// want compares events with lines.
func want(t *testing.T, what string, events []Event, lines ...string) {
	t.Helper()
	var got []string
	for _, e := range events {
		got = append(got, short(e))
	}
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		t.Errorf("%s:\ngot  %q\nwant %q", what, got, lines)
	}
}
